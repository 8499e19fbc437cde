/* check: before a census may run, what the layout table says is compared with what the interpreter says. */
#ifndef HEAPTOP_CHECK_H
#define HEAPTOP_CHECK_H

#include "layout.h"

/* ``module``: this one, whose size_of and edges_of are tried; ``gc``: the module of that name, which the caller has, for
   the program need not have imported it, and a module is garbage that only a collection ends.
   "" when all agrees, else one sentence: a new reference. NULL with an exception set when it could not be done:
   BlockingIOError while another thread is in a finalizer of a collection, so that one may let it continue and ask again
   (or gc_collecting is wrong: it will never pass).
   The interpreter is left as it was. Needs layout_open and the GIL. */
PyObject *check_run(PyObject *module, PyObject *gc);

#endif
