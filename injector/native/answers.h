/* answers: what is said to questions about an image, as messages of protocol/images.py: [kind, {field: value}].

   Each looks at the objects selected, and adds up. A figure of what several objects retain leaves out those that another
   one of them dominates: it is in that one's figure. */
#ifndef HEAPTOP_ANSWERS_H
#define HEAPTOP_ANSWERS_H

#include "pack.h"
#include "query.h"

struct answering {
    struct heap *heap;
    const struct types *types;
    struct told *told;
    const struct query *query;
    struct selection selection;
    struct pack *out;
    const volatile uint32_t *cancel; /* not 0: give up */
    volatile uint64_t *done, *total; /* how far it has come */
    bool stopped;                    /* it was given up: what was written is partial */
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

/* Deselect what has none of the units asked for among its retainers. NULL, or a sentence. */
const char *answers_keep_retained(struct answering *a);

/* -- for those above -------------------------------------------------------------------------------------------- */

/* Whether to go on; asked for each object. */
static inline bool answers_go_on(struct answering *a, uint64_t done) {
    if (done % (1 << 16) != 0)
        return true;
    *a->done = done;
    a->stopped = a->stopped || *a->cancel != 0;
    return !a->stopped;
}

/* By object, the nearest selected one that dominates it, or CSR_NONE; in pages of ``answers_above_bytes``. NULL when there is
   no memory. */
uint32_t *answers_above(struct answering *a);
size_t answers_above_bytes(const struct answering *a);

/* kind and fields of a message: then ``fields`` times a name and a value. */
void answers_begin(struct answering *a, const char *kind, uint32_t fields);
void answers_field(struct answering *a, const char *name);

/* A field of a message: its name, and a number or whether the answer is whole. */
void answers_field_uint(struct answering *a, const char *name, uint64_t value);
void answers_field_complete(struct answering *a, bool complete);

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
