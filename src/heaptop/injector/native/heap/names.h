/* names: which type names a session knows by which number, kept between censuses, and reading them from memory.

   A name is known by two hashes of its text; the text itself is not kept. The table lives in the agent's process and
   a snapshot child sees it as it was: what the child adds is told in its result, and added here by names_add. */
#ifndef HEAPTOP_NAMES_H
#define HEAPTOP_NAMES_H

#include "layout.h"

#define MAX_NAMES 50000 /* in a session; a macro, because a sentence has it */

enum { NAME_CHARACTERS = 512, NAME_BYTES = NAME_CHARACTERS * 6 };

struct name_key {
    uint64_t hash, other; /* never both 0 */
};

struct name {
    struct name_key key;
    uint32_t number;
    uint32_t census;     /* the last one that met it, */
    struct kind *first;  /* and the record that its counts go to */
};

struct names {
    struct name *slots; /* open addressing, at most half full; NULL before the first */
    uint32_t size, count;
    uint32_t census;
};

struct name_text {
    uint32_t size;
    char bytes[NAME_BYTES]; /* UTF-8, without a NUL; lone surrogates as \udc80 */
};

struct name_data { /* the characters of a str, where they stand */
    const void *data;
    int64_t length;
    uint32_t width; /* bytes of one: 1, 2 or 4 */
};

/* False when ``o`` is not of exactly the type str. */
bool names_data(PyObject *o, struct name_data *found);

/* Whether a key is exactly this str, which is ASCII: for dict_find. */
bool names_is(PyObject *key, const char *name);

/* A type's module and qualified name, as type.__module__ and type.__qualname__ say, cut after NAME_CHARACTERS; "?" for
   what is not a plain str, or in a static type not UTF-8. Of a heap type without such a module, tp_name may have one. */
void names_read(PyTypeObject *type, struct name_text *module, struct name_text *qualname);

/* A str, cut likewise. False when ``o`` is NULL or not of exactly that type. */
bool names_read_str(PyObject *o, struct name_text *text);

struct name_key names_key(const struct name_text *module, const struct name_text *qualname);

/* The entry of a name, or NULL when it is not known. */
struct name *names_find(struct names *n, struct name_key key);

/* Add a name that is not known. NULL when there is no memory. */
struct name *names_add(struct names *n, struct name_key key, uint32_t number);

/* Forget everything. */
void names_clear(struct names *n);

#endif
