/* unwind: which library a block of malloc's is for, where it was not the one that called malloc.

   PyMem_Malloc, operator new and strdup call malloc for someone else. Native frames are read by the tables that C++ exceptions
   need (.eh_frame), from the call of malloc outwards, to the first one outside of the interpreter, libc and libstdc++.
   Nothing is allocated, no lock taken, no system call made: the linker's list is read by _dl_find_object (glibc 2.35).

     stops at    the interpreter's evaluation loop: what a Python function allocates is not its caller's in C
                 code without tables, rules that few functions have, 64 frames, and a stack that is not the thread's own
   Then the block is the caller's, as without. */
#ifndef HEAPTOP_PRELOAD_UNWIND_H
#define HEAPTOP_PRELOAD_UNWIND_H

#include <link.h>
#include <stdbool.h>

/* dlfcn.h has it since glibc 2.35. */
struct found_object {
    unsigned long long flags;
    char *start, *end;
    struct link_map *map;
    const unsigned char *unwinding; /* its .eh_frame_hdr */
    unsigned long long reserved[7];
};

/* Look the functions up; on the process's first thread. */
void unwind_open(void);

/* The object that an address is in; false where that is not known. */
bool unwind_find_object(const void *address, struct found_object *found);

/* The return address to name in place of ``caller``, to which malloc returns on this thread. ``is_first``: the process's. */
const void *unwind_owner(const void *caller, bool is_first);

#endif
