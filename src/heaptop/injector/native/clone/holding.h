/* holding: what a snapshot child alone has of memory, by its own look.

   Who made it may not be allowed to see that: the child cannot be dumped, so that its /proc belongs to root. */
#ifndef HEAPTOP_HOLDING_H
#define HEAPTOP_HOLDING_H

#include <stdint.h>

/* Bytes that are free again when it ends: its own, and those that the target has changed or given back since. 0 where it
   is unknown (before Linux 4.14; no /proc). It opens a file: in a child with its own table of descriptors only. */
uint64_t holding_bytes(void);

#endif
