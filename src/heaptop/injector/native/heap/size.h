/* size: bytes of an object as sys.getsizeof says, and those that it omits, without running Python code.

   The rule of a type is chosen by the C function behind ``__sizeof__``, so that subclasses are measured alike. */
#ifndef HEAPTOP_SIZE_H
#define HEAPTOP_SIZE_H

#include "heap/kind.h"

/* Read the C functions that the rules are known by. After layout_open. 0, or -1: one was not found. */
int size_open(void);

/* Fill in kind->size and kind->sizeof_method. ``call_methods``: also C methods that are not CPython's own. */
void size_decide(struct kind *kind, bool call_methods);

/* Whether a function is the interpreter's or its standard library's own. */
bool size_is_cpython(uintptr_t function);

/* A method that is not known to be CPython's own is looked for once more, among what is mapped now. */
void size_look_again(void);

/* Bytes, with what is before the object. */
uint64_t size_of(PyObject *o, const struct kind *kind);

/* Bytes of attribute values outside a dict, which no sys.getsizeof counts; 0 where there are none. */
uint64_t size_hidden(PyObject *o, const struct kind *kind);

/* Where an object's memory is: its own block from its head on, then the items of a list, the table of a dict or set, the
   buffer of a bytearray, the values of attributes in an array. What other C types have elsewhere is not known. */
enum { SIZE_BLOCKS = 3 };

struct size_block {
    uint64_t at, size;
};

/* Whether instances have a table of items or a buffer elsewhere, at a known place. */
bool size_has_buffer(const struct kind *kind);

/* Whether an object of it may have more than its own block. */
bool size_has_more(const struct kind *kind);

/* How many there are. */
uint32_t size_blocks(PyObject *o, const struct kind *kind, struct size_block blocks[SIZE_BLOCKS]);

/* Bytes of a block that are before its object: the collector's head, and what an instance keeps there. */
static inline int32_t size_before(PyTypeObject *type) {
    unsigned long flags = type_flags(type);
    return (flags & FLAG_HAVE_GC && layout.gc_bits == 0 ? 16 : 0) + (flags & (unsigned long)layout.flags_pre_header ? 16 : 0);
}

#endif
