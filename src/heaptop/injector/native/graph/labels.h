/* labels: what a reference is called, as Python would write it.

   A path is read from its root on; each step has the label of the one before it, which says what the object in between
   is there for:

       module app ─► dict ─► Registry ─► dict ─► list ─► Session         module app.registry.sessions[*]
         "module app"  ""   ".registry"   ""  ".sessions" "[*]"
                     its       ▲        its       ▲
                     role: attributes             role: attributes

   A step without a text (``collapsed``) is not to be shown; where its role is ROLE_CONTENTS, the one before it is said to
   lead to what it leads to. Names are of code: modules, attributes, globals, locals, arguments, functions. What a program
   keeps in its dicts is data: ``[*]``, unless values may be shown.

   Finding a label reads a few words of the object and never its items, but for a dict whose keys are names; writing it
   takes longer, and is for those that are shown. Nothing here calls the interpreter or allocates. */
#ifndef HEAPTOP_LABELS_H
#define HEAPTOP_LABELS_H

#include "heap/containers.h"
#include "heap/kinds.h"
#include "graph/roots.h"
#include "graph/stored.h"

/* What the object referred to is there for. */
enum label_role {
    ROLE_NONE,
    ROLE_ATTRIBUTES,   /* a dict of attributes or globals */
    ROLE_CELL,         /* a cell that the label has named already */
    ROLE_CLOSURE,      /* of the function ``owner``, and so on */
    ROLE_DEFAULTS,
    ROLE_KEYWORDS,
    ROLE_CACHE,        /* what an lru_cache keeps its answers in */
    ROLE_THREADS,      /* a threading.local's table of threads */
    ROLE_THREAD,       /* and its attributes in one of them */
    ROLE_GENERATOR,    /* the frame object of a generator, where frames are objects */
    ROLE_TRACEBACK,    /* a frame object that a traceback has */
    ROLE_CONTENTS,     /* of a cell, a cache, an iterator: what the label before it means */
};

enum label_kind {
    LABEL_INSIDE,      /* nobody knows */
    LABEL_COLLAPSED,
    LABEL_ATTRIBUTE,   /* .name */
    LABEL_POSITION,    /* [2]: of a tuple */
    LABEL_ITEM,        /* [*] */
    LABEL_KEY,         /* a key of a dict */
    LABEL_ELEMENT,     /* of a set */
    LABEL_LOCAL,       /* frame f() local name; generator f() local name: by ``text`` */
    LABEL_STACK,       /* frame f() value in use */
    LABEL_CLOSURE,     /* closure of f: name */
    LABEL_DEFAULT,     /* default argument name of f */
    LABEL_CACHE,       /* lru_cache of f */
    LABEL_THREAD_LOCAL, /* .name of a thread */
    LABEL_VARIABLE,    /* context variable name */
    LABEL_MODULE,      /* module name */
    LABEL_TEXT,        /* ``text`` */
    LABEL_FRAME,       /* frame f() text */
};

struct label {
    enum label_kind kind;
    enum label_role role;
    PyObject *name;    /* a str, or NULL: then ``text`` is the name, or there is none */
    const char *text;  /* a static text, or the interpreter's */
    int64_t index;     /* of an item; -1 where it is not known */
    PyObject *owner;   /* the function, code or cache that it is about, or the dict whose item it is */
    PyObject *key;     /* of a dict's item, for where values may be shown; else NULL */
    const struct stored_label *stored; /* where it was read from a file, and then ``text`` is all of it; else NULL */
};

enum { LABEL_BYTES = 512, LABEL_NO_ORDINAL = -1 };

/* Forget what is known of types and of dicts. Before the first of a heap, and once the program has run on. */
void labels_reset(void);

/* The label of the step from ``o`` to ``referent``. ``ordinal``: the position of the reference in the order in which
   edges_each visits them, or LABEL_NO_ORDINAL; ``before``: of the step to ``o``, or NULL. */
struct label labels_find(const struct label *before, PyObject *o, const struct kind *kind, int64_t ordinal, PyObject *referent);

/* Whether labels of what such an object refers to depend on ``before``. */
bool labels_depend(const struct kind *kind);

/* The attributes of an instance whose names and values are in a dict of its own, or in an array by the names that its
   class keeps: entries up to ``count``, of which some have no key or no value. False where there are none. */
struct attribute_table {
    PyObject *dict; /* NULL: they are in an array */
    struct keys_view keys;
    PyObject **values; /* as keys_value takes them */
    int64_t count;
};
bool labels_attributes_of(PyObject *o, const struct kind *kind, struct attribute_table *found);

/* Slots, and members that types of C have published, one after the other: those that have a value. NULL behind the last. */
struct labels_slot {
    PyTypeObject *type; /* where to begin */
    const void *next;
    const char *name; /* of the one that was found */
};
PyObject *labels_next_slot(PyObject *o, const struct kind *kind, struct labels_slot *slot);

/* What a function has besides its code, and the variable's name: what it closes over, then arguments with a default but
   those by keyword alone. NULL behind the last; ``next`` is 0 at first. */
PyObject *labels_next_variable(PyObject *function, int64_t *next, PyObject **name);

/* The label of a root. */
struct label labels_root(enum root_class class, const struct root *root);

/* That of the frame itself, a pseudo-object's: "frame f()". */
struct label labels_frame(const struct roots_frame *frame);

/* Whether it is the label of a frame itself. */
static inline bool labels_is_frame(const struct label *label) {
    bool is_itself = label->stored != NULL ? label->stored->is_frame : label->text == NULL;
    return label->kind == LABEL_FRAME && is_itself;
}

/* One that was read from a file. */
struct label labels_stored(const struct stored *stored, uint32_t number);

/* A number that equal labels share, and others with next to no chance: to group by. It reads no text. */
uint64_t labels_hash(const struct label *label);

/* Write it as UTF-8, with a NUL; its length. What is too long is cut. ``values``: keys of exact built-in types and
   positions may be shown. Nothing is written of a collapsed one. */
uint32_t labels_write(const struct label *label, bool values, char text[LABEL_BYTES]);

#endif
