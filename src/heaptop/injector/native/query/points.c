/* points: sums up the tree, and a way down it. The drawing is in the header. */
#include "query/points.h"

enum { ROOT_SHARE = 200, CHILD_SHARE = 10, LINKS_SELECTED = 3, CHAIN_LEAST = 16, FIRST_ITEMS = 1 << 8 };

struct visit {
    uint32_t number;
    uint32_t chain; /* the first link of a chain further down, if one is known; CSR_NONE */
    bool known;     /* whether there is one is known as far as each has most of the one before it */
};

struct of_type { /* of the objects of one type on a way down */
    uint32_t links, selected;
    uint32_t first, last; /* positions */
};

static bool sum_up(struct points *p) {
    const struct retain *r = p->retain;
    progress_begin(p->progress, r->reached);
    for (uint32_t i = r->reached; i-- > 0;) { /* who dominates was reached before */
        uint32_t number = r->order[i];
        if (!progress_on(p->progress))
            return false;
        if (p->wanted != NULL && !(p->wanted[number / 64] >> (number % 64) & 1))
            continue;
        uint32_t above = tree_above(r, number);
        bool selected = points_is_selected(p, number);
        p->below[above] += p->below[number] + (selected ? csr_size(r->rows, number) : 0);
        p->count[above] += p->count[number] + selected;
    }
    return true;
}

static bool is_most(const struct points *p, uint64_t bytes, uint64_t of) {
    return bytes > 0 && bytes * 100 >= of * p->selection->percent;
}

/* The one below an object that has most of what it has; CSR_NONE where there is none, or when it is stopped. */
static uint32_t heaviest(struct points *p, uint32_t number) {
    for (uint32_t c = tree_child(&p->tree, number); c != CSR_NONE && progress_on(p->progress); c = tree_sibling(&p->tree, c))
        if (is_most(p, p->below[c], p->below[number]))
            return c;
    return CSR_NONE;
}

/* -- chains --------------------------------------------------------------------------------------------------- */

static struct of_type *type_at(const struct points *p, uint32_t i) {
    uint32_t type = p->selection->type_of(p->selection->context, table_number(&p->run, i));
    return (struct of_type *)p->of_type.items + (type < p->selection->types ? type : p->selection->types);
}

/* The way from ``begin`` down along which each has most of the one before it. False when there is no memory. */
static bool find_run(struct points *p, uint32_t begin) {
    p->run.count = 0;
    for (uint32_t number = begin; number != CSR_NONE; number = heaviest(p, number))
        if (!table_add_number(&p->run, number))
            return false;
    return true;
}

static bool is_chain(const struct points *p, const struct of_type *t) {
    return (t->selected >= LINKS_SELECTED || t->links >= CHAIN_LEAST) &&
           !is_most(p, p->below[table_number(&p->run, t->last)], p->below[table_number(&p->run, t->first)]);
}

/* The position of the first link of a chain on the way found; p->run.count: there is none, or none when it was stopped. */
static uint32_t first_link(struct points *p) {
    uint32_t count = (uint32_t)p->run.count, found = count;
    for (uint32_t i = 0; i < count && progress_on(p->progress); i++) {
        struct of_type *t = type_at(p, i);
        t->first = t->links++ == 0 ? i : t->first;
        t->last = i;
        t->selected += points_is_selected(p, table_number(&p->run, i));
    }
    for (uint32_t i = 0; i < count && progress_on(p->progress); i++) {
        struct of_type *t = type_at(p, i);
        if (found == count && is_chain(p, t))
            found = t->first;
    }
    for (uint32_t i = 0; i < count; i++) /* also where it was stopped: the next way begins at zeros */
        *type_at(p, i) = (struct of_type){0};
    return found;
}

/* The object on the way from ``number`` to its child ``begin`` and on that is not gone to, because a chain begins there;
   CSR_NONE: none. False when there is no memory. */
static bool find_chain(struct points *p, uint32_t number, uint32_t begin, uint32_t *chain) {
    *chain = CSR_NONE;
    if (!find_run(p, begin))
        return false;
    uint32_t count = (uint32_t)p->run.count, first = first_link(p);
    if (first == count)
        return true;
    uint64_t all = p->below[first == 0 ? number : table_number(&p->run, first - 1)];
    while (first + 1 < count && p->below[table_number(&p->run, first)] == all)
        first++;
    *chain = table_number(&p->run, first);
    return true;
}

/* -- the way down ----------------------------------------------------------------------------------------------- */

static bool is_due(const struct points *p, uint32_t child, uint64_t all) {
    uint64_t bytes = p->below[child], whole = p->below[p->tree.rows];
    return !points_is_selected(p, child) && bytes > 0 && bytes * CHILD_SHARE >= all && bytes * ROOT_SHARE >= whole;
}

static bool put(struct points *p, struct visit visit) {
    struct visit *place = table_add(&p->todo);
    if (place != NULL)
        *place = visit;
    return place != NULL;
}

/* False when there is no memory, or when it was stopped. */
static bool go_down(struct points *p, struct visit v) {
    const struct tree *t = &p->tree;
    uint64_t all = p->below[v.number], sum = 0;
    uint32_t most = heaviest(p, v.number), child;
    if (most != CSR_NONE && !v.known && !find_chain(p, v.number, most, &v.chain))
        return false;
    if (most != CSR_NONE && most == v.chain)
        return table_add_number(&p->found, v.number);
    for (child = tree_child(t, v.number); child != CSR_NONE && progress_on(p->progress); child = tree_sibling(t, child))
        sum += child == most || is_due(p, child, all) ? p->below[child] : 0;
    if (!is_most(p, sum, all))
        return table_add_number(&p->found, v.number);
    for (child = tree_child(t, v.number); child != CSR_NONE && progress_on(p->progress); child = tree_sibling(t, child)) {
        struct visit next = {child, child == most ? v.chain : CSR_NONE, child == most};
        if ((child == most || is_due(p, child, all)) && !put(p, next))
            return false;
    }
    return true;
}

static bool begin_at_roots(struct points *p) {
    uint32_t top = p->tree.rows;
    uint64_t whole = p->below[top];
    for (uint32_t root = tree_child(&p->tree, top); root != CSR_NONE; root = tree_sibling(&p->tree, root)) {
        uint64_t bytes = p->below[root];
        bool is_large = bytes > 0 && bytes * (points_is_selected(p, root) ? CHILD_SHARE : ROOT_SHARE) >= whole;
        if (!progress_on(p->progress) || (is_large && !put(p, (struct visit){root, CSR_NONE, false})))
            return false;
    }
    return true;
}

static bool find(struct points *p) {
    progress_begin(p->progress, 0);
    if (!begin_at_roots(p))
        return false;
    while (p->todo.count > 0) {
        struct visit visit = ((struct visit *)p->todo.items)[--p->todo.count];
        if (!go_down(p, visit) || (p->progress != NULL && p->progress->stopped))
            return false;
    }
    return true;
}

static size_t wanted_bytes(const struct retain *r) { return (r->rows->count / 64 + 1ul) * sizeof(uint64_t); }
static size_t below_bytes(const struct retain *r) { return (r->rows->count + 1ul) * sizeof(uint64_t); }
static size_t count_bytes(const struct retain *r) { return (r->rows->count + 1ul) * sizeof(uint32_t); }

/* Few are found by their dominators, without the tree of all. False when there was no memory, or when it was stopped. */
static bool open_tree(struct points *p) {
    const struct points_selection *s = p->selection;
    if (s->count < s->objects / 2) {
        p->wanted = pages_map(wanted_bytes(p->retain));
        if (p->wanted == NULL || !tree_want(p->retain, s->bits, s->objects, p->wanted, p->progress))
            return false;
    }
    return tree_open(&p->tree, p->retain, p->wanted, p->progress);
}

bool points_open(struct points *p, const struct retain *r, const struct points_selection *selection,
                 struct progress *progress) {
    *p = (struct points){.retain = r, .selection = selection, .progress = progress};
    p->below = pages_map(below_bytes(r));
    p->count = pages_map(count_bytes(r));
    bool opened = table_open(&p->found, sizeof(uint32_t), FIRST_ITEMS) && table_open(&p->run, sizeof(uint32_t), FIRST_ITEMS) &&
                  table_open(&p->todo, sizeof(struct visit), FIRST_ITEMS) &&
                  table_open(&p->of_type, sizeof(struct of_type), selection->types + 1ul);
    return opened && p->below != NULL && p->count != NULL && open_tree(p) && sum_up(p) && find(p);
}

void points_close(struct points *p) {
    tree_close(&p->tree);
    pages_unmap(p->wanted, wanted_bytes(p->retain));
    pages_unmap(p->below, p->below == NULL ? 0 : below_bytes(p->retain));
    pages_unmap(p->count, p->count == NULL ? 0 : count_bytes(p->retain));
    table_close(&p->found);
    table_close(&p->run);
    table_close(&p->todo);
    table_close(&p->of_type);
}
