/* heap: makes a graph with roots of the references that roots.h delivers one by one. The drawing is in the header. */
#include "graph/heap.h"

#include "heap/containers.h"
#include "heap/names.h"
#include "heap/size.h"

#include <string.h>

enum { FIRST_ITEMS = 1 << 10 };

/* A root that is to be: a number, and its item. */
struct found {
    uint32_t number, item;
};

struct maybe {
    struct heap_item item;
    struct roots_frame frame;
    uint32_t number;
};

struct gathering {
    struct heap *heap;
    struct table found[HEAP_NONE]; /* struct found, by kind */
    struct table own;              /* numbers: of what our own thread refers to */
    struct table more, fewer;      /* numbers: references that are counted and in no row, and the other way round */
    struct table maybes;           /* struct maybe */
    const void *frame;             /* the one whose pseudo-object is the last */
    bool failed;
};

static bool gathering_open(struct gathering *g, struct heap *h) {
    *g = (struct gathering){.heap = h};
    bool opened = table_open(&g->own, sizeof(uint32_t), FIRST_ITEMS) && table_open(&g->more, sizeof(uint32_t), FIRST_ITEMS) &&
                  table_open(&g->fewer, sizeof(uint32_t), FIRST_ITEMS) &&
                  table_open(&g->maybes, sizeof(struct maybe), FIRST_ITEMS);
    for (int kind = 0; kind < HEAP_NONE; kind++)
        opened = table_open(&g->found[kind], sizeof(struct found), FIRST_ITEMS) && opened;
    return opened;
}

static void gathering_close(struct gathering *g) {
    table_close(&g->own);
    table_close(&g->more);
    table_close(&g->fewer);
    table_close(&g->maybes);
    for (int kind = 0; kind < HEAP_NONE; kind++)
        table_close(&g->found[kind]);
}

/* -- roots -------------------------------------------------------------------------------------------------- */

/* The thread's position; CSR_NONE for none. Each comes with all its roots before the next. */
static uint32_t note_thread(struct gathering *g, const struct roots_thread *thread) {
    struct table *threads = &g->heap->threads;
    const struct roots_thread *noted = threads->items;
    if (thread == NULL)
        return CSR_NONE;
    if (threads->count == 0 || noted[threads->count - 1].state != thread->state) {
        struct roots_thread *place = table_add(threads);
        if (place == NULL) {
            g->failed = true;
            return CSR_NONE;
        }
        *place = *thread;
    }
    return (uint32_t)(threads->count - 1);
}

/* The position of an item; CSR_NONE when there is no memory. */
static uint32_t note_item(struct gathering *g, const struct heap_item *item) {
    struct heap_item *place = table_add(&g->heap->items);
    if (place == NULL) {
        g->failed = true;
        return CSR_NONE;
    }
    *place = *item;
    place->root.frame = NULL; /* gone after the call */
    place->root.thread = NULL;
    return (uint32_t)(g->heap->items.count - 1);
}

static void note_found(struct gathering *g, unsigned kind, uint32_t number, uint32_t item) {
    struct found *place = table_add(&g->found[kind]);
    if (place == NULL)
        g->failed = true;
    else
        *place = (struct found){number, item};
}

static void note_number(struct gathering *g, struct table *table, uint32_t number) {
    if (!table_add_number(table, number))
        g->failed = true;
}

/* A pseudo-object for a frame, and its position. */
static uint32_t note_frame(struct gathering *g, enum root_class class, const struct roots_frame *frame, uint32_t thread) {
    struct heap *h = g->heap;
    uint32_t number = graph_add(&h->graph);
    struct heap_frame *place = number == CSR_NONE ? NULL : table_add(&h->frames);
    if (place == NULL) {
        g->failed = true;
        return CSR_NONE;
    }
    *place = (struct heap_frame){*frame, class, thread, (uint32_t)h->items.count};
    note_found(g, (unsigned)class, number, CSR_NONE);
    return (uint32_t)(h->frames.count - 1);
}

/* A reference of the last pseudo-object. */
static void note_reference(struct gathering *g, const struct heap_item *item) {
    if (note_item(g, item) != CSR_NONE && !graph_add_edge(&g->heap->graph, item->root.object))
        g->failed = true;
}

static void note_maybe(struct gathering *g, const struct heap_item *item, uint32_t number) {
    struct maybe *place = table_add(&g->maybes);
    if (place == NULL) {
        g->failed = true;
        return;
    }
    *place = (struct maybe){*item, *item->root.frame, number};
    place->item.root.frame = NULL;
    place->item.root.thread = NULL;
}

/* roots_visit, once the graph has its rows. What our own thread refers to is counted, and a root where nothing else leads
   there: it is no garbage. */
static void gather(void *context, enum root_class class, const struct root *root) {
    struct gathering *g = context;
    uint32_t number = graph_number(&g->heap->graph, root->object);
    bool own = root->thread != NULL && root->thread->own;
    if (number == CSR_NONE || g->failed || (own && root->maybe))
        return;
    struct heap_item item = {class, *root, CSR_NONE, own ? CSR_NONE : note_thread(g, root->thread)};
    if (own || root->frame == NULL) {
        if (root->counted && root->part != PART_MODULE) /* those are the dict's */
            note_number(g, &g->more, number);
        if (own)
            note_number(g, &g->own, number);
        else
            note_found(g, (unsigned)class, number, note_item(g, &item));
        return;
    }
    if (root->maybe) {
        note_maybe(g, &item, number);
        return;
    }
    if (g->frame != root->frame->address) {
        g->frame = root->frame->address;
        note_frame(g, class, root->frame, item.thread);
    }
    item.frame = (uint32_t)(g->heap->frames.count - 1);
    if (!root->counted)
        note_number(g, &g->fewer, number);
    if (!g->failed)
        note_reference(g, &item);
}

/* -- what is left when all references are counted --------------------------------------------------------- */

/* The position of a number in an ascending list that may have gaps; -1 when it is not there. */
static int64_t find_number(const struct graph_held *held, const uint32_t *numbers, uint32_t number) {
    int64_t low = 0, high = (int64_t)held->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < (int64_t)held->count && numbers[low] == number ? low : -1;
}

/* Values in use by calls under way, each as what explains a reference that nothing else does; ``is_reported`` by place in
   ``held``. */
static void take_maybes(struct gathering *g, const struct graph_held *held, uint8_t *is_reported) {
    const void *last = NULL;
    uint32_t frame = CSR_NONE;
    for (uint64_t i = 0; i < g->maybes.count && !g->failed; i++) {
        struct maybe *maybe = (struct maybe *)g->maybes.items + i;
        int64_t place = find_number(held, held->numbers, maybe->number);
        if (place < 0)
            continue;
        if (last != maybe->frame.address)
            frame = note_frame(g, maybe->item.class, &maybe->frame, maybe->item.thread);
        last = maybe->frame.address;
        maybe->item.frame = frame;
        is_reported[place] = 1;
        if (!g->failed)
            note_reference(g, &maybe->item);
    }
}

/* Whether the instances of a type are types. */
static bool has_types(PyTypeObject *type) { return type_flags(type) & (unsigned long)FLAG_TYPE_SUBCLASS; }

static bool is_type(PyObject *o) { return has_types(Py_TYPE(o)); }

static bool is_static_type(PyObject *o) { return is_type(o) && !(type_flags((PyTypeObject *)o) & FLAG_HEAP_TYPE); }

/* The item of an object that the interpreter has. */
static uint32_t note_what(struct gathering *g, uint32_t number, const char *what) {
    const struct heap_item item = {
        ROOT_RUNTIME,
        {.object = graph_object(&g->heap->graph, number), .part = PART_WHAT, .what = what, .counted = true},
        CSR_NONE,
        CSR_NONE,
    };
    return note_item(g, &item);
}

static void note_runtime(struct gathering *g, uint32_t number, const char *what) {
    note_found(g, HEAP_RUNTIME, number, note_what(g, number, what));
}

/* The types that nothing ever frees, whether somebody refers to them or not. */
static void take_static_types(struct gathering *g) {
    struct graph *graph = &g->heap->graph;
    for (uint32_t number = 0; number < graph->objects && !g->failed; number++)
        if (has_types(graph_kind(graph, number)->type) && is_static_type(graph_object(graph, number)))
            note_runtime(g, number, "static type");
}

/* The interpreter may have the tables of subclasses of its own types: address -> weak reference to the type. */
static bool is_table_of_subclasses(PyObject *o) {
    if (Py_TYPE(o) != symbols.dict_type || dict_values(o) != NULL)
        return false;
    struct keys_view keys = keys_open(pointer_at(o, layout.dict_keys));
    for (int64_t i = 0; i < keys.count; i++) {
        PyObject **entry = keys_entry(&keys, i), *reference = entry[1];
        if (reference == NULL)
            continue;
        return Py_TYPE(entry[0]) == symbols.int_type && Py_TYPE(reference) == symbols.weakref_type &&
               is_type(object_at(reference, layout.weakref_referent));
    }
    return false;
}

/* Whether the interpreter made this type, of a syntax tree's or of type parameters, and keeps it. */
static bool is_type_of_interpreter(PyTypeObject *type) {
    static const char *const modules[] = {"_ast", "ast", "typing"};
    struct name_text module, qualname;
    names_read(type, &module, &qualname);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (module.size == strlen(modules[i]) && memcmp(module.bytes, modules[i], module.size) == 0)
            return true;
    return false;
}

/* What the interpreter keeps it as, or NULL. Of nodes of a syntax tree that have no fields, it keeps one of each. */
static const char *kept_by_interpreter(const struct gathering *g, uint32_t number, PyObject *o) {
    const uint32_t *first = g->heap->graph.rows.first;
    if (is_type(o))
        return is_type_of_interpreter((PyTypeObject *)o) ? "interpreter" : NULL;
    if (first[number + 1] - first[number] <= 1 && is_type_of_interpreter(Py_TYPE(o)))
        return "interpreter";
    return is_table_of_subclasses(o) ? "table of subclasses" : NULL;
}

/* The rest of what more references are counted of than there are: the interpreter's own, and else C's. */
static void take_held(struct gathering *g, const struct graph_held *held, const uint8_t *is_reported) {
    for (uint64_t i = 0; i < held->count && !g->failed; i++) {
        uint32_t number = held->numbers[i];
        PyObject *o = graph_object(&g->heap->graph, number);
        if (is_reported[i] || is_static_type(o))
            continue;
        const char *what = kept_by_interpreter(g, number, o);
        if (what != NULL)
            note_runtime(g, number, what);
        else
            note_found(g, HEAP_C, number, CSR_NONE);
    }
}

static bool find_held(struct gathering *g) {
    struct graph_held held;
    const struct graph_besides besides = {g->more.items, g->more.count, g->fewer.items, g->fewer.count};
    bool done = graph_find_held(&g->heap->graph, &besides, &held);
    uint8_t *is_reported = done ? pages_map(held.count + 1) : NULL;
    if (is_reported != NULL) {
        take_maybes(g, &held, is_reported);
        take_static_types(g);
        take_held(g, &held, is_reported);
        pages_unmap(is_reported, held.count + 1);
    }
    graph_held_close(&held);
    return is_reported != NULL && !g->failed;
}

/* -- all of it ---------------------------------------------------------------------------------------------- */

/* roots_visit, before the graph has its numbers: nothing but a frame may lead to an object. */
static void add_object(void *context, enum root_class class, const struct root *root) {
    (void)class;
    struct gathering *g = context;
    bool own = root->thread != NULL && root->thread->own;
    if (!root->maybe && !own && !g->failed && walk_add(&g->heap->graph.walk, root->object) != WALK_OK)
        g->failed = true;
}

static bool notify(const struct heap_request *request, enum heap_phase phase, const struct heap *h) {
    return request->notify == NULL || request->notify(request->context, phase, h->graph.walk.objects);
}

static int status_of_walk(int status) {
    return status == WALK_OK ? HEAP_OK : status == WALK_NO_MEMORY ? HEAP_NO_MEMORY : HEAP_BROKEN_LIST;
}

static int status_of_graph(int status) {
    return status == GRAPH_OK ? HEAP_OK : status == GRAPH_NO_MEMORY ? HEAP_NO_MEMORY : HEAP_TOO_LARGE;
}

static int build_graph(struct gathering *g, const struct heap_request *request) {
    struct graph *graph = &g->heap->graph;
    if (graph_open(graph, request->call_methods) < 0)
        return HEAP_NO_MEMORY;
    graph->walk.progress = request->progress;
    for (size_t i = 0; i < request->excluded_count; i++)
        walk_exclude(&graph->walk, (PyObject *)request->excluded[i]);
    if (!notify(request, PHASE_WALK, g->heap))
        return HEAP_STOPPED;
    int status = status_of_walk(walk_run(&graph->walk));
    if (status != HEAP_OK)
        return status;
    roots_each(request->roots, &graph->walk.marks, add_object, g);
    if (g->failed)
        return HEAP_NO_MEMORY;
    if (!notify(request, PHASE_ROWS, g->heap))
        return HEAP_STOPPED;
    return status_of_graph(graph_build(graph));
}

static void gather_greenlets(struct gathering *g, const struct roots *roots) {
    struct graph *graph = &g->heap->graph;
    struct kinds *kinds = &graph->walk.kinds;
    bool any = false;
    for (uint32_t i = 0; i < kinds->count && !any; i++)
        any = roots_is_greenlet(kinds_at(kinds, i)->type);
    for (uint32_t number = 0; any && number < graph->objects; number++)
        if (roots_is_greenlet(graph_kind(graph, number)->type))
            roots_of_greenlet(roots, &graph->walk.marks, graph_object(graph, number), gather, g);
}

static int gather_roots(struct gathering *g, const struct heap_request *request) {
    struct heap *h = g->heap;
    if (!notify(request, PHASE_ROOTS, h))
        return HEAP_STOPPED;
    h->whole = roots_each(request->roots, &h->graph.walk.marks, gather, g);
    gather_greenlets(g, request->roots);
    return !g->failed && find_held(g) ? HEAP_OK : HEAP_NO_MEMORY;
}

static bool note_call(struct heap *h, unsigned kind, uint32_t count) {
    struct heap_call *call = table_add(&h->calls);
    if (call != NULL)
        *call = (struct heap_call){kind, count};
    return call != NULL;
}

/* What the roots of one kind lead to. */
static bool reach(struct gathering *g, unsigned kind) {
    struct heap *h = g->heap;
    const struct found *found = g->found[kind].items;
    uint64_t count = g->found[kind].count;
    uint32_t *numbers = pages_map((count + 1) * sizeof *numbers);
    bool done = numbers != NULL;
    for (uint64_t i = 0; done && i < count; i++) {
        numbers[i] = found[i].number;
        done = table_add_number(&h->roots, found[i].item);
    }
    done = done && note_call(h, kind, (uint32_t)count) && retain_reach(&h->retain, kind, numbers, count) == RETAIN_OK;
    pages_unmap(numbers, (count + 1) * sizeof *numbers);
    return done;
}

/* What nothing but our own thread leads to. */
static bool reach_own(struct gathering *g) {
    struct retain *r = &g->heap->retain;
    bool done = true;
    for (uint64_t i = 0; done && i < g->own.count; i++) {
        uint32_t number = table_number(&g->own, i);
        if (r->kind[number] != RETAIN_UNREACHED)
            continue;
        done = table_add_number(&g->heap->roots, note_what(g, number, "heaptop")) && !g->failed &&
               note_call(g->heap, HEAP_RUNTIME, 1) && retain_reach(r, HEAP_RUNTIME, &number, 1) == RETAIN_OK;
    }
    return done;
}

static int search(struct gathering *g, const struct heap_request *request) {
    struct heap *h = g->heap;
    if (!notify(request, PHASE_SEARCH, h))
        return HEAP_STOPPED;
    bool done = retain_open(&h->retain, &h->graph.rows) == RETAIN_OK;
    h->retain.progress = request->progress;
    progress_begin(request->progress, h->graph.rows.count);
    for (unsigned kind = 0; done && kind < HEAP_NONE; kind++)
        done = reach(g, kind);
    done = done && reach_own(g);
    if (!done || retain_rest(&h->retain, HEAP_NONE) != RETAIN_OK)
        return HEAP_NO_MEMORY;
    if (!notify(request, PHASE_DOMINATORS, h))
        return HEAP_STOPPED;
    return retain_dominate(&h->retain) == RETAIN_OK ? HEAP_OK : HEAP_NO_MEMORY;
}

static bool open_tables(struct heap *h) {
    bool threads = table_open(&h->threads, sizeof(struct roots_thread), FIRST_ITEMS);
    bool frames = table_open(&h->frames, sizeof(struct heap_frame), FIRST_ITEMS);
    bool items = table_open(&h->items, sizeof(struct heap_item), FIRST_ITEMS);
    bool roots = table_open(&h->roots, sizeof(uint32_t), FIRST_ITEMS);
    bool calls = table_open(&h->calls, sizeof(struct heap_call), FIRST_ITEMS);
    return threads && frames && items && roots && calls;
}

int heap_open(struct heap *h, const struct heap_request *request) {
    struct gathering g;
    *h = (struct heap){.whole = true};
    labels_reset();
    bool opened = gathering_open(&g, h) & open_tables(h);
    int status = opened ? build_graph(&g, request) : HEAP_NO_MEMORY;
    if (status == HEAP_OK)
        status = gather_roots(&g, request);
    if (status == HEAP_OK)
        status = search(&g, request);
    for (uint32_t i = 0; status == HEAP_OK && i < h->graph.objects; i++)
        h->bytes += csr_size(&h->graph.rows, i);
    gathering_close(&g);
    return status;
}

void heap_close(struct heap *h) {
    retain_close(&h->retain);
    graph_close(&h->graph);
    table_close(&h->threads);
    table_close(&h->frames);
    table_close(&h->items);
    table_close(&h->roots);
    table_close(&h->calls);
    *h = (struct heap){0};
}

/* -- what is known of an object ------------------------------------------------------------------------------ */

static const struct heap_frame *frame_at(const struct heap *h, uint32_t position) {
    return (const struct heap_frame *)h->frames.items + position;
}

static struct label label_of_item(const struct heap *h, uint32_t position) {
    const struct heap_item *item = (const struct heap_item *)h->items.items + position;
    struct root root = item->root;
    if (item->frame != CSR_NONE)
        root.frame = &frame_at(h, item->frame)->frame;
    if (item->thread != CSR_NONE)
        root.thread = (const struct roots_thread *)h->threads.items + item->thread;
    return labels_root(item->class, &root);
}

static struct label text_label(const char *text) { return (struct label){.kind = LABEL_TEXT, .text = text, .index = -1}; }

struct label heap_root(struct heap *h, uint64_t place) {
    uint32_t number = h->retain.roots[place];
    if (h->stored != NULL && place < h->stored->root_labels.count)
        return labels_stored(h->stored, table_number(&h->stored->root_labels, place));
    uint32_t item = place < h->roots.count ? table_number(&h->roots, place) : CSR_NONE;
    if (h->stored == NULL && heap_is_frame(h, number))
        return labels_frame(&frame_at(h, number - h->graph.objects)->frame);
    if (item != CSR_NONE)
        return label_of_item(h, item);
    return text_label(h->retain.kind[number] == HEAP_C ? "held by C" : "held by nothing");
}

struct label heap_reference(struct heap *h, uint32_t from, uint32_t place, const struct label *before) {
    const struct csr *rows = &h->graph.rows;
    if (h->stored != NULL)
        return labels_stored(h->stored, table_number(&h->stored->edge_labels, (uint64_t)rows->first[from] + place));
    if (heap_is_frame(h, from))
        return label_of_item(h, frame_at(h, from - h->graph.objects)->first + place);
    return labels_find(before, graph_object(&h->graph, from), graph_kind(&h->graph, from), place,
                       graph_object(&h->graph, rows->edges[rows->first[from] + place]));
}

bool heap_labels_depend(struct heap *h, uint32_t from) {
    return h->stored == NULL && !heap_is_frame(h, from) && labels_depend(graph_kind(&h->graph, from));
}

struct label heap_label(struct heap *h, uint32_t number, const struct label *before) {
    const struct retain *r = &h->retain;
    if (r->parent[number] == RETAIN_ROOT)
        return heap_root(h, r->place[number]);
    return heap_reference(h, r->parent[number], r->place[number], before);
}

unsigned heap_sorts(struct heap *h, uint32_t number) {
    if (heap_is_frame(h, number))
        return 0;
    const struct kind *kind = graph_kind(&h->graph, number);
    return h->stored != NULL ? stored_kind(h->stored, kind->position)->sorts : heap_sorts_of(kind->type);
}

unsigned heap_sorts_of(PyTypeObject *type) {
    bool suspends = type == symbols.generator_type || type == symbols.coroutine_type || type == symbols.asynchronous_type;
    return (type == symbols.module_type ? SORT_MODULE : 0) | (has_types(type) ? SORT_TYPE : 0) |
           (suspends ? SORT_GENERATOR : 0) | (type == symbols.dict_type ? SORT_DICT : 0);
}

int heap_generation(struct heap *h, uint32_t number) {
    if (h->stored != NULL)
        return ((const int8_t *)h->stored->generations.items)[number];
    PyObject *o = graph_object(&h->graph, number);
    if (!kind_collects(graph_kind(&h->graph, number), o) || !is_tracked(o))
        return -1;
    return walk_generation(&h->graph.walk, o);
}
