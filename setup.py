"""Says one thing that pyproject.toml cannot: the native core is an optional extension.

Every C file of ``injector/native`` belongs to it. A machine without a C compiler still installs:
setuptools goes on when an optional extension does not build, and heaptop then counts in Python mode.
One built file loads into every Python from 3.8 on, also where glibc is older than here (2.17).
"""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

# The sources are named by the package's own path, so that an sdist, which has no symlinks, builds too.
FOLDER = Path("src/heaptop/injector/native")
SOURCES = sorted(str(path) for path in FOLDER.glob("*.c"))
HEADERS = sorted(str(path) for path in FOLDER.glob("*.h"))


def build_id() -> str:
    """16 hexadecimal digits made from the content of every source and header."""
    content = hashlib.sha256()
    for path in map(Path, SOURCES + HEADERS):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:16]


setup(
    ext_modules=[
        Extension(
            "heaptop.injector.native._core",
            sources=SOURCES,
            depends=HEADERS,
            optional=True,
            py_limited_api=True,
            define_macros=[("Py_LIMITED_API", "0x03080000"), ("HEAPTOP_BUILD", f'"{build_id()}"')],
            # Later flags win over those that the building Python brings along. -fno-strict-aliasing: objects are read
            # by offset. -z now: a snapshot child must never meet the dynamic linker.
            extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wextra"],
            extra_link_args=["-Wl,-z,now"],
        )
    ]
    if SOURCES
    else []
)
