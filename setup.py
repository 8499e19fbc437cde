"""Says one thing that pyproject.toml cannot: the native core is an optional extension.

Every C file of ``injector/native`` belongs to it. A machine without a C compiler still installs:
setuptools goes on when an optional extension does not build, and heaptop then counts in Python mode.
One built file loads into every Python from 3.8 on, also where glibc is older than here (2.17).
"""

from pathlib import Path

from setuptools import Extension, setup

# The sources are named by the package's own path, so that an sdist, which has no symlinks, builds too.
FOLDER = Path("src/heaptop/injector/native")
SOURCES = sorted(str(path) for path in FOLDER.rglob("*.c"))
HEADERS = sorted(str(path) for path in FOLDER.rglob("*.h"))


setup(
    ext_modules=[
        Extension(
            "heaptop.injector.native._core",
            sources=SOURCES,
            depends=HEADERS,
            include_dirs=[str(FOLDER)],
            optional=True,
            py_limited_api=True,
            define_macros=[("Py_LIMITED_API", "0x03080000")],
            # Later flags win over those that the building Python brings along. -fno-strict-aliasing: objects are read
            # by offset. -z now: a snapshot child must never meet the dynamic linker. -s: the whole file stays in the
            # target's memory, and five sixths of it would be debug information.
            extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wextra"],
            extra_link_args=["-Wl,-z,now", "-Wl,-s"],
        )
    ]
    if SOURCES
    else []
)
