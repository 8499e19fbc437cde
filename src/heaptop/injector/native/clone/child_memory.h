/* child_memory: the interpreter's allocators in a snapshot child.

   A ``__sizeof__`` written in C makes an int. In a child it must not come from an allocator that may wait for a lock, or
   be counted by a hook: there, all domains are served from pages of our own, and nothing is given back. */
#ifndef HEAPTOP_CHILD_MEMORY_H
#define HEAPTOP_CHILD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* From now on the pages of all tables count (pages.h), and there are no more of them than ``limit`` bytes; 0: as many as are
   needed. In a snapshot child only. */
void child_memory_limit(uint64_t limit);

/* Whether somebody got nothing because of that; also when sparse ones took more. */
bool child_memory_refused(void);

/* What was refused so far is forgotten. */
void child_memory_forgive(void);

/* Bytes of all tables; ``sparse``: of those that the account does not know. */
uint64_t child_memory_used(uint64_t sparse);

/* Serve the interpreter from now on. In a snapshot child only. */
void child_memory_use(void);

/* Whether there was no memory for somebody: sizes may be wrong. */
bool child_memory_failed(void);

/* Bytes that it took. */
uint64_t child_memory_bytes(void);

#endif
