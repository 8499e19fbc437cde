/* numpy: arrays of objects, and of records that have objects in their fields. */
#ifndef HEAPTOP_NUMPY_H
#define HEAPTOP_NUMPY_H

#include "layout.h"

/* numpy.ndarray, whose structure is part of numpy's ABI (ndarraytypes.h, PyArrayObject_fields; 1.x and 2.x). */
struct numpy_array {
    PyObject head;
    char *data;
    int dimensions;
    intptr_t *shape, *strides;
    PyObject *base, *descr;
    int flags;
};

/* An array's, but for its head. */
static inline const struct numpy_array *numpy_at(const void *o) { return body_of(o); }

enum { ARRAY_OWNS_DATA = 4 }; /* NPY_ARRAY_OWNDATA */

/* Whether a type is numpy.ndarray or made from it. */
bool numpy_is_array(PyTypeObject *type);

/* Bytes of its items; 0 where its dtype is none that is known. */
uint64_t numpy_bytes(PyObject *array);

/* Visit what an array refers to: items, base and dtype. */
void numpy_visit(PyObject *array, visitproc visit, void *context);

#endif
