/* answers: replies to queries of a snapshot, as messages of protocol/images.py: [kind, {field: value}].

   Each looks at the objects selected, and adds up. A figure of what several objects retain leaves out those that another
   one of them dominates: it is in that one's figure. */
#ifndef HEAPTOP_ANSWERS_H
#define HEAPTOP_ANSWERS_H

#include "query/answering.h"

/* NULL when the answer was written, else a sentence why not (static storage). */
const char *answers_groups(struct answering *a);
const char *answers_paths(struct answering *a);
const char *answers_objects(struct answering *a);
const char *answers_object(struct answering *a);
const char *answers_map(struct answering *a);
const char *answers_lose(struct answering *a);
const char *answers_retainers(struct answering *a);
const char *answers_stacks(struct answering *a);
const char *answers_live(struct answering *a);
const char *answers_known(struct answering *a);
const char *answers_ages(struct answering *a);
const char *answers_points(struct answering *a);
const char *answers_waste(struct answering *a);
const char *answers_unreached(struct answering *a);
const char *answers_dump(struct answering *a);

/* The answer to any question. NULL, or a sentence. */
const char *answers_give(struct answering *a);

/* Blocks of its own that an object has elsewhere; how many. */
uint32_t answers_buffers_of(PyObject *o, const struct kind *kind, const void *buffers[SIZE_BLOCKS]);

/* Deselect what has none of the units asked for among its retainers. NULL, or a sentence. */
const char *answers_keep_retained(struct answering *a);

/* Items of a container or a text; -1 where there are none. */
int64_t answers_length_of(struct answering *a, uint32_t number);

/* Note the kernel's random bytes of this process, for the key of answers_waste: while its first stack is there. */
void answers_note_seed(void);

/* An object as protocol/images.py's ObjectRow. */
void answers_pack_row(struct answering *a, uint32_t number);

#endif
