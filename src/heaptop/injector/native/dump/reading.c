/* reading: taking pieces, and what is made of them. */
#include "dump/reading.h"

#include "graph/retain.h"

#include <string.h>

enum { FIRST_ROOM = 1 << 12, SAID_GENERATIONS = 5, CELL_PAGE_BYTES = PAGE_CELLS * sizeof(struct cell) };
enum { MOST_TYPES = (1 << 18) + 1 /* check_types of protocol/bounds.py */ };
enum { REGION_BYTES = 3 * 4096 /* of a region: what was touched of it, where the next one is, and a page table */ };

static const uint64_t highest = MACHINE_HIGHEST, lowest = 4096;
static const char damaged[] = "a piece of the heap dump is damaged", no_memory[] = "it needs more memory than it may take";

/* -- bytes -------------------------------------------------------------------------------------------------- */

struct bytes {
    const unsigned char *at, *end;
    bool failed; /* something was not there, or was not what it can be: what is read from then on does not matter */
};

static uint64_t take_number(struct bytes *b) {
    uint64_t value = 0;
    for (unsigned shift = 0; b->at < b->end && shift < 64; shift += 7) {
        unsigned char byte = *b->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    b->failed = true;
    return 0;
}

/* A number below ``limit``. */
static uint64_t take_below(struct bytes *b, uint64_t limit) {
    uint64_t value = take_number(b);
    if (value < limit)
        return value;
    b->failed = true;
    return 0;
}

static int64_t take_signed(struct bytes *b) {
    uint64_t value = take_number(b);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static unsigned take_byte(struct bytes *b, unsigned limit) {
    if (b->at < b->end && *b->at < limit)
        return *b->at++;
    b->failed = true;
    return 0;
}

/* Each takes one record, or one text, label or place. False when there is no memory; what is damaged is noted in ``b``. */
typedef bool (*take_one)(struct reading *r, struct bytes *b);

static bool take_each(struct reading *r, struct bytes *b, uint32_t count, take_one take) {
    for (uint32_t i = 0; i < count && !b->failed; i++)
        if (!take(r, b))
            return false;
    return true;
}

/* -- texts, labels, places ------------------------------------------------------------------------------------ */

static bool take_text(struct reading *r, struct bytes *b) {
    uint64_t size = take_below(b, PIECE_TEXT);
    if ((uint64_t)(b->end - b->at) < size || r->stored.texts.count + size + 1 >= UINT32_MAX) {
        b->failed = true;
        return true;
    }
    if (!table_add_number(&r->text_at, (uint32_t)r->stored.texts.count))
        return false;
    for (uint64_t i = 0; i <= size; i++) {
        char *place = table_add(&r->stored.texts);
        if (place == NULL)
            return false;
        *place = i < size ? (char)b->at[i] : 0;
    }
    b->at += size;
    return true;
}

/* Where the text begins whose number comes. */
static uint32_t take_text_at(struct reading *r, struct bytes *b) {
    uint64_t number = take_below(b, r->text_at.count);
    return b->failed ? 0 : table_number(&r->text_at, number);
}

static bool take_label(struct reading *r, struct bytes *b) {
    struct stored_label *label = table_add(&r->stored.labels);
    if (label == NULL)
        return false;
    label->kind = (uint8_t)take_byte(b, LABEL_FRAME + 1);
    label->role = (uint8_t)take_byte(b, ROLE_CONTENTS + 1);
    label->is_frame = take_byte(b, 2) != 0;
    label->text = take_text_at(r, b);
    label->alike = (uint32_t)take_below(b, r->stored.labels.count);
    return true;
}

static bool take_place(struct reading *r, struct bytes *b) {
    struct stored_place *place = table_add(&r->stored.places);
    if (place == NULL)
        return false;
    place->file = take_text_at(r, b);
    place->thread = take_text_at(r, b);
    place->line = (uint32_t)take_below(b, INT32_MAX);
    place->first_line = (uint32_t)take_below(b, INT32_MAX);
    return true;
}

/* -- records -------------------------------------------------------------------------------------------------- */

static bool take_kind(struct reading *r, struct bytes *b) {
    uint64_t address = take_below(b, highest);
    struct kind *kind = kinds_add_unread(&r->heap.graph.walk.kinds, (PyTypeObject *)(uintptr_t)address);
    struct stored_kind *stored = table_add(&r->stored.kinds);
    if (kind == NULL || stored == NULL)
        return false;
    b->failed = b->failed || address == 0 || kind->position >= CSR_MOST;
    /* they are numbered as they come, and no more are named */
    stored->type = (uint32_t)take_below(b, r->types.count < MOST_TYPES ? r->types.count + 1ull : MOST_TYPES);
    r->types.count += stored->type == r->types.count && !b->failed;
    stored->sorts = (uint8_t)take_byte(b, SORTS);
    stored->noun = (uint8_t)take_byte(b, NOUNS);
    stored->before = (uint8_t)take_byte(b, 65);
    return true;
}

static void count_touched(struct reading *r, uint64_t bytes) {
    pages_account.besides += bytes;
    r->touched += bytes;
}

/* Mark the object at an address, which comes behind those before it. False when there is no memory. */
static bool mark(struct reading *r, struct bytes *b, uint64_t address) {
    struct marks *marks = &r->heap.graph.walk.marks;
    bool is_behind = (address >> 3 & 1) != (r->last >> 3 & 1) ? (address >> 3 & 1) != 0 : address > r->last;
    if (address < lowest || address >= highest || (!is_behind && r->objects != 0)) {
        b->failed = true;
        return true;
    }
    const struct region *mapped = marks->mapped;
    struct spot spot = marks_spot(marks, (void *)address);
    if (spot.region == NULL)
        return false;
    if (marks->mapped != mapped)
        count_touched(r, REGION_BYTES);
    if (spot.region->used[spot.cell / PAGE_CELLS] == 0) {
        count_touched(r, CELL_PAGE_BYTES);
    }
    if (!pages_may(0))
        return false;
    marks_track(marks, (void *)address, 0);
    r->last = address;
    return true;
}

static struct stored_note take_note(struct reading *r, struct bytes *b) {
    struct stored_note note = {.number = r->objects, .what = take_byte(b, NOTES)};
    switch (note.what) {
    case NOTE_OWN_BLOCK:
        note.value = take_below(b, lowest);
        note.other = take_below(b, highest);
        break;
    case NOTE_BLOCK:
        note.value = take_below(b, highest);
        note.other = take_below(b, highest);
        break;
    case NOTE_SAMPLE:
    case NOTE_SAMPLED_BLOCK:
        note.value = take_below(b, UINT32_MAX);
        note.other = take_below(b, highest);
        break;
    case NOTE_PLACE:
        note.value = take_below(b, r->stored.places.count);
        break;
    case NOTE_PREVIEW:
        note.value = take_text_at(r, b);
        break;
    default:
        note.value = take_below(b, 1ull << 63); /* an int64_t's */
    }
    return note;
}

static bool take_notes(struct reading *r, struct bytes *b) {
    for (unsigned left = take_byte(b, 64); left > 0 && !b->failed; left--) {
        struct stored_note *place = table_add(&r->stored.notes);
        if (place == NULL)
            return false;
        *place = take_note(r, b);
    }
    return true;
}

/* Its row begins behind those before it, and has so many references. */
static bool add_row(struct reading *r, struct bytes *b) {
    r->referred += take_below(b, CSR_MOST);
    b->failed = b->failed || r->referred > CSR_MOST;
    return table_add_number(&r->first, (uint32_t)r->referred);
}

static bool add_size(struct reading *r, uint64_t size) {
    if (size < CSR_LARGE)
        return table_add_number(&r->sizes, (uint32_t)size);
    struct csr_large *large = table_add(&r->large);
    if (large != NULL)
        *large = (struct csr_large){size, r->objects};
    return large != NULL && table_add_number(&r->sizes, CSR_LARGE);
}

static bool add_kind(struct reading *r, uint32_t position) {
    uint16_t *kind = table_add(&r->kinds);
    if (kind == NULL)
        return false;
    *kind = position < KIND_ELSEWHERE ? (uint16_t)position : KIND_ELSEWHERE;
    if (position < KIND_ELSEWHERE)
        return true;
    struct csr_large *elsewhere = table_add(&r->elsewhere);
    if (elsewhere != NULL)
        *elsewhere = (struct csr_large){position, r->objects};
    return elsewhere != NULL;
}

static bool take_object(struct reading *r, struct bytes *b) {
    uint64_t distance = (uint64_t)take_signed(b), address = (r->next == r->piece ? 0 : r->last) + 8 * distance;
    int8_t *generation = table_add(&r->stored.generations);
    if (generation == NULL || !mark(r, b, address) || !add_kind(r, (uint32_t)take_below(b, r->stored.kinds.count)))
        return false;
    bool done = add_size(r, take_below(b, highest));
    unsigned flags = take_byte(b, 2 * PIECE_HAS_NOTES);
    b->failed = b->failed || (flags & PIECE_GENERATION) >= SAID_GENERATIONS || r->objects >= CSR_MOST;
    *generation = (int8_t)((int)(flags & PIECE_GENERATION) - 1);
    uint32_t length = flags & PIECE_HAS_LENGTH ? (uint32_t)take_below(b, LENGTH_NONE) : LENGTH_NONE;
    done = done && table_add_number(&r->stored.lengths, length);
    done = done && (!(flags & PIECE_HAS_NOTES) || take_notes(r, b)) && add_row(r, b);
    r->objects++;
    return done;
}

static bool take_frame(struct reading *r, struct bytes *b) {
    uint32_t label = (uint32_t)take_below(b, r->stored.labels.count),
             place = (uint32_t)take_below(b, r->stored.places.count + 1);
    r->frames++;
    b->failed = b->failed || (uint64_t)r->objects + r->frames > CSR_MOST;
    return table_add_number(&r->stored.frame_labels, label) &&
           table_add_number(&r->stored.frame_places, place == 0 ? CSR_NONE : place - 1) && add_row(r, b) &&
           table_add_number(&r->sizes, 0);
}

static bool take_edge(struct reading *r, struct bytes *b) {
    uint32_t at = (uint32_t)r->edges.count, rows = r->objects + r->frames;
    while (r->row < rows && table_number(&r->first, r->row + 1ull) <= at)
        r->row++;
    int64_t to = take_signed(b) + r->row;
    uint32_t label = (uint32_t)take_below(b, r->stored.labels.count);
    b->failed = b->failed || r->row >= rows || to < 0 || to >= r->objects;
    return table_add_number(&r->edges, b->failed ? 0 : (uint32_t)to) && table_add_number(&r->stored.edge_labels, label);
}

static bool take_call(struct reading *r, struct bytes *b) {
    struct heap_call *call = table_add(&r->heap.calls);
    if (call == NULL)
        return false;
    *call = (struct heap_call){(uint32_t)take_below(b, HEAP_NONE), (uint32_t)take_below(b, CSR_MOST)};
    r->called += call->count;
    return true;
}

static bool take_root(struct reading *r, struct bytes *b) {
    uint32_t number = (uint32_t)take_below(b, (uint64_t)r->objects + r->frames);
    return table_add_number(&r->roots, number) &&
           table_add_number(&r->stored.root_labels, (uint32_t)take_below(b, r->stored.labels.count));
}

/* -- a piece -------------------------------------------------------------------------------------------------- */

static const char *refusal_of(bool has_memory, const struct bytes *b) {
    return !has_memory ? no_memory : b->failed ? damaged : NULL;
}

const char *reading_add(struct reading *r, const unsigned char *bytes, size_t size) {
    static const take_one takes[PIECE_SECTIONS] = {take_kind, take_object, take_frame, take_edge, take_call, take_root};
    struct piece_head head;
    if (size < sizeof head || r->finished)
        return damaged;
    memcpy(&head, bytes, sizeof head);
    if (head.magic != PIECE_MAGIC || head.section >= PIECE_SECTIONS)
        return damaged;
    if (head.format != PIECE_FORMAT)
        return "another version of heaptop has written the heap dump";
    if (head.section != r->section)
        r->next = 0;
    if (head.section < r->section || head.first != r->next)
        return "a piece of the heap dump is missing";
    r->section = head.section;
    struct bytes b = {bytes + sizeof head, bytes + size, false};
    r->piece = r->next;
    bool done = take_each(r, &b, head.texts, take_text) && take_each(r, &b, head.labels, take_label) &&
                take_each(r, &b, head.places, take_place);
    for (uint32_t i = 0; done && i < head.count && !b.failed; i++, r->next++)
        done = takes[head.section](r, &b);
    b.failed = b.failed || b.at != b.end;
    return refusal_of(done, &b);
}

/* -- all of it ------------------------------------------------------------------------------------------------ */

bool reading_open(struct reading *r) {
    struct stored *s = &r->stored;
    *r = (struct reading){.section = 0};
    bool opened = graph_open(&r->heap.graph, false) == 0 && table_open(&r->first, sizeof(uint32_t), FIRST_ROOM) &&
                  table_open(&r->sizes, sizeof(uint32_t), FIRST_ROOM) && table_open(&r->edges, sizeof(uint32_t), FIRST_ROOM) &&
                  table_open(&r->kinds, sizeof(uint16_t), FIRST_ROOM) && table_open(&r->roots, sizeof(uint32_t), FIRST_ROOM) &&
                  table_open(&r->large, sizeof(struct csr_large), FIRST_ROOM) &&
                  table_open(&r->elsewhere, sizeof(struct csr_large), FIRST_ROOM) &&
                  table_open(&r->text_at, sizeof(uint32_t), FIRST_ROOM) &&
                  table_open(&r->heap.calls, sizeof(struct heap_call), FIRST_ROOM);
    return opened && table_open(&s->kinds, sizeof(struct stored_kind), FIRST_ROOM) &&
           table_open(&s->labels, sizeof(struct stored_label), FIRST_ROOM) &&
           table_open(&s->places, sizeof(struct stored_place), FIRST_ROOM) && table_open(&s->texts, 1, FIRST_ROOM) &&
           table_open(&s->notes, sizeof(struct stored_note), FIRST_ROOM) &&
           table_open(&s->lengths, sizeof(uint32_t), FIRST_ROOM) && table_open(&s->generations, 1, FIRST_ROOM) &&
           table_open(&s->edge_labels, sizeof(uint32_t), FIRST_ROOM) &&
           table_open(&s->root_labels, sizeof(uint32_t), FIRST_ROOM) &&
           table_open(&s->frame_labels, sizeof(uint32_t), FIRST_ROOM) &&
           table_open(&s->frame_places, sizeof(uint32_t), FIRST_ROOM) && table_add_number(&r->first, 0);
}

void reading_close(struct reading *r) {
    struct stored *s = &r->stored;
    struct table *const tables[] = {&r->first,       &r->sizes,       &r->edges,        &r->kinds,       &r->large,
                                    &r->elsewhere,   &r->text_at,     &r->roots,        &s->kinds,       &s->labels,
                                    &s->places,      &s->texts,       &s->notes,        &s->lengths,     &s->generations,
                                    &s->edge_labels, &s->root_labels, &s->frame_labels, &s->frame_places};
    struct graph *g = &r->heap.graph;
    retain_close(&r->heap.retain); /* while the rows have their count */
    g->rows = (struct csr){.count = 0}; /* they are the tables' */
    heap_close(&r->heap);
    types_close(&r->types);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        table_close(tables[i]);
    pages_account.besides -= r->touched;
    *r = (struct reading){.section = 0};
}

static bool open_types(struct reading *r) {
    struct types *t = &r->types;
    t->kinds = (uint32_t)r->stored.kinds.count;
    t->numbers = pages_map((t->kinds + 1ul) * sizeof *t->numbers);
    t->firsts = pages_map((t->kinds + 1ul) * sizeof *t->firsts);
    for (uint32_t i = t->kinds; t->numbers != NULL && t->firsts != NULL && i-- > 0;) {
        t->numbers[i] = stored_kind(&r->stored, i)->type;
        t->firsts[t->numbers[i]] = i;
    }
    return t->numbers != NULL && t->firsts != NULL;
}

static bool open_graph(struct reading *r) {
    struct graph *g = &r->heap.graph;
    g->kinds = pages_map((r->objects + 1ul) * sizeof *g->kinds);
    if (g->kinds == NULL || graph_restore(g, r->objects) != GRAPH_OK)
        return false;
    memcpy(g->kinds, r->kinds.items, r->objects * sizeof *g->kinds);
    g->elsewhere = r->elsewhere.items;
    g->elsewhere_count = (uint32_t)r->elsewhere.count;
    g->rows = (struct csr){
        .count = r->objects + r->frames,
        .first = r->first.items,
        .edges = r->edges.items,
        .sizes = r->sizes.items,
        .large = r->large.items,
        .large_count = (uint32_t)r->large.count,
    };
    return true;
}

/* As heap_open does it. */
static bool search(struct reading *r, struct progress *progress) {
    struct heap *h = &r->heap;
    const struct heap_call *calls = h->calls.items;
    bool done = retain_open(&h->retain, &h->graph.rows) == RETAIN_OK;
    uint64_t begin = 0;
    h->retain.progress = progress;
    progress_begin(progress, h->graph.rows.count);
    for (uint64_t i = 0; done && i < h->calls.count; begin += calls[i++].count)
        done = retain_reach(&h->retain, calls[i].kind, (const uint32_t *)r->roots.items + begin, calls[i].count) == RETAIN_OK;
    return done && retain_rest(&h->retain, HEAP_NONE) == RETAIN_OK && retain_dominate(&h->retain) == RETAIN_OK;
}

const char *reading_finish(struct reading *r, struct progress *progress) {
    struct heap *h = &r->heap;
    if (r->finished || r->edges.count != r->referred || r->roots.count != r->called)
        return "the heap dump is not whole";
    r->finished = true;
    h->stored = &r->stored;
    h->whole = true;
    if (!open_types(r) || !open_graph(r) || !search(r, progress))
        return no_memory;
    for (uint32_t i = 0; i < h->graph.objects; i++)
        h->bytes += csr_size(&h->graph.rows, i);
    return NULL;
}

static uint32_t kind_of(const struct reading *r, uint32_t number) {
    uint16_t kind = ((const uint16_t *)r->kinds.items)[number];
    return kind != KIND_ELSEWHERE ? kind : (uint32_t)csr_found(r->elsewhere.items, (uint32_t)r->elsewhere.count, number);
}

struct reading_row *reading_count(const struct reading *r, uint64_t *count, size_t *room) {
    const struct csr rows = {.sizes = r->sizes.items, .large = r->large.items, .large_count = (uint32_t)r->large.count};
    *count = (uint64_t)r->types.count * SAID_GENERATIONS;
    *room = (*count + 1) * sizeof(struct reading_row);
    struct reading_row *found = pages_map(*room);
    for (uint64_t i = 0; found != NULL && i < *count; i++)
        found[i] = (struct reading_row){(uint32_t)(i / SAID_GENERATIONS), (int32_t)(i % SAID_GENERATIONS) - 1, 0, 0};
    for (uint32_t i = 0; found != NULL && i < r->objects; i++) {
        uint32_t type = stored_kind(&r->stored, kind_of(r, i))->type;
        struct reading_row *row =
            &found[(uint64_t)type * SAID_GENERATIONS + (uint64_t)(((const int8_t *)r->stored.generations.items)[i] + 1)];
        row->count++;
        row->bytes += csr_size(&rows, i);
    }
    return found;
}
