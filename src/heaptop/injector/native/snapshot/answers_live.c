/* answers to LIVE and KNOWN: which objects one image has, for a later one to tell what is new since, and how old the rest is.

   A piece is a head and cells, each 1 KiB of address space with an object in it, in the order of numbers of objects (graph.h):

       head     { mark, 1: the first piece }                                                        8 bytes
       cells    │ places since the last one │ a bit for every 16 bytes │ types │ marks seen │ …
                  1 to 6                      8                          one for each bit, and 1; or one for each bit behind MIXED

   A place is PLACE_PLANE's of graph.h; how many there are since the last one is written 7 bits a byte, the lowest first, the
   highest bit saying that more follow. Marks seen are those before this one: by that, the latest mark has them all. A byte
   stands for all objects of the cell, where they have seen as many. What is read may be anything.

   Who has the address of another one from then is taken for it where it has its type, which a byte tells: a hash of the type's
   address. So one that is new may pass for old: of the same type always, of another one in one of 256 cases. */
#include "snapshot/answers.h"

#include <string.h>

enum { PIECE_BYTES = 500000 /* LONGEST_PIECE of protocol/images.py */, HEAD_BYTES = 8, MARK = 0x6b72616d /* "mark" */ };
enum { CELL_OBJECTS = 64, PLACE_BITS = PLACE_PLANE + 1, MIXED = UINT8_MAX, MOST_SEEN = UINT8_MAX - 1 };
enum { LONGEST_CELL = PLACE_BITS / 7 + 1 + 8 + CELL_OBJECTS + 1 + CELL_OBJECTS };

/* A type stays where it is as long as it has instances. */
static uint8_t type_byte(struct graph *g, uint32_t number) {
    return (uint8_t)((uint64_t)graph_kind(g, number)->type * 0x9E3779B97F4A7C15u >> 56);
}

/* -- writing ---------------------------------------------------------------------------------------------------- */

struct piece {
    struct answering *a;
    uint64_t last; /* the place written last */
    uint32_t next; /* the first object that is not in it */
    uint32_t size;
    unsigned char bytes[PIECE_BYTES];
};

static void write_places(struct piece *p, uint64_t count) {
    for (; count >= 128; count >>= 7)
        p->bytes[p->size++] = (unsigned char)(count | 128);
    p->bytes[p->size++] = (unsigned char)count;
}

static void write_seen(struct piece *p, uint32_t first, uint32_t count) {
    const struct seen_marks *known = p->a->seen_marks;
    uint8_t all = marks_seen_by(known, first);
    for (uint32_t i = 1; i < count && all != MIXED; i++)
        if (marks_seen_by(known, first + i) != all)
            all = MIXED;
    p->bytes[p->size++] = all;
    if (all != MIXED)
        return;
    memcpy(p->bytes + p->size, known->seen + first, count);
    p->size += count;
}

/* False, and nothing is written, where a cell may not fit, and where it was stopped. */
static bool write_cell(void *context, uint64_t place, const struct cell *cell) {
    struct piece *p = context;
    uint64_t bits = cell_present(cell);
    uint32_t first = cell_rank(cell), count = count_bits(bits);
    p->next = first;
    if (p->size + LONGEST_CELL > PIECE_BYTES || !progress_on(p->a->progress))
        return false;
    write_places(p, place - p->last);
    memcpy(p->bytes + p->size, &bits, sizeof bits);
    p->size += sizeof bits;
    for (uint32_t i = 0; i < count; i++)
        p->bytes[p->size++] = type_byte(&p->a->heap->graph, first + i);
    write_seen(p, first, count);
    p->last = place;
    p->next = first + count;
    return true;
}

const char *answers_live(struct answering *a) {
    const uint32_t head[2] = {MARK, a->query->offset == 0}, objects = a->heap->graph.objects;
    struct piece *p = pages_map(sizeof *p);
    if (p == NULL)
        return query_no_memory;
    p->a = a;
    p->next = objects; /* where no cell is left */
    memcpy(p->bytes, head, sizeof head);
    p->size = sizeof head;
    graph_cells(&a->heap->graph, a->query->offset, write_cell, p);
    if (!a->progress->stopped) {
        answering_begin(a, "live", 2);
        answering_field(a, "data");
        pack_bin(a->out, p->size);
        pack_bytes(a->out, p->bytes, p->size);
        answering_field_uint(a, "next", p->next < objects ? p->next : 0);
    }
    pages_unmap(p, sizeof *p);
    return a->progress->stopped ? query_cancelled : NULL;
}

/* -- reading ---------------------------------------------------------------------------------------------------- */

struct reading {
    const unsigned char *at, *end;
    uint64_t place;
};

struct cell_marks {
    uint64_t bits;
    const uint8_t *types, *seen; /* of each bit; one byte of seen where all are alike */
    bool mixed;
};

/* False where there is no whole number. */
static bool read_places(struct reading *r, uint64_t *count) {
    *count = 0;
    for (unsigned shift = 0; r->at < r->end && shift < PLACE_BITS; shift += 7) {
        unsigned char byte = *r->at++;
        *count |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* ``size`` bytes; NULL where there are not so many. */
static const unsigned char *read_bytes(struct reading *r, size_t size) {
    const unsigned char *bytes = r->at;
    if ((size_t)(r->end - bytes) < size)
        return NULL;
    r->at += size;
    return bytes;
}

static bool read_cell(struct reading *r, struct cell_marks *cell) {
    uint64_t count;
    const unsigned char *bits = read_places(r, &count) ? read_bytes(r, sizeof cell->bits) : NULL;
    if (bits == NULL || (r->place += count) >> PLACE_BITS != 0)
        return false;
    memcpy(&cell->bits, bits, sizeof cell->bits);
    cell->types = read_bytes(r, count_bits(cell->bits));
    cell->seen = cell->types == NULL ? NULL : read_bytes(r, 1);
    if (cell->seen == NULL)
        return false;
    cell->mixed = *cell->seen == MIXED;
    return !cell->mixed || (cell->seen = read_bytes(r, count_bits(cell->bits))) != NULL;
}

static struct reading begin_reading(const struct query *q) {
    return (struct reading){q->known + HEAD_BYTES, q->known + q->known_size, 0};
}

static bool is_whole(const struct query *q, uint32_t head[2]) {
    if (q->known_size < HEAD_BYTES)
        return false;
    memcpy(head, q->known, HEAD_BYTES);
    struct reading r = begin_reading(q);
    for (struct cell_marks cell; r.at < r.end;)
        if (!read_cell(&r, &cell))
            return false;
    return head[0] == MARK && head[1] <= 1;
}

/* Objects that are there now, and were. */
static void note_cell(struct answering *a, uint64_t place, const struct cell_marks *told) {
    struct graph *g = &a->heap->graph;
    uint64_t base = (place & ((1ull << PLACE_PLANE) - 1)) << CELL_BITS | place >> PLACE_PLANE << 3;
    const struct cell *now = graph_cell(g, (void *)base);
    for (uint64_t both = told->bits & cell_present(now); both != 0; both &= both - 1) {
        uint64_t bit = both & -both;
        uint32_t number = cell_number(now, bit), at = count_bits(told->bits & (bit - 1));
        if (type_byte(g, number) != told->types[at])
            continue;
        uint8_t before = told->seen[told->mixed ? at : 0];
        a->seen_marks->count += a->seen_marks->seen[number] == 0;
        a->seen_marks->seen[number] = before < MOST_SEEN ? before + 1 : MOST_SEEN;
    }
}

/* The first piece forgets what was sent until then. A sentence why a piece cannot come now, or NULL. */
static const char *begin_piece(struct answering *a, bool is_first) {
    struct seen_marks *known = a->seen_marks;
    size_t size = a->heap->graph.objects + 1ul;
    if (!is_first)
        return known->seen != NULL ? NULL : "the first piece of the mark is missing";
    if (known->seen == NULL)
        known->seen = pages_map(size);
    else
        memset(known->seen, 0, size);
    known->count = 0;
    return known->seen != NULL ? NULL : query_no_memory;
}

const char *answers_known(struct answering *a) {
    uint32_t head[2];
    if (!is_whole(a->query, head))
        return "the mark is damaged";
    const char *refusal = begin_piece(a, head[1] != 0);
    if (refusal != NULL)
        return refusal;
    struct reading r = begin_reading(a->query);
    for (struct cell_marks cell; r.at < r.end && read_cell(&r, &cell);)
        note_cell(a, r.place, &cell);
    answering_begin(a, "known", 1);
    answering_field_uint(a, "objects", a->seen_marks->count);
    return NULL;
}
