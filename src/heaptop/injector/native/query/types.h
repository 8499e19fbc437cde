/* types: the types of an image by number, one for each name, as a census has them. Numbers are the image's own. */
#ifndef HEAPTOP_TYPES_H
#define HEAPTOP_TYPES_H

#include "graph/heap.h"
#include "heap/names.h"

struct types {
    struct names names;
    uint32_t *numbers; /* [kinds] by position of a kind */
    uint32_t *firsts;  /* [count] the position of the first kind of that name */
    uint32_t kinds, count;
};

/* Whether there was memory; types_close is right after either. */
bool types_open(struct types *t, struct heap *h);
void types_close(struct types *t);

/* Of an object; CSR_NONE for a pseudo-object. */
static inline uint32_t types_of(const struct types *t, struct heap *h, uint32_t number) {
    if (heap_is_frame(h, number))
        return CSR_NONE;
    uint32_t position = h->graph.kinds[number];
    if (position == KIND_ELSEWHERE)
        position = graph_kind(&h->graph, number)->position;
    return position < t->kinds ? t->numbers[position] : CSR_NONE;
}

#endif
