"""On a machine where not all was shown, the rest is refused before anything is stopped."""

import platform
from pathlib import Path

import pytest

from heaptop.errors import UnsupportedArchitecture
from heaptop.injector.inspect import preflight, unshown
from heaptop.injector.machine import KNOWN
from heaptop.injector.requests import AttachOptions, Launch, Request
from heaptop.injector.session.session import connect


@pytest.fixture
def on_aarch64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unshown, "MACHINE", KNOWN["aarch64"])
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")


@pytest.mark.usefixtures("on_aarch64")
def test_pages_of_another_size_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    preflight.check_machine()
    monkeypatch.setattr(preflight, "PAGE", 16384)
    with pytest.raises(UnsupportedArchitecture, match="16 KiB") as refused:
        preflight.check_machine()
    assert refused.value.exit_code == 22
    assert refused.value.why == unshown.WHY


@pytest.mark.usefixtures("on_aarch64")
def test_what_was_not_shown_is_refused_on_aarch64() -> None:
    error = unshown.unshown_error(unshown.UNDER_A_FILTER)
    assert error is not None
    assert str(error) == "On aarch64 heaptop does not attach to a process under a seccomp filter."


@pytest.mark.usefixtures("on_aarch64")
def test_no_program_is_started() -> None:
    launch = Launch(("prog.py",), "no-python", Path("output"))
    with pytest.raises(UnsupportedArchitecture, match="heaptop run"):
        connect(Request(AttachOptions(), "", lambda phase, seconds: None, launch=launch))


def test_on_x86_64_nothing_of_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unshown, "MACHINE", KNOWN["x86_64"])
    assert unshown.unshown_error("by PEP 768") is None
    assert unshown.page_error(16384) is None


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(UnsupportedArchitecture, match="riscv64"):
        preflight.check_machine()
