/* arrays: the buffers of NumPy's arrays, which come from malloc, past Python's allocators.

   NumPy says of each buffer to tracemalloc, whether that is tracing or not. Loaded libraries do so through slots, where
   the dynamic linker puts the address of a function; ours goes there, samples, and calls the function on.

       numpy/_multiarray_umath.so                    libpython, or the executable
       ┌──────────────────────────┐   ┌ track() ┐    ┌───────────────────────┐
       │ slot of PyTraceMalloc_…  │──►│ sample  │───►│ PyTraceMalloc_Track   │
       └──────────────────────────┘   └─────────┘    └───────────────────────┘

   Only NumPy's own library is examined, which its name tells: to read the symbols of all that are loaded may be to read
   them from a disk. A slot is touched only where it is certain what stands there and that nobody else is about to write to it:

     - it holds the interpreter's function, or the way of its own library to have the linker look that up (JUMP_SLOT,
       bound lazily). What else it may hold (nothing yet, or another tool's function) is left alone;
     - its page is writable for good, or lies in the part that the linker makes read-only when a library is ready
       (RELRO) and is so already. Such a page is writable for the moment of one store.

   All of it under the GIL, once NumPy's module is imported: its library is in place then, and CPython unloads none. What
   is not as it is to be yet is looked at again at the next scan. Nothing is ever unloaded on our side, so a thread inside
   our functions is safe.

   What NumPy says, by version (its alloc.c, and tests/integration/test_native_arrays.py):
     - size: the bytes of the buffer; 1 where it has no items;
     - it keeps freed buffers of up to 1023 bytes, seven of each size, for the next ones of that size. Since 1.22 those
       too are said when they are freed and when they are handed out again, with the stack of that moment, so nothing is
       lost. Up to 1.21 they are not: such a buffer keeps its first stack until it leaves the cache;
     - a resize is Untrack and Track; in old versions Track alone, where the buffer stays at its place. So Track of a
       block that is followed ends its old life. 2.5 leaves Track out when Untrack says that nobody is tracing: so ours
       says that somebody is, as tracemalloc would;
     - up to 2.4 buffers are malloc's, from 2.5 on PyMem_RawMalloc's, which is not sampled: nothing counts twice.

   Only NumPy's domain is sampled. pandas and others say of theirs in their own, and are passed on. */
#ifndef HEAPTOP_ARRAYS_H
#define HEAPTOP_ARRAYS_H

#include <stdbool.h>

/* Agent's thread only, under the GIL. sample.h's tables stand. */

/* Begin. NULL, or a sentence (static storage) on why arrays are not sampled. */
const char *arrays_install(void);

/* Look up what arrays_install needs. Without the GIL: see lookup.h. */
void arrays_look_up(void);

/* Find the slots of libraries that came since the last scan; nothing when there are as many modules as then. 0 modules:
   NumPy's is not among them. No effect before arrays_install and after arrays_remove. Returns how many slots are ours: 0
   where none could be hooked. */
int arrays_scan(long modules);

/* Sample none from now on; our functions stay, and pass on. Any thread. */
void arrays_rest(void);

/* Put back what stood in the slots, and end. NULL, or a sentence on what stays: our functions, passing on. */
const char *arrays_remove(void);

#endif
