/* answers to MAP: what lies where. */
#include "snapshot/answers.h"

#include <string.h>

enum { MOST_CELLS = 1 << 16, MOST_EXTENTS = 4096, TYPES_IN_CELL = 8 };

#define GAP ((uint64_t)1 << 20) /* bytes without an object that divide one extent from the next */

/* -- extents: in address order, each further than GAP from the next ------------------------------------------- */

struct extents {
    struct extent {
        uint64_t low, high, bytes;
    } list[MOST_EXTENTS];
    uint32_t count;
    bool cut;
};

/* The first that does not end too far below an address. */
static uint32_t extent_at(const struct extents *e, uint64_t address) {
    uint32_t begin = 0, end = e->count;
    while (begin < end) {
        uint32_t middle = (begin + end) / 2;
        if (e->list[middle].high + GAP < address)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static void insert_extent(struct extents *e, uint32_t at, struct size_block block) {
    if (e->count == MOST_EXTENTS) {
        e->cut = true;
        return;
    }
    memmove(&e->list[at + 1], &e->list[at], (e->count - at) * sizeof *e->list);
    e->list[at] = (struct extent){block.at, block.at + block.size, block.size};
    e->count++;
}

static void join_next(struct extents *e, uint32_t at) {
    struct extent *here = &e->list[at], *next = here + 1;
    here->high = here->high > next->high ? here->high : next->high;
    here->bytes += next->bytes;
    memmove(next, next + 1, (e->count - at - 2) * sizeof *e->list);
    e->count--;
}

static void extend(struct extents *e, struct size_block block) {
    uint32_t at = extent_at(e, block.at);
    uint64_t high = block.at + block.size;
    if (at == e->count || e->list[at].low > high + GAP) {
        insert_extent(e, at, block);
        return;
    }
    struct extent *here = &e->list[at];
    here->low = here->low < block.at ? here->low : block.at;
    here->high = here->high > high ? here->high : high;
    here->bytes += block.size;
    while (at + 1 < e->count && e->list[at + 1].low <= e->list[at].high + GAP)
        join_next(e, at);
}

/* -- cells ------------------------------------------------------------------------------------------------------ */

struct cell_record { /* CELL of protocol/images.py */
    uint32_t bytes, type;
    uint16_t taken;
    uint8_t generation, kind;
} __attribute__((packed));

struct cell_sums {
    uint64_t bytes, kinds[HEAP_KINDS];
    struct cell_type {
        uint64_t bytes;
        uint32_t type;
    } types[TYPES_IN_CELL];
    uint32_t type_count;
    uint8_t generations; /* a bit for each, and the highest for objects without one */
};

enum { NO_GENERATION = 7 };

/* Exact while a cell has few types. Then a type that takes more than an eighth of it is among them, and is told with no less
   than it has (Space-Saving: Metwally, Agrawal and El Abbadi, Efficient computation of frequent and top-k elements in data
   streams, 2005). */
static void add_type(struct cell_sums *sums, uint32_t type, uint64_t bytes) {
    struct cell_type *least = &sums->types[0];
    for (uint32_t i = 0; i < sums->type_count; i++) {
        struct cell_type *each = &sums->types[i];
        if (each->type == type) {
            each->bytes += bytes;
            return;
        }
        if (each->bytes < least->bytes)
            least = each;
    }
    if (sums->type_count < TYPES_IN_CELL)
        least = &sums->types[sums->type_count++];
    least->type = type;
    least->bytes += bytes;
}

static struct cell_record record_of(const struct cell_sums *sums, uint64_t size) {
    const struct cell_type *most = &sums->types[0];
    uint32_t kind = 0;
    for (uint32_t i = 1; i < sums->type_count; i++)
        if (sums->types[i].bytes > most->bytes)
            most = &sums->types[i];
    for (uint32_t i = 1; i < HEAP_KINDS; i++)
        if (sums->kinds[i] > sums->kinds[kind])
            kind = i;
    uint8_t known = sums->generations & (uint8_t)~(1u << NO_GENERATION);
    return (struct cell_record){
        .bytes = sums->bytes < UINT32_MAX ? (uint32_t)sums->bytes : UINT32_MAX,
        .type = sums->bytes == 0 ? CSR_NONE : most->type,
        .taken = (uint16_t)(sums->bytes >= size ? 1000 : 1000 * sums->bytes / size),
        .generation = known == 0 ? 255 : (uint8_t)__builtin_ctz(known),
        .kind = (uint8_t)kind,
    };
}

struct mapping {
    struct answering *answering;
    uint64_t low, high, cells; /* the range, and into how many it is divided */
    struct cell_sums *sums;
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

struct mapped { /* what is reported of an object */
    uint32_t type;
    unsigned kind;
    int generation;
};

/* A block's bytes, in each cell that it reaches into. */
static void add_block(struct mapping *m, struct size_block block, const struct mapped *object) {
    uint64_t at = block.at < m->low ? m->low : block.at, end = block.at + block.size;
    end = end < m->high ? end : m->high;
    while (at < end) {
        uint64_t cell = cell_of(m, at), next = begin_of(m, cell + 1), part = (next < end ? next : end) - at;
        struct cell_sums *sums = &m->sums[cell];
        add_type(sums, object->type, part);
        sums->kinds[object->kind] += part;
        sums->bytes += part;
        sums->generations |= (uint8_t)(1u << (object->generation < 0 ? NO_GENERATION : object->generation));
        at += part;
    }
}

static void add_object(struct mapping *m, struct extents *extents, uint32_t number) {
    struct answering *a = m->answering;
    struct size_block blocks[SIZE_BLOCKS];
    uint32_t count = query_blocks(a->heap, number, blocks);
    struct mapped object = {CSR_NONE, 0, -2};
    for (uint32_t i = 0; i < count; i++) {
        extend(extents, blocks[i]);
        if (m->cells == 0 || blocks[i].at >= m->high || blocks[i].at + blocks[i].size <= m->low)
            continue;
        if (object.generation == -2)
            object = (struct mapped){types_of(a->types, a->heap, number), answering_kind_of(a, number),
                                     heap_generation(a->heap, number)};
        add_block(m, blocks[i], &object);
    }
}

static void sweep(struct mapping *m, struct extents *extents) {
    struct answering *a = m->answering;
    progress_begin(a->progress, a->selection.objects);
    for (uint32_t number = 0; number < a->selection.objects && progress_on(a->progress); number++)
        if (is_selected(&a->selection, number))
            add_object(m, extents, number);
}

static void pack_cells(struct answering *a, const struct mapping *m) {
    pack_bin(a->out, (uint32_t)(m->cells * sizeof(struct cell_record)));
    for (uint64_t i = 0; i < m->cells; i++) {
        struct cell_record record = record_of(&m->sums[i], begin_of(m, i + 1) - begin_of(m, i));
        pack_bytes(a->out, &record, sizeof record);
    }
}

static void pack_map_of(struct answering *a, const struct extents *extents, const struct mapping *m) {
    answering_begin(a, "cells", 5);
    answering_field_uint(a, "low", m->low);
    answering_field_uint(a, "high", m->high);
    answering_field(a, "cells");
    pack_cells(a, m);
    answering_field(a, "extents");
    pack_array(a->out, extents->count);
    for (uint32_t i = 0; i < extents->count; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, extents->list[i].low);
        pack_uint(a->out, extents->list[i].high);
        pack_uint(a->out, extents->list[i].bytes);
    }
    answering_field_complete(a, !extents->cut);
}

const char *answers_map(struct answering *a) {
    const struct query *q = a->query;
    struct mapping m = {.answering = a, .low = q->low, .high = q->high};
    if (q->high > q->low)
        m.cells = q->limit < MOST_CELLS ? q->limit : MOST_CELLS;
    struct extents *extents = pages_map(sizeof *extents);
    m.sums = pages_map((m.cells + 1) * sizeof *m.sums);
    const char *refusal = extents == NULL || m.sums == NULL ? query_no_memory : NULL;
    if (refusal == NULL) {
        sweep(&m, extents);
        pack_map_of(a, extents, &m);
    }
    pages_unmap(extents, sizeof *extents);
    pages_unmap(m.sums, (m.cells + 1) * sizeof *m.sums);
    return refusal;
}
