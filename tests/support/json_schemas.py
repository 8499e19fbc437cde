"""JSON Schemas of the documents of :mod:`heaptop.documents`, and the keys that were promised.

``make schemas`` writes ``docs/schema``. ``python -m tests.support.json_schemas --promise``, at a release, adds the keys
of today to ``tests/data/json/promised_keys.txt``, and removes none.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints, is_typeddict

import msgspec

from heaptop import documents

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "schema"
PROMISED: Final = ROOT / "tests" / "data" / "json" / "promised_keys.txt"
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """By the document's name and version, ``heaptop.census/1``."""
    found = {}
    for each in vars(documents).values():
        if is_typeddict(each) and "schema" in (hints := get_type_hints(each)):
            name, version = (get_args(hints[key])[0] for key in ("schema", "version"))
            found[f"{name}/{version}"] = _schema(each, f"{name} version {version}")
    return found


def file_of(name: str) -> Path:
    return FOLDER / f"{name.removeprefix('heaptop.').replace('/', '-')}.json"


def text_of(schema: Schema) -> str:
    return json.dumps(schema, indent=1) + "\n"


def _schema(document: type, title: str) -> Schema:
    (reference,), parts = msgspec.json.schema_components([document])
    described = {name: _described(name, part) for name, part in parts.items()}
    root = described.pop(document.__name__)
    assert reference == {"$ref": f"#/$defs/{document.__name__}"}
    return {"$schema": DRAFT, **root, "title": title, "$defs": described}


def _described(name: str, part: Schema) -> Schema:
    """With the docstring of each key, in the order of the class."""
    texts = _docstrings(name)
    keys = get_type_hints(getattr(documents, name))
    properties = {
        key: {**part["properties"][key], **({"description": texts[key]} if key in texts else {})} for key in keys
    }
    return {**part, "properties": properties, "required": [key for key in keys if key in part["required"]]}


_CLASSES: Final = {
    node.name: node for node in ast.parse(inspect.getsource(documents)).body if isinstance(node, ast.ClassDef)
}


def _docstrings(name: str) -> dict[str, str]:
    """Of the keys of a class, those that it inherits among them."""
    if name not in _CLASSES:
        return {}
    texts: dict[str, str] = {}
    for base in _CLASSES[name].bases:
        texts |= _docstrings(ast.unparse(base))
    last = ""
    for node in _CLASSES[name].body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=key)):
                last = key
                texts.pop(key, None)
            case ast.Expr(value=ast.Constant(value=str(text))) if last:
                texts[last] = inspect.cleandoc(text)
    return texts


def strict(part: Any, *, required: bool = True) -> Any:
    """The same, but no other keys are allowed; with ``required=False`` none has to be there either."""
    if isinstance(part, list):
        return [strict(each, required=required) for each in part]
    if not isinstance(part, dict):
        return part
    found = {key: strict(value, required=required) for key, value in part.items() if required or key != "required"}
    return {"additionalProperties": False, **found} if "properties" in found else found


# -- the keys ---------------------------------------------------------------------------------------------------


def keys() -> dict[str, str]:
    """``heaptop.census/1 rows[].count`` and its types; the name of a key that may be missing ends in ``?``."""
    return {f"{name} {path}": types for name, schema in schemas().items() for path, types in _keys(schema, schema, "")}


def promised() -> dict[str, str]:
    """Likewise, those that were promised."""
    lines = PROMISED.read_text().splitlines() if PROMISED.exists() else []
    return dict(line.split(": ") for line in lines)


def broken(promised: dict[str, str], now: dict[str, str]) -> list[str]:
    """The promised keys of today's documents that a reader may miss, or that may hold what they did not before."""
    documents = {key.partition(" ")[0] for key in now}
    found = {key.replace("?", ""): key for key in now}
    kept = []
    for key, types in promised.items():
        today = found.get(key.replace("?", ""), "")
        is_there = today and all(
            before in (one, f"{one}?") for one, before in zip(_parts(today), _parts(key), strict=True)
        )
        if is_there and set(now[today].split()) <= set(types.split()):
            kept.append(key)
    return [key for key in promised if key not in kept and key.partition(" ")[0] in documents]


def _parts(key: str) -> list[str]:
    return re.findall(r"[^.\[*]+|\[\]|\*", key)


def _keys(part: Schema, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    """What is below a part; a document in another one is only named."""
    for each in _alternatives(part, schema):
        if path and "schema" in each.get("properties", {}):
            continue
        below = [(f".{key}" if key in each["required"] else f".{key}?", one) for key, one in _properties(each)]
        below += [(name, each[key]) for key, name in (("items", "[]"), ("additionalProperties", "*")) if key in each]
        for name, one in below:
            found = (path + name).removeprefix(".")
            yield found, " ".join(sorted({_type(alternative) for alternative in _alternatives(one, schema)}))
            yield from _keys(one, schema, found)


def _properties(part: Schema) -> list[tuple[str, Schema]]:
    return [*part.get("properties", {}).items()]


def _alternatives(part: Schema, schema: Schema) -> list[Schema]:
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    return [one for each in part["anyOf"] for one in _alternatives(each, schema)] if "anyOf" in part else [part]


def _type(part: Schema) -> str:
    is_document = "schema" in part.get("properties", {})
    named = part["properties"]["schema"] if is_document else part
    return str(named["enum"][0]) if "enum" in named else str(part["type"])


def main() -> None:
    if sys.argv[1:] == ["--promise"]:
        PROMISED.write_text("".join(f"{key}: {types}\n" for key, types in sorted({**keys(), **promised()}.items())))
        return
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        file_of(name).write_text(text_of(schema))


if __name__ == "__main__":
    main()
