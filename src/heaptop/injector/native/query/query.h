/* query: a question about an image as protocol/images.py packs it, and which objects it means. */
#ifndef HEAPTOP_QUERY_H
#define HEAPTOP_QUERY_H

#include "graph/heap.h"
#include "progress.h"
#include "heap/size.h"
#include "query/types.h"

enum query_what {
    QUERY_GROUPS = 1,
    QUERY_PATHS,
    QUERY_OBJECTS,
    QUERY_OBJECT,
    QUERY_MAP,
    QUERY_LOSE,
    QUERY_RETAINERS,
    QUERY_STACKS,
    QUERY_LIVE,
    QUERY_KNOWN,
    QUERY_AGES,
    QUERY_POINTS,
    QUERY_WASTE,
    QUERY_UNREACHED,
    QUERY_DUMP,
};

struct numbers { /* of the question itself, not aligned */
    const unsigned char *at;
    uint32_t count;
};

struct query {
    uint32_t what, offset, limit, number;
    bool modules, values, buffers, beginnings, containers;
    uint64_t id, low, high; /* only objects that reach into this range, where it is one */
    struct numbers types, kinds, addresses, stacks, below, path, excluded, retainers, seen;
    const unsigned char *known; /* a piece of an answer to LIVE */
    size_t known_size;
};

static inline uint64_t numbers_at(const struct numbers *n, uint32_t i) {
    uint64_t value;
    __builtin_memcpy(&value, n->at + 8ul * i, sizeof value);
    return value;
}

/* Whether the bytes are a question. */
bool query_parse(struct query *q, const unsigned char *bytes, size_t size);

/* Where an object is; how many blocks. */
uint32_t query_blocks(struct heap *h, uint32_t number, struct size_block blocks[SIZE_BLOCKS]);

/* Which objects were there at the latest mark and at those before it, as far as its pieces have come. */
struct seen_marks {
    uint8_t *seen;  /* [objects] at how many marks, from the latest back without one left out; NULL: none was sent */
    uint32_t count; /* objects that were there at the latest */
};

static inline uint8_t marks_seen_by(const struct seen_marks *t, uint32_t number) {
    return t->seen == NULL ? 0 : t->seen[number];
}

static inline size_t query_bits_bytes(uint32_t objects) { return (objects / 64 + 1ul) * sizeof(uint64_t); }

/* Which objects a question means: a bit for each. */
struct selection {
    uint64_t *bits;
    uint32_t objects; /* of the heap */
    uint32_t count;   /* selected */
    uint64_t bytes;
};

extern const char query_no_memory[], query_cancelled[];

/* NULL, or a sentence why it cannot be told; selection_close is right after either. ``path`` and ``retainers`` are not looked
   at: paths.c and answers_retainers.c do. */
const char *selection_open(struct selection *s, struct heap *h, const struct types *types, const struct seen_marks *seen_marks,
                           const struct query *q, struct progress *progress);
void selection_close(struct selection *s);

void selection_drop(struct selection *s, const struct heap *h, uint32_t number);

struct sample_found;

/* The object that a sampled block was asked for; CSR_NONE where none begins there. */
uint32_t query_object_of_block(const struct graph *g, const struct sample_found *found);

extern const char query_not_sampled[];

static inline bool is_selected(const struct selection *s, uint32_t number) {
    return number < s->objects && s->bits[number / 64] >> (number % 64) & 1;
}

/* The first that is selected from ``number`` on; s->objects where none is. */
static inline uint32_t selection_next(const struct selection *s, uint32_t number) {
    uint64_t word = number < s->objects ? s->bits[number / 64] >> (number % 64) : 0;
    if (word != 0)
        return number + (uint32_t)__builtin_ctzll(word);
    for (uint64_t i = number / 64 + 1ull; i * 64 < s->objects; i++)
        if (s->bits[i] != 0)
            return (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(s->bits[i]);
    return s->objects;
}

#endif
