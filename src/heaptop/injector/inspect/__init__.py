"""Reading a process from outside, changing nothing: /proc, ELF, the interpreter, threads.

The lowest room beside agent and native.
"""
