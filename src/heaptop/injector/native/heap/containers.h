/* containers: dicts, sets, and arrays of items, as they are in memory, and the dict of an instance.

    keys ─► refcount | size ... usable, entries | indices ... | entries: {key, value} or {hash, key, value} */
#ifndef HEAPTOP_CONTAINERS_H
#define HEAPTOP_CONTAINERS_H

#include "layout.h"
#include "heap/kind.h"

struct keys_view {
    PyObject **entries; /* the first */
    int64_t count;      /* of entries in use, also emptied ones */
    int stride, key;    /* words to the next, and from an entry to its key; the value is behind the key */
};

static inline uint64_t keys_size(const void *keys) {
    return layout.keys_kind ? (uint64_t)1 << uint8_at(keys, layout.keys_size) : uint64_at(keys, layout.keys_size);
}

/* Of a table with so many slots. */
static inline uint64_t keys_index_bytes_of(uint64_t size) {
    return size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8);
}

static inline uint64_t keys_index_bytes(const void *keys) {
    if (layout.keys_log_index_bytes)
        return (uint64_t)1 << uint8_at(keys, layout.keys_log_index_bytes);
    return keys_index_bytes_of(keys_size(keys));
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

/* Bytes of a table with so many slots: dictobject.c, USABLE_FRACTION and _PyDict_KeysSize. */
static inline uint64_t keys_bytes_of(uint64_t size, bool unhashed) {
    return (uint64_t)layout.keys_indices + keys_index_bytes_of(size) + (size << 1) / 3 * (unhashed ? 16 : 24);
}

/* How many values an array has that belongs to these keys. */
static inline uint64_t keys_room(const void *keys) {
    if (!layout.keys_kind)
        return (keys_size(keys) << 1) / 3;
    return uint64_at(keys, layout.keys_usable) + uint64_at(keys, layout.keys_entries);
}

/* An entry: its key, and behind it the value where the dict has no others. */
static inline PyObject **keys_entry(const struct keys_view *keys, int64_t i) {
    return keys->entries + i * keys->stride + keys->key;
}

/* Values outside the entries, or NULL. */
static inline PyObject **dict_values(PyObject *dict) {
    void *values = pointer_at(dict, layout.dict_values);
    return values == NULL ? NULL : at(values, layout.values_items);
}

/* The value of an entry; NULL in an emptied one. */
static inline PyObject *keys_value(const struct keys_view *keys, PyObject **values, int64_t i) {
    return values != NULL ? values[i] : keys_entry(keys, i)[1];
}

/* The value of the first key that ``is_key`` takes for ``name``, or NULL. */
static inline PyObject *dict_find(PyObject *dict, bool (*is_key)(PyObject *key, const char *name), const char *name) {
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    PyObject **values = dict_values(dict);
    for (int64_t i = 0; i < keys.count; i++) {
        PyObject *key = keys_entry(&keys, i)[0], *value = keys_value(&keys, values, i);
        if (key != NULL && value != NULL && is_key(key, name))
            return value;
    }
    return NULL;
}

/* The dict of an instance, or NULL: object.c, _PyObject_GetDictPtr. */
static inline PyObject *instance_dict(PyObject *o, const struct kind *kind) {
    if (layout.object_dict != 0 && type_flags(kind->type) & FLAG_MANAGED_DICT) {
        PyObject *dict = object_at(o, layout.object_dict);
        return (uintptr_t)dict & 1 ? NULL : dict; /* values in its place */
    }
    int64_t offset = int64_at(kind->type, layout.type_dict_offset);
    if (offset < 0) { /* from the end */
        int64_t items = size_field(o);
        offset += (int64_t)(((uint64_t)kind->basic + kind->item * (uint64_t)(items < 0 ? -items : items) + 7) & ~7ull);
    }
    return offset <= 0 ? NULL : *(PyObject **)((char *)o + offset);
}

static inline uint64_t keys_bytes(const void *keys) { return keys_bytes_of(keys_size(keys), keys_unhashed(keys)); }

/* dictobject.c, _PyDict_SizeOf */
static inline uint64_t dict_size(PyObject *o, const struct kind *kind) {
    const void *keys = pointer_at(o, layout.dict_keys);
    uint64_t size = kind->basic;
    if (pointer_at(o, layout.dict_values) != NULL)
        size += 8 * keys_room(keys);
    if (int64_at(keys, 0) == 1)
        size += keys_bytes(keys);
    return size;
}

/* Of its buffer. */
static inline uint64_t bytearray_buffer_size(PyObject *o) {
    uint64_t allocated = uint64_at(o, layout.bytearray_allocated), head = (uint64_t)layout.bytearray_head;
    return allocated == 0 || head == 0 ? allocated : allocated + head + 1;
}

/* A visitor that returns something else than 0 ends each of these. */
#define CONTAINER_INLINE static inline __attribute__((always_inline))

CONTAINER_INLINE void span_visit(PyObject **items, int64_t count, visitproc visit, void *context) {
    for (int64_t i = 0; i < count; i++)
        if (items[i] != NULL && visit(items[i], context) != 0)
            return;
}

CONTAINER_INLINE void dict_visit(PyObject *dict, visitproc visit, void *context) {
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    PyObject **values = dict_values(dict);
    for (int64_t i = 0; i < keys.count; i++) {
        PyObject **entry = keys_entry(&keys, i);
        PyObject *value = keys_value(&keys, values, i);
        if (value == NULL)
            continue;
        if (visit(entry[0], context) != 0 || visit(value, context) != 0)
            return;
    }
}

CONTAINER_INLINE void set_visit(PyObject *set, visitproc visit, void *context) {
    struct {
        PyObject *key;
        Py_hash_t hash;
    } *entry = pointer_at(set, layout.set_table);
    for (int64_t left = int64_at(set, layout.set_mask); left >= 0; left--, entry++)
        if (entry->key != NULL && entry->hash != -1 && visit(entry->key, context) != 0) /* -1: what was discarded */
            return;
}

#endif
