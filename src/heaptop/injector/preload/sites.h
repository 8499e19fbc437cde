/* sites: where blocks are allocated, each place once: a return address in a library, and a Python stack.

   Nothing of the interpreter's is held and nothing is freed: texts are copied into the table, which has a fixed size. All
   under the lock of samples.c. */
#ifndef HEAPTOP_PRELOAD_SITES_H
#define HEAPTOP_PRELOAD_SITES_H

#include "malloc_stack.h"
#include "preload/table.h"

#include <stdbool.h>

#define SITES_FULL UINT32_MAX

/* Empty indexes over an empty table. False when there is no memory. */
bool sites_open(struct table *table);

/* Read Python stacks by this from now on. */
void sites_read_stacks(malloc_read_stack *reader);

/* The site of an allocation that returns to ``caller``, on the calling thread; SITES_FULL when there is no room.
   ``is_first``: it is the process's first thread. */
uint32_t sites_now(const void *caller, enum kind kind, bool is_first);

#endif
