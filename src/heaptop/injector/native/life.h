/* life: the GIL is given back, and the interpreter ends meanwhile.
   A program that embeds Python may end it (Py_Finalize) while the agent's thread waits, and begin with a new one:

       agent    … life_release ─────────── waits ──────────► life_return: not the same life: the thread ends here
       program        └─ Py_Finalize ─► end ─► Py_Initialize

   Its thread state is freed by then, and whatever its frames refer to. CPython ends a thread that comes back while the
   interpreter is being finalized; behind that it notices nothing. */
#ifndef HEAPTOP_LIFE_H
#define HEAPTOP_LIFE_H

#include "layout.h"
#include <stdbool.h>
#include <stdint.h>

/* A session begins in the interpreter that runs now. */
void life_begin(void);

/* Note when the interpreter that runs now ends. False where it has no room for one more who is called then. With the GIL.
   ``last``: what the agent's thread does before it ends in life_return; without the GIL, and nothing of Python is there. */
bool life_watch(void (*last)(void));

/* How many interpreters have ended since the first life_watch. */
uint32_t life_number(void);

struct life_wait {
    PyThreadState *state;
    uint32_t number;
};

/* Give the GIL back, and take it again; the latter does not return where the interpreter has ended: the thread ends, or sleeps
   for as long as the process lives. */
struct life_wait life_release(void);
void life_return(struct life_wait wait);

/* With the GIL: does not return in another life than that of the last life_begin. */
void life_look(void);

#endif
