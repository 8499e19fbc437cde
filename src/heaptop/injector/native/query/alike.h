/* alike: find out which steps of the reported paths are a single object, and which represent several.

       module app.cache ._sessions [*] .user     of 80 users: the module and the dict are one each, of [*] there are several

   A step is identified by the hash of the path to it, which is stored for each object (paths.h). The hashes of all
   reported steps are collected, and one pass over all objects counts how many share each of them. */
#ifndef HEAPTOP_ALIKE_H
#define HEAPTOP_ALIKE_H

#include "pages.h"

struct alike_slot {
    uint64_t hash;
    uint32_t object; /* position + 1; 0: free */
    bool several;
};

struct alike {
    const uint64_t *hashes; /* by object, of the path to it */
    struct alike_slot *slots; /* open addressing, at most half full */
    uint64_t slot_count;
};

/* For so many steps at most. Whether there was memory; alike_close is right after either. */
bool alike_open(struct alike *s, const uint64_t *hashes, uint64_t most_steps);
void alike_close(struct alike *s);

/* Note a step that leads to an object. */
void alike_note(struct alike *s, uint32_t object);

/* Whether what leads to an object has the hash of a step noted. */
bool alike_has(const struct alike *s, uint32_t object);

/* See whether an object that is behind no step noted has the hash of one. ``parents``: by object, what the path comes from. */
void alike_compare(struct alike *s, uint32_t object, const uint32_t *parents);

/* Whether the step noted leads to this object alone. */
bool alike_is_one(const struct alike *s, uint32_t object);

#endif
