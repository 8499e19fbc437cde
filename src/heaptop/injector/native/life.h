/* life: release the GIL, and do not return into an interpreter that has been finalized meanwhile.
   A program that embeds Python may finalize it while the agent's thread waits, and initialize a new one:

       agent    … life_release ─────────── waits ──────────► life_return: not the same life: the thread ends here
       program        └─ Py_Finalize ─► end ─► Py_Initialize

   Its thread state is freed by then, and whatever its frames refer to. CPython ends a thread that returns while the
   interpreter is being finalized, but not one that returns later. */
#ifndef HEAPTOP_LIFE_H
#define HEAPTOP_LIFE_H

#include "layout.h"
#include <stdbool.h>
#include <stdint.h>

/* A session begins in the interpreter that runs now. */
void life_begin(void);

/* Watch for the end of the running interpreter. False where Py_AtExit has no free slot. Needs the GIL.
   ``last``: what the agent's thread does before it ends in life_return; without the GIL or an interpreter. */
bool life_watch(void (*last)(void));

/* How many interpreters have ended since the first life_watch. */
uint32_t life_number(void);

struct life_wait {
    PyThreadState *state;
    uint32_t number;
};

/* Release the GIL, and acquire it again. life_return does not return where the interpreter has ended: the thread exits, or
   sleeps until the process exits. */
struct life_wait life_release(void);
void life_return(struct life_wait wait);

/* With the GIL: does not return in another life than that of the last life_begin. */
void life_look(void);

#endif
