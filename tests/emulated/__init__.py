"""Checks of attaching on another machine, run under full-system emulation by ``make aarch64`` (``.ci/aarch64``).

User-mode qemu has no ptrace. The tests of ``tests/integration`` take hours there, so these are shorter ones.
"""
