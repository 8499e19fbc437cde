/* mapped: memory of another process, mapped from files at its own addresses, in a clone that has let go of all else.

       the helper: Python                    the clone                       the clone, behind mapped_enter
         its program, libraries, heap          the same                        ┐ this library, libc, the linker, a stack
         this library, libc, linker            the same                        ┘ (what is kept)
         files: a core, its libraries          the same                        memory of the core, to be read

   What is kept stays where the kernel has placed it; of the stacks, only the current one is. Where the core had memory there
   itself, mapped_enter fails, and another helper, which is placed elsewhere, may try again. From then on the clone can do
   nothing but compute: a seccomp filter lets it take memory, look at the clock, wait and end. */
#ifndef HEAPTOP_MAPPED_H
#define HEAPTOP_MAPPED_H

#include "clone/clone.h"

struct mapped_piece { /* as packed by dumps/cores/walker.py */
    uint64_t start, end, offset;
    int64_t fd;
};

enum mapped_status {
    MAPPED = 0,
    MAPPED_COLLIDES = 64, /* with what is kept: head->address says where */
    MAPPED_NO_MEMORY,
    MAPPED_UNREADABLE, /* a file, at head->address of the memory */
    MAPPED_OPEN,       /* the filter cannot be set */
};

/* In a clone whose table of descriptors is the helper's still (snapshot_limits.files); ``pieces`` are in pages (pages.h). */
int mapped_enter(const struct mapped_piece *pieces, uint64_t count, const struct result *out);

#endif
