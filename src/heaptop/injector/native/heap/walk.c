/* walk: the two cursors, the sweep, and the referents. The drawing is in the header. */
#include "heap/walk.h"

#include "heap/edges.h"
#include "heap/size.h"
#include "heap/without_code/blocks.h"
#include "heap/window.h"

#include <string.h>

enum { FIRST_STACK = 1 << 13, FIRST_EXCLUDED = 1 << 9, FIRST_PARTS = 1 << 9 };

int walk_open(struct walk *w, bool call_methods) {
    *w = (struct walk){.room = FIRST_STACK, .excluded_room = FIRST_EXCLUDED};
    int marks = marks_open(&w->marks), kinds = kinds_open(&w->kinds, call_methods);
    w->stack = pages_map(FIRST_STACK * sizeof *w->stack);
    w->excluded = pages_map(FIRST_EXCLUDED * sizeof *w->excluded);
    return marks < 0 || kinds < 0 || w->stack == NULL || w->excluded == NULL ? -1 : 0;
}

void walk_close(struct walk *w) {
    marks_close(&w->marks);
    kinds_close(&w->kinds);
    owners_forget(&w->seen);
    pages_unmap(w->stack, w->room * sizeof *w->stack);
    pages_unmap(w->excluded, w->excluded_room * sizeof *w->excluded);
    pages_unmap(w->parts, w->part_room * sizeof *w->parts);
    w->stack = w->excluded = NULL;
    w->parts = NULL;
}

/* -- leaving objects out ------------------------------------------------------------------------------------ */

static void leave_out(struct walk *w, PyObject *o) {
    marks_exclude(&w->marks, o);
    if (w->excluded_count == w->excluded_room) {
        size_t room = w->excluded_room, size = room * sizeof *w->excluded;
        PyObject **larger = pages_grow(w->excluded, size, 2 * size);
        if (larger == NULL) {
            w->failed = true;
            return;
        }
        w->excluded = larger;
        w->excluded_room = 2 * room;
    }
    w->excluded[w->excluded_count++] = o;
}

static int exclude_code(PyObject *o, void *context);

static int exclude_member(PyObject *o, void *context) {
    struct walk *w = context;
    if (Py_TYPE(o) == symbols.tuple_type && size_field(o) > 0) { /* the empty one is everybody's */
        leave_out(w, o);
        span_visit(at(o, layout.tuple_items), size_field(o), exclude_code, w);
    }
    return 0;
}

/* A code object is in no list, but its tuples are until a collection has seen them. Nested as deep as functions are. */
static int exclude_code(PyObject *o, void *context) {
    if (Py_TYPE(o) == symbols.code_type) {
        leave_out(context, o);
        edges_of_code(o, exclude_member, context);
    }
    return 0;
}

void walk_exclude(struct walk *w, PyObject *o) {
    leave_out(w, o);
    if (Py_TYPE(o) == symbols.function_type)
        exclude_code(object_at(o, layout.function_code), w);
}

/* -- 1: the lists ------------------------------------------------------------------------------------------ */

/* Generation 2, where an old heap is, has the age that takes no mark. */
static inline unsigned age_of(unsigned generation) { return generation ^ 2; }

/* An interval of a list, and two cursors on their way towards each other from its ends. */
struct span {
    gc_head *low, *high;
    uint64_t steps;
    enum { APART, MET, BROKEN } state;
};

/* One step of both. A list that leads to an object twice, or to nothing, is broken. */
static inline void close_in(struct marks *marks, struct span *s, unsigned age) {
    s->steps++;
    if (!marks_track(marks, gc_object(s->low), age)) {
        s->state = BROKEN;
    } else if (s->low == s->high) {
        s->state = MET;
    } else if (!marks_track(marks, gc_object(s->high), age)) {
        s->state = BROKEN;
    } else if (gc_next(s->low) == s->high) {
        s->state = MET;
    } else {
        s->low = gc_next(s->low);
        s->high = gc_prev(s->high);
        if (s->low == NULL || s->high == NULL)
            s->state = BROKEN;
    }
}

/* Whether the walk has run into its limit. */
static inline bool timed_out(const struct walk *w) { return __builtin_expect(w->limit != NULL, 0) && w->limit->stopped; }

/* Whether the cursors of a span met. */
static bool chase_span(struct walk *w, struct span *s, unsigned age) {
    for (; s->state == APART && progress_on(w->limit); progress_on(w->progress))
        close_in(&w->marks, s, age);
    return s->state == MET;
}

static bool is_empty(gc_head *head) { return gc_next(head) == head && gc_prev(head) == head; }

/* Whether all objects of a list are marked now. ``middle``, where it is wanted, gets one from about half-way. */
static bool chase(struct walk *w, gc_head *head, unsigned age, gc_head **middle) {
    struct span whole = {gc_next(head), gc_prev(head), 0, APART};
    if (!is_empty(head) && (whole.low == head || !chase_span(w, &whole, age)))
        return false;
    if (middle != NULL)
        *middle = is_empty(head) ? NULL : whole.low;
    return true;
}

/* Whether a guess may be true: it is a link of some list, not the first, and no object of a list chased before. */
static bool is_link(const struct marks *marks, gc_head *g, gc_head *head) {
    if ((uintptr_t)g % sizeof(void *) != 0 || !raw_readable((uint64_t)g) || !raw_readable((uint64_t)g + sizeof(void *)))
        return false;
    gc_head *next = gc_next(g), *previous = gc_prev(g);
    return raw_readable((uint64_t)next + sizeof(void *)) && raw_readable((uint64_t)previous) && gc_prev(next) == g &&
           gc_next(previous) == g && previous != head && !marks_tracks(marks, gc_object(g));
}

/* As chase, from a guess of the middle, which gets a better one where the halves are not halves any more. */
static bool chase_halves(struct walk *w, gc_head *head, unsigned age, gc_head **middle) {
    struct span left = {gc_next(head), gc_prev(*middle), 0, APART}, right = {*middle, gc_prev(head), 0, APART};
    for (; left.state == APART && right.state == APART; progress_on(w->progress)) {
        close_in(&w->marks, &left, age);
        close_in(&w->marks, &right, age);
    }
    if (!chase_span(w, &left, age) || !chase_span(w, &right, age))
        return false;
    if (left.steps > 2 * right.steps)
        *middle = left.low;
    else if (right.steps > 2 * left.steps)
        *middle = right.low;
    return true;
}

/* Have the sweep pass by the objects of another interpreter, whose turn comes later. */
static void postpone(struct walk *w, gc_head *const lists[LISTS]) {
    for (unsigned list = 0; list < LISTS; list++)
        for (gc_head *g = gc_next(lists[list]); g != lists[list] && progress_on(w->limit); g = gc_next(g))
            marks_exclude(&w->marks, gc_object(g));
}

/* The lists of other interpreters, each object with the age that it has there. A walk_status. */
static int chase_others(struct walk *w) {
    for (uint32_t i = 0; i < interpreters.count; i++)
        for (unsigned list = 0; list < LISTS && interpreters.lists[i][list] != NULL; list++)
            if (!chase(w, interpreters.lists[i][list], age_of(list), NULL))
                return timed_out(w) ? WALK_TIMED_OUT : w->marks.failed ? WALK_NO_MEMORY : WALK_BROKEN_LIST;
    for (uint32_t i = 0; w->parts != NULL && i < interpreters.count; i++)
        postpone(w, interpreters.lists[i]);
    return timed_out(w) ? WALK_TIMED_OUT : WALK_OK;
}

static bool track(void *context, PyObject *o, bool frozen) {
    struct walk *w = context;
    marks_track(&w->marks, o, age_of(frozen ? PERMANENT : 2));
    return !w->marks.failed && progress_on(w->limit);
}

/* Where the collector has no lists. A walk_status. */
static int track_blocks(struct walk *w) {
    enum blocks_status status = blocks_each(interpreters.own, track, w);
    if (status == BLOCKS_WHOLE)
        return WALK_OK;
    return timed_out(w) ? WALK_TIMED_OUT : w->marks.failed ? WALK_NO_MEMORY : WALK_BROKEN_LIST;
}

static int chase_all(struct walk *w) {
    if (layout.gc_bits != 0)
        return track_blocks(w);
    static const unsigned order[LISTS] = {0, 1, PERMANENT, 2}; /* so that a guess is not of another list than the last */
    struct marks *marks = &w->marks;
    int status = chase_others(w);
    if (status != WALK_OK)
        return status;
    for (int i = 0; i < LISTS; i++) {
        gc_head *head = gc_lists[order[i]];
        unsigned age = age_of(order[i]);
        if (order[i] == 2 && w->middle != NULL && is_link(marks, w->middle, head)) {
            if (!chase_halves(w, head, age, &w->middle))
                return WALK_ASTRAY;
        } else if (!chase(w, head, age, order[i] == 2 ? &w->middle : NULL)) {
            return timed_out(w) ? WALK_TIMED_OUT : marks->failed ? WALK_NO_MEMORY : WALK_BROKEN_LIST;
        }
    }
    return WALK_OK;
}

/* -- 2: counting and expanding ----------------------------------------------------------------------------- */

static void count_owned(struct walk *w, PyObject *o, struct kind *kind, unsigned row) {
    struct owned owned = owners_measure(o, kind, &w->seen);
    kind->bytes[row] += owned.bytes;
    kind->guessed[row] += owned.unknown;
    w->owned += owned.bytes;
    w->mapped += kind->owner->maps ? owned.bytes : 0;
    w->at_least += owned.unknown;
}

static int count_item(PyObject *o, void *context) {
    (void)o;
    ++*(int64_t *)context;
    return 0;
}

/* A list is empty while it is sorted (listobject.c, list_sort_impl). A dict has its new table before that is filled
   (dictobject.c, dictresize), and so has a set (setobject.c, set_table_resize), which whoever holds the GIL never sees, but a
   copy may. */
static inline bool is_changing(PyObject *o, const struct kind *kind) {
    if (kind->size == SIZE_LIST)
        return int64_at(o, layout.list_allocated) < 0;
    if (!symbols.without_code)
        return false;
    if (kind->size == SIZE_DICT)
        return int64_at(o, layout.dict_used) > keys_open(pointer_at(o, layout.dict_keys)).count;
    int64_t items = 0;
    if (kind->size == SIZE_SET)
        set_visit(o, count_item, &items);
    return kind->size == SIZE_SET && int64_at(o, layout.set_used) > items;
}

static inline struct kind *count(struct walk *w, PyObject *o, unsigned row) {
    progress_on(w->progress);
    struct kind *kind = kinds_get(&w->kinds, Py_TYPE(o));
    kind->count[row]++;
    w->changing += is_changing(o, kind);
    kind->bytes[row] += size_of(o, kind);
    if (kind->values != VALUES_NONE)
        kind->hidden[row] += size_hidden(o, kind);
    if (__builtin_expect(kind->owner != NULL, 0))
        count_owned(w, o, kind, row);
    return kind;
}

static void push(struct walk *w, PyObject *o) {
    if (w->depth == w->room) {
        PyObject **larger = pages_grow(w->stack, w->room * sizeof *w->stack, 2 * w->room * sizeof *w->stack);
        if (larger == NULL) {
            w->failed = true;
            return;
        }
        w->stack = larger;
        w->room *= 2;
    }
    w->stack[w->depth++] = o;
}

/* numpy has some that it never has tracked, and that are whole. */
static bool is_numpy(PyTypeObject *type) {
    const char *name = pointer_at(type, layout.type_name);
    return !(type_flags(type) & FLAG_HEAP_TYPE) && name != NULL && strncmp(name, "numpy.", strlen("numpy.")) == 0;
}

/* Whether an object's tp_traverse, or that of a type it is made from, is C code of the program's. */
static bool is_foreign(PyTypeObject *type) {
    for (; type != NULL; type = type_base(type))
        if (type_flags(type) & FLAG_HAVE_GC && !is_numpy(type) && !size_is_cpython((uintptr_t)type_traverse(type)))
            return true;
    return false;
}

/* What the collector does not track may be half made, and no collection calls its tp_traverse. In a clone that may crash; in the
   process itself it must not be tried. */
static bool is_unsafe(const struct walk *w, PyObject *o, const struct kind *kind) {
    bool calls = kind->edges == EDGES_TRAVERSE || kind->edges == EDGES_DICT_LIKE || kind->edges == EDGES_ARRAY;
    return calls && !w->kinds.call_methods && !symbols.without_code && kind_collects(kind, o) && !is_tracked(o) &&
           is_foreign(kind->type);
}

static inline void settle(struct walk *w, PyObject *o) {
    const struct kind *kind = count(w, o, UNTRACKED);
    if (__builtin_expect(is_unsafe(w, o, kind), 0))
        w->unfollowed++;
    else if (kind->edges != EDGES_NONE || kind->holds_type)
        push(w, o);
}

static inline int reach(PyObject *o, void *context) {
    struct walk *w = context;
    if (__builtin_expect(w->limit != NULL, 0) && !progress_on(w->limit))
        return 1; /* a tp_traverse ends with that */
    if (!marks_reach(&w->marks, o))
        return 0;
    PREFETCH(o);
    PREFETCH((char *)o + 40);
    PyObject **place = &w->ring[w->ring_at++ % RING], *waited = *place;
    *place = o;
    if (waited != NULL)
        settle(w, waited);
    return 0;
}

static void empty_ring(struct walk *w) {
    for (int i = 0; i < RING; i++) {
        PyObject **place = &w->ring[w->ring_at++ % RING], *waited = *place;
        *place = NULL;
        if (waited != NULL)
            settle(w, waited);
    }
}

static inline void expand(struct walk *w, PyObject *o, const struct kind *kind) { edges_each(o, kind, reach, w); }

static void drain(struct walk *w) {
    while (w->depth > 0 && !timed_out(w)) {
        PyObject *o = w->stack[--w->depth];
        expand(w, o, kinds_get(&w->kinds, Py_TYPE(o)));
    }
}

static void finish(struct walk *w) {
    do {
        drain(w);
        empty_ring(w);
    } while (w->depth > 0 && !timed_out(w));
}

/* -- 2: the sweep ------------------------------------------------------------------------------------------ */

static inline void leave(struct walk *w, uintptr_t entry) {
    PyObject *o = window_object(entry);
    struct kind *kind = count(w, o, entry & WINDOW_NOTE);
    progress_on(w->limit);
    expand(w, o, kind);
    drain(w);
}

static inline void enter(struct walk *w, struct window *window, PyObject *o, unsigned row) {
    uintptr_t oldest = window_enter(window, o, row);
    if (oldest != 0)
        leave(w, oldest);
}

static void sweep_cell(struct walk *w, struct window *window, const struct cell *cell, const struct ages *ages, uint64_t base) {
    uint64_t left = cell->tracked & ~cell->reached;
    while (left != 0) {
        unsigned bit = (unsigned)__builtin_ctzll(left);
        left &= left - 1;
        unsigned age = ages->low >> bit & 1, high = ages->high >> bit & 1;
        enter(w, window, (PyObject *)(base + 16 * bit), age_of(age | high << 1));
    }
}

static void sweep_region(struct walk *w, struct window *window, const struct region *region, uint64_t base) {
    static const struct ages none = {0, 0};
    for (uint32_t page = 0; page < REGION_PAGES; page++) {
        if (!(region->used[page] & USED_TRACKED))
            continue;
        bool has_ages = region->used[page] & USED_AGES; /* else they are not even looked at, which would touch them */
        for (uint32_t i = page * PAGE_CELLS; i < (page + 1) * PAGE_CELLS && !timed_out(w); i++) {
            const struct ages *ages = has_ages ? &region->ages[i] : &none;
            sweep_cell(w, window, &region->cells[i], ages, base + ((uint64_t)i << CELL_BITS));
        }
    }
}

static void empty_window(struct walk *w, struct window *window) {
    for (int i = 0; i < WINDOW; i++) {
        uintptr_t oldest = window_leave(window);
        if (oldest != 0)
            leave(w, oldest);
    }
    finish(w);
}

static void sweep(struct walk *w) {
    struct window window = {0};
    uint32_t highest = w->marks.highest; /* a region mapped from here on has no tracked objects */
    for (int plane = 0; plane < PLANES; plane++)
        for (uint32_t i = w->marks.lowest; i <= highest; i++)
            if (w->marks.regions[plane][i] != NULL)
                sweep_region(w, &window, w->marks.regions[plane][i], ((uint64_t)i << REGION_BITS) + 8u * (unsigned)plane);
    empty_window(w, &window);
}

/* The same for objects that were postponed. */
static void sweep_lists(struct walk *w, gc_head *const lists[LISTS]) {
    struct window window = {0};
    for (unsigned list = 0; list < LISTS; list++)
        for (gc_head *g = gc_next(lists[list]); g != lists[list] && !timed_out(w); g = gc_next(g))
            enter(w, &window, gc_object(g), list);
    empty_window(w, &window);
}

static void add_up(struct walk *w) {
    for (uint32_t i = 0; i < w->kinds.count; i++) {
        const struct kind *kind = kinds_at(&w->kinds, i);
        uint64_t objects = 0, bytes = 0;
        for (int row = 0; row < ROWS; row++) {
            objects += kind->count[row];
            bytes += kind->bytes[row] + kind->hidden[row];
        }
        w->opaque += kind->opaque ? objects : 0;
        w->opaque_bytes += kind->opaque ? bytes : 0;
        w->objects += objects;
        w->guessed += kind->size == SIZE_GUESS ? objects : 0;
    }
}

/* -- 2: one interpreter after the other -------------------------------------------------------------------- */

static bool open_parts(struct walk *w) {
    bool may_be_several = interpreters.count != 0 || interpreters.left_out != 0;
    bool are_apart = interpreters.count == 0 || interpreters.lists[0][0] != NULL;
    if (!w->by_interpreter || !may_be_several || !are_apart)
        return true;
    w->part_room = FIRST_PARTS;
    w->parts = pages_map(FIRST_PARTS * sizeof *w->parts);
    return w->parts != NULL;
}

static struct walk_part *add_part(struct walk *w) {
    if (w->part_count == w->part_room) {
        size_t size = w->part_room * sizeof *w->parts;
        struct walk_part *larger = pages_grow(w->parts, size, 2 * size);
        if (larger == NULL)
            return NULL;
        w->parts = larger;
        w->part_room *= 2;
    }
    return &w->parts[w->part_count++];
}

/* Move what w->kinds have counted to parts. */
static void take_parts(struct walk *w, int64_t interpreter) {
    for (uint32_t i = 0; i < w->kinds.count; i++) {
        struct kind *kind = kinds_at(&w->kinds, i);
        uint64_t objects = 0;
        for (int row = 0; row < ROWS; row++)
            objects += kind->count[row];
        struct walk_part *part = objects == 0 ? NULL : add_part(w);
        w->failed = w->failed || (objects != 0 && part == NULL);
        if (part == NULL)
            continue;
        *part = (struct walk_part){.kind = i, .interpreter = interpreter};
        memcpy(part->count, kind->count, sizeof kind->count);
        memcpy(part->bytes, kind->bytes, sizeof kind->bytes);
        memcpy(part->hidden, kind->hidden, sizeof kind->hidden);
        memcpy(part->guessed, kind->guessed, sizeof kind->guessed);
        kind_clear(kind);
    }
}

static void count_parts(struct walk *w) {
    take_parts(w, interpreters.own_id);
    for (uint32_t i = interpreters.count; i-- > 0 && !timed_out(w);) { /* the newest is the first */
        sweep_lists(w, interpreters.lists[i]);
        add_up(w);
        take_parts(w, interpreters.ids[i]);
    }
}

int walk_run(struct walk *w) {
    if (!open_parts(w))
        return WALK_NO_MEMORY;
    int status = chase_all(w);
    if (status != WALK_OK)
        return status;
    sweep(w);
    add_up(w);
    if (w->parts != NULL)
        count_parts(w);
    if (timed_out(w))
        return WALK_TIMED_OUT;
    return w->failed || w->marks.failed || w->kinds.failed ? WALK_NO_MEMORY : WALK_OK;
}

int walk_add(struct walk *w, PyObject *o) {
    reach(o, w);
    finish(w);
    return w->failed || w->marks.failed || w->kinds.failed ? WALK_NO_MEMORY : WALK_OK;
}

/* How deep the stack ever was: what was taken from it still is there, and behind it zeros. */
static size_t deepest(const struct walk *w) {
    size_t low = 0, high = w->room;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->stack[middle] != NULL)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t walk_bytes(const struct walk *w) {
    uint64_t records = w->kinds.size * sizeof *w->kinds.slots + w->kinds.count * sizeof(struct kind);
    records += w->seen.size * sizeof *w->seen.slots + w->part_count * sizeof *w->parts;
    return marks_bytes(&w->marks) + (deepest(w) + w->excluded_count) * sizeof *w->stack + records;
}
