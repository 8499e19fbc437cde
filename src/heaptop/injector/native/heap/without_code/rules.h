/* rules: what an object refers to by where its structure keeps references, for a walk without code.

   In a process that reads the memory of another one (a core, a copy) no function of the interpreter may be called: no
   tp_traverse, no __sizeof__, no Py function. There, `symbols` has the addresses of that other interpreter, ``without_code`` is
   set, and the walk goes by these rules alone:

       an instance ─► class in Python … ─► class in Python ─► the C type that they are made from (kind->native)
                      slots, attributes, the type                a line of structures.h: words, and what comes besides

   A C type that has no line is opaque, as is what is made from it: its slots and attributes are followed, and what C code keeps
   in it is not. Nothing here asks for a name of another library's type. */
#ifndef HEAPTOP_RULES_H
#define HEAPTOP_RULES_H

#include "heap/kind.h"

/* Find what a walk without code needs besides the symbols of layout.h, the column and gc_lists, and have all walks go without
   code from now on. ``interpreter``: the state of the one that is walked. NULL, or a sentence (static storage). */
const char *rules_open(const void *interpreter);

/* Of the calling thread's interpreter, for tests. With the GIL, and after layout_open. */
const char *rules_open_here(void);

/* Have walks go with code again, after either. */
void rules_close(void);

/* Fill in kind->native, words, more and opaque. */
void rules_decide(struct kind *kind);

/* Visit what tp_traverse would, and the type of an instance of a heap type always, but for the items of a dict. It goes on where
   a visitor returns something else than 0. */
void rules_visit(PyObject *o, const struct kind *kind, visitproc visit, void *context);

#endif
