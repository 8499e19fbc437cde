"""What the built libraries take from a C library: what a C library lacks, or has another interface for, must not be
among it."""

from __future__ import annotations

import io

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from heaptop.injector.native import library

BOTH = frozenset(
    {
        *("clock_gettime", "dlsym", "getauxval", "getpid", "memchr", "memcmp", "memcpy"),
        *("memmove", "memset", "pthread_exit", "snprintf", "strchr", "strcmp", "strlen", "strncmp", "strnlen"),
        *("strrchr", "strstr"),
    }
)
"""With the same interface in glibc and musl: plain C, or structures that both have from the same headers of ELF."""
OF_MUSL = frozenset({"__tls_get_addr"})
"""glibc takes memory in it at a thread's first look (elf/dl-tls.c); musl has taken it in dlopen (ldso/dynlink.c)."""


def image(*, musl: bool) -> ELFFile:
    return ELFFile(io.BytesIO(library(musl=musl).data))


def needed(file: ELFFile) -> list[str]:
    dynamic = file.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]


def taken(file: ELFFile) -> set[str]:
    """Names of functions that must be elsewhere, but for Python's."""
    symbols = file.get_section_by_name(".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    undefined = {
        each.name
        for each in symbols.iter_symbols()
        if each["st_shndx"] == "SHN_UNDEF" and each["st_info"]["bind"] == "STB_GLOBAL"
    }
    return {name for name in undefined if not name.startswith(("Py", "_Py"))}


@pytest.mark.parametrize("musl", [False, True])
def test_only_what_both_c_libraries_have_is_taken(musl: bool) -> None:
    assert taken(image(musl=musl)) - (OF_MUSL if musl else set()) <= BOTH


def test_the_library_for_musl_names_no_other() -> None:
    assert needed(image(musl=True)) == []


def test_thread_variables_are_where_the_c_library_can_have_them() -> None:
    """DF_STATIC_TLS: musl loads no such library; without it glibc would take memory in the middle of an allocation."""
    static = {}
    for musl in (False, True):
        dynamic = image(musl=musl).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        static[musl] = any(tag["d_val"] & 0x10 for tag in dynamic.iter_tags("DT_FLAGS"))
    assert static == {False: True, True: False}
