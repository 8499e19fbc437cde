/* structures: where objects of C types keep their references, by version: the part of the layout that has a line for each type of
   the interpreter and of its library, and no other code names them.

   A type is known by its full name (tp_name) and by the size of its instances. Whether C code made it, as it must have, is for
   who asks: a class in Python may have any name. */
#ifndef HEAPTOP_STRUCTURES_H
#define HEAPTOP_STRUCTURES_H

#include <stdint.h>

enum structure_more { /* what such an object refers to besides its words */
                      MORE_NONE,
                      MORE_DEQUE, /* items in blocks */
                      MORE_LINKS, /* an lru_cache: keys and results in a ring of links */
                      MORE_NODES, /* an OrderedDict: keys in a list of nodes */
                      MORE_TAIL, /* as many words at its end as ob_size says */
                      MORE_TEE, /* as many words as it has been advanced */
                      MORE_ELEMENT, /* texts with a flag, and children in an array */
                      MORE_SUSPENDED, /* from 3.11 on: a frame inside */
                      MORE_FRAME, /* up to 3.10: locals and a stack; later: another structure has them */
                      MORE_STATE, /* what only the C code of a module knows */
                      MORE_LIST, /* those of the containers that others are made from */
                      MORE_TUPLE,
                      MORE_SET,
                      MORE_RECORD, /* a tuple with more items than ob_size says */
};

struct structure {
    const char *name;
    uint8_t from, to; /* minor versions of Python 3 */
    uint16_t size; /* tp_basicsize, in a build with the GIL: in another one the head is larger by layout.head_extra, */
    uint8_t more; /* enum structure_more */
    uint64_t words; /* and each word is so much further on. Bit i: there is an object, or NULL, at 8 * i */
};

/* The line of a type, or NULL. */
const struct structure *structures_find(const char *name, uint64_t size, int minor);

#endif
