/* answers to STACKS: the sampled blocks of the selection, by the stack that asked for them; and to UNREACHED: those that no
   object has. */
#include "snapshot/answers.h"

#include "heap/edges.h"
#include "query/grouping.h"
#include "sampler/sample.h"
#include "snapshot/fill.h"

enum { MOST_ROWS = 10000 };

/* False when there is no memory; so do all that follow. */
static bool add_block(struct grouping *g, uint32_t number, const struct sample_found *found) {
    struct group *group = grouping_of(g, found->stack, number);
    if (group == NULL)
        return false;
    group->count++;
    group->bytes += found->size;
    return true;
}

static bool add_if_sampled(struct grouping *g, uint32_t number, const void *block) {
    struct sample_found found;
    return !sample_may_be(block) || !sample_find(block, &found) || add_block(g, number, &found);
}

/* Of a heap that was read from a file. */
static bool add_stored(struct answering *a, struct grouping *g) {
    const struct table *notes = &a->heap->stored->notes;
    for (uint64_t i = 0; i < notes->count; i++) {
        const struct stored_note *note = (const struct stored_note *)notes->items + i;
        bool counts = note->what == NOTE_SAMPLE || (note->what == NOTE_SAMPLED_BLOCK && a->query->buffers);
        const struct sample_found found = {.stack = (uint32_t)note->value, .size = note->other};
        if (counts && is_selected(&a->selection, note->number) && !add_block(g, note->number, &found))
            return false;
    }
    return true;
}

static bool add_objects(struct answering *a, struct grouping *g) {
    struct sample_found found;
    progress_begin(a->progress, 0);
    for (uint32_t position = 0; sample_next(&position, &found) && progress_on(a->progress);) {
        uint32_t number = query_object_of_block(&a->heap->graph, &found);
        if (number != CSR_NONE && is_selected(&a->selection, number) && !add_block(g, number, &found))
            return false;
    }
    return true;
}

uint32_t answers_buffers_of(PyObject *o, const struct kind *kind, const void *buffers[SIZE_BLOCKS]) {
    struct size_block blocks[SIZE_BLOCKS];
    uint32_t count = 0;
    if (kind->edges == EDGES_ARRAY) {
        const struct numpy_array *array = (struct numpy_array *)o;
        if (array->flags & ARRAY_OWNS_DATA)
            buffers[count++] = array->data;
        return count;
    }
    for (uint32_t i = size_has_more(kind) ? size_blocks(o, kind, blocks) : 1; i-- > 1;)
        buffers[count++] = (const void *)blocks[i].at;
    return count;
}

/* Where the fixed part of an object ends. */
static int32_t end_of_fixed(PyObject *o, const struct kind *kind) {
    struct size_block blocks[SIZE_BLOCKS];
    size_blocks(o, kind, blocks);
    uint64_t room = blocks[0].at + blocks[0].size - (uint64_t)o;
    return (int32_t)(kind->basic < room ? kind->basic : room);
}

/* Whether a word of an object is that of an earlier one too. */
static bool is_again(PyObject *o, int32_t place) {
    int32_t at = sizeof(PyObject);
    while (at < place && pointer_at(o, at) != pointer_at(o, place))
        at += 8;
    return at < place;
}

/* Of a container whose buffer is at no known place: a word of its fixed part leads to a block in which no object begins. Several
   words may lead to the same block: a bytearray has where it begins, and where its bytes do. */
static bool add_by_words(struct answering *a, struct grouping *g, uint32_t number, PyObject *o, const struct kind *kind) {
    struct sample_found found;
    for (int32_t at = sizeof(PyObject), end = end_of_fixed(o, kind); at + 8 <= end; at += 8) {
        const void *block = pointer_at(o, at);
        bool is_found = sample_may_be(block) && sample_find(block, &found) && !is_again(o, at);
        if (is_found && query_object_of_block(&a->heap->graph, &found) == CSR_NONE && !add_block(g, number, &found))
            return false;
    }
    return true;
}

static bool add_buffers_of(struct answering *a, struct grouping *g, uint32_t number) {
    const void *buffers[SIZE_BLOCKS];
    struct graph *graph = &a->heap->graph;
    const struct kind *kind = graph_kind(graph, number);
    PyObject *o = graph_object(graph, number);
    if (kind->edges == EDGES_ARRAY || size_has_more(kind))
        for (uint32_t i = answers_buffers_of(o, kind, buffers); i-- > 0;)
            if (!add_if_sampled(g, number, buffers[i]))
                return false;
    if (kind->is_container && !size_has_buffer(kind) && fill_next_block(o, kind, NULL) == NULL)
        return add_by_words(a, g, number, o, kind);
    for (const void *block = NULL; (block = fill_next_block(o, kind, block)) != NULL;)
        if (!add_if_sampled(g, number, block))
            return false;
    return true;
}

static bool add_buffers(struct answering *a, struct grouping *g) {
    progress_begin(a->progress, a->selection.objects);
    const struct selection *s = &a->selection;
    for (uint32_t i = selection_next(s, 0); i < s->objects && progress_on(a->progress); i = selection_next(s, i + 1))
        if (!add_buffers_of(a, g, i))
            return false;
    return true;
}

static void pack_rows(struct answering *a, const struct grouping *g) {
    answering_begin(a, "blocks", 2);
    answering_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, grouping_at(g, i)->key);
        pack_uint(a->out, grouping_at(g, i)->count);
        pack_uint(a->out, grouping_at(g, i)->bytes);
    }
    answering_field_complete(a, g->largest.count == g->groups.count);
}

/* One question's answer: ``add`` finds the blocks. */
static const char *answer_blocks(struct answering *a, bool (*add)(struct answering *a, struct grouping *g)) {
    struct grouping g;
    bool is_stored = a->heap->stored != NULL;
    if (!is_stored && !sample_freeze(true))
        return query_not_sampled;
    uint32_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    bool done = grouping_begin(&g, GROUPING_BY_BYTES) && add(a, &g) && grouping_sort(&g, limit, a->progress);
    if (!is_stored)
        sample_thaw(true);
    if (done)
        pack_rows(a, &g);
    grouping_close(&g);
    return done ? NULL : answering_refusal(a);
}

static bool add_selected(struct answering *a, struct grouping *g) {
    if (a->heap->stored != NULL)
        return add_stored(a, g);
    return add_objects(a, g) && (!a->query->buffers || add_buffers(a, g));
}

const char *answers_stacks(struct answering *a) { return answer_blocks(a, add_selected); }

/* -- what no object has ------------------------------------------------------------------------------------- */

/* Whether an object that no other one leads to waits in one of the interpreter's free lists. It is not tracked, and where a
   living one has its count of references there is 0, or in later versions the next one of the list. */
static bool is_free(const struct sample_found *found) {
    if (found->domain != SAMPLE_OBJECT || found->size < sizeof(PyObject))
        return false;
    bool has_head = uint64_at(found->block, 0) == 0 && found->size >= 2 * sizeof(PyObject); /* the collector's */
    uint64_t count = uint64_at(found->block, has_head ? 16 : 0);
    return (uint32_t)count == 0 || (count >> 32 & 0xFFFF) != 0;
}

/* Sampled blocks that nothing has led to yet: no object begins there. */
struct unreached {
    struct answering *a;
    uint64_t *bits; /* by id */
    uint32_t ids, count;
};

static bool unreached_open(struct unreached *u, struct answering *a) {
    struct sample_found found;
    *u = (struct unreached){.a = a};
    for (uint32_t position = 0; sample_next(&position, &found);)
        u->ids = found.id >= u->ids ? found.id + 1 : u->ids;
    u->bits = pages_map(query_bits_bytes(u->ids));
    for (uint32_t position = 0; u->bits != NULL && sample_next(&position, &found);) {
        if (is_free(&found) || query_object_of_block(&a->heap->graph, &found) != CSR_NONE)
            continue;
        u->bits[found.id / 64] |= 1ull << (found.id % 64);
        u->count++;
    }
    return u->bits != NULL;
}

static void unreached_close(struct unreached *u) { pages_unmap(u->bits, query_bits_bytes(u->ids)); }

static bool has_id(const struct unreached *u, uint32_t id) { return id < u->ids && u->bits[id / 64] >> (id % 64) & 1; }

static void reach(struct unreached *u, const void *block) {
    struct sample_found found;
    if (!sample_may_be(block) || !sample_find(block, &found) || !has_id(u, found.id))
        return;
    u->bits[found.id / 64] &= ~(1ull << (found.id % 64));
    u->count--;
}

/* Whatever C types keep in blocks of their own, a word of the fixed part of the object leads there. That word may be a number
   by chance: then a block passes for reached. */
static void reach_by_words(struct unreached *u, PyObject *o, const struct kind *kind) {
    for (int32_t at = sizeof(PyObject), end = end_of_fixed(o, kind); at + 8 <= end; at += 8)
        reach(u, pointer_at(o, at));
}

static void reach_from(struct unreached *u, PyObject *o, const struct kind *kind) {
    const void *buffers[SIZE_BLOCKS];
    for (uint32_t i = answers_buffers_of(o, kind, buffers); i-- > 0;)
        reach(u, buffers[i]);
    const void *block = NULL;
    while ((block = fill_next_block(o, kind, block)) != NULL)
        reach(u, block);
    reach_by_words(u, o, kind);
}

/* False where nothing is left to be reached, or it was stopped. */
static bool reach_from_cell(void *context, uint64_t place, const struct cell *cell) {
    struct unreached *u = context;
    char *base = graph_place_base(place);
    uint32_t number = cell_rank(cell);
    for (uint64_t left = cell_present(cell); left != 0; left &= left - 1, number++) {
        if (u->count == 0 || !progress_on(u->a->progress))
            return false;
        reach_from(u, (PyObject *)(base + 16 * __builtin_ctzll(left)), graph_kind(&u->a->heap->graph, number));
    }
    return true;
}

static bool add_unreached(struct answering *a, struct grouping *g) {
    struct unreached u;
    struct sample_found found;
    bool done = unreached_open(&u, a);
    progress_begin(a->progress, a->selection.objects);
    if (done)
        graph_cells(&a->heap->graph, 0, reach_from_cell, &u);
    done = done && !a->progress->stopped; /* half of it would be wrong */
    for (uint32_t position = 0; done && sample_next(&position, &found);)
        if (has_id(&u, found.id))
            done = add_block(g, 0, &found);
    unreached_close(&u);
    return done;
}

const char *answers_unreached(struct answering *a) { return answer_blocks(a, add_unreached); }
