/* places: where the frame stands that a label is about, as protocol/images.py's Place: its file, the line it is at, and the
   name of its thread.

       a label of a reference that ``from`` has ─► from is a pseudo-object: its frame          ┐
                                                 ─► from is a frame object: that, or its frame ├─► code, instruction ─► line
                                                 ─► it is about a generator: its own frame      ┘

   Of several frames, or one that is not known, it is where the function begins, and no thread is told. The name of a thread
   is that of the threading.Thread which its outermost frame runs, or of the main one; else it is the kernel's number.

   Only in a snapshot child: lines are asked of the interpreter, by a function that reads the code object alone. */
#ifndef HEAPTOP_PLACES_H
#define HEAPTOP_PLACES_H

#include "query/answering.h"

/* The place, or nil where the label is about no frame. ``from``: the number of what has the reference, which may be a
   pseudo-object, that itself where the label is the pseudo-object's, or CSR_NONE; ``is_one``: there is no other frame that
   the label represents. */
void places_pack(struct answering *a, const struct label *label, uint32_t from, bool is_one);

enum { PLACE_THREAD_BYTES = 128 };

struct place {
    PyObject *code;
    int line, first_line; /* that it is at; where its function begins */
    char thread[PLACE_THREAD_BYTES]; /* its name, with a NUL; empty where it is of none */
};

/* The place of a pseudo-object's frame, of a frame object's, of a generator's. False where an object has none. */
bool places_find(struct answering *a, uint32_t number, struct place *place);

#endif
