/* answering: a question about a snapshot while it is answered: what it is asked of, which objects it means, and the message
   that the answer becomes. */
#ifndef HEAPTOP_ANSWERING_H
#define HEAPTOP_ANSWERING_H

#include "pack.h"
#include "query/query.h"

/* Paths that answers had, by which those that are asked for again are found without all others. Of zeros at first. */
struct paths_known {
    struct paths_example {
        uint64_t key;
        uint32_t number; /* of an object that is kept along it */
    } *examples;
    uint32_t next; /* the place of the next one, in place of the oldest */
};

struct dumping; /* answers_dump.c */

struct answering_kept { /* what one question has made, and others use; of zeros at first */
    uint32_t *candidates; /* answers_retainers.c's */
    uint8_t *several;     /* a bit by object, likewise: it is a unit that represents several */
    struct paths_known paths;
    struct dumping *dumping;
};

struct answering {
    struct heap *heap;
    const struct types *types;
    struct seen_marks *seen_marks;
    struct answering_kept *kept;
    const struct query *query;
    const void *interpreter; /* its state */
    struct selection selection;
    struct pack *out;
    struct progress *progress; /* when it is stopped, what was written is partial */
};

/* Why a question has no answer when something of it was not done: it was given up, or there was no memory. */
const char *answering_refusal(const struct answering *a);

/* A message of protocol/images.py: its kind and its id, then ``fields`` times a name and a value. */
void message_begin(struct pack *out, const char *kind, uint64_t id, uint32_t fields);
void message_field(struct pack *out, const char *name, uint64_t value);

/* The same of an answer: then ``fields`` times a name and a value. */
void answering_begin(struct answering *a, const char *kind, uint32_t fields);
void answering_field(struct answering *a, const char *name);

/* A field of a message: its name, and a number or whether the answer is whole. */
void answering_field_uint(struct answering *a, const char *name, uint64_t value);
void answering_field_complete(struct answering *a, bool complete);

static inline uint64_t answering_bytes_of(const struct answering *a, uint32_t number) {
    return csr_size(&a->heap->graph.rows, number);
}

static inline unsigned answering_kind_of(const struct answering *a, uint32_t number) {
    uint8_t kind = a->heap->retain.kind[number];
    return kind < HEAP_KINDS ? kind : HEAP_NONE;
}

#endif
