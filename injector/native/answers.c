/* answers: groups, lists of objects, what would go. The drawing is in the header. */
#include "answers.h"

#include "sample.h"
#include "size.h"

#include <string.h>

enum { MOST_ROWS = 10000, MOST_LOST = 64, MOST_HOPS = 1000 };

/* -- in common ------------------------------------------------------------------------------------------------ */

void answers_begin(struct answering *a, const char *kind, uint32_t fields) {
    pack_array(a->out, 2);
    pack_words(a->out, kind);
    pack_map(a->out, fields + 1);
    pack_words(a->out, "id");
    pack_uint(a->out, a->query->id);
}

void answers_field(struct answering *a, const char *name) { pack_words(a->out, name); }

void answers_field_uint(struct answering *a, const char *name, uint64_t value) {
    answers_field(a, name);
    pack_uint(a->out, value);
}

void answers_field_complete(struct answering *a, bool complete) {
    answers_field(a, "complete");
    pack_bool(a->out, complete && !a->stopped);
}

size_t answers_above_bytes(const struct answering *a) { return (a->heap->graph.rows.count + 1ul) * sizeof(uint32_t); }

uint32_t *answers_above(struct answering *a) {
    const struct retain *r = &a->heap->retain;
    uint32_t *above = pages_map(answers_above_bytes(a));
    *a->total = r->reached;
    for (uint32_t i = 0; above != NULL && i < r->reached && answers_go_on(a, i); i++) {
        uint32_t object = r->order[i], dominator = r->dominator[object];
        if (dominator == RETAIN_ROOT || dominator == CSR_NONE)
            above[object] = CSR_NONE;
        else
            above[object] = is_selected(&a->selection, dominator) ? dominator : above[dominator];
    }
    return above;
}

/* What an object is by its group: an index. */
typedef uint32_t (*group_of)(const struct answering *, uint32_t number);

/* Whether no other object of its group dominates an object. ``*whole``: false where that was not followed to its end. */
static bool is_top(const struct answering *a, const uint32_t *above, uint32_t number, group_of group, bool *whole) {
    uint32_t own = group(a, number), at = above[number];
    for (int hops = 0; at != CSR_NONE; at = above[at]) {
        if (group(a, at) == own)
            return false;
        if (++hops == MOST_HOPS) {
            *whole = false;
            return false;
        }
    }
    return true;
}

/* -- groups --------------------------------------------------------------------------------------------------- */

struct group {
    uint32_t type, kind;
    uint64_t count, bytes, retained;
};

static uint32_t by_type_and_kind(const struct answering *a, uint32_t number) {
    return types_of(a->types, a->heap, number) * HEAP_KINDS + answers_kind_of(a, number);
}

static bool add_up(struct answering *a, struct group *groups, const uint32_t *above) {
    bool whole = true;
    for (uint32_t number = 0; number < a->selection.objects && answers_go_on(a, number); number++) {
        if (!is_selected(&a->selection, number))
            continue;
        struct group *group = &groups[by_type_and_kind(a, number)];
        group->count++;
        group->bytes += answers_bytes_of(a, number);
        if (is_top(a, above, number, by_type_and_kind, &whole))
            group->retained += a->heap->retain.retained[number];
    }
    return whole;
}

/* Largest first: by what they retain. */
static void sort_groups(struct group **order, uint32_t count) {
    for (uint32_t gap = count / 2; gap > 0; gap /= 2) /* Shell's: nothing to call, nothing to allocate */
        for (uint32_t i = gap; i < count; i++) {
            struct group *one = order[i];
            uint32_t at = i;
            for (; at >= gap && order[at - gap]->retained < one->retained; at -= gap)
                order[at] = order[at - gap];
            order[at] = one;
        }
}

static void pack_groups(struct answering *a, struct group **order, uint32_t count, bool whole) {
    answers_begin(a, "groups", 2);
    answers_field(a, "rows");
    pack_array(a->out, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_array(a->out, 5);
        pack_uint(a->out, order[i]->type);
        pack_uint(a->out, order[i]->kind);
        pack_uint(a->out, order[i]->count);
        pack_uint(a->out, order[i]->bytes);
        pack_uint(a->out, order[i]->retained);
    }
    answers_field_complete(a, whole);
}

const char *answers_groups(struct answering *a) {
    uint64_t room = (a->types->count + 1ull) * HEAP_KINDS;
    struct group *groups = pages_map(room * sizeof *groups), **order = pages_map(room * sizeof *order);
    uint32_t *above = answers_above(a), count = 0;
    const char *refusal = groups == NULL || order == NULL || above == NULL ? query_no_memory : NULL;
    if (refusal == NULL) {
        bool whole = add_up(a, groups, above);
        for (uint32_t i = 0; i < room; i++)
            if (groups[i].count != 0) {
                groups[i].type = i / HEAP_KINDS;
                groups[i].kind = i % HEAP_KINDS;
                order[count++] = &groups[i];
            }
        sort_groups(order, count);
        uint32_t limit = a->query->limit < count ? a->query->limit : count;
        pack_groups(a, order, limit, whole && limit == count);
    }
    pages_unmap(above, answers_above_bytes(a));
    pages_unmap(order, room * sizeof *order);
    pages_unmap(groups, room * sizeof *groups);
    return refusal;
}

/* -- objects -------------------------------------------------------------------------------------------------- */

/* The largest by what they retain, as a heap whose smallest is at the top. */
struct largest {
    uint32_t *numbers, count, room;
    const uint64_t *retained;
};

static bool is_smaller(const struct largest *l, uint32_t one, uint32_t other) {
    uint64_t a = l->retained[one], b = l->retained[other];
    return a != b ? a < b : one > other; /* the same every time */
}

static void sink(struct largest *l, uint32_t at, uint32_t count) {
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_smaller(l, l->numbers[child + 1], l->numbers[child]))
            child++;
        if (!is_smaller(l, l->numbers[child], l->numbers[at]))
            return;
        uint32_t swapped = l->numbers[at];
        l->numbers[at] = l->numbers[child];
        l->numbers[child] = swapped;
    }
}

static void offer(struct largest *l, uint32_t number) {
    if (l->count < l->room) {
        l->numbers[l->count++] = number;
        if (l->count == l->room)
            for (uint32_t i = l->room / 2; i-- > 0;)
                sink(l, i, l->count);
    } else if (l->room > 0 && is_smaller(l, l->numbers[0], number)) {
        l->numbers[0] = number;
        sink(l, 0, l->count);
    }
}

/* Largest first. */
static void put_in_order(struct largest *l) {
    if (l->count < l->room)
        for (uint32_t i = l->count / 2; i-- > 0;)
            sink(l, i, l->count);
    for (uint32_t left = l->count; left > 1;) {
        uint32_t smallest = l->numbers[0];
        l->numbers[0] = l->numbers[--left];
        l->numbers[left] = smallest;
        sink(l, 0, left);
    }
}

/* Items of a container or a text; -1 where there are none. */
static int64_t length_of(struct answering *a, uint32_t number) {
    PyObject *o = graph_object(&a->heap->graph, number);
    const struct kind *kind = graph_kind(&a->heap->graph, number);
    switch (kind->size) {
    case SIZE_STR:
        return int64_at(o, layout.str_length);
    case SIZE_LIST:
        return size_field(o);
    case SIZE_DICT:
        return int64_at(o, 16); /* ma_used */
    case SIZE_SET:
        return int64_at(o, 24); /* used, behind fill */
    default:
        return Py_TYPE(o) == &PyTuple_Type || Py_TYPE(o) == &PyBytes_Type || Py_TYPE(o) == &PyByteArray_Type ? size_field(o)
                                                                                                              : -1;
    }
}

/* The node of the stack that allocated an object; 0 where it was not sampled. */
static uint32_t stack_of(struct answering *a, uint32_t number) {
    PyObject *o = graph_object(&a->heap->graph, number);
    struct sample_found found;
    if (!sample_freeze(true))
        return 0;
    bool is_sampled = sample_find((char *)o - size_before(Py_TYPE(o)), &found);
    sample_thaw(true);
    return is_sampled ? found.stack : 0;
}

void answers_pack_row(struct answering *a, uint32_t number) {
    pack_array(a->out, 8);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, number));
    pack_uint(a->out, types_of(a->types, a->heap, number));
    pack_uint(a->out, answers_bytes_of(a, number));
    pack_uint(a->out, a->heap->retain.retained[number]);
    pack_int(a->out, heap_generation(a->heap, number));
    pack_uint(a->out, answers_kind_of(a, number));
    pack_int(a->out, length_of(a, number));
    pack_uint(a->out, stack_of(a, number));
}

const char *answers_objects(struct answering *a) {
    const struct query *q = a->query;
    uint32_t limit = q->limit < MOST_ROWS ? q->limit : MOST_ROWS;
    uint64_t room = (uint64_t)q->offset + limit;
    if (room > a->selection.count)
        room = a->selection.count;
    struct largest l = {pages_map((room + 1) * sizeof(uint32_t)), 0, (uint32_t)room, a->heap->retain.retained};
    if (l.numbers == NULL)
        return query_no_memory;
    *a->total = a->selection.objects;
    for (uint32_t number = 0; number < a->selection.objects && answers_go_on(a, number); number++)
        if (is_selected(&a->selection, number))
            offer(&l, number);
    put_in_order(&l);
    uint32_t begin = q->offset < l.count ? q->offset : l.count;
    answers_begin(a, "objects", 3);
    answers_field_uint(a, "total", a->selection.count);
    answers_field(a, "rows");
    pack_array(a->out, l.count - begin);
    for (uint32_t i = begin; i < l.count; i++)
        answers_pack_row(a, l.numbers[i]);
    answers_field_complete(a, true);
    pages_unmap(l.numbers, (room + 1) * sizeof(uint32_t));
    return NULL;
}

/* -- what would go -------------------------------------------------------------------------------------------- */

static const char *pack_lost_alone(struct answering *a, uint32_t number) {
    struct retain_lost lost;
    int status = retain_lose(&a->heap->retain, &number, 1, &lost);
    if (status == RETAIN_OK) {
        pack_array(a->out, 3);
        pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, number));
        pack_uint(a->out, lost.objects);
        pack_uint(a->out, lost.bytes);
    }
    retain_lost_close(&a->heap->retain, &lost);
    return status == RETAIN_OK ? NULL : query_no_memory;
}

const char *answers_lose(struct answering *a) {
    struct retain_lost lost;
    uint32_t *numbers = pages_map((a->selection.count + 1ul) * sizeof *numbers), count = 0;
    if (numbers == NULL)
        return query_no_memory;
    for (uint32_t number = 0; number < a->selection.objects; number++)
        if (is_selected(&a->selection, number))
            numbers[count++] = number;
    const char *refusal = retain_lose(&a->heap->retain, numbers, count, &lost) == RETAIN_OK ? NULL : query_no_memory;
    uint64_t objects = lost.objects, bytes = lost.bytes;
    retain_lost_close(&a->heap->retain, &lost);
    uint32_t shown = count < MOST_LOST ? count : MOST_LOST;
    if (refusal == NULL) {
        answers_begin(a, "losses", 4);
        answers_field_uint(a, "objects", objects);
        answers_field_uint(a, "bytes", bytes);
        answers_field(a, "alone");
        pack_array(a->out, shown);
        for (uint32_t i = 0; refusal == NULL && i < shown; i++)
            refusal = pack_lost_alone(a, numbers[i]);
        answers_field_complete(a, shown == count);
    }
    pages_unmap(numbers, (a->selection.count + 1ul) * sizeof *numbers);
    return refusal;
}
