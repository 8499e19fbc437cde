/* malloc_stacks: Python stacks for the library that heaptop's `run --native` preloads, see malloc_stack.h. */
#ifndef HEAPTOP_MALLOC_STACKS_H
#define HEAPTOP_MALLOC_STACKS_H

#include <stdbool.h>

/* Have the library read stacks through us, and leave out the calling thread, which is the agent's. False where it is not in
   this process. Needs the GIL, and a table that has passed the self-check. Stays: the core is never unloaded. */
bool malloc_stacks_offer(void);

/* Look up what that needs. Without the GIL: see lookup.h. */
void malloc_stacks_look_up(void);

#endif
