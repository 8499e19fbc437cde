/* answers to LIVE and KNOWN: which addresses one image has objects at, for a later one to tell what is new.

   A piece is a head and cells, each 1 KiB of address space with an object in it, in the order of numbers of objects (graph.h):

       head     { mark, 1: the first piece }                                        8 bytes
       cells    │ places since the last one │ a bit for every 16 bytes │ …          1 to 6, and 8 bytes

   A place is PLACE_PLANE's of graph.h; how many there are since the last one stands 7 bits a byte, the lowest first, the highest
   bit saying that more follow. What is read may be anything. */
#include "answers.h"

#include <string.h>

enum { PIECE_BYTES = 45000, HEAD_BYTES = 8, PLACE_BITS = PLACE_PLANE + 1, MARK = 0x6576696c /* "live" */ };

/* -- telling ---------------------------------------------------------------------------------------------------- */

struct piece {
    unsigned char bytes[PIECE_BYTES];
    uint32_t size;
    uint64_t place, bits; /* the cell that is not written yet; no bits: none */
    uint64_t last;        /* the place written last */
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
    p->last = p->place;
    p->bits = 0;
}

static uint64_t place_of(uint64_t address) { return (address >> 3 & 1) << PLACE_PLANE | address >> CELL_BITS; }

/* False, and nothing is noted, where a cell would begin that may not fit. */
static bool note(struct piece *p, uint64_t address) {
    uint64_t place = place_of(address);
    if (p->bits != 0 && place != p->place) {
        write_cell(p);
        if (p->size + PLACE_BITS / 7 + 1 + sizeof p->bits > PIECE_BYTES)
            return false;
    }
    p->place = place;
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
        if (is_selected(&a->selection, number) && !note(p, (uint64_t)graph_object(&a->heap->graph, number)))
            break;
    write_cell(p);
    if (a->progress->stopped) {
        pages_unmap(p, sizeof *p);
        return query_cancelled;
    }
    answers_begin(a, "live", 2);
    answers_field(a, "data");
    pack_bin(a->out, p->size);
    pack_bytes(a->out, p->bytes, p->size);
    answers_field_uint(a, "next", number < objects ? number : 0);
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

/* The next cell; false behind the last, and where none can be: then r->at is not the end. */
static bool next_cell(struct reading *r, uint64_t *bits) {
    uint64_t count;
    struct reading begin = *r;
    if (r->at == r->end)
        return false;
    if (read_places(r, &count) && (size_t)(r->end - r->at) >= sizeof *bits && (r->place += count) >> PLACE_BITS == 0) {
        memcpy(bits, r->at, sizeof *bits);
        r->at += sizeof *bits;
        return true;
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
    for (uint64_t bits; next_cell(&r, &bits);)
        ;
    return head[0] == MARK && r.at == r.end;
}

static void tell(struct answering *a, uint64_t place, uint64_t bits) {
    uint64_t base = (place & ((1ull << PLACE_PLANE) - 1)) << CELL_BITS | place >> PLACE_PLANE << 3;
    for (; bits != 0; bits &= bits - 1) {
        uint32_t number = graph_number(&a->heap->graph, (void *)(base + 16u * (unsigned)__builtin_ctzll(bits)));
        if (number == CSR_NONE || number >= a->selection.objects)
            continue;
        uint64_t *word = &a->told->bits[number / 64], bit = 1ull << (number % 64);
        a->told->count += (*word & bit) == 0;
        *word |= bit;
    }
}

const char *answers_known(struct answering *a) {
    uint32_t head[2];
    struct told *told = a->told;
    if (!is_whole(a->query, head))
        return "what it tells is damaged";
    size_t size = query_bits_bytes(a->selection.objects);
    if (told->bits == NULL)
        told->bits = pages_map(size);
    else if (head[1] != 0)
        memset(told->bits, 0, size);
    if (told->bits == NULL)
        return query_no_memory;
    if (head[1] != 0)
        told->count = 0;
    struct reading r = begin_reading(a->query);
    for (uint64_t bits; next_cell(&r, &bits);)
        tell(a, r.place, bits);
    answers_begin(a, "known", 1);
    answers_field_uint(a, "objects", told->count);
    return NULL;
}
