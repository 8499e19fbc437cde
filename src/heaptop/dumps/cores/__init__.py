"""Core files: the heap of a process that is gone, walked in a process made for it, as a heap dump.

``elf_core`` reads the file, ``backing`` finds the programs and libraries that a core leaves out, ``core_memory`` puts
both together, ``core_python`` finds the interpreter in it, ``walker`` walks it in a process of its own, which
``walking`` asks, and ``conversion`` writes what that reports as a heap dump. ``process_copy`` makes of a live process
what a core is. No code of the core's is run, and nothing in it is believed.
"""
