"""Reading a process from outside, changing nothing: /proc, ELF, the interpreter, threads; what follows for an attach.

The lowest room beside agent and native.
"""
