/* fill: how many items an object has, and the most that it takes. It is read from memory; no code of the target's runs.

   A deque and an lru_cache have it in their structures. A class in Python keeps it as an attribute of a name that means
   nothing else, as queue.Queue and cachetools do: maxsize, _maxsize, _Cache__maxsize, capacity. So may the class itself, and
   a function in its closure or as a default argument. Only ints are read. */
#ifndef HEAPTOP_FILL_H
#define HEAPTOP_FILL_H

#include "heap/kind.h"

enum { FILL_UNKNOWN = -1, FILL_UNLIMITED = 0 };

/* Items of a container, characters of a text, how much of its room is taken as an instance counts it by itself, as those of
   cachetools; FILL_UNKNOWN where there are none. */
int64_t fill_length(PyObject *o, const struct kind *kind);

/* How often items were added to a deque or taken from it, which it counts by itself; FILL_UNKNOWN of others. */
int64_t fill_changes(PyObject *o, const struct kind *kind);

/* The block of a deque's items, or node of an OrderedDict, behind ``block``, or its first one for NULL; NULL behind the last,
   and for others. */
const void *fill_next_block(PyObject *o, const struct kind *kind, const void *block);

/* The most items that it takes; FILL_UNLIMITED where it takes any number. */
int64_t fill_bound(PyObject *o, const struct kind *kind);

#endif
