/* kinds: a record for each type met, made once: how its instances are measured and expanded, and their counters.

       slots  [2^n]   { type, record }     open addressing by the type's address, at most half full
       chunks [..]  ─► records [64]        never moved, so that a record may be held while others are made      */
#ifndef HEAPTOP_KINDS_H
#define HEAPTOP_KINDS_H

#include "layout.h"

enum size_rule {
    SIZE_OBJECT, /* object.__sizeof__: tp_basicsize, and tp_itemsize for each item */
    SIZE_INT,
    SIZE_STR,
    SIZE_LIST,
    SIZE_DICT,
    SIZE_SET,
    SIZE_CALL,  /* another C method without arguments */
    SIZE_GUESS, /* Python code, or C that we do not call: tp_basicsize, and flagged */
};

enum edge_rule {
    EDGES_NONE,
    EDGES_LIST,
    EDGES_TUPLE,
    EDGES_SET,
    EDGES_DICT,
    EDGES_DICT_LIKE, /* a subclass of dict, or another type with its structure: the items, and the rest of tp_traverse */
    EDGES_TRAVERSE,
    EDGES_CODE,
    EDGES_TYPE,
    EDGES_ARRAY, /* numpy.ndarray */
};

enum collector_rule {
    COLLECTED_NEVER,
    COLLECTED_ALWAYS,
    COLLECTED_HEAP_TYPES, /* instances are types, and the static ones are not collected */
    COLLECTED_ASK,        /* tp_is_gc */
};

enum values_rule {
    VALUES_NONE,
    VALUES_POINTER, /* 3.11, 3.12: an array of its own */
    VALUES_INLINE,  /* 3.13+: in the object's own block, behind it */
};

enum uneven_rule {
    EVEN,
    UNEVEN_ORDERED, /* OrderedDict: each key is in the table and in a node */
    UNEVEN_CACHE,   /* lru_cache: each link is in the table and in a list */
};

struct kind {
    PyTypeObject *type;
    uint8_t size, edges, collected, values;
    uint8_t uneven;  /* where counted references are not those of the rows: see edges.h */
    uint8_t told;    /* so many instances in a row whose tp_traverse visited the type; more than are asked: all do */
    bool holds_type; /* each instance has a reference to the type, and tp_traverse does not visit it */
    uint32_t basic, item, before; /* bytes; ``before`` stands in front of the object */
    traverseproc traverse;
    PyCFunction sizeof_method;
    uint32_t position; /* kinds_at of it is this; UINT32_MAX for ``nobody`` */
    uint32_t number;   /* of its name, see names.h; census.c fills it in */
    uint64_t count[ROWS], bytes[ROWS], hidden[ROWS];
    uint64_t guessed[ROWS]; /* of count, those whose bytes are a guess; census.c fills it in */
};

enum { KINDS_PER_CHUNK = 64, KIND_CHUNKS = 1 << 14, KIND_ASKED = 8 };

struct kinds {
    struct kind_slot {
        PyTypeObject *type;
        struct kind *kind;
    } *slots;
    uint32_t size, count;
    struct kind **chunks;
    bool call_methods; /* whether C methods that are not CPython's own may be called */
    bool failed;       /* memory ran out: ``nobody`` stands for the types that have no record */
    struct kind nobody;
};

/* 0, or -1 when there is no memory; kinds_close is right after either. */
int kinds_open(struct kinds *k, bool call_methods);
void kinds_close(struct kinds *k);

/* Make the record of a type. Never NULL. */
struct kind *kinds_add(struct kinds *k, PyTypeObject *type);

static inline uint32_t kinds_hash(const PyTypeObject *type) { return (uint32_t)((uint64_t)type * 0x9E3779B97F4A7C15u >> 36); }

static inline struct kind *kinds_get(struct kinds *k, PyTypeObject *type) {
    for (uint32_t i = kinds_hash(type);; i++) {
        struct kind_slot *slot = &k->slots[i & (k->size - 1)];
        if (__builtin_expect(slot->type == type, 1))
            return slot->kind;
        if (slot->type == NULL)
            return kinds_add(k, type);
    }
}

static inline struct kind *kinds_at(const struct kinds *k, uint32_t i) {
    return &k->chunks[i / KINDS_PER_CHUNK][i % KINDS_PER_CHUNK];
}

/* Whether tp_traverse may forget the type, as up to 3.8, and in many extensions later. */
static inline bool kind_is_watched(const struct kind *kind) { return kind->told < KIND_ASKED; }

/* Whether the collector's head stands before this object. */
static inline bool kind_collects(const struct kind *kind, PyObject *o) {
    switch (kind->collected) {
    case COLLECTED_NEVER:
        return false;
    case COLLECTED_ALWAYS:
        return true;
    case COLLECTED_HEAP_TYPES:
        return type_flags((PyTypeObject *)o) & FLAG_HEAP_TYPE;
    default:
        return ((inquiry)pointer_at(kind->type, layout.type_is_gc))(o) != 0;
    }
}

/* The dict of a type: borrowed where it can be, else released by kind_release_dict. NULL when it has none. */
PyObject *kind_dict(PyTypeObject *type);
void kind_release_dict(PyTypeObject *type, PyObject *dict);

#endif
