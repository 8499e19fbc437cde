/* graph: ranks, rows, and the way back from a number to its object. The drawing is in the header. */
#include "graph/graph.h"

#include "heap/edges.h"
#include "heap/size.h"
#include "heap/window.h"

enum {
    FIRST_EDGES = 1 << 16,
    FIRST_LARGE = 1 << 8,
    FIRST_UNEVEN = 1 << 9,
    ADDED = 1 << 10,
    FIRST_HELD = 1 << 10,
    WAITING = 32,
    NEAR_CELLS = 16 /* that are looked at one by one */
};

int graph_open(struct graph *g, bool call_methods) {
    *g = (struct graph){.failed = false};
    return walk_open(&g->walk, call_methods);
}

static void close_rows(struct graph *g) {
    pages_unmap(g->rows.first, g->first_room * sizeof *g->rows.first);
    pages_unmap(g->rows.sizes, g->size_room * sizeof *g->rows.sizes);
    pages_unmap(g->rows.edges, g->edge_room * sizeof *g->rows.edges);
    pages_unmap(g->rows.large, g->large_room * sizeof *g->rows.large);
    pages_unmap(g->uneven, g->uneven_room * sizeof *g->uneven);
    pages_unmap(g->kinds, (g->objects + 1ul) * sizeof *g->kinds);
    pages_unmap(g->places, (g->objects / PLACE_STEP + 1ul) * sizeof *g->places);
}

void graph_close(struct graph *g) {
    close_rows(g);
    walk_close(&g->walk);
    *g = (struct graph){.failed = false};
}

/* Twice the room for items in pages: ``array`` is where their address stands. False, and all is as it was, when there is
   no memory. */
static bool grow(void *array, uint64_t *room, size_t item) {
    void *larger = pages_grow(*(void **)array, *room * item, 2 * *room * item);
    if (larger == NULL)
        return false;
    *(void **)array = larger;
    *room *= 2;
    return true;
}

/* -- sweeping the cells ------------------------------------------------------------------------------------- */

/* A place in the sweep: cells that were touched, in address order, one plane after the other. */
struct sweep {
    const struct marks *marks;
    struct region *region; /* NULL: behind the last */
    uint64_t begins;       /* its place */
    uint32_t cell;
};

static inline bool is_used(const struct region *region, uint32_t page) {
    return region->used[page] & (USED_TRACKED | USED_REACHED);
}

static void link_pages(struct region *region) {
    uint16_t next = REGION_PAGES;
    for (uint32_t page = REGION_PAGES; page-- > 0;)
        region->next_used[page] = next = is_used(region, page) ? (uint16_t)page : next;
}

/* What a sweep goes along. */
static void link_regions(struct marks *marks) {
    uint64_t *link = &marks->first;
    for (uint64_t plane = 0; plane < PLANES; plane++)
        for (uint64_t number = marks->lowest; number < REGIONS && number <= marks->highest; number++) {
            struct region *region = marks->regions[plane][number];
            if (region == NULL)
                continue;
            link_pages(region);
            *link = plane << PLACE_PLANE | number * REGION_CELLS;
            link = &region->after;
        }
    *link = NO_PLACE;
}

/* The cell that a place (PLACE_PLANE) says, to be had by the first sweep_next. */
static struct sweep sweep_from(const struct marks *marks, uint64_t place) {
    if (place == NO_PLACE)
        return (struct sweep){marks, NULL, 0, 0};
    uint32_t cell = place & (REGION_CELLS - 1);
    uint64_t number = (place & ((1ull << PLACE_PLANE) - 1)) / REGION_CELLS;
    return (struct sweep){marks, marks->regions[place >> PLACE_PLANE][number], place - cell, cell - 1};
}

static struct sweep sweep_begin(const struct marks *marks) { return sweep_from(marks, marks->first); }

/* The next cell, in which there may be nothing; NULL behind the last. */
static inline struct cell *sweep_next(struct sweep *s) {
    while (s->region != NULL) {
        s->cell++;
        if (s->cell < REGION_CELLS && s->cell % PAGE_CELLS == 0)
            s->cell = s->region->next_used[s->cell / PAGE_CELLS] * PAGE_CELLS;
        if (s->cell < REGION_CELLS)
            return &s->region->cells[s->cell];
        *s = sweep_from(s->marks, s->region->after);
    }
    return NULL;
}

static inline uint64_t sweep_place(const struct sweep *s) { return s->begins | s->cell; }

/* -- ranks -------------------------------------------------------------------------------------------------- */

/* An excluded object has the mark of one that was reached, whether it is in a list or not. */
static void forget_excluded(struct walk *w) {
    for (size_t i = 0; i < w->excluded_count; i++) {
        struct spot spot = marks_spot(&w->marks, w->excluded[i]);
        if (spot.region == NULL)
            continue;
        spot.region->cells[spot.cell].tracked &= ~spot.bit;
        spot.region->cells[spot.cell].reached &= ~spot.bit;
    }
}

/* Number the objects. Their count. */
static uint64_t rank(struct marks *marks) {
    link_regions(marks);
    struct sweep sweep = sweep_begin(marks);
    uint64_t before = 0;
    for (struct cell *cell; (cell = sweep_next(&sweep)) != NULL;) {
        uint64_t present = cell->tracked | cell->reached;
        cell->tracked = present;
        cell->reached = before;
        before += count_bits(present);
    }
    marks->ranked = true;
    return before;
}

/* -- rows --------------------------------------------------------------------------------------------------- */

struct writing {
    struct graph *graph;
    struct {
        const struct cell *cell;
        uint64_t bit;
    } ring[WAITING];
    uint32_t at;
    uint32_t written, met; /* edges: met ones may be in the ring still */
    bool dropped; /* one of them was to an object left out: CSR_NONE is there */
};

static inline void write_edge(struct writing *w, uint32_t number) {
    struct graph *g = w->graph;
    if (__builtin_expect(w->written == g->edge_room, 0) && !grow(&g->rows.edges, &g->edge_room, sizeof(uint32_t))) {
        g->failed = true;
        w->written = 0; /* what is written from here on does not matter */
    }
    if (number == CSR_NONE)
        w->dropped = true;
    g->rows.edges[w->written++] = number;
}

static inline int meet_edge(PyObject *o, void *context) {
    struct writing *w = context;
    const struct cell *cell = graph_cell(w->graph, o);
    PREFETCH(cell);
    if (w->met++ == CSR_MOST) {
        w->graph->too_large = true;
        w->met = w->written = 0;
    }
    uint32_t place = w->at++ % WAITING;
    const struct cell *waited = w->ring[place].cell;
    uint64_t bit = w->ring[place].bit;
    w->ring[place].cell = cell;
    w->ring[place].bit = graph_bit(o);
    if (waited != NULL)
        write_edge(w, cell_number(waited, bit));
    return 0;
}

static void empty_ring(struct writing *w) {
    for (int i = 0; i < WAITING; i++) {
        uint32_t place = w->at++ % WAITING;
        if (w->ring[place].cell != NULL)
            write_edge(w, cell_number(w->ring[place].cell, w->ring[place].bit));
        w->ring[place].cell = NULL;
    }
}

static void note_large(struct graph *g, uint32_t object, uint64_t bytes) {
    if (g->rows.large_count == g->large_room && !grow(&g->rows.large, &g->large_room, sizeof(struct csr_large))) {
        g->failed = true;
        return;
    }
    g->rows.large[g->rows.large_count++] = (struct csr_large){bytes, object};
}

static void note_uneven(struct graph *g, PyObject *o) {
    if (g->uneven_count < g->uneven_room || grow(&g->uneven, &g->uneven_room, sizeof *g->uneven))
        g->uneven[g->uneven_count++] = o;
    else
        g->failed = true;
}

static inline void write_row(struct writing *w, PyObject *o, uint32_t number) {
    struct graph *g = w->graph;
    progress_on(g->walk.progress);
    struct kind *kind = kinds_get(&g->walk.kinds, Py_TYPE(o));
    uint64_t bytes = size_of(o, kind);
    if (kind->values != VALUES_NONE)
        bytes += size_hidden(o, kind);
    bytes += owners_measure(o, kind, &g->walk.seen).bytes;
    if (__builtin_expect(bytes >= CSR_LARGE, 0)) {
        note_large(g, number, bytes);
        bytes = CSR_LARGE;
    }
    g->rows.first[number] = w->met;
    g->rows.sizes[number] = (uint32_t)bytes;
    g->kinds[number] = kind->position < KIND_ELSEWHERE ? (uint16_t)kind->position : KIND_ELSEWHERE;
    edges_each(o, kind, meet_edge, w);
    if (__builtin_expect(edges_uneven(o, kind), 0))
        note_uneven(g, o);
}

static void write_rows(struct writing *w) {
    struct graph *g = w->graph;
    struct sweep sweep = sweep_begin(&g->walk.marks);
    struct window window = {0};
    uint32_t next = 0; /* the number of the next that leaves the window */
    for (const struct cell *cell; (cell = sweep_next(&sweep)) != NULL;) {
        uint64_t left = cell_present(cell), place = sweep_place(&sweep);
        char *base = graph_place_base(place);
        for (uint32_t number = cell_rank(cell); left != 0; left &= left - 1, number++) {
            if (number % PLACE_STEP == 0)
                g->places[number / PLACE_STEP] = place;
            uintptr_t oldest = window_enter(&window, (PyObject *)(base + 16 * __builtin_ctzll(left)), 0);
            if (oldest != 0)
                write_row(w, window_object(oldest), next++);
        }
    }
    for (int i = 0; i < WINDOW; i++) {
        uintptr_t oldest = window_leave(&window);
        if (oldest != 0)
            write_row(w, window_object(oldest), next++);
    }
    empty_ring(w);
    g->rows.first[next] = w->met;
}

/* Close the gaps of edges that lead to what is left out. */
static void drop_edges(struct csr *rows) {
    uint32_t kept = 0, begin = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t end = rows->first[i + 1];
        rows->first[i] = kept;
        for (uint32_t e = begin; e < end; e++)
            if (rows->edges[e] != CSR_NONE)
                rows->edges[kept++] = rows->edges[e];
        begin = end;
    }
    rows->first[rows->count] = kept;
}

static bool open_rows(struct graph *g, uint32_t objects) {
    g->objects = g->rows.count = objects;
    g->first_room = objects + 1ull + ADDED;
    g->size_room = objects + 0ull + ADDED;
    g->edge_room = FIRST_EDGES;
    g->large_room = FIRST_LARGE;
    g->uneven_room = FIRST_UNEVEN;
    g->rows.first = pages_map(g->first_room * sizeof *g->rows.first);
    g->rows.sizes = pages_map(g->size_room * sizeof *g->rows.sizes);
    g->rows.edges = pages_map(g->edge_room * sizeof *g->rows.edges);
    g->rows.large = pages_map(g->large_room * sizeof *g->rows.large);
    g->uneven = pages_map(g->uneven_room * sizeof *g->uneven);
    g->kinds = pages_map((g->objects + 1ul) * sizeof *g->kinds);
    g->places = pages_map((g->objects / PLACE_STEP + 1ul) * sizeof *g->places);
    return g->rows.first && g->rows.sizes && g->rows.edges && g->rows.large && g->uneven && g->kinds && g->places;
}

int graph_build(struct graph *g) {
    forget_excluded(&g->walk);
    owners_forget(&g->walk.seen); /* what the walk has counted is measured once more */
    uint64_t objects = rank(&g->walk.marks);
    if (objects > CSR_MOST)
        return GRAPH_TOO_LARGE;
    if (!open_rows(g, (uint32_t)objects))
        return GRAPH_NO_MEMORY;
    struct writing w = {.graph = g};
    progress_begin(g->walk.progress, objects);
    write_rows(&w);
    if (g->too_large)
        return GRAPH_TOO_LARGE;
    if (g->failed || g->walk.kinds.failed)
        return GRAPH_NO_MEMORY;
    if (w.dropped)
        drop_edges(&g->rows);
    return GRAPH_OK;
}

int graph_restore(struct graph *g, uint32_t objects) {
    g->objects = objects;
    g->places = pages_map((objects / PLACE_STEP + 1ul) * sizeof *g->places);
    if (g->places == NULL)
        return GRAPH_NO_MEMORY;
    if (rank(&g->walk.marks) != objects)
        return GRAPH_TOO_LARGE;
    struct sweep sweep = sweep_begin(&g->walk.marks);
    for (const struct cell *cell; (cell = sweep_next(&sweep)) != NULL;) {
        uint32_t first = cell_rank(cell), end = first + count_bits(cell_present(cell));
        uint32_t step = (first + PLACE_STEP - 1) / PLACE_STEP * PLACE_STEP; /* a cell has no more than that */
        if (step < end)
            g->places[step / PLACE_STEP] = sweep_place(&sweep);
    }
    return GRAPH_OK;
}

/* -- pseudo-objects ----------------------------------------------------------------------------------------- */

static bool has_row(struct graph *g) {
    struct csr *rows = &g->rows;
    return (rows->count < g->size_room || grow(&rows->sizes, &g->size_room, sizeof(uint32_t))) &&
           (rows->count + 1 < g->first_room || grow(&rows->first, &g->first_room, sizeof(uint32_t)));
}

uint32_t graph_add(struct graph *g) {
    struct csr *rows = &g->rows;
    if (rows->count == CSR_MOST || !has_row(g))
        return CSR_NONE;
    rows->sizes[rows->count] = 0;
    rows->first[rows->count + 1] = rows->first[rows->count];
    return rows->count++;
}

bool graph_add_edge(struct graph *g, PyObject *o) {
    struct csr *rows = &g->rows;
    uint32_t number = graph_number(g, o), *end = &rows->first[rows->count];
    if (number == CSR_NONE)
        return true;
    if (*end == CSR_MOST || (*end == g->edge_room && !grow(&rows->edges, &g->edge_room, sizeof(uint32_t))))
        return false;
    rows->edges[(*end)++] = number;
    return true;
}

/* -- what C holds ------------------------------------------------------------------------------------------- */

static bool is_held(PyObject *o, uint32_t references) {
    int64_t count = reference_count(o);
    return count > references && count != INT64_MAX;
}

static bool note_held(struct graph_held *held, uint32_t number) {
    if (held->count == held->room && !grow(&held->numbers, &held->room, sizeof(uint32_t)))
        return false;
    held->numbers[held->count++] = number;
    return true;
}

/* ``references``: how many the rows have, by number. */
static bool compare_counts(const struct graph *g, const uint32_t *references, struct graph_held *held) {
    struct sweep sweep = sweep_begin(&g->walk.marks);
    for (const struct cell *cell; (cell = sweep_next(&sweep)) != NULL;) {
        char *base = graph_place_base(sweep_place(&sweep));
        uint32_t number = cell_rank(cell);
        for (uint64_t left = cell_present(cell); left != 0; left &= left - 1, number++, progress_on(g->walk.progress))
            if (is_held((PyObject *)(base + 16 * __builtin_ctzll(left)), references[number]) && !note_held(held, number))
                return false;
    }
    return true;
}

struct correcting {
    const struct graph *graph;
    uint32_t *references;
};

static void correct(PyObject *o, int sign, void *context) {
    const struct correcting *c = context;
    uint32_t number = graph_number(c->graph, o);
    if (number != CSR_NONE && (sign > 0 || c->references[number] > 0))
        c->references[number] += (uint32_t)sign;
}

static void correct_all(const struct graph *g, edges_correction each, void *context) {
    struct kinds *kinds = (struct kinds *)&g->walk.kinds; /* which only finds what it has */
    for (uint64_t i = 0; i < g->uneven_count; i++)
        edges_correct(g->uneven[i], kinds_get(kinds, Py_TYPE(g->uneven[i])), each, context);
}

void graph_references_close(const struct graph *g, uint32_t *references) {
    pages_unmap(references, (g->rows.count + 1ul) * sizeof *references);
}

uint32_t *graph_references(const struct graph *g, const struct graph_besides *besides) {
    uint32_t *references = pages_map((g->rows.count + 1ul) * sizeof *references);
    if (references == NULL)
        return NULL;
    for (uint32_t e = 0; e < g->rows.first[g->rows.count]; e++, progress_on(g->walk.progress))
        references[g->rows.edges[e]]++;
    for (uint64_t i = 0; besides != NULL && i < besides->more_count; i++)
        references[besides->more[i]]++;
    for (uint64_t i = 0; besides != NULL && i < besides->fewer_count; i++)
        references[besides->fewer[i]]--;
    correct_all(g, correct, &(struct correcting){g, references});
    return references;
}

struct summing {
    const PyObject *object;
    int64_t sum;
};

static void sum(PyObject *o, int sign, void *context) {
    struct summing *summing = context;
    summing->sum += o == summing->object ? sign : 0;
}

int64_t graph_correction(const struct graph *g, uint32_t number) {
    struct summing summing = {graph_object(g, number), 0};
    correct_all(g, sum, &summing);
    return summing.sum;
}

bool graph_find_held(const struct graph *g, const struct graph_besides *besides, struct graph_held *held) {
    *held = (struct graph_held){pages_map(FIRST_HELD * sizeof(uint32_t)), 0, FIRST_HELD};
    progress_begin(g->walk.progress, g->rows.first[g->rows.count] + (uint64_t)g->objects);
    uint32_t *references = graph_references(g, besides);
    bool done = references != NULL && held->numbers != NULL && compare_counts(g, references, held);
    graph_references_close(g, references);
    return done;
}

void graph_held_close(struct graph_held *held) {
    pages_unmap(held->numbers, held->room * sizeof(uint32_t));
    *held = (struct graph_held){0};
}

/* -- back to the objects ------------------------------------------------------------------------------------ */

/* The bit of the object that has ``before`` others before it in the cell. */
static unsigned nth_bit(uint64_t present, uint32_t before) {
    while (before-- > 0)
        present &= present - 1;
    return (unsigned)__builtin_ctzll(present);
}

/* The cell of an object that is in this one or behind it. Where objects lie far apart, some 64 of them are in as many pages
   of cells: whole pages are passed over, and the page halved. */
static const struct cell *sweep_to(struct sweep *s, uint32_t number) {
    for (struct sweep next = *s;; *s = next) {
        next.cell |= PAGE_CELLS - 1;
        const struct cell *first = sweep_next(&next);
        if (first == NULL || cell_rank(first) > number)
            break;
    }
    uint32_t end = (s->cell | (PAGE_CELLS - 1)) + 1;
    while (end - s->cell > 1) {
        uint32_t middle = s->cell + (end - s->cell) / 2;
        if (cell_rank(&s->region->cells[middle]) <= number)
            s->cell = middle;
        else
            end = middle;
    }
    return &s->region->cells[s->cell];
}

PyObject *graph_object(const struct graph *g, uint32_t number) {
    struct sweep sweep = sweep_from(&g->walk.marks, g->places[number / PLACE_STEP]);
    const struct cell *cell = sweep_next(&sweep);
    for (int cells = 1; number - cell_rank(cell) >= count_bits(cell_present(cell)); cells++)
        cell = cells < NEAR_CELLS ? sweep_next(&sweep) : sweep_to(&sweep, number);
    return (PyObject *)(graph_place_base(sweep_place(&sweep)) + 16 * nth_bit(cell_present(cell), number - cell_rank(cell)));
}

void graph_cells(const struct graph *g, uint32_t from, bool (*take)(void *context, uint64_t place, const struct cell *cell),
                 void *context) {
    if (from >= g->objects)
        return;
    struct sweep sweep = sweep_from(&g->walk.marks, g->places[from / PLACE_STEP]);
    for (const struct cell *cell; (cell = sweep_next(&sweep)) != NULL;) {
        uint64_t end = cell_rank(cell) + (uint64_t)count_bits(cell_present(cell));
        if (cell_present(cell) != 0 && end > from && !take(context, sweep_place(&sweep), cell))
            return;
    }
}

const struct kind *graph_kind(struct graph *g, uint32_t number) {
    if (g->kinds[number] != KIND_ELSEWHERE)
        return kinds_at(&g->walk.kinds, g->kinds[number]);
    if (g->elsewhere != NULL)
        return kinds_at(&g->walk.kinds, (uint32_t)csr_found(g->elsewhere, g->elsewhere_count, number));
    return kinds_get(&g->walk.kinds, Py_TYPE(graph_object(g, number)));
}

uint64_t graph_bytes(const struct graph *g) {
    uint64_t a_row = sizeof *g->rows.first + sizeof *g->rows.sizes, an_object = sizeof *g->kinds;
    uint64_t edges = g->rows.first == NULL ? 0 : g->rows.first[g->rows.count];
    return walk_bytes(&g->walk) + g->rows.count * a_row + g->objects * an_object + edges * sizeof *g->rows.edges +
           g->objects / PLACE_STEP * sizeof *g->places + g->rows.large_count * sizeof *g->rows.large +
           g->uneven_count * sizeof *g->uneven;
}
