/* query: reading what was asked, and finding the objects. The layout is protocol/images.py's. */
#include "query/query.h"

#include "sampler/sample.h"

#include <string.h>

/* -- reading ------------------------------------------------------------------------------------------------ */

struct head { /* _HEAD of protocol/images.py */
    uint32_t what, flags, offset, limit, number, reserved;
    uint64_t id, low, high;
};

static bool take_list(struct numbers *list, const unsigned char **at, const unsigned char *end) {
    if (end - *at < 4)
        return false;
    memcpy(&list->count, *at, sizeof list->count);
    list->at = *at + 4;
    if ((uint64_t)(end - list->at) < 8ull * list->count)
        return false;
    *at = list->at + 8ul * list->count;
    return true;
}

bool query_parse(struct query *q, const unsigned char *bytes, size_t size) {
    const unsigned char *at = bytes + sizeof(struct head), *end = bytes + size;
    struct numbers *const lists[] = {&q->types, &q->kinds,    &q->addresses, &q->stacks, &q->below,
                                     &q->path,  &q->excluded, &q->retainers, &q->seen};
    struct head head;
    *q = (struct query){0};
    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    if ((head.id | head.low | head.high) >> 63 != 0) /* no message may have it */
        return false;
    *q = (struct query){
        .what = head.what,
        .offset = head.offset,
        .limit = head.limit,
        .number = head.number,
        .modules = head.flags & 1,
        .values = head.flags >> 1 & 1,
        .buffers = head.flags >> 2 & 1,
        .beginnings = head.flags >> 3 & 1,
        .containers = head.flags >> 4 & 1,
        .id = head.id,
        .low = head.low,
        .high = head.high,
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!take_list(lists[i], &at, end))
            return false;
    q->known = at;
    q->known_size = (size_t)(end - at);
    return at == end || q->what == QUERY_KNOWN;
}

const char query_no_memory[] = "there was no memory for the question";
const char query_cancelled[] = "cancelled";
const char query_not_sampled[] = "allocations are not sampled, or the image is of the middle of a change";

static uint32_t stored_blocks(struct heap *h, uint32_t number, struct size_block blocks[SIZE_BLOCKS]) {
    const struct stored *s = h->stored;
    uint64_t before = stored_kind(s, graph_kind(&h->graph, number)->position)->before, size = csr_size(&h->graph.rows, number);
    const struct stored_note *note = NULL, *own = stored_note(s, number, NOTE_OWN_BLOCK, NULL);
    uint32_t count = 1;
    while (count < SIZE_BLOCKS && (note = stored_note(s, number, NOTE_BLOCK, note)) != NULL) {
        blocks[count++] = (struct size_block){note->value, note->other};
        size -= note->other < size ? note->other : size;
    }
    if (own != NULL)
        before = own->value, size = own->other;
    blocks[0] = (struct size_block){(uint64_t)graph_object(&h->graph, number) - before, size};
    return count;
}

uint32_t query_blocks(struct heap *h, uint32_t number, struct size_block blocks[SIZE_BLOCKS]) {
    if (h->stored != NULL)
        return stored_blocks(h, number, blocks);
    return size_blocks(graph_object(&h->graph, number), graph_kind(&h->graph, number), blocks);
}

/* -- which objects ------------------------------------------------------------------------------------------ */

static void set_bit(uint64_t *bits, uint32_t number) { bits[number / 64] |= 1ull << (number % 64); }

static bool has_bit(const uint64_t *bits, uint32_t number) { return bits[number / 64] >> (number % 64) & 1; }

/* One criterion after the other takes away from what those before it have left. */
struct narrowing {
    struct selection *selection;
    struct heap *heap;
    const struct types *types;
    const struct seen_marks *seen_marks;
    uint64_t *bits; /* of a criterion that names objects */
    struct progress *progress;
};

/* Leave selected what the criterion has, which restarts. */
static void apply(struct narrowing *n) {
    uint64_t words = n->selection->objects / 64 + 1ull;
    for (uint64_t i = 0; i < words; i++) {
        n->selection->bits[i] &= n->bits[i];
        n->bits[i] = 0;
    }
}

static void drop(struct selection *s, uint32_t number) { s->bits[number / 64] &= ~(1ull << (number % 64)); }

/* A table with a 1 for each of the numbers below ``count``; NULL when there is no memory. */
static uint8_t *flags_of(const struct numbers *list, uint64_t count) {
    uint8_t *flags = pages_map(count + 1);
    for (uint32_t i = 0; flags != NULL && i < list->count; i++)
        if (numbers_at(list, i) < count)
            flags[numbers_at(list, i)] = 1;
    return flags;
}

/* Leave selected what is wanted. ``is_wanted`` is one of the functions below, and becomes a part of the loop. */
static inline __attribute__((always_inline)) void keep(struct narrowing *n, const uint8_t *wanted,
                                                       bool (*is_wanted)(struct narrowing *, const uint8_t *, uint32_t)) {
    struct selection *s = n->selection;
    uint64_t words = s->objects / 64 + 1ull;
    for (uint64_t i = 0; i < words && progress_on(n->progress); i++) {
        uint64_t kept = 0;
        for (uint64_t left = s->bits[i]; left != 0; left &= left - 1) {
            uint32_t bit = (uint32_t)__builtin_ctzll(left);
            kept |= (uint64_t)is_wanted(n, wanted, (uint32_t)(64 * i) + bit) << bit;
        }
        s->bits[i] = kept;
    }
}

static bool has_type(struct narrowing *n, const uint8_t *wanted, uint32_t number) {
    uint32_t type = types_of(n->types, n->heap, number);
    return type != CSR_NONE && wanted[type];
}

static bool has_kind(struct narrowing *n, const uint8_t *wanted, uint32_t number) {
    uint8_t kind = n->heap->retain.kind[number];
    return kind < HEAP_KINDS && wanted[kind];
}

static bool has_seen(struct narrowing *n, const uint8_t *wanted, uint32_t number) {
    return wanted[marks_seen_by(n->seen_marks, number)];
}

static bool is_container(struct narrowing *n, const uint8_t *wanted, uint32_t number) {
    (void)wanted;
    return !heap_is_frame(n->heap, number) && graph_kind(&n->heap->graph, number)->is_container;
}

static bool narrow_by_type(struct narrowing *n, const struct numbers *list) {
    uint8_t *wanted = flags_of(list, n->types->count);
    if (wanted == NULL)
        return false;
    keep(n, wanted, has_type);
    pages_unmap(wanted, n->types->count + 1ul);
    return true;
}

static void narrow_by_kind(struct narrowing *n, const struct numbers *list) {
    uint8_t wanted[HEAP_KINDS] = {0};
    for (uint32_t i = 0; i < list->count; i++)
        if (numbers_at(list, i) < HEAP_KINDS)
            wanted[numbers_at(list, i)] = 1;
    keep(n, wanted, has_kind);
}

static bool narrow_by_seen(struct narrowing *n, const struct numbers *list) {
    uint8_t *wanted = flags_of(list, UINT8_MAX + 1);
    if (wanted == NULL)
        return false;
    keep(n, wanted, has_seen);
    pages_unmap(wanted, UINT8_MAX + 2ul);
    return true;
}

static void narrow_by_address(struct narrowing *n, const struct numbers *list) {
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t number = graph_number(&n->heap->graph, (void *)numbers_at(list, i));
        if (number != CSR_NONE)
            set_bit(n->bits, number);
    }
    apply(n);
}

/* Whether one of those in n->bits dominates an object: looked for on the way up, as far as nobody has before. ``known``: bits of
   those that are below one, and of those that are not. */
static bool is_below(const struct narrowing *n, uint64_t *known[2], uint32_t number) {
    const uint32_t *dominator = n->heap->retain.dominator;
    uint32_t objects = n->selection->objects, at = number;
    bool is_one = false;
    while (!is_one && at < objects && !has_bit(known[0], at) && !has_bit(known[1], at)) {
        at = dominator[at];
        is_one = at < objects && has_bit(n->bits, at);
    }
    is_one = is_one || (at < objects && has_bit(known[0], at));
    for (uint32_t on_way = number; on_way != at; on_way = dominator[on_way])
        set_bit(known[!is_one], on_way);
    return is_one;
}

/* What each of these dominates, and themselves only where another one does. */
static bool narrow_to_below(struct narrowing *n, const struct numbers *list) {
    struct selection *s = n->selection;
    size_t room = query_bits_bytes(s->objects);
    uint64_t *known[2] = {pages_map(room), pages_map(room)};
    bool done = known[0] != NULL && known[1] != NULL;
    for (uint32_t i = 0; done && i < list->count; i++) {
        uint32_t number = graph_number(&n->heap->graph, (void *)numbers_at(list, i));
        if (number != CSR_NONE)
            set_bit(n->bits, number);
    }
    for (uint32_t i = selection_next(s, 0); done && i < s->objects && progress_on(n->progress); i = selection_next(s, i + 1))
        if (!is_below(n, known, i))
            drop(s, i);
    memset(n->bits, 0, room);
    pages_unmap(known[0], room);
    pages_unmap(known[1], room);
    return done;
}

static bool reaches_into(struct heap *h, uint32_t number, uint64_t low, uint64_t high) {
    struct size_block blocks[SIZE_BLOCKS];
    for (uint32_t i = query_blocks(h, number, blocks); i-- > 0;)
        if (blocks[i].at < high && blocks[i].at + blocks[i].size > low)
            return true;
    return false;
}

/* Those that reach into the range. */
static void narrow_by_range(struct narrowing *n, uint64_t low, uint64_t high) {
    struct selection *s = n->selection;
    for (uint32_t i = selection_next(s, 0); i < s->objects && progress_on(n->progress); i = selection_next(s, i + 1))
        if (!reaches_into(n->heap, i, low, high))
            drop(s, i);
}

uint32_t query_object_of_block(const struct graph *g, const struct sample_found *found) {
    for (int32_t before = 0; before <= 32; before += 16) {
        uint32_t number = (uint64_t)before < found->size ? graph_number(g, found->block + before) : CSR_NONE;
        if (number != CSR_NONE && size_before(Py_TYPE(graph_object(g, number))) == before)
            return number;
    }
    return CSR_NONE;
}

static void set_stored_of_stacks(struct narrowing *n, const uint8_t *wanted, uint64_t most) {
    const struct table *notes = &n->heap->stored->notes;
    for (uint64_t i = 0; i < notes->count; i++) {
        const struct stored_note *note = (const struct stored_note *)notes->items + i;
        if (note->what == NOTE_SAMPLE && note->value <= most && wanted[note->value])
            set_bit(n->bits, note->number);
    }
}

/* False where it is not known. */
static bool set_of_stacks(struct narrowing *n, const uint8_t *wanted, uint64_t most) {
    struct sample_found found;
    if (n->heap->stored != NULL) {
        set_stored_of_stacks(n, wanted, most);
        return true;
    }
    if (!sample_freeze(true))
        return false;
    for (uint32_t position = 0; sample_next(&position, &found) && progress_on(n->progress);) {
        uint32_t number =
            found.stack <= most && wanted[found.stack] ? query_object_of_block(&n->heap->graph, &found) : CSR_NONE;
        if (number != CSR_NONE)
            set_bit(n->bits, number);
    }
    sample_thaw(true);
    return true;
}

/* A sentence, or NULL. */
static const char *narrow_by_stack(struct narrowing *n, const struct numbers *list) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < list->count; i++)
        most = numbers_at(list, i) > most ? numbers_at(list, i) : most;
    uint8_t *wanted = most < UINT32_MAX ? flags_of(list, most + 1) : NULL;
    if (wanted == NULL)
        return query_no_memory;
    bool known = set_of_stacks(n, wanted, most);
    pages_unmap(wanted, most + 2);
    apply(n);
    return known ? NULL : query_not_sampled;
}

static const char *narrow(struct narrowing *n, const struct query *q) {
    if (q->types.count != 0 && !narrow_by_type(n, &q->types))
        return query_no_memory;
    if (q->containers)
        keep(n, NULL, is_container);
    if (q->kinds.count != 0)
        narrow_by_kind(n, &q->kinds);
    if (q->seen.count != 0 && !narrow_by_seen(n, &q->seen))
        return query_no_memory;
    if (q->addresses.count != 0)
        narrow_by_address(n, &q->addresses);
    if (q->high > q->low)
        narrow_by_range(n, q->low, q->high);
    if (q->below.count != 0 && !narrow_to_below(n, &q->below))
        return query_no_memory;
    return q->stacks.count != 0 ? narrow_by_stack(n, &q->stacks) : NULL;
}

static void select_all(struct selection *s) {
    memset(s->bits, 0xff, s->objects / 64 * sizeof *s->bits);
    if (s->objects % 64 != 0)
        s->bits[s->objects / 64] = (1ull << (s->objects % 64)) - 1;
}

static void sum(struct selection *s, const struct heap *h, struct progress *progress) {
    uint64_t words = s->objects / 64 + 1ull;
    for (uint64_t i = 0; i < words && progress_on(progress); i++) {
        s->count += count_bits(s->bits[i]);
        for (uint64_t left = s->bits[i]; left != 0; left &= left - 1)
            s->bytes += csr_size(&h->graph.rows, (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(left));
    }
}

const char *selection_open(struct selection *s, struct heap *h, const struct types *types, const struct seen_marks *seen_marks,
                           const struct query *q, struct progress *progress) {
    uint32_t objects = h->graph.objects;
    *s = (struct selection){.bits = pages_map(query_bits_bytes(objects)), .objects = objects};
    struct narrowing n = {s, h, types, seen_marks, pages_map(query_bits_bytes(objects)), progress};
    progress_begin(progress, 0);
    const char *refusal = s->bits == NULL || n.bits == NULL ? query_no_memory : NULL;
    if (refusal == NULL) {
        select_all(s);
        refusal = narrow(&n, q);
    }
    pages_unmap(n.bits, query_bits_bytes(objects));
    if (refusal == NULL)
        sum(s, h, progress);
    return refusal == NULL && progress->stopped ? query_cancelled : refusal;
}

void selection_drop(struct selection *s, const struct heap *h, uint32_t number) {
    if (!is_selected(s, number))
        return;
    drop(s, number);
    s->count--;
    s->bytes -= csr_size(&h->graph.rows, number);
}

void selection_close(struct selection *s) {
    pages_unmap(s->bits, query_bits_bytes(s->objects));
    *s = (struct selection){0};
}
