"""Reads what was typed as a filter into a tree of :mod:`heaptop.analysis.filters.predicates`; an error names the
character where it is wrong.

The grammar is in :mod:`heaptop.analysis.filters.filters`.
"""

from __future__ import annotations

import re
from typing import Final

from heaptop.analysis.filters.predicates import (
    SIGNS,
    BoundTerm,
    LifetimeTerm,
    NameTerm,
    Node,
    Pattern,
    Term,
    all_of,
    any_of,
    conjuncts,
    negated,
)
from heaptop.analysis.samples.clock import parse_lifetime
from heaptop.analysis.text.units import parse_size
from heaptop.errors import UsageError

ATTRIBUTES: Final = ("type", "module", "generation", "site", "producer-module", "retainer", "kind", "interpreter")
"""What names are known of."""
MEASURES: Final = ("size", "count", "retained")
"""Figures that can be bounded; ``retained`` is known of rows of an open snapshot alone."""
ALIASES: Final = {"gen": "generation", "producer": "site"}
DEEPEST: Final = 60  # Parentheses and negations within one another
SYNTAX: Final = (
    "Terms: type:Session, module:app, site:views, /regex/, size>1MB, count<10, lifetime>10s. Spaces and `and` join "
    "them, `or` and parentheses group them, ! or `not` negates. A comma separates alternatives, =name is exact, "
    '"…" may contain spaces.'
)

_BLANKS: Final = re.compile(r"\s*")
_OPERATOR: Final = re.compile(r"(and|AND|or|OR|not|NOT)(?=[\s()!]|\Z)")
_ATTRIBUTE: Final = re.compile(r"([^\s:,\"()/=*?!<>]+):")
_COMPARED: Final = re.compile(r"([A-Za-z_-]+)(\s*)(>=|<=|>|<|=)\s*")
_VALUE: Final = re.compile(r"[^\s()]*")
_REGEX: Final = re.compile(r"/((?:[^\s/\\]|\\\S|/(?![\s,)]|\Z))+)/(?=[\s,)]|\Z)")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_TIME: Final = re.compile(r"[\d.]+\s*(ms|s|sec|min|m|h)", re.IGNORECASE)
_OBJECTS: Final = re.compile(r"[\d.]+[kmgtpe]?i?", re.IGNORECASE)


def read(text: str) -> Node | None:
    """The tree; None for nothing at all.

    Raises:
        UsageError: bad syntax, a figure of the wrong sort, or a bound on lifetimes where it means nothing.
    """
    return _Reader(text).read()


class _Reader:
    """``at`` is how far it has read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._lifetimes: list[tuple[LifetimeTerm, int, int]] = []  # And their places

    def read(self) -> Node | None:
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._either()
        if self._at < len(self._text):
            raise self._wrong("Unmatched ')'.", self._at)
        self._check_lifetimes(node)
        return node

    # -- and, or, not ----------------------------------------------------------------------------------------

    def _either(self) -> Node:
        parts = [self._both()]
        while self._operator() == "or":
            self._at += len("or")
            parts.append(self._both())
        return any_of(parts) or parts[0]

    def _both(self) -> Node:
        parts = [self._unary()]
        while not self._ends():
            operator = self._operator()
            if operator == "or":
                break
            if operator == "and":
                self._at += len("and")
            parts.append(self._unary())
        return all_of(parts) or parts[0]

    def _unary(self) -> Node:
        self._skip()
        start = self._at
        if self._depth > DEEPEST:
            raise self._wrong(f"Nested more than {DEEPEST} levels deep.", start)
        self._depth += 1
        try:
            return self._opened(start)
        finally:
            self._depth -= 1

    def _opened(self, start: int) -> Node:
        if self._ends():
            what = "before this ')'" if self._at < len(self._text) else "at the end"
            raise self._wrong(f"A term is missing {what}.", self._at)
        operator = self._operator()
        if operator == "not" or self._text[start] == "!":
            self._at += len("not") if operator else 1
            return negated(self._unary())
        if operator:
            raise self._wrong(
                f"A term is missing before {operator!r}.",
                start,
                start + len(operator),
                fix=f"For a type of that name write type:{operator}.",
            )
        if self._text[start] != "(":
            return self._term()
        self._at += 1
        node = self._either()
        if self._at == len(self._text):
            raise self._wrong("Unclosed '('.", start)
        self._at += 1
        return node

    def _skip(self) -> None:
        found = _BLANKS.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _ends(self) -> bool:
        """Whether what is between parentheses, or all of it, is at its end."""
        self._skip()
        return self._at == len(self._text) or self._text[self._at] == ")"

    def _operator(self) -> str:
        """The word that comes next, if it is one."""
        self._skip()
        found = _OPERATOR.match(self._text, self._at)
        return found[1].lower() if found is not None else ""

    # -- terms -----------------------------------------------------------------------------------------------

    def _term(self) -> Term:
        start = self._at
        named = _ATTRIBUTE.match(self._text, start)
        if named is not None:
            attribute = self._attribute(named[1], start, named.end())
            self._at = named.end()
            return NameTerm(attribute, self._patterns(attribute))
        compared = _COMPARED.match(self._text, start)
        if compared is not None and (not compared[2] or compared[1].lower() in (*MEASURES, "lifetime")):
            return self._bound(compared)
        return NameTerm("type", self._patterns("type"))

    def _attribute(self, name: str, start: int, end: int) -> str:
        attribute = ALIASES.get(name.lower(), name.lower())
        if attribute in (*MEASURES, "lifetime"):
            raise self._wrong(f"{attribute!r} is a number, not a name.", start, end, fix=f"Write {attribute}>10MB.")
        if attribute not in ATTRIBUTES:
            raise self._unknown(name, start, end - 1)
        return attribute

    def _bound(self, compared: re.Match[str]) -> Term:
        name, sign, start = compared[1], compared[3], compared.start()
        measure = ALIASES.get(name.lower(), name.lower())
        found = _VALUE.match(self._text, compared.end())
        self._at = found.end() if found is not None else compared.end()
        value, place = self._text[compared.end() : self._at], (compared.end(), self._at)
        if measure in ATTRIBUTES:
            raise self._wrong(
                f"{measure!r} is a name, not a number: it cannot be compared.",
                *compared.span(3),
                fix=f"Write {measure}:{value or 'app'}, with commas between alternatives.",
            )
        if measure == "lifetime":
            return self._lifetime(sign, value, start, place, compared.span(3))
        if measure not in MEASURES:
            raise self._unknown(name, start, start + len(name))
        self._check_sort(measure, value, place)
        try:
            return BoundTerm(measure, SIGNS[sign], parse_size(value), value)
        except UsageError as error:
            fix = "Write a number as 500, 10k or 1.5M." if measure == "count" else error.fix
            is_none = f"{value!r} is not a {'number' if measure == 'count' else 'size'}."
            raise self._wrong(is_none, *place, fix=fix) from None

    def _check_sort(self, measure: str, value: str, place: tuple[int, int]) -> None:
        """Whether there is a figure, and not one of another sort."""
        what = "objects" if measure == "count" else "bytes"
        fix = f"Write {measure}>10{'k' if measure == 'count' else 'MB'}."
        if not value:
            raise self._wrong(f"A number of {what} is missing.", *place, fix=fix)
        if _TIME.fullmatch(value) and not (value[-1] in "mM" and value[-2:-1].isdigit()):
            raise self._wrong(f"{value!r} is a time, but {measure} is in {what}.", *place, fix=fix)
        if measure == "count" and _OBJECTS.fullmatch(value) is None and _OBJECTS.fullmatch(value.rstrip("bB")):
            raise self._wrong(f"{value!r} is in bytes, but count is in objects.", *place, fix=fix)

    def _lifetime(
        self, sign: str, value: str, start: int, place: tuple[int, int], at_sign: tuple[int, int]
    ) -> LifetimeTerm:
        if sign != ">":
            raise self._wrong(
                "Lifetimes only have lower bounds: a live block may live on.",
                *at_sign,
                fix="Write lifetime>10s or lifetime>10MB.",
            )
        try:
            term = LifetimeTerm(parse_lifetime(value), value)
        except UsageError as error:
            raise self._wrong(error.message if value else "A lifetime is missing.", *place, fix=error.fix) from None
        self._lifetimes.append((term, start, self._at))
        return term

    def _check_lifetimes(self, node: Node) -> None:
        """A bound on lifetimes chooses the samples that figures are made of, all of them."""
        free = {id(part) for part in conjuncts(node)}
        for term, start, end in self._lifetimes:
            if id(term) not in free:
                raise self._wrong(
                    "lifetime does not combine with 'or' or 'not': it selects the samples for all figures.",
                    start,
                    end,
                    fix="Write it beside the other terms: lifetime>10s (type:Session or type:Order).",
                )
        if len(self._lifetimes) > 1:
            raise self._wrong("Only one lifetime bound is allowed.", *self._lifetimes[1][1:])

    def _unknown(self, name: str, start: int, end: int) -> UsageError:
        if name.lower() == "age":
            return self._wrong(
                "Unknown field 'age': use lifetime>10s for the age of live blocks.",
                start,
                end,
                fix="Write lifetime>10s, or lifetime>10MB for bytes allocated meanwhile.",
            )
        return self._wrong(
            f"Unknown field {name!r}.",
            start,
            end,
            fix=f"Names: {', '.join(ATTRIBUTES)}. Numbers: {', '.join(MEASURES)} and lifetime. {SYNTAX}",
        )

    # -- patterns --------------------------------------------------------------------------------------------

    def _patterns(self, attribute: str) -> tuple[Pattern, ...]:
        found = [self._pattern(attribute)]
        while self._text[self._at : self._at + 1] == ",":
            self._at += 1
            found.append(self._pattern(attribute))
        return tuple(found)

    def _pattern(self, attribute: str) -> Pattern:
        start = self._at
        exact = self._text[start : start + 1] == "="
        self._at += exact
        first = self._text[self._at : self._at + 1]
        if first == '"':
            return Pattern(self._quoted(attribute), "exact" if exact else "in")
        if first == "/" and not exact:
            found = _REGEX.match(self._text, start)
            if found is not None:
                return self._regex(found)
            if attribute != "site":  # whose files may begin with a slash
                raise self._wrong(
                    "Unclosed regular expression.",
                    start,
                    self._end_of_bare(),
                    fix=r"It ends with / and contains no spaces: \s is one, \/ a slash at the end.",
                )
        begin, self._at = self._at, self._end_of_bare()
        text = self._text[begin : self._at]
        if not text:
            raise self._wrong(f"A value of {attribute!r} is empty.", self._at)
        whole = exact or (attribute == "interpreter" and text.isdecimal())  # 1 is not 12
        return Pattern(text, "exact") if whole else Pattern.bare(text)

    def _end_of_bare(self) -> int:
        """Where text without quotes ends: parentheses in it come in pairs, as in ``main()``."""
        depth = 0
        for place in range(self._at, len(self._text)):
            character = self._text[place]
            if character.isspace() or character == "," or (character == ")" and not depth):
                return place
            depth += (character == "(") - (character == ")")
        return len(self._text)

    def _quoted(self, attribute: str) -> str:
        start, found = self._at, _QUOTED.match(self._text, self._at)
        if found is None:
            raise self._wrong("Unclosed quote.", start, fix='Write \\" for a quote inside quotes.')
        self._at = found.end()
        if self._text[self._at : self._at + 1].strip() not in ("", ",", ")"):
            raise self._wrong("Expected a space or comma after the quote.", self._at)
        if not found[1]:
            raise self._wrong(f"A value of {attribute!r} is empty.", start, self._at)
        return re.sub(r'\\(["\\])', r"\1", found[1])

    def _regex(self, found: re.Match[str]) -> Pattern:
        self._at = found.end()
        try:
            return Pattern.regex(found[1])
        except (re.error, OverflowError, RecursionError) as error:
            place = getattr(error, "pos", None)
            start, end = (found.start(1) + place, found.start(1) + place + 1) if place is not None else found.span(1)
            said = getattr(error, "msg", "") or str(error)
            fix = "It uses Python's syntax: . any character, .* any text, | or, \\. a full stop."
            raise self._wrong(f"Invalid regular expression: {said}.", start, end, fix=fix) from None

    def _wrong(self, what: str, start: int, end: int | None = None, *, fix: str = SYNTAX) -> UsageError:
        return UsageError.at(what, self._text, start, max(end or 0, start + 1), fix=fix)
