/* answers to DUMP: the heap piece by piece, to be written to a file. The layout is piece.h's.

   ``number`` of the question is the section, ``offset`` its first record. Pieces are to be asked for in order, because labels
   are sent once: a piece at the beginning of the first section forgets those before. */
#include "dump/piece.h"
#include "snapshot/answers.h"

#include "heap/writer.h"
#include "query/grouping.h"
#include "query/paths.h"
#include "query/places.h"
#include "sampler/sample.h"
#include "snapshot/fill.h"
#include "snapshot/preview.h"

#include <string.h>

enum { PIECE_BYTES = 400000, RECORD_BYTES = 8192 /* of the longest */, TABLE_BYTES = 200000 };

#define FACTOR 0x9E3779B97F4A7C15u

/* Bytes that are put together, with room for the longest record behind ``full``. */
struct buffer {
    unsigned char *base, *at, *full;
};

struct dumping { /* from the first piece to the last */
    struct grouping texts, labels, alike, places; /* by hash; ``open`` of a group: its number */
    uint32_t *references; /* of each object, as far as they are counted */
    uint32_t section, next; /* what is expected */
    uint32_t row; /* of the edge that is next */
    bool frozen; /* the samples */
    bool failed; /* there was no memory */
    struct buffer records, new_texts, new_labels, new_places;
    struct piece_head head;
};

/* -- bytes -------------------------------------------------------------------------------------------------- */

static void put_byte(struct buffer *b, unsigned value) { *b->at++ = (unsigned char)value; }

static void put_number(struct buffer *b, uint64_t value) {
    for (; value >= 128; value >>= 7)
        put_byte(b, (unsigned)(value & 127) | 128);
    put_byte(b, (unsigned)value);
}

static void put_signed(struct buffer *b, int64_t value) { put_number(b, (uint64_t)value << 1 ^ (uint64_t)(value >> 63)); }

static bool is_full(const struct buffer *b) { return b->at >= b->full; }

static bool buffer_open(struct buffer *b, size_t size) {
    b->base = b->at = pages_map(size + RECORD_BYTES);
    b->full = b->base + size;
    return b->base != NULL;
}

static void buffer_close(struct buffer *b, size_t size) { pages_unmap(b->base, size + RECORD_BYTES); }

/* -- texts, labels, places: each once ------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* The group of a key, which is new where its count is 0. NULL when there is no memory. */
static struct group *known(struct dumping *d, struct grouping *g, uint64_t key) {
    uint32_t before = (uint32_t)g->groups.count;
    struct group *group = grouping_of(g, key, 0);
    if (group != NULL && before != g->groups.count)
        group->open = before;
    d->failed = d->failed || group == NULL;
    return group;
}

/* Its number; CSR_NONE when there is no memory. */
static uint32_t text_number(struct dumping *d, const char *text, size_t size) {
    size = size < PIECE_TEXT ? size : PIECE_TEXT - 1;
    struct group *group = known(d, &d->texts, hash_of(text, size));
    if (group == NULL)
        return CSR_NONE;
    if (group->count++ == 0) {
        put_number(&d->new_texts, size);
        memcpy(d->new_texts.at, text, size);
        d->new_texts.at += size;
        d->head.texts++;
    }
    return group->open;
}

static uint32_t label_number(struct dumping *d, const struct label *label) {
    char text[LABEL_BYTES];
    bool is_frame = labels_is_frame(label);
    bool has_owner = label->kind == LABEL_CLOSURE || label->kind == LABEL_DEFAULT; /* who are alike read otherwise */
    uint64_t hash = labels_hash(label), owner = has_owner ? (uint64_t)label->owner * FACTOR : 0;
    struct group *group = known(d, &d->labels, (hash ^ owner ^ (uint64_t)label->role << 8 ^ is_frame) * FACTOR);
    if (group == NULL)
        return CSR_NONE;
    uint32_t number = group->open;
    if (group->count++ != 0)
        return number;
    uint32_t written = text_number(d, text, labels_write(label, false, text));
    struct group *alike = known(d, &d->alike, hash);
    put_byte(&d->new_labels, label->kind);
    put_byte(&d->new_labels, label->role);
    put_byte(&d->new_labels, is_frame);
    put_number(&d->new_labels, written);
    put_number(&d->new_labels, alike == NULL ? 0 : alike->open);
    d->head.labels++;
    return number;
}

/* And 1; 0 where there is none. */
static uint32_t place_number(struct answering *a, struct dumping *d, uint32_t number) {
    struct place place;
    if (!places_find(a, number, &place))
        return 0;
    uint64_t thread = hash_of(place.thread, strlen(place.thread));
    uint64_t key = ((uint64_t)place.code ^ thread ^ (uint64_t)place.line << 48) * FACTOR;
    struct group *group = known(d, &d->places, key);
    if (group == NULL)
        return 0;
    uint32_t found = group->open + 1;
    if (group->count++ != 0)
        return found;
    bool has_file = names_read_str(object_at(place.code, layout.code_filename), &writer_scratch);
    put_number(&d->new_places, text_number(d, writer_scratch.bytes, has_file ? writer_scratch.size : 0));
    put_number(&d->new_places, text_number(d, place.thread, strlen(place.thread)));
    put_number(&d->new_places, (uint64_t)place.line);
    put_number(&d->new_places, (uint64_t)place.first_line);
    d->head.places++;
    return found;
}

/* -- records -------------------------------------------------------------------------------------------------- */

static void put_kind(struct answering *a, struct dumping *d, uint32_t position) {
    const struct kind *kind = kinds_at(&a->heap->graph.walk.kinds, position);
    put_number(&d->records, (uint64_t)kind->type);
    put_number(&d->records, a->types->numbers[position]);
    put_number(&d->records, heap_sorts_of(kind->type));
    put_number(&d->records, preview_noun(kind));
    put_number(&d->records, (uint64_t)size_before(kind->type));
}

struct noting {
    struct buffer *out;
    unsigned char *count; /* where it stands: there are few */
};

static void note_one(struct noting *n, enum stored_what what, uint64_t value) {
    ++*n->count;
    put_byte(n->out, what);
    put_number(n->out, value);
}

static void note_two(struct noting *n, enum stored_what what, uint64_t value, uint64_t other) {
    note_one(n, what, value);
    put_number(n->out, other);
}

static void note_sample(struct noting *n, enum stored_what what, const void *block) {
    struct sample_found found;
    if (sample_may_be(block) && sample_find(block, &found))
        note_two(n, what, found.stack, found.size);
}

static void note_blocks(struct answering *a, struct noting *n, uint32_t number, const struct kind *kind) {
    struct size_block blocks[SIZE_BLOCKS];
    uint64_t rest = answering_bytes_of(a, number);
    for (uint32_t i = size_has_more(kind) ? query_blocks(a->heap, number, blocks) : 0; i-- > 1;) {
        note_two(n, NOTE_BLOCK, blocks[i].at, blocks[i].size);
        rest -= blocks[i].size < rest ? blocks[i].size : rest;
    }
    query_blocks(a->heap, number, blocks);
    uint64_t before = (uint64_t)graph_object(&a->heap->graph, number) - blocks[0].at;
    if (blocks[0].size != rest || before != (uint64_t)size_before(kind->type))
        note_two(n, NOTE_OWN_BLOCK, before, blocks[0].size);
}

static void note_samples(struct answering *a, struct noting *n, uint32_t number, PyObject *o) {
    const void *buffers[SIZE_BLOCKS];
    note_sample(n, NOTE_SAMPLE, (char *)o - size_before(Py_TYPE(o)));
    for (uint32_t i = answers_buffers_of(o, graph_kind(&a->heap->graph, number), buffers); i-- > 0;)
        note_sample(n, NOTE_SAMPLED_BLOCK, buffers[i]);
}

/* What an object is in words, where its type and length do not say it: the name of a function or a type; values, where they
   are wanted. */
static void note_preview(struct answering *a, struct dumping *d, struct noting *n, uint32_t number, unsigned sorts) {
    char text[PREVIEW_BYTES];
    bool is_named = sorts & SORT_TYPE || Py_TYPE(graph_object(&a->heap->graph, number)) == symbols.function_type;
    if (!is_named && !a->query->values)
        return;
    uint32_t size = preview_write(a->heap, number, a->query->values, text);
    if (size != 0)
        note_one(n, NOTE_PREVIEW, text_number(d, text, size));
}

static void note_figures(struct answering *a, struct dumping *d, struct noting *n, uint32_t number, const struct kind *kind) {
    PyObject *o = graph_object(&a->heap->graph, number);
    int64_t bound = a->query->buffers ? fill_bound(o, kind) : FILL_UNKNOWN, changes = fill_changes(o, kind);
    int64_t counted = reference_count(o);
    if (bound >= 0)
        note_one(n, NOTE_BOUND, (uint64_t)bound);
    if (changes >= 0 && a->query->buffers)
        note_one(n, NOTE_CHANGES, (uint64_t)changes);
    if (counted != INT64_MAX && counted > d->references[number])
        note_one(n, NOTE_SURPLUS, (uint64_t)counted - d->references[number]);
}

static void put_notes(struct answering *a, struct dumping *d, uint32_t number, const struct kind *kind) {
    PyObject *o = graph_object(&a->heap->graph, number);
    unsigned sorts = heap_sorts(a->heap, number);
    struct noting n = {&d->records, d->records.at++};
    *n.count = 0;
    note_figures(a, d, &n, number, kind);
    note_blocks(a, &n, number, kind);
    if (d->frozen)
        note_samples(a, &n, number, o);
    bool has_frame = sorts & SORT_GENERATOR || Py_TYPE(o) == symbols.frame_type;
    uint32_t place = has_frame ? place_number(a, d, number) : 0;
    if (place != 0)
        note_one(&n, NOTE_PLACE, place - 1);
    note_preview(a, d, &n, number, sorts);
}

static void put_object(struct answering *a, struct dumping *d, uint32_t number) {
    static const uint64_t most = LENGTH_NONE - 1;
    const struct kind *kind = graph_kind(&a->heap->graph, number);
    const uint32_t *first = a->heap->graph.rows.first;
    struct buffer *b = &d->records;
    put_number(b, kind->position);
    put_number(b, answering_bytes_of(a, number));
    int64_t length = a->query->buffers ? answers_length_of(a, number) : FILL_UNKNOWN;
    unsigned char *flags = b->at++;
    *flags = (unsigned char)((heap_generation(a->heap, number) + 1) | PIECE_HAS_NOTES);
    if (length >= 0) {
        *flags |= PIECE_HAS_LENGTH;
        put_number(b, (uint64_t)length < most ? (uint64_t)length : most);
    }
    unsigned char *notes = b->at;
    put_notes(a, d, number, kind);
    if (*notes == 0) {
        *flags &= (unsigned char)~PIECE_HAS_NOTES;
        b->at = notes;
    }
    put_number(b, first[number + 1] - first[number]);
}

static void put_frame(struct answering *a, struct dumping *d, uint32_t position) {
    const struct heap *h = a->heap;
    const struct heap_frame *frame = (const struct heap_frame *)h->frames.items + position;
    const struct label label = labels_frame(&frame->frame);
    uint32_t number = h->graph.objects + position;
    put_number(&d->records, label_number(d, &label));
    put_number(&d->records, place_number(a, d, number));
    put_number(&d->records, h->graph.rows.first[number + 1] - h->graph.rows.first[number]);
}

static void put_call(struct answering *a, struct dumping *d, uint32_t position) {
    const struct heap_call *call = (const struct heap_call *)a->heap->calls.items + position;
    put_number(&d->records, call->kind);
    put_number(&d->records, call->count);
}

static void put_root(struct answering *a, struct dumping *d, uint32_t position) {
    struct label label = heap_root(a->heap, position);
    put_number(&d->records, a->heap->retain.roots[position]);
    put_number(&d->records, label_number(d, &label));
}

/* -- sections: each returns the record behind the last that it has put ------------------------------------------ */

static bool has_room(const struct answering *a, const struct dumping *d) {
    return !is_full(&d->records) && !is_full(&d->new_texts) && !is_full(&d->new_labels) && !is_full(&d->new_places) &&
           progress_on(a->progress);
}

static uint32_t put_each(struct answering *a, struct dumping *d, uint32_t count,
                         void (*put)(struct answering *, struct dumping *, uint32_t)) {
    uint32_t at = d->head.first;
    for (; at < count && has_room(a, d); at++)
        put(a, d, at);
    return at;
}

struct sweeping {
    struct answering *a;
    struct dumping *d;
    uint64_t last; /* address */
    uint32_t next;
};

static bool put_cell(void *context, uint64_t place, const struct cell *cell) {
    struct sweeping *s = context;
    uint64_t base = (place & ((1ull << PLACE_PLANE) - 1)) << CELL_BITS | place >> PLACE_PLANE << 3;
    uint32_t number = cell_rank(cell);
    for (uint64_t left = cell_present(cell); left != 0; left &= left - 1, number++) {
        uint64_t address = base + 16ul * (uint64_t)__builtin_ctzll(left);
        if (number < s->next)
            continue;
        if (!has_room(s->a, s->d))
            return false;
        put_signed(&s->d->records, (int64_t)(address - s->last) / 8);
        put_object(s->a, s->d, number);
        s->last = address;
        s->next = number + 1;
    }
    return true;
}

static uint32_t put_objects(struct answering *a, struct dumping *d) {
    struct sweeping s = {a, d, 0, d->head.first};
    d->frozen = sample_freeze(true);
    graph_cells(&a->heap->graph, s.next, put_cell, &s);
    if (d->frozen)
        sample_thaw(true);
    return s.next;
}

/* The label of a reference is that which it has on the way to what refers. */
static uint32_t put_edges(struct answering *a, struct dumping *d) {
    const struct csr *rows = &a->heap->graph.rows;
    uint32_t at = d->head.first, labelled = CSR_NONE;
    struct label room;
    const struct label *before = NULL;
    d->row = at == 0 ? 0 : d->row;
    for (; at < rows->first[rows->count] && has_room(a, d); at++) {
        while (rows->first[d->row + 1] <= at)
            d->row++;
        if (labelled != d->row)
            before = paths_before(a->heap, d->row, &room);
        labelled = d->row;
        struct label label = heap_reference(a->heap, d->row, at - rows->first[d->row], before);
        put_signed(&d->records, (int64_t)rows->edges[at] - d->row);
        put_number(&d->records, label_number(d, &label));
    }
    return at;
}

static uint32_t roots_called(const struct heap *h) {
    const struct heap_call *calls = h->calls.items;
    uint32_t sum = 0;
    for (uint64_t i = 0; i < h->calls.count; i++)
        sum += calls[i].count;
    return sum;
}

static uint32_t records_of(const struct heap *h, uint32_t section) {
    switch (section) {
    case PIECE_KINDS:
        return h->graph.walk.kinds.count;
    case PIECE_OBJECTS:
        return h->graph.objects;
    case PIECE_FRAMES:
        return (uint32_t)h->frames.count;
    case PIECE_EDGES:
        return h->graph.rows.first[h->graph.rows.count];
    case PIECE_CALLS:
        return (uint32_t)h->calls.count;
    default:
        return roots_called(h);
    }
}

static uint32_t put_section(struct answering *a, struct dumping *d) {
    uint32_t count = records_of(a->heap, d->head.section);
    switch (d->head.section) {
    case PIECE_KINDS:
        return put_each(a, d, count, put_kind);
    case PIECE_OBJECTS:
        return put_objects(a, d);
    case PIECE_FRAMES:
        return put_each(a, d, count, put_frame);
    case PIECE_EDGES:
        return put_edges(a, d);
    case PIECE_CALLS:
        return put_each(a, d, count, put_call);
    default:
        return put_each(a, d, count, put_root);
    }
}

/* -- all of it ------------------------------------------------------------------------------------------------ */

static void forget(struct answering *a, struct dumping *d) {
    grouping_close(&d->texts);
    grouping_close(&d->labels);
    grouping_close(&d->alike);
    grouping_close(&d->places);
    buffer_close(&d->records, PIECE_BYTES);
    buffer_close(&d->new_texts, TABLE_BYTES);
    buffer_close(&d->new_labels, TABLE_BYTES);
    buffer_close(&d->new_places, TABLE_BYTES);
    graph_references_close(&a->heap->graph, d->references);
    *d = (struct dumping){.section = 0};
}

static bool begin(struct answering *a, struct dumping *d) {
    forget(a, d);
    d->references = graph_references(&a->heap->graph, NULL);
    return grouping_begin(&d->texts, GROUPING_BY_BYTES) & grouping_begin(&d->labels, GROUPING_BY_BYTES) &
               grouping_begin(&d->alike, GROUPING_BY_BYTES) & grouping_begin(&d->places, GROUPING_BY_BYTES) &
               buffer_open(&d->records, PIECE_BYTES) & buffer_open(&d->new_texts, TABLE_BYTES) &
               buffer_open(&d->new_labels, TABLE_BYTES) & buffer_open(&d->new_places, TABLE_BYTES) & (d->references != NULL) &&
           text_number(d, "", 0) == 0;
}

static void pack_buffer(struct answering *a, const struct buffer *b) { pack_bytes(a->out, b->base, (size_t)(b->at - b->base)); }

static void pack_piece(struct answering *a, struct dumping *d) {
    const struct buffer *const parts[] = {&d->new_texts, &d->new_labels, &d->new_places, &d->records};
    size_t size = sizeof d->head;
    for (int i = 0; i < 4; i++)
        size += (size_t)(parts[i]->at - parts[i]->base);
    answering_begin(a, "dumped", 4);
    answering_field(a, "data");
    pack_bin(a->out, (uint32_t)size);
    pack_bytes(a->out, &d->head, sizeof d->head);
    for (int i = 0; i < 4; i++)
        pack_buffer(a, parts[i]);
    answering_field_uint(a, "section", d->section);
    answering_field_uint(a, "next", d->next);
    answering_field_uint(a, "records", records_of(a->heap, d->head.section));
}

/* What a piece begins with: nothing, or in the first one the empty text. */
static void begin_piece(const struct query *q, struct dumping *d) {
    if (q->number != 0 || q->offset != 0) {
        d->new_texts.at = d->new_texts.base;
        d->head.texts = 0;
    }
    d->records.at = d->records.base;
    d->new_labels.at = d->new_labels.base;
    d->new_places.at = d->new_places.base;
    d->head = (struct piece_head){PIECE_MAGIC, PIECE_FORMAT, q->number, q->offset, 0, d->head.texts, 0, 0};
}

/* NULL, or why no piece can come. */
static const char *refuse(const struct answering *a, struct dumping *d) {
    const struct query *q = a->query;
    if (q->number >= PIECE_SECTIONS)
        return "there is no such section";
    return d->references != NULL && q->number == d->section && q->offset == d->next
               ? NULL
               : "pieces of a heap dump are asked for in order";
}

const char *answers_dump(struct answering *a) {
    const struct query *q = a->query;
    struct dumping *d = a->kept->dumping;
    if (d == NULL)
        d = a->kept->dumping = pages_map(sizeof *d);
    if (d == NULL || (q->number == 0 && q->offset == 0 && !begin(a, d)))
        return query_no_memory;
    const char *refusal = refuse(a, d);
    if (refusal != NULL)
        return refusal;
    begin_piece(q, d);
    progress_begin(a->progress, records_of(a->heap, q->number));
    uint32_t next = put_section(a, d);
    if (a->progress->stopped || d->failed) {
        refusal = d->failed ? query_no_memory : query_cancelled;
        forget(a, d);
        return refusal;
    }
    d->head.count = next - d->head.first;
    bool is_over = next == records_of(a->heap, q->number);
    d->section = is_over ? q->number + 1 : q->number;
    d->next = is_over ? 0 : next;
    pack_piece(a, d);
    return NULL;
}
