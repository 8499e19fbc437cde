/* retain: the search, the dominators and the sums. The drawing is in the header. */
#include "graph/retain.h"

#include "pages.h"

#define PREFETCH(address) __builtin_prefetch((const void *)(address))

enum { FIRST_ROOTS = 1 << 10, AHEAD = 8 };

/* Zeros for items of a table, one more than ``count``; NULL when there is no memory. */
static void *take(struct retain *r, uint64_t count, size_t item) {
    void *table = pages_map((count + 1) * item);
    if (table == NULL)
        return NULL;
    r->bytes += (count + 1) * item;
    if (r->bytes > r->most_bytes)
        r->most_bytes = r->bytes;
    return table;
}

static void give_back(struct retain *r, void *table, uint64_t count, size_t item) {
    if (table == NULL)
        return;
    pages_unmap(table, (count + 1) * item);
    r->bytes -= (count + 1) * item;
}

int retain_open(struct retain *r, const struct csr *rows) {
    uint32_t count = rows->count;
    *r = (struct retain){.rows = rows, .root_room = FIRST_ROOTS};
    r->kind = take(r, count, sizeof *r->kind);
    r->parent = take(r, count, sizeof *r->parent);
    r->place = take(r, count, sizeof *r->place);
    r->order = take(r, count, sizeof *r->order);
    r->roots = pages_map(r->root_room * sizeof *r->roots);
    if (!r->kind || !r->parent || !r->place || !r->order || !r->roots)
        return RETAIN_NO_MEMORY;
    __builtin_memset(r->kind, RETAIN_UNREACHED, count);
    __builtin_memset(r->parent, 0xff, count * sizeof *r->parent);
    return RETAIN_OK;
}

void retain_close(struct retain *r) {
    uint32_t count = r->rows == NULL ? 0 : r->rows->count;
    give_back(r, r->kind, count, sizeof *r->kind);
    give_back(r, r->parent, count, sizeof *r->parent);
    give_back(r, r->place, count, sizeof *r->place);
    give_back(r, r->order, count, sizeof *r->order);
    give_back(r, r->dominator, count, sizeof *r->dominator);
    give_back(r, r->retained, count, sizeof *r->retained);
    pages_unmap(r->roots, r->root_room * sizeof *r->roots);
    *r = (struct retain){0};
}

/* -- 1: breadth-first --------------------------------------------------------------------------------------- */

static bool note_root(struct retain *r, uint32_t root) {
    if (r->root_count == r->root_room) {
        size_t size = r->root_room * sizeof *r->roots;
        uint32_t *larger = pages_grow(r->roots, size, 2 * size);
        if (larger == NULL)
            return false;
        r->roots = larger;
        r->root_room *= 2;
    }
    r->roots[r->root_count++] = root;
    return true;
}

static inline void reach(struct retain *r, unsigned kind, uint32_t object, uint32_t parent, uint32_t place) {
    r->kind[object] = (uint8_t)kind;
    r->parent[object] = parent;
    r->place[object] = place;
    r->order[r->reached++] = object;
}

/* Fetch what the search needs soon: where rows begin, then the rows, then the kinds of those in them. */
static inline void look_ahead(const struct retain *r, uint32_t at) {
    const struct csr *rows = r->rows;
    if (at + 3 * AHEAD >= r->reached)
        return;
    PREFETCH(&rows->first[r->order[at + 3 * AHEAD]]);
    PREFETCH(&rows->edges[rows->first[r->order[at + 2 * AHEAD]]]);
    uint32_t soon = r->order[at + AHEAD], begin = rows->first[soon], end = rows->first[soon + 1];
    for (uint32_t e = begin; e < end && e < begin + 4; e++)
        PREFETCH(&r->kind[rows->edges[e]]);
}

static void search(struct retain *r, unsigned kind, uint32_t from) {
    const struct csr *rows = r->rows;
    for (uint32_t at = from; at < r->reached; at++, progress_on(r->progress)) {
        look_ahead(r, at);
        uint32_t object = r->order[at], begin = rows->first[object], end = rows->first[object + 1];
        for (uint32_t e = begin; e < end; e++)
            if (r->kind[rows->edges[e]] == RETAIN_UNREACHED)
                reach(r, kind, rows->edges[e], object, e - begin);
    }
}

int retain_reach(struct retain *r, unsigned kind, const uint32_t *roots, uint64_t count) {
    uint32_t from = r->reached;
    for (uint64_t i = 0; i < count; i++) {
        if (!note_root(r, roots[i]))
            return RETAIN_NO_MEMORY;
        if (r->kind[roots[i]] == RETAIN_UNREACHED)
            reach(r, kind, roots[i], RETAIN_ROOT, (uint32_t)(r->root_count - 1));
    }
    search(r, kind, from);
    return RETAIN_OK;
}

/* -- 1: what nothing leads to ------------------------------------------------------------------------------- */

enum { SEEN = RETAIN_KINDS };

struct visit {
    uint32_t object, edge; /* the next of its edges to follow */
};

/* Objects that were not reached, depth-first, as they are finished; ``visits`` is a stack. Their number. */
static uint32_t finish_order(struct retain *r, struct visit *visits, uint32_t *finished) {
    const struct csr *rows = r->rows;
    uint32_t count = 0;
    for (uint32_t begin = 0; begin < rows->count; begin++) {
        if (r->kind[begin] != RETAIN_UNREACHED)
            continue;
        r->kind[begin] = SEEN;
        visits[0] = (struct visit){begin, rows->first[begin]};
        for (uint32_t depth = 1; depth > 0;) {
            struct visit *visit = &visits[depth - 1];
            if (visit->edge == rows->first[visit->object + 1]) {
                finished[count++] = visit->object;
                depth--;
                progress_on(r->progress);
                continue;
            }
            uint32_t next = rows->edges[visit->edge++];
            if (r->kind[next] == RETAIN_UNREACHED) {
                r->kind[next] = SEEN;
                visits[depth++] = (struct visit){next, rows->first[next]};
            }
        }
    }
    return count;
}

static void forget(struct retain *r, const uint32_t *objects, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        r->kind[objects[i]] = RETAIN_UNREACHED;
}

/* What is finished last can be led to by nothing but what it leads to itself. The roots are in r->order then, from
   where it ended; their number. */
static uint32_t first_of_cycles(struct retain *r, uint32_t *finished, uint32_t count) {
    uint32_t from = r->reached, roots = 0;
    for (uint32_t i = count; i-- > 0;) {
        if (r->kind[finished[i]] != RETAIN_UNREACHED)
            continue;
        uint32_t at = r->reached;
        reach(r, SEEN, finished[i], RETAIN_ROOT, 0);
        search(r, SEEN, at);
        r->order[from + roots++] = finished[i]; /* those of the order that were searched from are not needed again */
    }
    return roots;
}

int retain_rest(struct retain *r, unsigned kind) {
    uint32_t left = r->rows->count - r->reached;
    struct visit *visits = take(r, left, sizeof *visits);
    uint32_t *finished = take(r, left, sizeof *finished);
    int status = RETAIN_NO_MEMORY;
    if (visits != NULL && finished != NULL) {
        uint32_t count = finish_order(r, visits, finished), reached = r->reached;
        forget(r, finished, count);
        uint32_t roots = first_of_cycles(r, finished, count);
        __builtin_memcpy(visits, r->order + reached, roots * sizeof *r->order);
        forget(r, finished, count);
        r->reached = reached;
        status = retain_reach(r, kind, (uint32_t *)visits, roots);
    }
    give_back(r, visits, left, sizeof *visits);
    give_back(r, finished, left, sizeof *finished);
    return status;
}

/* -- 2: dominators ------------------------------------------------------------------------------------------ */

/* Everything here but ``number`` is by number: 0 is the virtual root, the others in the order of a depth-first search. */
struct dominating {
    struct retain *retain;
    uint32_t count;   /* numbers, the virtual root's among them */
    uint32_t *number; /* by object; 0: not numbered yet, UNNUMBERED_ROOT likewise */
    uint32_t *object;
    uint32_t *above; /* the parent in the search; at last the dominator */
    uint32_t *semi;
    union {
        struct {
            uint32_t edge; /* 1: the next to follow */
        } search;
        struct {
            uint32_t ancestor, lowest; /* 2: the least semidominator from here up to below the ancestor */
        } path;
        struct {
            uint32_t skip, depth; /* 3: a dominator further above, and how many there are */
        } tree;
    } *at;
    uint32_t *crossing; /* the first edge that leads here from a larger number, in ``edges``; 0: none */
    struct crossing {
        uint32_t from, next;
    } *edges;
    uint64_t edge_count, edge_room;
};

enum { FIRST_CROSSING = 1 << 12 };
#define UNNUMBERED_ROOT UINT32_MAX

static bool dominating_open(struct dominating *d, struct retain *r) {
    *d = (struct dominating){.retain = r, .count = r->reached + 1, .edge_count = 1, .edge_room = FIRST_CROSSING};
    d->number = take(r, r->rows->count, sizeof *d->number);
    d->object = take(r, d->count, sizeof *d->object);
    d->above = take(r, d->count, sizeof *d->above);
    d->semi = take(r, d->count, sizeof *d->semi);
    d->at = take(r, d->count, sizeof *d->at);
    d->crossing = take(r, d->count, sizeof *d->crossing);
    d->edges = take(r, d->edge_room, sizeof *d->edges);
    return d->number && d->object && d->above && d->semi && d->at && d->crossing && d->edges;
}

/* What the sums do not need. */
static void dominating_shrink(struct dominating *d) {
    struct retain *r = d->retain;
    give_back(r, d->semi, d->count, sizeof *d->semi);
    give_back(r, d->at, d->count, sizeof *d->at);
    give_back(r, d->crossing, d->count, sizeof *d->crossing);
    give_back(r, d->edges, d->edge_room, sizeof *d->edges);
    d->semi = d->crossing = NULL;
    d->at = NULL;
    d->edges = NULL;
}

static void dominating_close(struct dominating *d) {
    struct retain *r = d->retain;
    dominating_shrink(d);
    give_back(r, d->number, r->rows->count, sizeof *d->number);
    give_back(r, d->object, d->count, sizeof *d->object);
    give_back(r, d->above, d->count, sizeof *d->above);
}

static bool grow_crossing(struct dominating *d) {
    size_t size = (d->edge_room + 1) * sizeof *d->edges, more = d->edge_room * sizeof *d->edges;
    struct crossing *larger = d->edge_room >= UINT32_MAX / 2 ? NULL : pages_grow(d->edges, size, size + more);
    if (larger == NULL)
        return false;
    d->edges = larger;
    d->edge_room *= 2;
    d->retain->bytes += more; /* though what is not written yet takes none */
    return true;
}

/* An edge to a smaller number. What the virtual root leads to has nothing to learn from it; and of several from one
   object to another, one says all. */
static inline bool note_crossing(struct dominating *d, uint32_t from, uint32_t to) {
    uint32_t last = d->crossing[to];
    if (d->semi[to] == 0 || (last != 0 && d->edges[last].from == from))
        return true;
    if (__builtin_expect(d->edge_count > d->edge_room, 0) && !grow_crossing(d))
        return false;
    d->edges[d->edge_count] = (struct crossing){from, last};
    d->crossing[to] = (uint32_t)d->edge_count++;
    return true;
}

static inline void number_object(struct dominating *d, uint32_t number, uint32_t object, uint32_t above) {
    d->semi[number] = d->number[object] == UNNUMBERED_ROOT ? 0 : above;
    d->number[object] = number;
    d->object[number] = object;
    d->above[number] = above;
    d->at[number].search.edge = d->retain->rows->first[object];
}

/* Number what a root leads to, from ``number`` on. The next number, or 0 when there is no memory. */
static uint32_t number_from(struct dominating *d, uint32_t number, uint32_t root) {
    const struct csr *rows = d->retain->rows;
    number_object(d, number, root, 0);
    for (uint32_t here = number++; here != 0; progress_on(d->retain->progress)) {
        uint32_t e = d->at[here].search.edge, end = rows->first[d->object[here] + 1], found = 0;
        while (e < end && found == 0) {
            if (e + AHEAD < end)
                PREFETCH(&d->number[rows->edges[e + AHEAD]]);
            uint32_t object = rows->edges[e++], to = d->number[object];
            if (to == 0 || to == UNNUMBERED_ROOT) {
                number_object(d, number, object, here);
                PREFETCH(&rows->edges[rows->first[object]]);
                if (rows->first[object] != rows->first[object + 1])
                    found = number;
                number++;
            } else if (to > here) {
                d->semi[to] = d->semi[to] < here ? d->semi[to] : here;
            } else if (to < here && !note_crossing(d, here, to)) {
                return 0;
            }
        }
        d->at[here].search.edge = e;
        here = found != 0 ? found : d->above[here];
    }
    return number;
}

static bool number_all(struct dominating *d) {
    const struct retain *r = d->retain;
    for (uint64_t i = 0; i < r->root_count; i++)
        d->number[r->roots[i]] = UNNUMBERED_ROOT;
    uint32_t number = 1;
    for (uint64_t i = 0; i < r->root_count && number != 0; i++)
        if (d->number[r->roots[i]] == UNNUMBERED_ROOT)
            number = number_from(d, number, r->roots[i]);
    return number != 0;
}

/* The least semidominator on the way from ``from`` up to what is not above ``limit``; the way gets shorter by it. */
static inline uint32_t lowest_above(struct dominating *d, uint32_t from, uint32_t limit) {
    uint32_t lowest = UINT32_MAX;
    for (;;) {
        uint32_t ancestor = d->at[from].path.ancestor, here = d->at[from].path.lowest;
        if (ancestor > limit) {
            uint32_t there = d->at[ancestor].path.lowest;
            here = there < here ? there : here;
            ancestor = d->at[ancestor].path.ancestor;
            d->at[from].path.ancestor = ancestor;
            d->at[from].path.lowest = here;
        }
        lowest = here < lowest ? here : lowest;
        if (ancestor <= limit)
            return lowest;
        from = ancestor;
    }
}

static void find_semidominators(struct dominating *d) {
    for (uint32_t number = d->count - 1; number > 0; number--, progress_on(d->retain->progress)) {
        uint32_t semi = d->semi[number];
        if (number > AHEAD)
            PREFETCH(&d->edges[d->crossing[number - AHEAD]]);
        for (uint32_t e = d->crossing[number]; e != 0 && semi != 0; e = d->edges[e].next) {
            uint32_t lowest = lowest_above(d, d->edges[e].from, number);
            semi = lowest < semi ? lowest : semi;
        }
        d->semi[number] = semi;
        d->at[number].path.ancestor = d->above[number];
        d->at[number].path.lowest = semi;
    }
}

static void find_dominators(struct dominating *d) {
    d->at[0].tree.skip = d->at[0].tree.depth = 0;
    for (uint32_t number = 1; number < d->count; number++, progress_on(d->retain->progress)) {
        uint32_t above = d->above[number], semi = d->semi[number];
        while (above > semi)
            above = d->at[above].tree.skip > semi ? d->at[above].tree.skip : d->above[above];
        uint32_t skip = d->at[above].tree.skip, depth = d->at[above].tree.depth, middle = d->at[skip].tree.depth;
        bool even = depth - middle == middle - d->at[d->at[skip].tree.skip].tree.depth;
        d->above[number] = above;
        d->at[number].tree.skip = even ? d->at[skip].tree.skip : above;
        d->at[number].tree.depth = depth + 1;
    }
}

/* Sums, and both by object. ``number`` becomes r->dominator. */
static int sum_up(struct dominating *d) {
    struct retain *r = d->retain;
    uint64_t *sums = take(r, d->count, sizeof *sums);
    r->retained = take(r, r->rows->count, sizeof *r->retained);
    if (sums != NULL && r->retained != NULL) {
        for (uint32_t number = d->count - 1; number > 0; number--, progress_on(r->progress)) {
            sums[number] += csr_size(r->rows, d->object[number]);
            sums[d->above[number]] += sums[number];
        }
        __builtin_memset(d->number, 0xff, r->rows->count * sizeof *d->number); /* CSR_NONE */
        for (uint32_t number = 1; number < d->count; number++, progress_on(r->progress)) {
            uint32_t object = d->object[number], above = d->above[number];
            r->retained[object] = sums[number];
            d->number[object] = above == 0 ? RETAIN_ROOT : d->object[above];
        }
        r->dominator = d->number;
        d->number = NULL;
    }
    give_back(r, sums, d->count, sizeof *sums);
    return r->dominator == NULL ? RETAIN_NO_MEMORY : RETAIN_OK;
}

int retain_dominate(struct retain *r) {
    struct dominating d;
    int status = RETAIN_NO_MEMORY;
    progress_begin(r->progress, 6ull * r->reached); /* each is met twice in the search */
    if (dominating_open(&d, r) && number_all(&d)) {
        find_semidominators(&d);
        find_dominators(&d);
        dominating_shrink(&d);
        status = sum_up(&d);
    }
    dominating_close(&d);
    return status;
}

/* -- without some of them ----------------------------------------------------------------------------------- */

enum { LEFT, GONE, TAKEN };

static inline void leave(uint8_t *gone, uint32_t object, uint32_t *left, uint32_t *count) {
    if (gone[object] == GONE) {
        gone[object] = LEFT;
        left[(*count)++] = object;
    }
}

/* Objects are GONE until something is found that leads to them still and is not TAKEN. */
static void find_left(const struct retain *r, uint8_t *gone, uint32_t *left) {
    const struct csr *rows = r->rows;
    uint32_t count = 0;
    for (uint64_t i = 0; i < r->root_count; i++)
        leave(gone, r->roots[i], left, &count);
    for (uint32_t at = 0; at < count; at++)
        for (uint32_t e = rows->first[left[at]]; e < rows->first[left[at] + 1] && progress_on(r->progress); e++)
            leave(gone, rows->edges[e], left, &count);
}

int retain_lose(struct retain *r, const uint32_t *objects, uint64_t count, struct retain_lost *lost) {
    uint32_t all = r->rows->count, *left = take(r, all, sizeof *left);
    *lost = (struct retain_lost){.gone = take(r, all, sizeof *lost->gone)};
    if (lost->gone == NULL || left == NULL) {
        give_back(r, left, all, sizeof *left);
        return RETAIN_NO_MEMORY;
    }
    progress_begin(r->progress, 2ull * all + r->rows->first[all]);
    for (uint32_t i = 0; i < r->reached && progress_on(r->progress); i++)
        lost->gone[r->order[i]] = GONE;
    for (uint64_t i = 0; i < count; i++)
        lost->gone[objects[i]] = lost->gone[objects[i]] == LEFT ? LEFT : TAKEN;
    find_left(r, lost->gone, left);
    give_back(r, left, all, sizeof *left);
    for (uint32_t i = 0; i < all && progress_on(r->progress); i++) {
        lost->objects += lost->gone[i] != LEFT;
        lost->bytes += lost->gone[i] != LEFT ? csr_size(r->rows, i) : 0;
    }
    return RETAIN_OK;
}

void retain_lost_close(struct retain *r, struct retain_lost *lost) {
    give_back(r, lost->gone, r->rows->count, sizeof *lost->gone);
    lost->gone = NULL;
}
