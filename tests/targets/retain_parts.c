/* The search, the dominators and the retainer sets as plain functions over arrays of the caller's. */
#include "graph/csr.h"
#include "query/points.h"
#include "graph/retain.h"
#include "graph/retainers.h"

#include <string.h>

int parts_reverse(const struct csr *rows, uint32_t *first, uint32_t *edges);
int64_t parts_retain(const struct csr *rows, unsigned kinds, const uint32_t *kind_first, const uint32_t *roots, int rest,
                     uint8_t *kind, uint32_t *parent, uint32_t *place, uint32_t *order, uint32_t *dominator,
                     uint64_t *retained);
int parts_lose(const struct csr *rows, const uint32_t *roots, uint32_t root_count, const uint32_t *objects, uint32_t count,
               uint8_t *gone, uint64_t *lost);
int64_t parts_retainers(const struct csr *rows, const uint32_t *units, const struct retainers_root *roots, uint64_t count,
                        uint32_t limit, uint32_t *set, uint32_t *members, uint64_t *totals, uint64_t room);
int64_t parts_points(const struct csr *rows, const uint32_t *roots, uint32_t root_count, const uint64_t *selected,
                     const uint32_t *types, uint32_t type_count, uint32_t percent, uint32_t *points, uint64_t *below,
                     uint32_t *counts);
void parts_watch(uint64_t most);
uint64_t parts_looks(uint64_t *worst);

int parts_reverse(const struct csr *rows, uint32_t *first, uint32_t *edges) {
    struct csr_reverse reverse;
    int status = csr_reverse_open(&reverse, rows);
    if (status == 0) {
        memcpy(first, reverse.first, (rows->count + 1) * sizeof *first);
        memcpy(edges, reverse.edges, rows->first[rows->count] * sizeof *edges);
    }
    csr_reverse_close(&reverse);
    return status;
}

/* Who looks at the long steps of what is called from now on: how often, and at which time it gives them up. */
static struct {
    struct progress progress;
    uint64_t looks, most; /* most: as many looks are fine; UINT64_MAX: all */
    uint64_t worst;       /* objects or references done more than there are */
} watch;

static bool look(struct progress *p, void *context) {
    (void)context;
    if (p->total != 0 && p->done > p->total && p->done - p->total > watch.worst)
        watch.worst = p->done - p->total;
    return ++watch.looks <= watch.most;
}

void parts_watch(uint64_t most) {
    watch.progress = (struct progress){.look = look};
    watch.looks = watch.worst = 0;
    watch.most = most;
}

uint64_t parts_looks(uint64_t *worst) {
    *worst = watch.worst;
    return watch.looks;
}

static struct progress *watching(void) { return watch.most == 0 ? NULL : &watch.progress; }

/* ``kind_first`` says where the roots of each kind begin in ``roots``; ``rest``: the kind of what is left, or -1.
   How many were reached; -1 when something failed, -2 when memory was not given back. */
int64_t parts_retain(const struct csr *rows, unsigned kinds, const uint32_t *kind_first, const uint32_t *roots, int rest,
                     uint8_t *kind, uint32_t *parent, uint32_t *place, uint32_t *order, uint32_t *dominator,
                     uint64_t *retained) {
    struct retain r;
    size_t count = rows->count;
    int status = retain_open(&r, rows);
    uint64_t opened = r.bytes;
    r.progress = watching();
    for (unsigned i = 0; status == RETAIN_OK && i < kinds; i++)
        status = retain_reach(&r, i, roots + kind_first[i], kind_first[i + 1] - kind_first[i]);
    if (status == RETAIN_OK && rest >= 0)
        status = retain_rest(&r, (unsigned)rest);
    if (status == RETAIN_OK)
        status = retain_dominate(&r);
    int64_t reached = status == RETAIN_OK ? (int64_t)r.reached : -1;
    if (status == RETAIN_OK) {
        memcpy(kind, r.kind, count);
        memcpy(parent, r.parent, count * sizeof *parent);
        memcpy(place, r.place, count * sizeof *place);
        memcpy(order, r.order, r.reached * sizeof *order);
        memcpy(dominator, r.dominator, count * sizeof *dominator);
        memcpy(retained, r.retained, count * sizeof *retained);
        if (r.bytes != opened + (count + 1) * (sizeof *dominator + sizeof *retained))
            reached = -2;
    }
    retain_close(&r);
    return reached;
}

/* ``lost`` gets objects and bytes. */
int parts_lose(const struct csr *rows, const uint32_t *roots, uint32_t root_count, const uint32_t *objects, uint32_t count,
               uint8_t *gone, uint64_t *lost) {
    struct retain r;
    struct retain_lost found = {0, 0, NULL};
    int status = retain_open(&r, rows);
    if (status == RETAIN_OK)
        status = retain_reach(&r, 0, roots, root_count);
    uint64_t before = r.bytes;
    r.progress = watching();
    if (status == RETAIN_OK)
        status = retain_lose(&r, objects, count, &found);
    if (status == RETAIN_OK) {
        memcpy(gone, found.gone, rows->count);
        lost[0] = found.objects;
        lost[1] = found.bytes;
    }
    retain_lost_close(&r, &found);
    status = r.bytes == before ? status : -1;
    retain_close(&r);
    return status;
}

/* ``members`` has room for ``room`` sets of ``limit`` units, ``totals`` for two numbers each. How many sets there are; -1
   when something failed. */
int64_t parts_retainers(const struct csr *rows, const uint32_t *units, const struct retainers_root *roots, uint64_t count,
                        uint32_t limit, uint32_t *set, uint32_t *members, uint64_t *totals, uint64_t room) {
    struct retainers s;
    int status = retainers_open(&s, rows, units, limit);
    s.progress = watching();
    if (status == RETAINERS_OK)
        status = retainers_find(&s, roots, count);
    int64_t found = status == RETAINERS_OK && s.count <= room ? (int64_t)s.count : -1;
    for (int64_t i = 0; i < found; i++) {
        const uint32_t *units_of_it;
        uint32_t size = retainers_members(&s, (uint32_t)i, &units_of_it);
        memset(members + i * limit, 0xff, limit * sizeof *members);
        memcpy(members + i * limit, units_of_it, size * sizeof *members);
        totals[2 * i] = s.totals[i].objects;
        totals[2 * i + 1] = s.totals[i].bytes;
    }
    if (found >= 0)
        memcpy(set, s.set, rows->count * sizeof *set);
    retainers_close(&s);
    return found;
}

static uint32_t type_of(void *context, uint32_t number) { return ((const uint32_t *)context)[number]; }

/* How many points there are; -1 when something failed, or was given up. */
int64_t parts_points(const struct csr *rows, const uint32_t *roots, uint32_t root_count, const uint64_t *selected,
                     const uint32_t *types, uint32_t type_count, uint32_t percent, uint32_t *points, uint64_t *below,
                     uint32_t *counts) {
    struct retain r;
    struct points p = {.below = NULL};
    struct points_selection selection = {selected, rows->count, 0, type_of, (void *)types, type_count, percent};
    for (uint32_t i = 0; i < rows->count; i++)
        selection.count += selected[i / 64] >> (i % 64) & 1;
    int64_t found = -1;
    int status = retain_open(&r, rows);
    if (status == RETAIN_OK)
        status = retain_reach(&r, 0, roots, root_count);
    if (status == RETAIN_OK)
        status = retain_dominate(&r);
    if (status == RETAIN_OK && points_open(&p, &r, &selection, watching())) {
        found = (int64_t)p.found.count;
        memcpy(points, p.found.items, p.found.count * sizeof *points);
        memcpy(below, p.below, (rows->count + 1ul) * sizeof *below);
        memcpy(counts, p.count, (rows->count + 1ul) * sizeof *counts);
    }
    points_close(&p);
    retain_close(&r);
    return found;
}
