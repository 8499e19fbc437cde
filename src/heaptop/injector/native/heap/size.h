/* size: bytes of an object as sys.getsizeof says, and those that it omits, without running Python code.

   The rule of a type is chosen by the C function behind ``__sizeof__``, so that subclasses are measured alike. */
#ifndef HEAPTOP_SIZE_H
#define HEAPTOP_SIZE_H

#include "heap/kinds.h"

/* Read the C functions that the rules are known by. After layout_open. 0, or -1: one was not found. */
int size_open(void);

/* Fill in kind->size and kind->sizeof_method. ``call_methods``: also C methods that are not CPython's own. */
void size_decide(struct kind *kind, bool call_methods);

/* Bytes, with what stands before the object. */
uint64_t size_of(PyObject *o, const struct kind *kind);

/* Bytes of attribute values outside a dict, which no sys.getsizeof counts; 0 where there are none. */
uint64_t size_hidden(PyObject *o, const struct kind *kind);

/* Where an object's memory is: its own block from its head on, then the items of a list, the table of a dict or set, the
   buffer of a bytearray, the values of attributes (3.11, 3.12). What other C types have elsewhere is not known. */
enum { SIZE_BLOCKS = 3 };

struct size_block {
    uint64_t at, size;
};

/* Whether an object of it may have more than its own block. */
bool size_has_more(const struct kind *kind);

/* How many there are. */
uint32_t size_blocks(PyObject *o, const struct kind *kind, struct size_block blocks[SIZE_BLOCKS]);

/* Bytes of a block that stand before its object: the collector's head, and what an instance keeps there. */
static inline int32_t size_before(PyTypeObject *type) {
    unsigned long flags = type_flags(type);
    return (flags & FLAG_HAVE_GC ? 16 : 0) + (flags & (unsigned long)layout.flags_pre_header ? 16 : 0);
}

/* -- the table of a dict, for edges too ------------------------------------------------------------------

    keys ─► refcount | size ... usable, entries | indices ... | entries: {key, value} or {hash, key, value}     */

struct keys_view {
    PyObject **entries; /* the first */
    int64_t count;      /* of entries in use, also emptied ones */
    int stride, key;    /* words to the next, and from an entry to its key; the value stands behind the key */
};

static inline uint64_t keys_size(const void *keys) {
    return layout.keys_kind ? (uint64_t)1 << uint8_at(keys, 8) : uint64_at(keys, 8);
}

static inline uint64_t keys_index_bytes(const void *keys) {
    if (layout.keys_log_index_bytes)
        return (uint64_t)1 << uint8_at(keys, layout.keys_log_index_bytes);
    uint64_t size = keys_size(keys);
    return size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8);
}

static inline bool keys_unhashed(const void *keys) { return layout.keys_kind && uint8_at(keys, layout.keys_kind); }

static inline struct keys_view keys_open(const void *keys) {
    bool unhashed = keys_unhashed(keys);
    return (struct keys_view){
        .entries = (PyObject **)((char *)keys + layout.keys_indices + keys_index_bytes(keys)),
        .count = int64_at(keys, layout.keys_entries),
        .stride = unhashed ? 2 : 3,
        .key = unhashed ? 0 : 1,
    };
}

static inline PyObject **dict_values(PyObject *dict) {
    void *values = pointer_at(dict, layout.dict_values);
    return values == NULL ? NULL : at(values, layout.values_items);
}

#endif
