/* marks: which objects are in a list of the collector, which were reached besides, and how old they are.

   A bit for every 16 bytes of address space, in two planes, because a static object may be at 8 modulo 16.
   A cell is 1 KiB of the heap; a region is 1 GiB, mapped when first touched, and sparse.

       address    46 ........ 30 | 29 .......... 10 | 9 .... 4 | 3     | 2 1 0
                  region           cell of region     bit        plane   always 0

       region ─►  cells   [2^20]  { tracked: 64 bits, reached: 64 bits }   16 MiB, of which a page is 256 KiB of heap
                  ages    [2^20]  { low: 64 bits, high: 64 bits }          as large; touched only for what is not
                                                                           generation 2
                  used    [4096]  a byte for each page of cells: what was touched of it and of its ages

   1/64 of the heap's address range, where anything is in it; a heap at rest is in generation 2, and its ages take
   nothing. With HEAPTOP_DEBUG a plain set of addresses keeps the same books, and every answer is compared. */
#ifndef HEAPTOP_MARKS_H
#define HEAPTOP_MARKS_H

#include "pages.h"

#include <stdbool.h>
#include <stdint.h>
#ifdef HEAPTOP_DEBUG
#include "heap/address_set.h"
#endif

enum {
    REGION_BITS = 30,
    CELL_BITS = 10,
    REGION_CELLS = 1 << (REGION_BITS - CELL_BITS),
    PAGE_CELLS = 256,
    REGION_PAGES = REGION_CELLS / PAGE_CELLS,
    PLANES = 2,
    REGIONS = 1 << (MACHINE_ADDRESS_BITS - REGION_BITS),
};

#define NO_PLACE UINT64_MAX

enum { USED_TRACKED = 1, USED_REACHED = 2, USED_AGES = 4 };

struct cell {
    uint64_t tracked, reached;
};

struct ages {
    uint64_t low, high;
};

struct region {
    struct cell cells[REGION_CELLS];
    struct ages ages[REGION_CELLS];
    uint8_t used[REGION_PAGES];
    const struct region *next; /* the one mapped before it */
    /* Once ranked (graph.c), what is passed over in a sweep: gaps of terabytes between two regions, and of what was
       not touched in one. */
    uint16_t next_used[REGION_PAGES]; /* this page of cells or the first used one behind it; REGION_PAGES: none */
    uint64_t after;                   /* the place of the next region; NO_PLACE: none */
};

struct marks {
    struct region **regions[PLANES]; /* REGIONS pointers each */
    const struct region *mapped;     /* the last one */
    uint32_t lowest, highest;        /* regions mapped so far lie between */
    uint64_t first;                  /* once ranked: the place of the first region, or NO_PLACE */
    bool failed;                     /* memory ran out, or an address was none: the marks are not whole */
    bool ranked;                     /* cells are those of graph.h: nothing may be noted any more */
#ifdef HEAPTOP_DEBUG
    struct address_set tracked, reached;
#endif
};

/* 0, or -1 when there is no memory; marks_close is right after either. */
int marks_open(struct marks *m);
void marks_close(struct marks *m);

/* Bytes of memory that the marks take: what was touched of their regions. */
uint64_t marks_bytes(const struct marks *m);

/* Map the region of an address. NULL, with m->failed set, when that cannot be. */
struct region *marks_add_region(struct marks *m, uint64_t address);

struct spot {
    struct region *region; /* NULL: no memory, or not an address of an object */
    uint32_t cell;
    uint64_t bit;
};

static inline struct spot marks_spot(struct marks *m, const void *o) {
    uint64_t address = (uint64_t)o, region = address >> REGION_BITS;
    struct spot spot = {NULL, address >> CELL_BITS & (REGION_CELLS - 1), 1ull << (address >> 4 & 63)};
    if (__builtin_expect(region < REGIONS, 1))
        spot.region = m->regions[address >> 3 & 1][region];
    if (__builtin_expect(spot.region == NULL, 0))
        spot.region = marks_add_region(m, address);
    return spot;
}

/* Note an object of a list. False when it is noted already, or cannot be. ``age`` is 0 for generation 2. */
static inline bool marks_track(struct marks *m, const void *o, unsigned age) {
    struct spot spot = marks_spot(m, o);
    if (spot.region == NULL)
        return false;
    struct cell *cell = &spot.region->cells[spot.cell];
    bool fresh = !(cell->tracked & spot.bit);
    cell->tracked |= spot.bit;
    spot.region->used[spot.cell / PAGE_CELLS] |= age != 0 ? USED_TRACKED | USED_AGES : USED_TRACKED;
    if (age & 1)
        spot.region->ages[spot.cell].low |= spot.bit;
    if (age & 2)
        spot.region->ages[spot.cell].high |= spot.bit;
#ifdef HEAPTOP_DEBUG
    address_set_check(&m->tracked, o, fresh);
#endif
    return fresh;
}

/* Whether an object of a list was noted. */
static inline bool marks_tracks(const struct marks *m, const void *o) {
    uint64_t address = (uint64_t)o, number = address >> REGION_BITS;
    const struct region *region = number < REGIONS ? m->regions[address >> 3 & 1][number] : NULL;
    return region != NULL && region->cells[address >> CELL_BITS & (REGION_CELLS - 1)].tracked & 1ull << (address >> 4 & 63);
}

/* What marks_track was told. */
static inline unsigned marks_age(const struct marks *m, const void *o) {
    uint64_t address = (uint64_t)o, number = address >> REGION_BITS, cell = address >> CELL_BITS & (REGION_CELLS - 1);
    const struct region *region = number < REGIONS ? m->regions[address >> 3 & 1][number] : NULL;
    if (region == NULL || !(region->used[cell / PAGE_CELLS] & USED_AGES))
        return 0;
    const struct ages *ages = &region->ages[cell];
    uint64_t shift = address >> 4 & 63;
    return (unsigned)((ages->low >> shift & 1) | (ages->high >> shift & 1) << 1);
}

/* Note an object that was reached. False when it is in a list, was reached before, or cannot be noted. */
static inline bool marks_reach(struct marks *m, const void *o) {
    struct spot spot = marks_spot(m, o);
    if (spot.region == NULL)
        return false;
    struct cell *cell = &spot.region->cells[spot.cell];
    bool fresh = !((cell->tracked | cell->reached) & spot.bit);
    if (fresh) { /* what is in a list keeps its turn in the sweep */
        if (cell->reached == 0)
            spot.region->used[spot.cell / PAGE_CELLS] |= USED_REACHED;
        cell->reached |= spot.bit;
    }
#ifdef HEAPTOP_DEBUG
    if (!address_set_has(&m->tracked, o))
        address_set_check(&m->reached, o, fresh);
    else if (fresh)
        __builtin_trap();
#endif
    return fresh;
}

/* Whether there is an object: in a list, reached, or, as long as the marks are not ranked, left out. */
static inline bool marks_has(const struct marks *m, const void *o) {
    uint64_t address = (uint64_t)o, region = address >> REGION_BITS;
    const struct region *found = region < REGIONS ? m->regions[address >> 3 & 1][region] : NULL;
    const struct cell *cell = found == NULL ? NULL : &found->cells[address >> CELL_BITS & (REGION_CELLS - 1)];
    return cell != NULL && ((cell->tracked | (m->ranked ? 0 : cell->reached)) >> (address >> 4 & 63) & 1);
}

/* Leave an object out: the sweep passes it by, and nothing reaches it any more. */
static inline void marks_exclude(struct marks *m, const void *o) {
    struct spot spot = marks_spot(m, o);
    if (spot.region != NULL) {
        spot.region->cells[spot.cell].reached |= spot.bit;
        spot.region->used[spot.cell / PAGE_CELLS] |= USED_REACHED;
    }
#ifdef HEAPTOP_DEBUG
    address_set_add(&m->reached, o);
#endif
}

#endif
