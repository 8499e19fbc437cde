"""Has the native core check itself, and find the interpreters, while the memory of the newest one has just gone.

Arguments: the core's library, and how many of the newest one's bytes can still be read.
Prints what the self-check says.
"""

import ctypes
import gc
import sys

from core_breaks import load

PAGE, LARGEST_STATE, PRIVATE_ANONYMOUS = 4096, 1 << 20, 0x22


def main():
    core = load(sys.argv[1])
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    edge = libc.mmap(None, PAGE + LARGEST_STATE, 3, PRIVATE_ANONYMOUS, -1, 0) + PAGE
    libc.munmap(ctypes.c_void_p(edge), ctypes.c_size_t(LARGEST_STATE))
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    newest = ctypes.c_void_p.from_address(runtime + core.layout()["runtime_interpreters"])
    before = newest.value
    newest.value = edge - int(sys.argv[2])
    try:
        sentence = core.check(gc)
    finally:
        newest.value = before
    print(ascii(sentence))


if __name__ == "__main__":
    main()
