/* graphing: the graph's face for tests and for the bench: in the process itself, with the GIL held; and once in a clone.

   One graph at a time, and what was found in it. Numbers of objects are those of graph.h; an array is handed out as its
   bytes. What C holds is found by reading objects: what was there when the graph was made must be there still. */
#ifndef HEAPTOP_GRAPHING_H
#define HEAPTOP_GRAPHING_H

#include "layout.h"

/* graph_build([{"own": [address, …], "also": [object, …], "without_code": any}]): {"objects", "edges", "bytes", "walk_ns",
   "rows_ns", "opaque": bytes that the walk without code, where that is asked for, has no rule for}. ``own`` is left out; ``also`` takes part even if nothing leads to it. What is made from here on has no number. */
PyObject *graphing_build(PyObject *module, PyObject *args);

/* graph_close(): forget it all. */
PyObject *graphing_close(PyObject *module, PyObject *args);

/* graph_info(o): {"number", "size", "type", "edges": [number, …]}, or None for what has no number. */
PyObject *graphing_info(PyObject *module, PyObject *args);

/* graph_add([object, …]): the number of a pseudo-object that refers to these. */
PyObject *graphing_add(PyObject *module, PyObject *args);

/* graph_retain([[number, …], …], held): the roots of each kind; what C holds besides is of the kind ``held``, and what
   nothing leads to of the next: {"reached", "bytes", "search_ns", "dominate_ns"}. */
PyObject *graphing_retain(PyObject *module, PyObject *args);

/* graph_retainers(units, [(number, unit), …], limit): ``units`` are the bytes of one uint32_t an object. {"sets": [[unit,
   …] or None for many, …], "totals": [(objects, bytes), …], "bytes", "steps", "ns"}. */
PyObject *graphing_retainers(PyObject *module, PyObject *args);

/* graph_array(name): the bytes of "first", "edges", "sizes", "in_first", "in_edges", "references" (uint32_t: how many are
   known of those that are counted of each object), "addresses" (uint64_t);
   after graph_retain of "kind" (uint8_t), "parent", "place", "order", "roots", "dominator" (uint32_t), "retained" (uint64_t);
   after graph_retainers of "sets" (uint32_t). */
PyObject *graphing_array(PyObject *module, PyObject *args);

/* graph_in_clone([address, …], [address, …]): all of it in a snapshot child, the first ones being the roots of kind 0:
   ({"objects", "edges", "reached", "bytes", "walk_ns", "rows_ns", "search_ns", "dominate_ns", "pause_ns"}, what each of
   the second ones retains, 0 where it has no number). */
PyObject *graphing_in_clone(PyObject *module, PyObject *args);

#endif
