/* answers to RETAINERS: by whom the selection is kept, of all those who may be named for it (retainers.h).

   Candidates are what a person would name, where it refers to something: what a module or a class has by name, the variables of
   closures and of frames, default arguments, caches, attributes of threads, context variables; suspended generators and
   coroutines; and roots. A module's dict goes by its module: every function refers to that of its own, and would else be a
   retainer of all that is in it. Those that read alike are one unit: a handler registered for each request is a closure of its own,
   and all of them are `module app .handlers [*] closure: record`, as all activations of a function are one to nhc. Where modules are
   the units, all that is named in one goes by it. What goes by a unit that is excluded is passed through like any other object, and a
   root that does is no retainer. */
#include "snapshot/answers.h"

#include "graph/retainers.h"
#include "query/grouping.h"
#include "query/paths.h"
#include "query/places.h"

enum { MOST_ROWS = 5000 };

static size_t several_bytes(const struct answering *a) { return a->heap->graph.rows.count / 8 + 1ul; }

static size_t units_bytes(const struct answering *a) { return (a->heap->graph.rows.count + 1ul) * sizeof(uint32_t); }

/* -- candidates ------------------------------------------------------------------------------------------------- */

/* Whether what this object has by name is known by that name to everybody. */
static bool has_names(struct heap *h, uint32_t number) { return heap_sorts(h, number) & (SORT_MODULE | SORT_TYPE); }

/* Whether it is the dict of a module that leads to it. */
static bool is_of_module(struct heap *h, uint32_t number) {
    return heap_sorts(h, h->retain.parent[number]) & SORT_MODULE && heap_sorts(h, number) & SORT_DICT;
}

static bool is_named(struct heap *h, const struct paths *p, uint32_t number, const struct label *label) {
    switch (label->kind) {
    case LABEL_CLOSURE:
    case LABEL_DEFAULT:
    case LABEL_CACHE:
    case LABEL_THREAD_LOCAL:
    case LABEL_VARIABLE:
    case LABEL_LOCAL:
        return true;
    case LABEL_ATTRIBUTE:
        return has_names(h, p->shown[h->retain.parent[number]]);
    default:
        return heap_sorts(h, number) & SORT_GENERATOR;
    }
}

/* The first of those that read alike; of what is no object, itself. CSR_NONE when there is no memory. */
static uint32_t alike(struct answering *a, const struct paths *p, struct grouping *names, uint32_t number) {
    struct group *group = heap_is_frame(a->heap, number) ? NULL : grouping_of(names, paths_key(p, a, number), number);
    if (group == NULL)
        return heap_is_frame(a->heap, number) ? number : CSR_NONE;
    if (group->count++ != 0)
        a->kept->several[group->example / 8] |= (uint8_t)(1 << group->example % 8);
    return group->example;
}

/* Also of pseudo-objects, which are roots. False when there is no memory. */
static bool find_candidates(struct answering *a, const struct paths *p, struct grouping *names, uint32_t *units) {
    struct heap *h = a->heap;
    const struct retain *r = &h->retain;
    __builtin_memset(units, 0xff, units_bytes(a)); /* CSR_NONE */
    progress_begin(a->progress, r->reached);
    for (uint32_t i = 0; i < r->reached && progress_on(a->progress); i++) {
        uint32_t number = r->order[i];
        if (r->rows->first[number] == r->rows->first[number + 1] || r->parent[number] >= r->rows->count)
            continue;
        struct label label = paths_label(h, number);
        if (label.kind == LABEL_COLLAPSED)
            units[number] = is_of_module(h, number) ? r->parent[number] : CSR_NONE;
        else if (is_named(h, p, number, &label) && (units[number] = alike(a, p, names, number)) == CSR_NONE)
            return false;
    }
    return true;
}

/* The paths of everything, whatever is selected. */
static bool open_paths(struct paths *p, struct answering *a) {
    struct answering all = *a;
    const struct query everything = {.what = QUERY_PATHS};
    bool opened = selection_open(&all.selection, a->heap, a->types, a->seen_marks, &everything, a->progress) == NULL &&
                  paths_open(p, &all);
    selection_close(&all.selection);
    return opened;
}

/* By object, its unit as a candidate, whatever is asked: found once. NULL when there is no memory, or when it was stopped. */
static const uint32_t *candidates(struct answering *a) {
    struct paths p = {.hashes = NULL};
    struct grouping names;
    uint32_t *units = a->kept->candidates;
    if (units != NULL)
        return units;
    units = pages_map(units_bytes(a));
    if (a->kept->several == NULL)
        a->kept->several = pages_map(several_bytes(a));
    bool done = grouping_begin(&names, GROUPING_BY_BYTES) && units != NULL && a->kept->several != NULL && open_paths(&p, a) &&
                find_candidates(a, &p, &names, units);
    grouping_close(&names);
    paths_close(&p);
    if (done && !a->progress->stopped)
        return a->kept->candidates = units;
    pages_unmap(units, units_bytes(a));
    return NULL;
}

/* -- units of one question -------------------------------------------------------------------------------------- */

struct naming {
    struct answering *a;
    uint32_t *units;    /* [rows] CSR_NONE: no candidate */
    uint32_t *modules;  /* [rows] where modules are the units: the one that leads to an object; CSR_NONE */
    uint8_t *excluded;  /* [rows] */
    struct table roots; /* struct retainers_root */
};

static size_t excluded_bytes(const struct answering *a) { return a->heap->graph.rows.count + 1ul; }

/* The module among the first of those that lead to each object. False when there was no memory. */
static bool find_modules(struct naming *n) {
    const struct retain *r = &n->a->heap->retain;
    n->modules = pages_map(units_bytes(n->a));
    for (uint32_t i = 0; n->modules != NULL && i < r->reached; i++) {
        uint32_t number = r->order[i], parent = r->parent[number], own = r->kind[number] == HEAP_MODULE ? number : CSR_NONE;
        n->modules[number] = parent < r->rows->count ? n->modules[parent] : own;
    }
    return n->modules != NULL;
}

static uint32_t unit_of(const struct naming *n, uint32_t number) {
    return n->modules == NULL || n->modules[number] == CSR_NONE ? number : n->modules[number];
}

/* By what an object that is asked about goes, where modules are no units. */
static uint32_t first_alike(const struct answering *a, uint32_t number) {
    return a->kept->candidates[number] == CSR_NONE ? number : a->kept->candidates[number];
}

static void drop_excluded(struct naming *n) {
    const struct query *q = n->a->query;
    for (uint32_t i = 0; i < q->excluded.count; i++) {
        uint32_t number = graph_number(&n->a->heap->graph, (void *)numbers_at(&q->excluded, i));
        if (number != CSR_NONE)
            n->excluded[first_alike(n->a, number)] = 1;
    }
    for (uint32_t number = 0; q->excluded.count != 0 && number < n->a->heap->graph.rows.count; number++)
        if (n->units[number] != CSR_NONE && n->excluded[n->units[number]])
            n->units[number] = CSR_NONE;
}

static bool find_roots(struct naming *n) {
    const struct retain *r = &n->a->heap->retain;
    for (uint64_t i = 0; i < r->root_count; i++) {
        uint32_t unit = unit_of(n, r->roots[i]);
        struct retainers_root *root = n->excluded[unit] ? NULL : table_add(&n->roots);
        if (root != NULL)
            *root = (struct retainers_root){r->roots[i], unit};
        else if (!n->excluded[unit])
            return false;
    }
    return true;
}

/* -- the answer ------------------------------------------------------------------------------------------------- */

static uint64_t by_set_and_type(void *context, struct answering *a, uint32_t number) {
    const struct retainers *s = context;
    return (uint64_t)s->set[number] << 32 | types_of(a->types, a->heap, number);
}

/* The units of the rows shown, each once: in the order of their first. Position + 1 by object, in ``places``. */
static bool note_units(const struct retainers *s, const struct grouping *g, uint32_t *places, struct table *units) {
    const uint32_t *members;
    for (uint32_t i = 0; i < g->largest.count; i++) {
        uint32_t count = retainers_members(s, (uint32_t)(grouping_at(g, i)->key >> 32), &members);
        for (uint32_t k = 0; k < count; k++) {
            if (places[members[k]] != 0)
                continue;
            if (!table_add_number(units, members[k]))
                return false;
            places[members[k]] = (uint32_t)units->count;
        }
    }
    return true;
}

static bool pack_unit(struct answering *a, uint32_t number) {
    bool is_frame = heap_is_frame(a->heap, number);
    bool several = a->kept->several[number / 8] >> (number % 8) & 1;
    struct label first = {.kind = LABEL_INSIDE};
    uint32_t from = CSR_NONE;
    pack_array(a->out, 5);
    bool done = paths_pack_text(a, number, &first, &from);
    pack_uint(a->out, answering_kind_of(a, number));
    pack_uint(a->out, is_frame ? 0 : (uint64_t)graph_object(&a->heap->graph, number));
    pack_bool(a->out, several);
    places_pack(a, &first, from, !several);
    return done;
}

static void pack_row(struct answering *a, const struct retainers *s, const struct group *group, const uint32_t *places) {
    const uint32_t *members;
    uint32_t set = (uint32_t)(group->key >> 32), count = retainers_members(s, set, &members);
    pack_array(a->out, 5);
    pack_array(a->out, count);
    for (uint32_t k = 0; k < count; k++)
        pack_uint(a->out, places[members[k]] - 1);
    pack_bool(a->out, set == RETAINERS_MANY);
    pack_uint(a->out, (uint32_t)group->key);
    pack_uint(a->out, group->count);
    pack_uint(a->out, group->bytes);
}

static bool pack_all(struct answering *a, const struct retainers *s, const struct grouping *g, const struct table *units,
                     const uint32_t *places) {
    uint64_t other_count = 0, other_bytes = 0;
    bool done = true;
    for (uint64_t i = 0; i < g->groups.count; i++) {
        const struct group *group = (const struct group *)g->groups.items + i;
        other_count += group->count;
        other_bytes += group->bytes;
    }
    answering_begin(a, "retainers", 6);
    answering_field_uint(a, "number", s->limit);
    answering_field(a, "units");
    pack_array(a->out, (uint32_t)units->count);
    for (uint64_t i = 0; i < units->count && done; i++)
        done = pack_unit(a, table_number(units, i));
    answering_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count; i++) {
        pack_row(a, s, grouping_at(g, i), places);
        other_count -= grouping_at(g, i)->count;
        other_bytes -= grouping_at(g, i)->bytes;
    }
    answering_field_uint(a, "other_count", other_count);
    answering_field_uint(a, "other_bytes", other_bytes);
    answering_field_complete(a, true);
    return done;
}

static bool answer(struct answering *a, struct retainers *s) {
    struct grouping g;
    struct table units = {.items = NULL};
    uint32_t *places = pages_map(units_bytes(a));
    uint32_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    bool done = grouping_open(&g, a, by_set_and_type, s, GROUPING_BY_BYTES, limit) &&
                table_open(&units, sizeof(uint32_t), 256) && places != NULL;
    done = done && note_units(s, &g, places, &units) && pack_all(a, s, &g, &units, places);
    pages_unmap(places, units_bytes(a));
    table_close(&units);
    grouping_close(&g);
    return done;
}

/* False when there was no memory, or when it was stopped; naming_close is right after either. */
static bool naming_open(struct naming *n, struct answering *a) {
    *n = (struct naming){.a = a, .units = pages_map(units_bytes(a)), .excluded = pages_map(excluded_bytes(a))};
    bool opened = table_open(&n->roots, sizeof(struct retainers_root), 256) && n->units != NULL && n->excluded != NULL;
    const uint32_t *found = opened ? candidates(a) : NULL;
    if (found == NULL || (a->query->modules && !find_modules(n)))
        return false;
    progress_begin(a->progress, a->heap->graph.rows.count);
    for (uint32_t number = 0; number < a->heap->graph.rows.count && progress_on(a->progress); number++)
        n->units[number] = found[number] == CSR_NONE ? CSR_NONE : unit_of(n, found[number]);
    drop_excluded(n);
    return find_roots(n) && !a->progress->stopped;
}

static void naming_close(struct naming *n) {
    table_close(&n->roots);
    pages_unmap(n->units, units_bytes(n->a));
    pages_unmap(n->modules, units_bytes(n->a));
    pages_unmap(n->excluded, excluded_bytes(n->a));
}

const char *answers_retainers(struct answering *a) {
    struct retainers s = {.rows = NULL};
    struct naming n;
    uint32_t limit = a->query->number == 0 ? 1 : a->query->number > RETAINERS_LIMIT ? RETAINERS_LIMIT : a->query->number;
    bool done = naming_open(&n, a) && retainers_open(&s, &a->heap->graph.rows, n.units, limit) == RETAINERS_OK;
    s.progress = a->progress;
    done = done && retainers_find(&s, n.roots.items, n.roots.count) == RETAINERS_OK && !a->progress->stopped && answer(a, &s);
    retainers_close(&s);
    naming_close(&n);
    return done ? NULL : answering_refusal(a);
}

/* -- what these retain, whoever else does ------------------------------------------------------------------------- */

enum { IS_WANTED = 1, IS_RETAINED = 2 }; /* a unit; an object */

struct keeping {
    struct naming naming;
    uint8_t *marks;      /* [rows] */
    struct table queue;  /* numbers of retained objects that pass it on, and of wanted candidates */
};

static bool retain_one(struct keeping *k, uint32_t number) {
    if (k->marks[number] & IS_RETAINED)
        return true;
    k->marks[number] |= IS_RETAINED;
    return k->naming.units[number] != CSR_NONE || table_add_number(&k->queue, number);
}

/* Those whose unit is wanted: candidates pass it on, roots have it themselves. */
static bool begin_keeping(struct keeping *k) {
    const struct naming *n = &k->naming;
    const struct retainers_root *roots = n->roots.items;
    const struct numbers *wanted = &n->a->query->retainers;
    uint32_t rows = n->a->heap->graph.rows.count;
    bool done = true;
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t number = graph_number(&n->a->heap->graph, (void *)numbers_at(wanted, i));
        if (number != CSR_NONE)
            k->marks[first_alike(n->a, number)] |= IS_WANTED;
    }
    for (uint32_t number = 0; number < rows && done; number++)
        if (n->units[number] != CSR_NONE && k->marks[n->units[number]] & IS_WANTED)
            done = table_add_number(&k->queue, number);
    for (uint64_t i = 0; i < n->roots.count && done; i++)
        if (k->marks[roots[i].unit] & IS_WANTED)
            done = retain_one(k, roots[i].object);
    return done;
}

static bool keep(struct keeping *k) {
    const struct csr *rows = &k->naming.a->heap->graph.rows;
    progress_begin(k->naming.a->progress, rows->first[rows->count]);
    for (uint64_t at = 0; at < k->queue.count; at++) {
        uint32_t number = table_number(&k->queue, at);
        for (uint32_t e = rows->first[number]; e < rows->first[number + 1]; e++)
            if (!retain_one(k, rows->edges[e]) || !progress_on(k->naming.a->progress))
                return false;
    }
    return true;
}

const char *answers_keep_retained(struct answering *a) {
    struct keeping k = {.marks = pages_map(a->heap->graph.rows.count + 1ul)};
    bool done = naming_open(&k.naming, a) && table_open(&k.queue, sizeof(uint32_t), 1 << 10) && k.marks != NULL &&
                begin_keeping(&k) && keep(&k);
    for (uint32_t number = 0; done && number < a->selection.objects; number++)
        if (!(k.marks[number] & IS_RETAINED))
            selection_drop(&a->selection, a->heap, number);
    pages_unmap(k.marks, a->heap->graph.rows.count + 1ul);
    table_close(&k.queue);
    naming_close(&k.naming);
    return done ? NULL : answering_refusal(a);
}
