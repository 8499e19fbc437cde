/* reading: a heap from the pieces that were written to a file (piece.h), so that it answers as it did in the clone.

       reading_open ─► reading_add … ─► reading_finish ─► reading_heap: search, dominators; ready for answers_give
                                   └──► reading_count: types and generations alone, of what has come so far

   A file may say anything. What cannot be is refused by a sentence: numbers of objects, labels, texts and places that are not
   there, addresses out of order, rows that do not add up. Memory is counted against pages_account. */
#ifndef HEAPTOP_READING_H
#define HEAPTOP_READING_H

#include "dump/piece.h"
#include "query/answering.h"

struct reading {
    struct heap heap;
    struct stored stored;
    struct types types;
    struct table first, sizes, edges, kinds; /* uint32_t, of the rows; uint16_t by object: to be the graph's */
    struct table large, elsewhere;           /* struct csr_large: of the rows; of the graph */
    struct table text_at;                    /* uint32_t by number: where it begins */
    struct table roots;                      /* uint32_t */
    uint32_t section, next;                  /* what is expected: this section or a later one */
    uint32_t row;                            /* of the edge that is next */
    uint32_t objects, frames;
    uint32_t piece; /* the first record of the piece that is taken */
    uint64_t referred, called, last; /* references of the rows; roots of the calls; the address before */
    uint64_t touched; /* bytes of marks */
    bool finished;
};

/* Whether there was memory; reading_close is right after either. */
bool reading_open(struct reading *r);
void reading_close(struct reading *r);

/* NULL, or a sentence (static storage) why a piece cannot be taken; nothing is to be added after that. */
const char *reading_add(struct reading *r, const unsigned char *bytes, size_t size);

/* After the last piece. NULL, or a sentence. */
const char *reading_finish(struct reading *r, struct progress *progress);

struct reading_row {
    uint32_t type;
    int32_t generation;
    uint64_t count, bytes;
};

/* Objects by type and generation, of what has come so far; NULL when there is no memory, to be unmapped with pages_unmap and
   ``room`` bytes. */
struct reading_row *reading_count(const struct reading *r, uint64_t *count, size_t *room);

#endif
