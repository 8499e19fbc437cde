/* answers to LIVE and KNOWN: which objects one image has, for a later one to tell what is new since, and how old the rest is.

   A piece is a head and cells, each 1 KiB of address space with an object in it, in the order of numbers of objects (graph.h):

       head     { mark, 1: the first piece }                                                    8 bytes
       cells    │ places since the last one │ a bit for every 16 bytes │ types │ marks seen │ …
                  1 to 6                      8                          a column each, with a byte for each bit

       column   │ n, up to 16 │ n different bytes │ which one, of each bit: as many bits as n needs │
                │ 0 │ the bytes as they are │      where that is shorter

   A place is PLACE_PLANE's of graph.h; how many there are since the last one is written 7 bits a byte, the lowest first, the
   highest bit saying that more follow. Marks seen are those before this one: by that, the latest mark has them all. What is
   read may be anything.

   Who has the address of another one from then is taken for it where it has its type, which a byte tells: a hash of the type's
   address. So one that is new may pass for old: of the same type always, of another one in one of 256 cases. */
#include "snapshot/answers.h"

#include <string.h>

enum { PIECE_BYTES = 500000 /* LONGEST_PIECE of protocol/images.py */, HEAD_BYTES = 8, MARK = 0x6b72616d /* "mark" */ };
enum { CELL_OBJECTS = 64, PLACE_BITS = PLACE_PLANE + 1, MOST_SEEN = UINT8_MAX - 1, MOST_VALUES = 16 };
enum { LONGEST_CELL = PLACE_BITS / 7 + 1 + 8 + 2 * (1 + CELL_OBJECTS) };

/* How many bits distinguish so many values. */
static unsigned bits_of(uint32_t values) {
    unsigned bits = 0;
    while (1u << bits < values)
        bits++;
    return bits;
}

static uint32_t code_bytes(uint32_t values, uint32_t count) { return (bits_of(values) * count + 7) / 8; }

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

/* The different ones of some bytes, and by position which one each is. How many; 0 where they are more than MOST_VALUES. */
static uint32_t find_values(const uint8_t *bytes, uint32_t count, uint8_t values[MOST_VALUES], uint8_t codes[CELL_OBJECTS]) {
    uint32_t found = 0, code = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (found == 0 || values[code] != bytes[i])
            for (code = 0; code < found && values[code] != bytes[i];)
                code++;
        if (code == MOST_VALUES)
            return 0;
        if (code == found)
            values[found++] = bytes[i];
        codes[i] = (uint8_t)code;
    }
    return found;
}

static void write_codes(struct piece *p, const uint8_t *codes, uint32_t count, unsigned bits) {
    uint32_t waiting = 0, filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        waiting |= (uint32_t)codes[i] << filled;
        for (filled += bits; filled >= 8; filled -= 8, waiting >>= 8)
            p->bytes[p->size++] = (unsigned char)waiting;
    }
    if (filled != 0)
        p->bytes[p->size++] = (unsigned char)waiting;
}

static void write_column(struct piece *p, const uint8_t *bytes, uint32_t count) {
    uint8_t values[MOST_VALUES], codes[CELL_OBJECTS];
    uint32_t found = find_values(bytes, count, values, codes);
    bool is_shorter = found != 0 && found + code_bytes(found, count) <= count;
    p->bytes[p->size++] = (unsigned char)(is_shorter ? found : 0);
    memcpy(p->bytes + p->size, is_shorter ? values : bytes, is_shorter ? found : count);
    p->size += is_shorter ? found : count;
    if (is_shorter && found > 1)
        write_codes(p, codes, count, bits_of(found));
}

/* False, and nothing is written, where a cell may not fit, and where it was stopped. */
static bool write_cell(void *context, uint64_t place, const struct cell *cell) {
    struct piece *p = context;
    uint64_t bits = cell_present(cell);
    uint32_t first = cell_rank(cell), count = count_bits(bits);
    uint8_t types[CELL_OBJECTS], seen[CELL_OBJECTS];
    p->next = first;
    if (p->size + LONGEST_CELL > PIECE_BYTES || !progress_on(p->a->progress))
        return false;
    write_places(p, place - p->last);
    memcpy(p->bytes + p->size, &bits, sizeof bits);
    p->size += sizeof bits;
    for (uint32_t i = 0; i < count; i++) {
        types[i] = type_byte(&p->a->heap->graph, first + i);
        seen[i] = marks_seen_by(p->a->seen_marks, first + i);
    }
    write_column(p, types, count);
    write_column(p, seen, count);
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
    uint8_t types[CELL_OBJECTS], seen[CELL_OBJECTS]; /* of each bit */
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

static bool read_codes(struct reading *r, const uint8_t *values, uint32_t found, uint8_t *bytes, uint32_t count) {
    unsigned bits = bits_of(found);
    const unsigned char *codes = read_bytes(r, code_bytes(found, count));
    uint32_t waiting = 0, filled = 0;
    for (uint32_t i = 0; codes != NULL && i < count; i++, filled -= bits, waiting >>= bits) {
        if (filled < bits) {
            waiting |= (uint32_t)*codes++ << filled;
            filled += 8;
        }
        uint32_t code = waiting & ((1u << bits) - 1);
        if (code >= found)
            return false;
        bytes[i] = values[code];
    }
    return codes != NULL;
}

static bool read_column(struct reading *r, uint8_t bytes[CELL_OBJECTS], uint32_t count) {
    const unsigned char *head = read_bytes(r, 1);
    uint32_t found = head == NULL ? MOST_VALUES + 1 : *head;
    const unsigned char *values = found <= MOST_VALUES ? read_bytes(r, found == 0 ? count : found) : NULL;
    if (values == NULL)
        return false;
    if (found > 1)
        return read_codes(r, values, found, bytes, count);
    if (found == 1)
        memset(bytes, values[0], count);
    else
        memcpy(bytes, values, count);
    return true;
}

static bool read_cell(struct reading *r, struct cell_marks *cell) {
    uint64_t count;
    const unsigned char *bits = read_places(r, &count) ? read_bytes(r, sizeof cell->bits) : NULL;
    if (bits == NULL || (r->place += count) >> PLACE_BITS != 0)
        return false;
    memcpy(&cell->bits, bits, sizeof cell->bits);
    uint32_t objects = count_bits(cell->bits);
    return read_column(r, cell->types, objects) && read_column(r, cell->seen, objects);
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
    const struct cell *now = graph_cell(g, graph_place_base(place));
    for (uint64_t both = told->bits & cell_present(now); both != 0; both &= both - 1) {
        uint64_t bit = both & -both;
        uint32_t number = cell_number(now, bit), at = count_bits(told->bits & (bit - 1));
        if (type_byte(g, number) != told->types[at])
            continue;
        uint8_t before = told->seen[at];
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
