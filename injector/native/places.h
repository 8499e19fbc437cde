/* places: where the frame stands that a label is about, as protocol/images.py's Place: its file, the line it is at, and the
   name of its thread.

       label "frame work() local rows"  ─► the pseudo-object it is of ─► struct roots_frame ─► code, instruction ─► line
       label "generator f() local rows" ─► the generator ─► its own frame

   Of a frame that is not known, or of several, it is where the function begins, and no thread is told. The name of a thread
   is that of the threading.Thread which its outermost frame runs; else it is the kernel's number.

   Only in a snapshot child: lines are asked of the interpreter, by a function that reads the code object alone. */
#ifndef HEAPTOP_PLACES_H
#define HEAPTOP_PLACES_H

#include "answers.h"

/* The place, or nil where the label is about no frame. ``frame``: the number of the pseudo-object, or CSR_NONE; ``is_one``:
   it is the only one that the label stands for. */
void places_pack(struct answering *a, const struct label *label, uint32_t frame, bool is_one);

#endif
