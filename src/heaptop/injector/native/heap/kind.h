/* kind: the record of a type: how its instances are measured (size.h) and expanded (edges.h), and their counters. */
#ifndef HEAPTOP_KIND_H
#define HEAPTOP_KIND_H

#include "layout.h"
#include "structures.h"

enum size_rule {
    SIZE_OBJECT, /* object.__sizeof__: tp_basicsize, and tp_itemsize for each item */
    SIZE_INT,
    SIZE_STR,
    SIZE_LIST,
    SIZE_DICT,
    SIZE_SET,
    SIZE_CALL,  /* another C method without arguments */
    SIZE_RULE,  /* without code: what such a method does (measures.h) */
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
    VALUES_POINTER, /* an array of its own */
    VALUES_INLINE,  /* in the object's own block, behind it */
};

enum uneven_rule {
    EVEN,
    UNEVEN_ORDERED, /* OrderedDict: each key is in the table and in a node */
    UNEVEN_CACHE,   /* lru_cache: each link is in the table and in a list */
};

struct owner;
struct kind;
typedef uint64_t (*kind_measure)(PyObject *o, const struct kind *kind);

struct kind {
    PyTypeObject *type;
    uint8_t size, edges, collected, values;
    uint8_t uneven;  /* where counted references are not those of the rows: see edges.h */
    uint8_t type_visits;   /* so many instances in a row whose tp_traverse visited the type; more than are asked: all do */
    const struct owner *owner; /* of memory that is elsewhere; NULL: none known (owners.h) */
    PyTypeObject *native; /* without code (rules.h): the C type that it is made from, */
    uint64_t words;       /* its words that are references, */
    uint8_t more;         /* and what it has besides: enum structure_more */
    bool opaque;          /* C code keeps more in it, and nobody knows where */
    bool is_container; /* things collect in it: it is made from one of CPython's containers that can grow */
    bool holds_type; /* each instance has a reference to the type, and tp_traverse does not visit it */
    uint32_t basic, item, before; /* bytes; ``before`` is in front of the object */
    traverseproc traverse;
    PyCFunction sizeof_method;
    kind_measure measure;
    uint32_t position; /* kinds_at of it is this; UINT32_MAX for ``nobody`` */
    uint32_t number;   /* of its name, see names.h; census.c fills it in, */
    struct kind *named; /* and the first record of that name */
    uint64_t count[ROWS], bytes[ROWS], hidden[ROWS];
    uint64_t guessed[ROWS]; /* of count, those whose bytes are a guess, or are no less (owners.h) */
};

enum { KIND_ASKED = 8 };

struct kind_member { /* structmember.h, PyMemberDef */
    const char *name;
    int type;
    Py_ssize_t offset;
    int flags;
    const char *doc;
};

/* Whether a type is CPython's of that name. One that was made in Python may have any name, but can be changed. */
static inline bool type_is_of_c(PyTypeObject *type, const char *full) {
    unsigned long flags = type_flags(type);
    const char *name = pointer_at(type, layout.type_name);
    return (!(flags & FLAG_HEAP_TYPE) || flags & FLAG_IMMUTABLE_TYPE) && name != NULL && __builtin_strcmp(name, full) == 0;
}

/* Whether instances of a type begin with those of the base. */
static inline bool type_is_made_from(PyTypeObject *type, const PyTypeObject *base) {
    while (type != NULL && type != base)
        type = type_base(type);
    return type != NULL;
}

/* Forget what was counted. */
static inline void kind_clear(struct kind *kind) {
    for (int row = 0; row < ROWS; row++)
        kind->count[row] = kind->bytes[row] = kind->hidden[row] = kind->guessed[row] = 0;
}

/* Whether tp_traverse may forget the type, as in old versions, and in many extensions still. */
static inline bool kind_is_watched(const struct kind *kind) { return kind->type_visits < KIND_ASKED; }

/* Whether the collector's head is before this object. */
static inline bool kind_collects(const struct kind *kind, PyObject *o) {
    switch (kind->collected) {
    case COLLECTED_NEVER:
        return false;
    case COLLECTED_ALWAYS:
        return true;
    case COLLECTED_HEAP_TYPES:
        return type_flags((PyTypeObject *)o) & FLAG_HEAP_TYPE;
    default:
        if (symbols.without_code)
            return is_tracked(o);
        return ((inquiry)pointer_at(kind->type, layout.type_is_gc))(o) != 0;
    }
}

/* pycore_typeobject.h, _PyStaticType_GetState: what an interpreter keeps of one of its own types, or of an extension's. */
static inline PyObject *kind_static_dict(PyTypeObject *type) {
    enum { MOST = 1 << 10 };
    uint64_t number = uint64_at(type, layout.type_subclasses);
    if (symbols.static_types == NULL || number == 0 || number > MOST)
        return NULL;
    const char *state = symbols.static_types + (number - 1) * (uint64_t)layout.static_type_size;
    if (pointer_at(state, 0) != type)
        state += layout.static_types_more;
    return pointer_at(state, 0) == type ? object_at(state, layout.static_type_dict) : NULL;
}

/* The dict of a type: borrowed where it can be, else released by kind_release_dict. NULL when it has none. */
static inline PyObject *kind_dict(PyTypeObject *type) {
    PyObject *dict = object_at(type, layout.type_dict);
    if (dict != NULL)
        return dict;
    if (symbols.without_code)
        return kind_static_dict(type);
    return symbols.type_get_dict == NULL ? NULL : symbols.type_get_dict(type);
}

static inline void kind_release_dict(PyTypeObject *type, PyObject *dict) {
    if (dict != NULL && object_at(type, layout.type_dict) == NULL && !symbols.without_code)
        Py_DecRef(dict);
}

#endif
