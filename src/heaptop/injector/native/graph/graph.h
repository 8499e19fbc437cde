/* graph: every object of the heap by a number, and who refers to whom.

   Numbers are ranks: how many objects are before one, in address order (those at 8 modulo 16 behind all others). Once
   the walk is over, its marks become the directory of ranks, in the same place, so that a number is one cache line away:

       marks:  cell { tracked,     reached            }     ──►     { present: 64 bits, rank: objects before the cell }
                      left out, or in neither: not present

   A second sweep in address order then writes the rows (csr.h). An edge waits in a ring of 32 while the cell of the one
   referred to is fetched:

       cells ─► window [32] ─► size, kind, first; edges_each ─► ring [32] ─► edges
       places  [objects / 64]   where to look for the object of a number: the cell of every 64th

   The edges of an object are in the order in which edges_each visits them, without those to objects that are left out,
   so that the position of an edge says what it is called. Behind the objects come pseudo-objects, for what refers to
   objects and is none: a frame, say.

   An object of 5 to 8 words with 2 references takes some 20 bytes here. */
#ifndef HEAPTOP_GRAPH_H
#define HEAPTOP_GRAPH_H

#include "graph/csr.h"
#include "heap/walk.h"

enum graph_status {
    GRAPH_OK = 0,
    GRAPH_NO_MEMORY,
    GRAPH_TOO_LARGE, /* more objects or references than there are numbers */
};

struct graph {
    struct walk walk;
    struct csr rows;
    uint32_t objects; /* the first number of a pseudo-object; rows.count counts those too */
    uint16_t *kinds;  /* [objects] kinds_at position; KIND_ELSEWHERE: by its type or, without memory to read, in the next */
    const struct csr_large *elsewhere; /* [elsewhere_count] by object: position in place of bytes; NULL with memory */
    uint32_t elsewhere_count;
    uint64_t *places; /* [objects / PLACE_STEP + 1] plane << PLACE_PLANE | address / 1 KiB */
    PyObject **uneven; /* whose references are not those counted: edges_correct */
    uint64_t first_room, size_room, edge_room, large_room, uneven_room; /* how many there is memory for */
    uint64_t uneven_count;
    bool failed, too_large; /* while the rows are written */
};

enum { KIND_ELSEWHERE = UINT16_MAX, PLACE_STEP = 64, PLACE_PLANE = 40 };

/* 0, or -1 when there is no memory; graph_close is right after either. Then, in this order: walk_exclude for those left
   out, walk_run, walk_add for what nothing in the heap leads to, graph_build, graph_add. ``call_methods``: as walk_open */
int graph_open(struct graph *g, bool call_methods);
void graph_close(struct graph *g);

/* Give the objects walked their numbers, and write their rows. Of the marks of the walk only marks_has is left. Returns
   enum graph_status. */
int graph_build(struct graph *g);

/* Without memory to read: give the objects marked in g->walk their numbers, as graph_build does. There must be so many of them;
   the rows are the caller's. Returns enum graph_status, GRAPH_TOO_LARGE where there are others. */
int graph_restore(struct graph *g, uint32_t objects);

/* A pseudo-object: its number, or CSR_NONE when there is no memory or no number for it. It has no size. */
uint32_t graph_add(struct graph *g);

/* A reference of the last pseudo-object; none is made to what has no number. False when there is no memory. */
bool graph_add_edge(struct graph *g, PyObject *o);

/* Objects that more references are counted of than the rows have: C holds them, or a call under way. Nothing that is
   immortal. */
struct graph_held {
    uint32_t *numbers; /* ascending */
    uint64_t count, room;
};

/* Numbers of objects, each once for each reference: of those that are counted and in no row, and those that are in a row and
   not counted. */
struct graph_besides {
    const uint32_t *more;
    uint64_t more_count;
    const uint32_t *fewer;
    uint64_t fewer_count;
};

/* References by number, as far as they are counted: those of the rows, corrected (edges.h). rows.count of them; NULL when
   there is no memory. Unmap them after use. ``besides`` may be NULL. */
uint32_t *graph_references(const struct graph *g, const struct graph_besides *besides);
void graph_references_close(const struct graph *g, uint32_t *references);

/* How many more references are counted of an object than the rows have, or fewer, by what is known (edges.h). */
int64_t graph_correction(const struct graph *g, uint32_t number);

/* False when there is no memory; graph_held_close is right after either. After graph_add. ``besides`` may be NULL. */
bool graph_find_held(const struct graph *g, const struct graph_besides *besides, struct graph_held *held);
void graph_held_close(struct graph_held *held);

/* The object of a number below g->objects. */
PyObject *graph_object(const struct graph *g, uint32_t number);

/* Take the cells that have objects, in the order of numbers, from that of the object ``from`` on, until ``take`` returns false.
   A place is as in ``places``. */
void graph_cells(const struct graph *g, uint32_t from, bool (*take)(void *context, uint64_t place, const struct cell *cell),
                 void *context);

/* The address of a cell's first bit. */
static inline char *graph_place_base(uint64_t place) {
    uint64_t plane = place >> PLACE_PLANE;
    return (char *)((place & ((1ull << PLACE_PLANE) - 1)) << CELL_BITS | plane << 3);
}

/* The record of its type. Never NULL. */
const struct kind *graph_kind(struct graph *g, uint32_t number);

/* Bytes of memory that the graph takes, by its own books, the walk among them. */
uint64_t graph_bytes(const struct graph *g);

/* -- after graph_build, a cell of the marks ----------------------------------------------------------------- */

static inline uint64_t cell_present(const struct cell *cell) { return cell->tracked; }
static inline uint32_t cell_rank(const struct cell *cell) { return (uint32_t)cell->reached; }

/* Not every processor of this architecture has an instruction for it, and libgcc's function looks it up in a table. */
static inline uint32_t count_bits(uint64_t bits) {
    bits -= bits >> 1 & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (uint32_t)(bits * 0x0101010101010101 >> 56);
}

static inline uint32_t cell_number(const struct cell *cell, uint64_t bit) {
    return cell_present(cell) & bit ? cell_rank(cell) + count_bits(cell_present(cell) & (bit - 1)) : CSR_NONE;
}

/* The cell that an address belongs to; one where nothing is when it belongs to none. */
static inline const struct cell *graph_cell(const struct graph *g, const void *o) {
    static const struct cell nowhere = {0, 0};
    uint64_t address = (uint64_t)o, region = address >> REGION_BITS;
    const struct region *found = region < REGIONS ? g->walk.marks.regions[address >> 3 & 1][region] : NULL;
    return found == NULL ? &nowhere : &found->cells[address >> CELL_BITS & (REGION_CELLS - 1)];
}

static inline uint64_t graph_bit(const void *o) { return 1ull << ((uint64_t)o >> 4 & 63); }

/* The number of an object; CSR_NONE when it is left out, or was not met. ``o`` may be any address. */
static inline uint32_t graph_number(const struct graph *g, const void *o) {
    return (uint64_t)o & 7 ? CSR_NONE : cell_number(graph_cell(g, o), graph_bit(o));
}

#endif
