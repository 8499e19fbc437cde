/* answers to LIVE and KNOWN: which objects one image has, for a later one to tell what is new since, and how old the rest is.

   A piece is a head and cells, each 1 KiB of address space with an object in it, in the order of numbers of objects (graph.h):

       head     { mark, 1: the first piece }                                          8 bytes
       cells    │ places since the last one │ a bit for every 16 bytes │ types │ …    1 to 6, 8, and one for each bit

   A place is PLACE_PLANE's of graph.h; how many there are since the last one stands 7 bits a byte, the lowest first, the highest
   bit saying that more follow. What is read may be anything.

   Who has the address of another one from then is taken for it where it has its type, which a byte tells: a hash of the type's
   address. So one that is new may pass for old: of the same type always, of another one in one of 256 cases. */
#include "snapshot/answers.h"

#include <string.h>

enum { PIECE_BYTES = 45000, HEAD_BYTES = 8, PLACE_BITS = PLACE_PLANE + 1, MARK = 0x6576696c /* "live" */ };
enum { CELL_OBJECTS = 64, MOST_MARKS = 200 /* as protocol/images.py says */ };

/* A type stays where it is as long as it has instances. */
static uint8_t type_byte(struct graph *g, uint32_t number) {
    return (uint8_t)((uint64_t)graph_kind(g, number)->type * 0x9E3779B97F4A7C15u >> 56);
}

/* -- telling ---------------------------------------------------------------------------------------------------- */

struct piece {
    unsigned char bytes[PIECE_BYTES];
    uint32_t size;
    uint64_t place, bits; /* the cell that is not written yet; no bits: none */
    uint64_t last;        /* the place written last */
    uint8_t types[CELL_OBJECTS]; /* of its objects, count_bits(bits) */
};

static void put(struct piece *p, const void *bytes, uint32_t size) {
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

static void write_cell(struct piece *p) {
    uint64_t left = p->place - p->last;
    if (p->bits == 0)
        return;
    for (; left >= 128; left >>= 7)
        p->bytes[p->size++] = (unsigned char)(left | 128);
    p->bytes[p->size++] = (unsigned char)left;
    put(p, &p->bits, sizeof p->bits);
    put(p, p->types, count_bits(p->bits));
    p->last = p->place;
    p->bits = 0;
}

static uint64_t place_of(uint64_t address) { return (address >> 3 & 1) << PLACE_PLANE | address >> CELL_BITS; }

/* False, and nothing is noted, where a cell would begin that may not fit. */
static bool note(struct piece *p, struct graph *g, uint32_t number) {
    uint64_t address = (uint64_t)graph_object(g, number), place = place_of(address);
    if (p->bits != 0 && place != p->place) {
        write_cell(p);
        if (p->size + PLACE_BITS / 7 + 1 + sizeof p->bits + sizeof p->types > PIECE_BYTES)
            return false;
    }
    p->place = place;
    p->types[count_bits(p->bits)] = type_byte(g, number); /* by number is by address, within a cell */
    p->bits |= graph_bit((void *)address);
    return true;
}

const char *answers_live(struct answering *a) {
    const uint32_t head[2] = {MARK, a->query->offset == 0};
    struct piece *p = pages_map(sizeof *p);
    if (p == NULL)
        return query_no_memory;
    put(p, head, sizeof head);
    uint32_t number = a->query->offset, objects = a->selection.objects;
    for (; number < objects && progress_on(a->progress); number++)
        if (is_selected(&a->selection, number) && !note(p, &a->heap->graph, number))
            break;
    write_cell(p);
    if (a->progress->stopped) {
        pages_unmap(p, sizeof *p);
        return query_cancelled;
    }
    answering_begin(a, "live", 2);
    answering_field(a, "data");
    pack_bin(a->out, p->size);
    pack_bytes(a->out, p->bytes, p->size);
    answering_field_uint(a, "next", number < objects ? number : 0);
    pages_unmap(p, sizeof *p);
    return NULL;
}

/* -- being told ------------------------------------------------------------------------------------------------- */

struct reading {
    const unsigned char *at, *end;
    uint64_t place;
};

/* False where no whole number stands. */
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

struct cell_counts {
    uint64_t bits;
    const uint8_t *types; /* one for each bit */
};

/* The next cell; false behind the last, and where none can be: then r->at is not the end. */
static bool next_cell(struct reading *r, struct cell_counts *cell) {
    uint64_t count;
    struct reading begin = *r;
    if (r->at == r->end)
        return false;
    if (read_places(r, &count) && (size_t)(r->end - r->at) >= sizeof cell->bits && (r->place += count) >> PLACE_BITS == 0) {
        memcpy(&cell->bits, r->at, sizeof cell->bits);
        cell->types = r->at + sizeof cell->bits;
        if ((size_t)(r->end - cell->types) >= count_bits(cell->bits)) {
            r->at = cell->types + count_bits(cell->bits);
            return true;
        }
    }
    *r = begin;
    return false;
}

static struct reading begin_reading(const struct query *q) {
    return (struct reading){q->known + HEAD_BYTES, q->known + q->known_size, 0};
}

static bool is_whole(const struct query *q, uint32_t head[2]) {
    if (q->known_size < HEAD_BYTES)
        return false;
    memcpy(head, q->known, HEAD_BYTES);
    struct reading r = begin_reading(q);
    for (struct cell_counts cell; next_cell(&r, &cell);)
        ;
    return head[0] == MARK && head[1] <= 1 && r.at == r.end;
}

/* Objects of the cell that have seen all marks told before have seen this one, too. */
static void note_cell(struct answering *a, uint64_t place, const struct cell_counts *cell) {
    struct graph *g = &a->heap->graph;
    struct seen_marks *seen_marks = a->seen_marks;
    const uint8_t *type = cell->types;
    uint64_t base = (place & ((1ull << PLACE_PLANE) - 1)) << CELL_BITS | place >> PLACE_PLANE << 3;
    for (uint64_t bits = cell->bits; bits != 0; bits &= bits - 1, type++) {
        uint32_t number = graph_number(g, (void *)(base + 16u * (unsigned)__builtin_ctzll(bits)));
        if (number >= a->selection.objects || seen_marks->seen[number] + 1u != seen_marks->marks ||
            type_byte(g, number) != *type)
            continue;
        seen_marks->seen[number]++;
        seen_marks->count++;
    }
}

/* Whether a piece of this mark may come now; if so, it is the mark that is told from here on. */
static bool begin_mark(struct seen_marks *seen_marks, uint32_t number, bool is_first, size_t size) {
    if (!is_first)
        return number != 0 && number == seen_marks->marks;
    if (number != 1 && number != seen_marks->marks + 1)
        return false;
    if (number == 1)
        memset(seen_marks->seen, 0, size);
    seen_marks->marks = number;
    seen_marks->count = 0;
    return true;
}

const char *answers_known(struct answering *a) {
    uint32_t head[2];
    struct seen_marks *seen_marks = a->seen_marks;
    size_t size = a->selection.objects + 1ul;
    if (!is_whole(a->query, head))
        return "what it tells is damaged";
    if (a->query->number > MOST_MARKS)
        return "more marks than it can be told";
    if (seen_marks->seen == NULL)
        seen_marks->seen = pages_map(size);
    if (seen_marks->seen == NULL)
        return query_no_memory;
    if (!begin_mark(seen_marks, a->query->number, head[1] != 0, size))
        return "marks are told one after the other, the latest first";
    struct reading r = begin_reading(a->query);
    for (struct cell_counts cell; next_cell(&r, &cell);)
        note_cell(a, r.place, &cell);
    answering_begin(a, "known", 1);
    answering_field_uint(a, "objects", seen_marks->count);
    return NULL;
}
