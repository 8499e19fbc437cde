"""Says one thing that pyproject.toml cannot: the native core is an optional extension.

Every C file of ``injector/native`` belongs to it. A machine without a C compiler still installs:
setuptools goes on when an optional extension does not build, and heaptop then counts in Python mode.
"""

from pathlib import Path

from setuptools import Extension, setup

# The sources are named by the package's own path, so that an sdist, which has no symlinks, builds too.
SOURCES = sorted(str(path) for path in Path("src/heaptop/injector/native").glob("*.c"))

setup(
    ext_modules=[
        Extension(
            "heaptop.injector.native._core",
            sources=SOURCES,
            optional=True,
            py_limited_api=True,
            define_macros=[("Py_LIMITED_API", "0x03080000")],
        )
    ]
    if SOURCES
    else []
)
