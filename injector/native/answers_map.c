/* answers to MAP: what lies where. Objects come in address order, but for a few static ones: a cell is done before the next
   begins, and may be added to once more. */
#include "answers.h"

#include <string.h>

enum { MOST_CELLS = 1 << 16, MOST_EXTENTS = 4096, TYPES_IN_CELL = 64 };

#define GAP ((uint64_t)1 << 20) /* bytes without an object that divide one extent from the next */

static uint64_t address_of(const struct answering *a, uint32_t number) {
    return (uint64_t)graph_object(&a->heap->graph, number);
}

struct extents {
    struct extent {
        uint64_t low, high, bytes;
    } list[MOST_EXTENTS];
    uint32_t count;
    bool cut;
};

static void extend(struct extents *e, uint64_t address, uint64_t size) {
    struct extent *last = e->count == 0 ? NULL : &e->list[e->count - 1];
    if (last == NULL || address < last->low || address > last->high + GAP) {
        if (e->count == MOST_EXTENTS) {
            e->cut = true;
            return;
        }
        last = &e->list[e->count++];
        *last = (struct extent){address, address, 0};
    }
    if (address + size > last->high)
        last->high = address + size;
    last->bytes += size;
}

/* -- cells ------------------------------------------------------------------------------------------------------ */

struct cell_record { /* CELL of protocol/images.py */
    uint32_t bytes, type;
    uint16_t taken;
    uint8_t generation, kind;
} __attribute__((packed));

struct cell_sums {
    uint64_t bytes, kinds[HEAP_KINDS];
    struct {
        uint32_t type;
        uint64_t bytes;
    } types[TYPES_IN_CELL]; /* those met first; there are few in a cell */
    uint32_t type_count;
    int generation;
};

static void add_to_cell(struct cell_sums *sums, uint32_t type, unsigned kind, int generation, uint64_t bytes) {
    uint32_t i = 0;
    while (i < sums->type_count && sums->types[i].type != type)
        i++;
    if (i == sums->type_count && i < TYPES_IN_CELL) {
        sums->types[i].type = type;
        sums->types[i].bytes = 0;
        sums->type_count++;
    }
    if (i < TYPES_IN_CELL)
        sums->types[i].bytes += bytes;
    sums->kinds[kind] += bytes;
    sums->bytes += bytes;
    if (generation >= 0 && (sums->generation < 0 || generation < sums->generation))
        sums->generation = generation;
}

static struct cell_record record_of(const struct cell_sums *sums, uint64_t size) {
    uint32_t type = 0, kind = 0;
    for (uint32_t i = 1; i < sums->type_count; i++)
        if (sums->types[i].bytes > sums->types[type].bytes)
            type = i;
    for (uint32_t i = 1; i < HEAP_KINDS; i++)
        if (sums->kinds[i] > sums->kinds[kind])
            kind = i;
    uint64_t taken = sums->bytes >= size ? 1000 : 1000 * sums->bytes / size;
    return (struct cell_record){
        .bytes = sums->bytes < UINT32_MAX ? (uint32_t)sums->bytes : UINT32_MAX,
        .type = sums->bytes == 0 ? CSR_NONE : sums->types[type].type,
        .taken = (uint16_t)taken,
        .generation = sums->generation < 0 ? 255 : (uint8_t)sums->generation,
        .kind = (uint8_t)kind,
    };
}

struct mapping {
    struct answering *answering;
    uint64_t low, high, cells; /* the range, and into how many it is divided */
    uint64_t at;               /* the cell that is being summed up */
    struct cell_sums sums;
    struct cell_record *records;
};

static uint64_t begin_of(const struct mapping *m, uint64_t cell) {
    return m->low + (uint64_t)((unsigned __int128)(m->high - m->low) * cell / m->cells);
}

static uint64_t cell_of(const struct mapping *m, uint64_t address) {
    uint64_t cell = (uint64_t)((unsigned __int128)(address - m->low) * m->cells / (m->high - m->low));
    while (cell + 1 < m->cells && begin_of(m, cell + 1) <= address) /* both are rounded down */
        cell++;
    return cell;
}

/* A cell that was there before: of objects that are out of order. */
static void merge(struct cell_record *before, struct cell_record record) {
    if (before->bytes > record.bytes) {
        struct cell_record larger = *before;
        *before = record;
        record = larger;
    }
    record.bytes += before->bytes < UINT32_MAX - record.bytes ? before->bytes : UINT32_MAX - record.bytes;
    record.taken = before->taken < 1000 - record.taken ? record.taken + before->taken : 1000;
    if (before->generation < record.generation)
        record.generation = before->generation;
    *before = record;
}

static void finish_cell(struct mapping *m) {
    if (m->sums.bytes != 0)
        merge(&m->records[m->at], record_of(&m->sums, begin_of(m, m->at + 1) - begin_of(m, m->at)));
    m->sums = (struct cell_sums){.generation = -1};
}

/* An object's bytes, in each cell that it reaches into. ``size``: up to the next object at most. */
static void add_object(struct mapping *m, uint32_t number, uint64_t address, uint64_t size) {
    struct answering *a = m->answering;
    uint32_t type = types_of(a->types, a->heap, number);
    int generation = heap_generation(a->heap, number);
    uint64_t at = address < m->low ? m->low : address, end = address + size < m->high ? address + size : m->high;
    while (at < end) {
        uint64_t cell = cell_of(m, at), next = begin_of(m, cell + 1);
        if (cell != m->at) {
            finish_cell(m);
            m->at = cell;
        }
        uint64_t part = (next < end ? next : end) - at;
        add_to_cell(&m->sums, type, answers_kind_of(a, number), generation, part);
        at += part;
    }
}

static void sweep(struct answering *a, struct extents *extents, struct mapping *m) {
    progress_begin(a->progress, a->selection.objects);
    for (uint32_t number = 0; number < a->selection.objects && progress_on(a->progress); number++) {
        if (!is_selected(&a->selection, number))
            continue;
        uint64_t address = address_of(a, number), size = query_span(a->heap, number);
        extend(extents, address, size);
        if (m->cells != 0 && address < m->high && address + size > m->low)
            add_object(m, number, address, size);
    }
    if (m->cells != 0)
        finish_cell(m);
}

static void pack_map_of(struct answering *a, const struct extents *extents, const struct mapping *m) {
    uint32_t size = (uint32_t)(m->cells * sizeof *m->records);
    answers_begin(a, "cells", 5);
    answers_field_uint(a, "low", m->low);
    answers_field_uint(a, "high", m->high);
    answers_field(a, "cells");
    pack_bin(a->out, size);
    pack_bytes(a->out, m->records, size);
    answers_field(a, "extents");
    pack_array(a->out, extents->count);
    for (uint32_t i = 0; i < extents->count; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, extents->list[i].low);
        pack_uint(a->out, extents->list[i].high);
        pack_uint(a->out, extents->list[i].bytes);
    }
    answers_field_complete(a, !extents->cut);
}

const char *answers_map(struct answering *a) {
    const struct query *q = a->query;
    struct mapping m = {.answering = a, .low = q->low, .high = q->high, .sums = {.generation = -1}};
    if (q->high > q->low)
        m.cells = q->limit < MOST_CELLS ? q->limit : MOST_CELLS;
    struct extents *extents = pages_map(sizeof *extents);
    m.records = pages_map((m.cells + 1) * sizeof *m.records);
    const char *refusal = extents == NULL || m.records == NULL ? query_no_memory : NULL;
    if (refusal == NULL) {
        const struct cell_sums nothing = {.generation = -1};
        for (uint64_t i = 0; i < m.cells; i++)
            m.records[i] = record_of(&nothing, 1);
        sweep(a, extents, &m);
        pack_map_of(a, extents, &m);
    }
    pages_unmap(extents, sizeof *extents);
    pages_unmap(m.records, (m.cells + 1) * sizeof *m.records);
    return refusal;
}
