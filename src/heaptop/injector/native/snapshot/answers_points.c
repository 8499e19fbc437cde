/* answers to POINTS: below which objects the selection accumulates. */
#include "snapshot/answers.h"

#include "query/grouping.h"
#include "query/paths.h"
#include "query/points.h"

enum { MOST_POINTS = 1000, LEAST_PERCENT = 51 };

static uint32_t type_of(void *context, uint32_t number) {
    const struct answering *a = context;
    return types_of(a->types, a->heap, number);
}

static bool has_more(const void *context, uint32_t one, uint32_t other) {
    const struct points *p = context;
    uint32_t a = points_at(p, one), b = points_at(p, other);
    return p->below[a] != p->below[b] ? p->below[a] > p->below[b] : a < b;
}

/* The largest points, by position. False when there was no memory, or when it was stopped. */
static bool find_largest(struct largest *l, struct answering *a, const struct points *p) {
    uint32_t limit = a->query->limit < MOST_POINTS ? a->query->limit : MOST_POINTS, count = (uint32_t)p->found.count;
    if (!largest_open(l, limit < count ? limit : count, has_more, p))
        return false;
    for (uint32_t i = 0; i < count; i++)
        largest_offer(l, i);
    return largest_sort(l, a->progress);
}

/* Those below a point that are selected, or something below of which is, by type; retained stands for what is below them, too.
   How many; false when there was no memory, or when it was stopped. */
static bool group_heads(struct grouping *g, struct answering *a, const struct points *p, uint32_t point, uint32_t *heads) {
    *heads = 0;
    if (!grouping_begin(g, GROUPING_BY_RETAINED))
        return false;
    for (uint32_t c = tree_child(&p->tree, point); c != CSR_NONE && progress_on(a->progress); c = tree_sibling(&p->tree, c)) {
        bool selected = points_is_selected(p, c);
        if (!selected && p->count[c] == 0)
            continue;
        struct group *group = grouping_of(g, types_of(a->types, a->heap, c), c);
        if (group == NULL)
            return false;
        group->count++;
        group->retained += p->below[c] + (selected ? answering_bytes_of(a, c) : 0);
        ++*heads;
    }
    return !a->progress->stopped && grouping_sort(g, 1, a->progress);
}

static void pack_heads(struct answering *a, const struct grouping *g, uint32_t heads) {
    const struct group *most = grouping_at(g, 0);
    pack_uint(a->out, heads);
    pack_uint(a->out, most->key);
    pack_uint(a->out, most->count);
    pack_uint(a->out, most->retained);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, most->example));
}

static bool pack_point(struct answering *a, const struct points *p, uint32_t number) {
    struct grouping g;
    uint32_t heads;
    bool is_frame = heap_is_frame(a->heap, number), done = group_heads(&g, a, p, number, &heads);
    if (done) {
        pack_array(a->out, 15);
        pack_uint(a->out, is_frame ? 0 : (uint64_t)graph_object(&a->heap->graph, number));
        pack_uint(a->out, types_of(a->types, a->heap, number));
        pack_uint(a->out, answering_kind_of(a, number));
        pack_uint(a->out, answering_bytes_of(a, number));
        pack_uint(a->out, is_frame ? 0 : a->heap->retain.retained[number]);
        pack_int(a->out, is_frame ? -1 : answers_length_of(a, number));
        pack_uint(a->out, is_frame ? 0 : marks_seen_by(a->seen_marks, number));
        pack_uint(a->out, p->count[number]);
        pack_uint(a->out, p->below[number]);
        pack_heads(a, &g, heads);
        done = paths_pack(a, number, NULL, true);
    }
    grouping_close(&g);
    return done;
}

static bool pack_points(struct answering *a, const struct points *p, const struct largest *l) {
    uint64_t count = a->selection.count, bytes = a->selection.bytes;
    bool done = true;
    answering_begin(a, "points", 6);
    answering_field_uint(a, "count", count);
    answering_field_uint(a, "bytes", bytes);
    answering_field(a, "points");
    pack_array(a->out, l->count);
    for (uint32_t i = 0; i < l->count && done; i++) {
        uint32_t number = points_at(p, l->numbers[i]);
        count -= p->count[number];
        bytes -= p->below[number];
        done = pack_point(a, p, number);
    }
    answering_field_uint(a, "loose_count", count);
    answering_field_uint(a, "loose_bytes", bytes);
    answering_field_complete(a, l->count == p->found.count);
    return done;
}

const char *answers_points(struct answering *a) {
    struct points p;
    struct largest l = {.numbers = NULL};
    if (a->query->number < LEAST_PERCENT || a->query->number > 100)
        return "most of it is a share of 51 to 100 per cent";
    struct points_selection selection = {
        .bits = a->selection.bits,
        .objects = a->selection.objects,
        .count = a->selection.count,
        .type_of = type_of,
        .context = a,
        .types = a->types->count,
        .percent = a->query->number,
    };
    bool done = points_open(&p, &a->heap->retain, &selection, a->progress) && find_largest(&l, a, &p) && pack_points(a, &p, &l);
    largest_close(&l);
    points_close(&p);
    return done ? NULL : answering_refusal(a);
}
