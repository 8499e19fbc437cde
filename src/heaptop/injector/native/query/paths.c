/* paths: hashes from the roots down, and the steps of one path. The drawing is in the header. */
#include "query/paths.h"

#include "heap/writer.h"
#include "query/alike.h"
#include "query/places.h"

#include <string.h>

enum { CONTEXT = 4, RUN_BITS = 2, RUN_MASK = 3, RUN_LONG = 2 };
enum { CHAIN = 4096 /* objects of a chain that are examined: the first half and the last */ };
enum { FEW = 64 /* less than one object in so many */, EXAMPLES = 4096, AHEAD = 16 };

#define FACTOR 0x9E3779B97F4A7C15u

static uint64_t mix(uint64_t hash, uint64_t with) {
    hash = (hash ^ with) * FACTOR;
    return hash ^ hash >> 32;
}

/* -- the label of a step, for what is in no order ------------------------------------------------------------- */

/* A role is handed on over a few steps at most, so a few before are enough; and most labels depend on none. */
struct label paths_label(struct heap *h, uint32_t number) {
    uint32_t chain[CONTEXT + 1];
    int depth = 0;
    chain[depth++] = number;
    for (uint32_t from = h->retain.parent[number]; depth <= CONTEXT && heap_labels_depend(h, from);
         from = h->retain.parent[from])
        chain[depth++] = from;
    struct label label = heap_label(h, chain[--depth], NULL);
    while (depth-- > 0) {
        struct label before = label;
        label = heap_label(h, chain[depth], &before);
    }
    return label;
}

const struct label *paths_before(struct heap *h, uint32_t from, struct label *label) {
    if (!heap_labels_depend(h, from))
        return NULL;
    *label = paths_label(h, from);
    return label;
}

/* -- hashes --------------------------------------------------------------------------------------------------- */

static size_t hashes_bytes(uint32_t rows) { return (rows + 1ul) * sizeof(uint64_t); }
static size_t shown_bytes(uint32_t rows) { return (rows + 1ul) * sizeof(uint32_t); }

void paths_close(struct paths *p) {
    pages_unmap(p->hashes, hashes_bytes(p->rows));
    pages_unmap(p->shown, shown_bytes(p->rows));
    pages_unmap(p->depths, p->rows + 1ul);
    *p = (struct paths){0};
}

enum { STEP = 64 };
static const uint8_t none_made[STEP];

enum { WANTED = 1 }; /* in p->depths, of what leads to something selected, until its turn comes */

static void want(struct paths *p, struct answering *a) {
    const uint32_t *parent = a->heap->retain.parent;
    const struct selection *s = &a->selection;
    if (s->count == s->objects) {
        memset(p->depths, WANTED, p->rows);
        return;
    }
    for (uint32_t number = selection_next(s, 0); number < s->objects && progress_on(a->progress);
         number = selection_next(s, number + 1))
        for (uint32_t at = number; at < p->rows && p->depths[at] != WANTED; at = parent[at])
            p->depths[at] = WANTED;
}

/* Whether the step before leads here, and not to what is in between. */
static bool is_contents(const struct label *label) { return label->kind == LABEL_COLLAPSED && label->role == ROLE_CONTENTS; }

static uint64_t type_in(struct heap *h, uint32_t number) {
    return heap_is_frame(h, number) ? 0 : (uint64_t)graph_kind(&h->graph, number)->type;
}

/* Whether it leads to one of many that are alike: analysis/leaks/marks.py's is_item. */
static bool is_item(const struct label *label) {
    return label->kind == LABEL_ITEM || label->kind == LABEL_POSITION || label->kind == LABEL_KEY ||
           label->kind == LABEL_ELEMENT || label->kind == LABEL_THREAD_LOCAL;
}

/* The step to an object behind the end of a beginning. */
static void make_behind(struct paths *p, uint32_t number, uint32_t parent) {
    p->hashes[number] = p->hashes[parent];
    p->shown[number] = p->shown[parent];
    p->depths[number] = PATH_STEPS;
}

/* The step to an object whose parent has its hash. */
static void make(struct paths *p, struct heap *h, uint32_t number, const struct label *label) {
    uint32_t parent = h->retain.parent[number];
    bool is_root = parent >= p->rows;
    uint64_t before = is_root ? FACTOR : p->hashes[parent], type = type_in(h, number), run = 0;
    uint8_t depth = is_root ? 0 : p->depths[parent];
    p->shown[number] = is_root || is_contents(label) ? number : p->shown[parent];
    p->depths[number] = depth;
    p->hashes[number] = before;
    if (!is_root && (label->kind == LABEL_COLLAPSED || depth == PATH_STEPS))
        return;
    if (!is_root && type != 0 && type_in(h, p->shown[parent]) == type)
        run = (before & RUN_MASK) + ((before & RUN_MASK) < RUN_LONG);
    p->shown[number] = number;
    if (run == RUN_LONG && (before & RUN_MASK) == RUN_LONG)
        return;
    bool is_end = p->beginnings && !is_root && (is_item(label) || run == RUN_LONG);
    p->depths[number] = is_end ? PATH_STEPS : (uint8_t)(depth + 1);
    uint64_t hash = mix(mix(before, run == RUN_LONG ? RUN_LONG : labels_hash(label)), type);
    p->hashes[number] = (hash & ~(uint64_t)RUN_MASK) | run;
}

/* In the order in which they were reached: those of one parent share its label. */
struct making {
    struct paths *paths;
    struct heap *heap;
    uint32_t cached; /* whose label ``before`` is */
    const struct label *before;
    struct label label;
};

static void make_next(struct making *m, uint32_t number) {
    struct paths *p = m->paths;
    uint32_t parent = m->heap->retain.parent[number];
    bool is_root = parent >= p->rows;
    if (p->beginnings && !is_root && p->depths[parent] == PATH_STEPS) {
        make_behind(p, number, parent);
        return;
    }
    if (!is_root && parent != m->cached) {
        m->before = paths_before(m->heap, parent, &m->label);
        m->cached = parent;
    }
    struct label label = heap_label(m->heap, number, is_root ? NULL : m->before);
    make(p, m->heap, number, &label);
}

/* What order brings next is far away in memory. */
static void prefetch(const struct paths *p, const struct retain *r, uint32_t i) {
    uint32_t number = r->order[i + AHEAD < r->reached ? i + AHEAD : i];
    __builtin_prefetch(&r->parent[number]);
    __builtin_prefetch(&p->hashes[number], 1);
    __builtin_prefetch(&p->shown[number], 1);
    __builtin_prefetch(&p->depths[number], 1);
}

static bool make_many(struct paths *p, struct answering *a, paths_visit visit, void *context) {
    const struct retain *r = &a->heap->retain;
    struct making m = {.paths = p, .heap = a->heap, .cached = CSR_NONE};
    want(p, a);
    progress_begin(a->progress, r->reached);
    for (uint32_t i = 0; i < r->reached && progress_on(a->progress); i++) {
        prefetch(p, r, i);
        if (p->depths[r->order[i]] != WANTED)
            continue;
        make_next(&m, r->order[i]);
        if (visit != NULL && is_selected(&a->selection, r->order[i]) && !visit(context, a, p, r->order[i]))
            return false;
    }
    return true;
}

/* Those on the way to an object that are not made, and itself. ``way``: a table of numbers. Whether there was memory. */
static bool make_way(struct paths *p, struct answering *a, uint32_t number, struct table *way) {
    struct heap *h = a->heap;
    struct label label, room;
    const struct label *before = NULL;
    way->count = 0;
    for (uint32_t at = number; at < p->rows && p->depths[at] == 0 && progress_on(a->progress); at = h->retain.parent[at])
        if (!table_add_number(way, at))
            return false;
    for (uint64_t i = way->count; i-- > 0 && !a->progress->stopped; before = &room) {
        uint32_t at = table_number(way, i), parent = h->retain.parent[at];
        bool is_root = parent >= p->rows;
        if (!is_root && i + 1 == way->count)
            before = paths_before(h, parent, &room);
        label = heap_label(h, at, is_root ? NULL : before);
        make(p, h, at, &label);
        room = label;
    }
    return true;
}

static bool make_few(struct paths *p, struct answering *a) {
    const struct selection *s = &a->selection;
    struct table way;
    bool done = table_open(&way, sizeof(uint32_t), CHAIN);
    progress_begin(a->progress, s->count);
    for (uint32_t number = selection_next(s, 0); done && number < s->objects && progress_on(a->progress);
         number = selection_next(s, number + 1))
        done = make_way(p, a, number, &way);
    table_close(&way);
    return done;
}

static bool open_tables(struct paths *p, struct answering *a, bool beginnings) {
    *p = (struct paths){.rows = a->heap->graph.rows.count, .beginnings = beginnings};
    p->hashes = pages_map(hashes_bytes(p->rows));
    p->shown = pages_map(shown_bytes(p->rows));
    p->depths = pages_map(p->rows + 1ul);
    return p->hashes != NULL && p->shown != NULL && p->depths != NULL;
}

bool paths_open(struct paths *p, struct answering *a) {
    if (!open_tables(p, a, false))
        return false;
    return a->selection.count < a->selection.objects / FEW ? make_few(p, a) : make_many(p, a, NULL, NULL);
}

bool paths_open_beginnings(struct paths *p, struct answering *a, paths_visit visit, void *context) {
    return open_tables(p, a, true) && make_many(p, a, visit, context);
}

uint64_t paths_key(const struct paths *p, struct answering *a, uint32_t number) {
    uint64_t own = p->shown[number] == number ? 1 : 2; /* a dict of attributes is not the object that it is of */
    return mix(mix(p->hashes[number] >> RUN_BITS, types_of(a->types, a->heap, number)), own) >> 1; /* a signed integer's */
}

/* -- those of a path that was reported ------------------------------------------------------------------------------ */

void paths_remember(struct paths_known *known, uint64_t key, uint32_t number) {
    if (known->examples == NULL)
        known->examples = pages_map(EXAMPLES * sizeof *known->examples);
    if (known->examples != NULL)
        known->examples[known->next++ % EXAMPLES] = (struct paths_example){key, number};
}

void paths_forget(struct paths_known *known) {
    pages_unmap(known->examples, EXAMPLES * sizeof *known->examples);
    *known = (struct paths_known){.examples = NULL};
}

/* The object of an example; CSR_NONE where there is none. */
static uint32_t example_of(const struct paths_known *known, uint64_t key) {
    for (uint32_t i = 0; known->examples != NULL && i < EXAMPLES && i < known->next; i++)
        if (known->examples[i].key == key)
            return known->examples[i].number;
    return CSR_NONE;
}

/* The way down along given paths: an object is gone through where the path to it is the beginning of one of them. */
struct following {
    struct paths *paths;
    struct answering *a;
    struct alike beginnings; /* their hashes */
    struct table todo;       /* objects with a hash of these, whose references are to be followed */
};

/* Note what is on the way to an example of each path. False when there is no memory, or no example of one of them. */
static bool note_examples(struct following *f, const struct numbers *keys) {
    struct table way;
    bool done = table_open(&way, sizeof(uint32_t), CHAIN);
    for (uint32_t i = 0; done && i < keys->count; i++) {
        uint32_t example = example_of(&f->a->kept->paths, numbers_at(keys, i));
        done = example != CSR_NONE && make_way(f->paths, f->a, example, &way);
        for (uint64_t at = 0; done && at < way.count; at++)
            alike_note(&f->beginnings, table_number(&way, at));
    }
    table_close(&way);
    return done;
}

/* False when there is no memory. */
static bool go_to(struct following *f, uint32_t number, const struct label *before) {
    struct paths *p = f->paths;
    if (p->depths[number] == 0) {
        struct label label = heap_label(f->a->heap, number, before);
        make(p, f->a->heap, number, &label);
    }
    if (alike_has(&f->beginnings, number))
        return table_add_number(&f->todo, number);
    p->depths[number] = 0; /* another path */
    return true;
}

/* Of all references to an object the one that its path has. */
static bool follow_references(struct following *f, uint32_t from) {
    struct heap *h = f->a->heap;
    const struct csr *rows = &h->graph.rows;
    struct label room;
    const struct label *before = paths_before(h, from, &room);
    for (uint32_t i = rows->first[from]; i < rows->first[from + 1] && progress_on(f->a->progress); i++) {
        uint32_t number = rows->edges[i];
        if (h->retain.parent[number] == from && h->retain.place[number] == i - rows->first[from] && !go_to(f, number, before))
            return false;
    }
    return true;
}

static bool follow(struct following *f) {
    const struct retain *r = &f->a->heap->retain;
    progress_begin(f->a->progress, 0);
    for (uint64_t i = 0; i < r->root_count && progress_on(f->a->progress); i++)
        if (r->parent[r->roots[i]] == RETAIN_ROOT && r->place[r->roots[i]] == i && !go_to(f, r->roots[i], NULL))
            return false;
    while (f->todo.count > 0 && progress_on(f->a->progress))
        if (!follow_references(f, table_number(&f->todo, --f->todo.count)))
            return false;
    return true;
}

/* Make the paths of what is kept along these alone. False when there is no memory, or where they are not known. */
static bool open_along(struct paths *p, struct answering *a, const struct numbers *keys) {
    struct following f = {.paths = p, .a = a};
    bool done = open_tables(p, a, false) && table_open(&f.todo, sizeof(uint32_t), CHAIN) &&
                alike_open(&f.beginnings, p->hashes, keys->count * (PATH_STEPS + 1ull)) && note_examples(&f, keys) &&
                follow(&f);
    alike_close(&f.beginnings);
    table_close(&f.todo);
    return done;
}

bool paths_narrow(struct answering *a, const struct numbers *keys) {
    struct selection *s = &a->selection;
    struct paths p;
    bool done = open_along(&p, a, keys);
    if (!done) {
        paths_close(&p);
        done = paths_open(&p, a);
    }
    for (uint32_t number = selection_next(s, 0); done && number < s->objects && progress_on(a->progress);
         number = selection_next(s, number + 1)) {
        uint64_t key = p.depths[number] == 0 ? 0 : paths_key(&p, a, number);
        bool wanted = false;
        for (uint32_t i = 0; p.depths[number] != 0 && i < keys->count && !wanted; i++)
            wanted = numbers_at(keys, i) == key;
        if (!wanted)
            selection_drop(s, a->heap, number);
    }
    paths_close(&p);
    return done;
}

/* -- the steps of one ------------------------------------------------------------------------------------------- */

struct step {
    uint32_t number; /* that it leads to */
    struct label label;
    uint32_t from;  /* has the reference; a pseudo-object that is a root: itself */
    bool repeated;
};

/* The chain of an object, the root first. How many there are, CHAIN at most; 0 when it was stopped on the way, which may be long. */
static uint32_t find_chain(struct answering *a, uint32_t number, struct step *steps) {
    const uint32_t *parent = a->heap->retain.parent, rows = a->heap->graph.rows.count;
    uint32_t length = 0;
    for (uint32_t at = number; at < rows; at = parent[at], length++)
        if (!progress_on(a->progress))
            return 0;
    uint32_t left_out = length > CHAIN ? length - CHAIN : 0, i = length;
    for (uint32_t at = number; at < rows; at = parent[at]) {
        if (--i < CHAIN / 2 || i >= CHAIN / 2 + left_out)
            steps[i < CHAIN / 2 ? i : i - left_out].number = at;
        if (!progress_on(a->progress))
            return 0;
    }
    return length - left_out;
}

/* Keep of a chain, with labels, what is shown, and the object itself. Their number; 0 as above. */
static uint32_t find_steps(struct answering *a, uint32_t number, struct step *steps) {
    struct heap *h = a->heap;
    uint32_t kept = 0, run = 0, length = find_chain(a, number, steps);
    struct label before;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t object = steps[i].number;
        struct label label = heap_label(h, object, i == 0 ? NULL : &before);
        before = label;
        if (kept > 0 && is_contents(&label)) {
            steps[kept - 1].number = object;
            continue;
        }
        if (label.kind == LABEL_COLLAPSED && i + 1 < length)
            continue;
        bool in_row = kept > 0 && type_in(h, object) != 0 && type_in(h, steps[kept - 1].number) == type_in(h, object);
        run = in_row && label.kind != LABEL_COLLAPSED ? run + 1 : 0;
        if (run > RUN_LONG) {
            steps[kept - 1].number = object;
            continue;
        }
        steps[kept++] = (struct step){object, label, i == 0 ? object : h->retain.parent[object], run == RUN_LONG};
    }
    return kept;
}

uint32_t paths_write_label(const struct label *label, bool values, char text[LABEL_BYTES]) {
    if (label->kind != LABEL_COLLAPSED)
        return labels_write(label, values, text);
    struct writer w = {text, text + LABEL_BYTES - 1};
    writer_text(&w, label->role == ROLE_ATTRIBUTES ? ".__dict__" : "(inside)");
    return (uint32_t)(w.at - text);
}

static void pack_step(struct answering *a, const struct step *step, bool is_one) {
    char text[LABEL_BYTES];
    struct heap *h = a->heap;
    uint32_t size = paths_write_label(&step->label, a->query->values, text);
    pack_array(a->out, 5);
    pack_str(a->out, text, size);
    pack_uint(a->out, types_of(a->types, h, step->number));
    pack_uint(a->out, heap_is_frame(h, step->number) || !is_one ? 0 : (uint64_t)graph_object(&h->graph, step->number));
    pack_bool(a->out, step->repeated);
    places_pack(a, &step->label, step->from, is_one);
}

/* Whether the step after a frame's, or that of a generator which runs, names the frame itself. */
static bool is_named_by_next(const struct step *step, const struct step *next) {
    enum label_kind kind = next->label.kind;
    return labels_is_frame(&step->label) && (kind == LABEL_LOCAL || kind == LABEL_STACK || kind == LABEL_FRAME);
}

/* Those that are shown of the steps found: the middle of many is left out. */
static uint32_t cut(struct step *steps, uint32_t count) {
    uint32_t skipped = count > 1 && is_named_by_next(&steps[0], &steps[1]) ? 1 : 0, half = PATH_STEPS / 2;
    count -= skipped;
    uint32_t shown = count < PATH_STEPS ? count : PATH_STEPS;
    for (uint32_t i = 0; i < shown; i++)
        steps[i] = steps[skipped + (i < half ? i : count - shown + i)];
    return shown;
}

/* NULL when there is no memory; give_back is right after. ``count`` 0: it was stopped, for each object has a step of its own. */
static struct step *steps_to(struct answering *a, uint32_t number, uint32_t *count) {
    struct step *steps = pages_map(CHAIN * sizeof *steps);
    if (steps != NULL)
        *count = cut(steps, find_steps(a, number, steps));
    return steps;
}

static void give_back(struct step *steps) { pages_unmap(steps, CHAIN * sizeof *steps); }

bool paths_pack(struct answering *a, uint32_t number, const struct alike *alike, bool is_one) {
    uint32_t count;
    struct step *steps = steps_to(a, number, &count);
    if (steps == NULL)
        return false;
    pack_array(a->out, count);
    for (uint32_t i = 0; i < count; i++)
        pack_step(a, &steps[i], alike == NULL || (i + 1 < count ? alike_is_one(alike, steps[i].number) : is_one));
    give_back(steps);
    return count != 0;
}

bool paths_note(struct answering *a, uint32_t number, struct alike *alike) {
    uint32_t count;
    struct step *steps = steps_to(a, number, &count);
    if (steps == NULL)
        return false;
    for (uint32_t i = 0; i + 1 < count; i++)
        alike_note(alike, steps[i].number);
    give_back(steps);
    return count != 0;
}

void paths_find_alike(const struct paths *p, struct answering *a, struct alike *alike) {
    progress_begin(a->progress, p->rows / STEP);
    for (uint32_t first = 0; first < p->rows && progress_on(a->progress); first += STEP) {
        uint32_t end = p->rows - first < STEP ? p->rows : first + STEP;
        if (memcmp(p->depths + first, none_made, end - first) == 0) /* most, where few are selected */
            continue;
        for (uint32_t number = first; number < end; number++)
            if (p->depths[number] != 0 && p->shown[number] == number)
                alike_compare(alike, number, a->heap->retain.parent);
    }
}

bool paths_pack_text(struct answering *a, uint32_t number, struct label *first, uint32_t *from) {
    char text[4 * LABEL_BYTES], one[LABEL_BYTES];
    struct writer w = {text, text + sizeof text};
    uint32_t count;
    struct step *steps = steps_to(a, number, &count);
    if (steps == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            writer_text(&w, " ");
        writer_bytes(&w, one, paths_write_label(&steps[i].label, a->query->values, one));
    }
    pack_str(a->out, text, (uint32_t)(w.at - text));
    if (count != 0)
        *first = steps[0].label, *from = steps[0].from;
    give_back(steps);
    return count != 0;
}
