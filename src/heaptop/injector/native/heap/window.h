/* window: objects on their way through a sweep. What an object is made of is far away in memory; so its head is prefetched
   when it enters, what it points to half-way through, and it is examined when it leaves.

       enter ─► o, o, … head here … | … body here … ─► leave          WINDOW objects, in the order they came       */
#ifndef HEAPTOP_WINDOW_H
#define HEAPTOP_WINDOW_H

#include "layout.h"

#define PREFETCH(address) __builtin_prefetch((const void *)(address))

enum { WINDOW = 32, WINDOW_HALF = 16, WINDOW_NOTE = 7 };

struct window {
    uintptr_t entries[WINDOW]; /* an object, and a note in the three bits that its address leaves free; 0: none */
    uint32_t at;
};

static inline PyObject *window_object(uintptr_t entry) { return (PyObject *)(entry & ~(uintptr_t)WINDOW_NOTE); }

static inline void window_prefetch_body(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == symbols.dict_type) {
        char *keys = pointer_at(o, layout.dict_keys);
        PREFETCH(keys);
        PREFETCH(keys + 64);
        PREFETCH(pointer_at(o, layout.dict_values));
    } else if (type == symbols.list_type) {
        PREFETCH(pointer_at(o, layout.list_items));
    } else if (type == symbols.set_type || type == symbols.frozenset_type) {
        PREFETCH(pointer_at(o, layout.set_table));
    } else if (layout.object_values != 0 && type_flags(type) & 16) {
        PREFETCH((char *)pointer_at(o, layout.object_values) + layout.values_tag);
    }
}

/* Returns the entry that leaves for it, or 0. */
static inline uintptr_t window_enter(struct window *w, PyObject *o, unsigned note) {
    PREFETCH((char *)o - 16);
    PREFETCH((char *)o + 40);
    uintptr_t half = w->entries[(w->at - WINDOW_HALF) % WINDOW];
    uintptr_t *place = &w->entries[w->at++ % WINDOW], oldest = *place;
    *place = (uintptr_t)o | note;
    if (half != 0)
        window_prefetch_body(window_object(half));
    return oldest;
}

/* At the end, WINDOW times: the entry that leaves, or 0. */
static inline uintptr_t window_leave(struct window *w) { return w->entries[w->at++ % WINDOW]; }

#endif
