/* owners: memory that objects of C types own outside of what __sizeof__ says of them: mappings, states of C libraries.

       owners.c    the registry: one line a library
       owners/     one file a library: its types, and how to read what one of their objects owns

   Only fields are read, nothing of the library is called. A type is known by its full name, and by the size of its
   instances; each pointer is asked for before what it leads to is read (raw_readable), and what is found there must fit what
   the library promises of it. Where it does not, the object owns an unknown amount. What an array, a bytes or an array of
   NumPy owns is in its __sizeof__ and not here, and a view owns nothing: so each byte is counted once. */
#ifndef HEAPTOP_OWNERS_H
#define HEAPTOP_OWNERS_H

#include "heap/kind.h"

struct owned {
    uint64_t bytes;
    bool unknown; /* it owns more, and nobody can say how much */
};

/* Memory that several objects own together, and that one of them was counted with. Zeros at the beginning. */
struct owners_seen {
    uint64_t *slots; /* open addressing; 0 is free */
    uint64_t size, count;
    bool failed; /* there was no memory: what is not known was not counted */
};

void owners_forget(struct owners_seen *seen);

struct owner {
    const char *const *types; /* full names; the last is NULL */
    uint32_t least;           /* bytes of an instance: a smaller one is no such object */
    struct owned (*measure)(PyObject *o, struct owners_seen *seen);
    bool far;  /* it follows pointers a long way through a library's structures: in a clone alone, which may crash */
    bool maps; /* what it owns are mappings, or of an allocator that is neither Python's nor malloc */
};

/* The entry of a type, or NULL. */
const struct owner *owners_find(PyTypeObject *type);

static inline struct owned owners_measure(PyObject *o, const struct kind *kind, struct owners_seen *seen) {
    return kind->owner == NULL ? (struct owned){0, false} : kind->owner->measure(o, seen);
}

/* -- for the entries -------------------------------------------------------------------------------------------- */

extern const struct owner owner_arrow, owner_bz2, owner_cffi, owner_ctypes, owner_mmap, owner_opaque, owner_pillow,
    owner_stringio, owner_torch, owner_zlib;

#define OWNED_UNKNOWN ((struct owned){0, true})

/* Whether memory begins and ends where it should; what is between is believed. */
bool owners_has(const void *at, uint64_t size);

/* Whether an object is of a class of C++, by the mangled name that its table of functions leads to. That begins as given. */
bool owners_is(const void *object, const char *name);

/* Whether nobody was counted with it before. No longer known, and false, where there is no memory to keep it. */
bool owners_first(struct owners_seen *seen, const void *what);

#endif
