/* answers: what is said to questions about an image, as messages of protocol/images.py: [kind, {field: value}].

   Each looks at the objects selected, and adds up. A figure of what several objects retain leaves out those that another
   one of them dominates: it is in that one's figure. */
#ifndef HEAPTOP_ANSWERS_H
#define HEAPTOP_ANSWERS_H

#include "pack.h"
#include "query/query.h"

struct answers_kept { /* what one question has made, and others use; of zeros at first */
    uint32_t *candidates; /* answers_retainers.c's */
    uint8_t *several;     /* a bit by object, likewise: it is a unit that stands for several */
};

struct answering {
    struct heap *heap;
    const struct types *types;
    struct told *told;
    struct answers_kept *kept;
    const struct query *query;
    struct selection selection;
    struct pack *out;
    struct progress *progress; /* when it is stopped, what was written is partial */
};

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

/* Deselect what has none of the units asked for among its retainers. NULL, or a sentence. */
const char *answers_keep_retained(struct answering *a);

/* -- for those above -------------------------------------------------------------------------------------------- */

/* Why a question has no answer when something of it was not done: it was given up, or there was no memory. */
const char *answers_refusal(const struct answering *a);

/* kind and fields of a message: then ``fields`` times a name and a value. */
void answers_begin(struct answering *a, const char *kind, uint32_t fields);
void answers_field(struct answering *a, const char *name);

/* A field of a message: its name, and a number or whether the answer is whole. */
void answers_field_uint(struct answering *a, const char *name, uint64_t value);
void answers_field_complete(struct answering *a, bool complete);

/* Items of a container or a text; -1 where there are none. */
int64_t answers_length_of(struct answering *a, uint32_t number);

/* An object as protocol/images.py's ObjectRow. */
void answers_pack_row(struct answering *a, uint32_t number);

static inline uint64_t answers_bytes_of(const struct answering *a, uint32_t number) {
    return csr_size(&a->heap->graph.rows, number);
}

static inline unsigned answers_kind_of(const struct answering *a, uint32_t number) {
    uint8_t kind = a->heap->retain.kind[number];
    return kind < HEAP_KINDS ? kind : HEAP_NONE;
}

#endif
