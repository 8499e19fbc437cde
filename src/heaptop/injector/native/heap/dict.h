/* dict: the table of a dict, as it is in memory.

    keys ─► refcount | size ... usable, entries | indices ... | entries: {key, value} or {hash, key, value} */
#ifndef HEAPTOP_DICT_H
#define HEAPTOP_DICT_H

#include "layout.h"

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

#endif
