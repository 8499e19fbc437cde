/* csr: who refers to whom, as compressed sparse rows of numbers. No object is examined here, and no Python is known.

       first   [count + 1]     where an object's row begins; first[count] is the number of edges
       edges   [first[count]]  │ row of 0 │ row of 1 │ … an edge is the number of the one referred to; an object that is
                               referred to twice is in the row twice
       sizes   [count]         bytes; CSR_LARGE represents one of
       large   [large_count]   { object, bytes }, by object                                                          */
#ifndef HEAPTOP_CSR_H
#define HEAPTOP_CSR_H

#include <stdint.h>

#define CSR_NONE UINT32_MAX /* no object */
#define CSR_LARGE UINT32_MAX
#define CSR_MOST (UINT32_MAX - 2) /* objects, and edges: what is above has a meaning of its own */

struct csr_large {
    uint64_t size;
    uint32_t object;
};

/* What is known of an object that is in such a list. */
static inline uint64_t csr_found(const struct csr_large *list, uint32_t count, uint32_t object) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle].object < object)
            low = middle + 1;
        else
            high = middle;
    }
    return list[low].size;
}

struct csr {
    uint32_t count;
    uint32_t *first, *edges, *sizes;
    struct csr_large *large;
    uint32_t large_count;
};

static inline uint64_t csr_size(const struct csr *c, uint32_t object) {
    return __builtin_expect(c->sizes[object] != CSR_LARGE, 1) ? c->sizes[object] : csr_found(c->large, c->large_count, object);
}

/* The rows turned round: who refers to an object is edges[first[object]] … edges[first[object + 1] - 1], ascending, as
   often as it does. */
struct csr_reverse {
    uint32_t *first, *edges;
    uint32_t count, edge_count;
};

/* 0, or -1 when there is no memory; csr_reverse_close is right after either. */
int csr_reverse_open(struct csr_reverse *r, const struct csr *c);
void csr_reverse_close(struct csr_reverse *r);

#endif
