/* csr: turning the rows round. */
#include "graph/csr.h"

#include "pages.h"

static size_t first_bytes(const struct csr_reverse *r) { return (r->count + 2ul) * sizeof *r->first; }
static size_t edge_bytes(const struct csr_reverse *r) { return (r->edge_count + 1ul) * sizeof *r->edges; }

int csr_reverse_open(struct csr_reverse *r, const struct csr *c) {
    *r = (struct csr_reverse){.count = c->count, .edge_count = c->first[c->count]};
    r->first = pages_map(first_bytes(r));
    r->edges = pages_map(edge_bytes(r));
    if (r->first == NULL || r->edges == NULL)
        return -1;
    uint32_t *next = r->first + 1; /* first, one place on: as a cursor it moves to where first must be */
    for (uint32_t e = 0; e < r->edge_count; e++)
        next[c->edges[e] + 1]++;
    for (uint32_t o = 0; o < c->count; o++)
        next[o + 1] += next[o];
    for (uint32_t from = 0; from < c->count; from++)
        for (uint32_t e = c->first[from]; e < c->first[from + 1]; e++)
            r->edges[next[c->edges[e]]++] = from;
    return 0;
}

void csr_reverse_close(struct csr_reverse *r) {
    pages_unmap(r->first, first_bytes(r));
    pages_unmap(r->edges, edge_bytes(r));
    *r = (struct csr_reverse){0};
}
