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

struct owner {
    const char *const *types; /* full names; the last is NULL */
    uint32_t least;           /* bytes of an instance: a smaller one is no such object */
    struct owned (*measure)(PyObject *o);
    bool maps; /* what it owns are mappings, which no allocator has given */
};

/* The entry of a type, or NULL. */
const struct owner *owners_find(PyTypeObject *type);

static inline struct owned owners_measure(PyObject *o, const struct kind *kind) {
    return kind->owner == NULL ? (struct owned){0, false} : kind->owner->measure(o);
}

/* -- for the entries -------------------------------------------------------------------------------------------- */

extern const struct owner owner_bz2, owner_ctypes, owner_mmap, owner_opaque, owner_zlib;

#define OWNED_UNKNOWN ((struct owned){0, true})

/* Whether memory begins and ends where it should; what is between is believed. */
bool owners_has(const void *at, uint64_t size);

#endif
