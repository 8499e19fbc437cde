/* explain: roots and labels as Python objects, for tests. Everything happens in the process itself. */
#ifndef HEAPTOP_EXPLAIN_H
#define HEAPTOP_EXPLAIN_H

#include "layout.h"

/* roots([states[, greenlets]]) -> ([(class, part, object, name, what, slot, thread id, blocked, own, code, object in the
   frame's place, depth, counted, maybe, label)], whether the list of threads was whole, interpreters left out): classes and
   parts as numbers of roots.h. Behind them, those of greenlets. Needs layout_open. */
PyObject *explain_roots(PyObject *module, PyObject *args);

/* line_of(code, offset): what lines_at says. */
PyObject *explain_line(PyObject *module, PyObject *args);

/* roots_in_clone(thread ids) -> [label]: of these threads' roots, without those that only may be, from a snapshot child. */
PyObject *explain_clone(PyObject *module, PyObject *args);

/* label_of(o, referent[, values]) -> [label of each reference from o to it]; what is collapsed is "". */
PyObject *explain_label(PyObject *module, PyObject *args);

/* path_of([o, referent, its referent …][, values]) -> [label of each step, the first reference being meant]. */
PyObject *explain_path(PyObject *module, PyObject *args);

#endif
