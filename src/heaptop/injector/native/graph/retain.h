/* retain: what leads to each object, what it cannot do without, and how much cannot do without it. Numbers only (csr.h).

   1  Breadth-first, one kind of root after the other: modules before frames, say. Each object has the kind of the first
      root that leads to it, and a parent on a shortest path from a root of that kind.

          order  │ roots of kind 0 │ what they lead to … │ new roots of kind 1 │ what they lead to … │

   2  Dominators: the one through which every path leads that leads from any root to an object, nearest to it. A virtual
      root leads to all roots. By semi-NCA (Georgiadis 2005), in preorder numbers; but the nearest ancestor that is old
      enough is found by skipping (Myers 1983), so that a list of a million links takes no million steps an object.

          depth-first ─► semidominators ◄─ crossing: edges to a smaller number, a list for each object they lead to
                              │            (others say at once what they have to say: a tree edge, or one from above)
                              ▼
                         dominators ─► sums over their tree: what would go if an object went                        */
#ifndef HEAPTOP_RETAIN_H
#define HEAPTOP_RETAIN_H

#include "graph/csr.h"
#include "progress.h"

#include <stdbool.h>
#include <stddef.h>

#define RETAIN_ROOT (UINT32_MAX - 1) /* in place of an object: the virtual root */

enum { RETAIN_UNREACHED = UINT8_MAX, RETAIN_KINDS = 254 };

enum retain_status { RETAIN_OK = 0, RETAIN_NO_MEMORY };

struct retain {
    const struct csr *rows;
    struct progress *progress; /* receives the progress, or NULL. Only retain_lose is stopped by it */
    uint8_t *kind;    /* [count] of the first root that leads there; RETAIN_UNREACHED */
    uint32_t *parent; /* [count] RETAIN_ROOT for a root, CSR_NONE for one that was not reached */
    uint32_t *place;  /* [count] of the edge in the parent's row; of a root, among the roots */
    uint32_t *order;  /* [reached] the objects as they were reached: each behind its parent */
    uint32_t reached;
    uint32_t *roots; /* as they were given, also those that others had led to */
    uint64_t root_count, root_room;
    uint32_t *dominator; /* [count] RETAIN_ROOT where only the virtual root is one, CSR_NONE as above; after */
    uint64_t *retained;  /* [count] bytes, its own among them; 0 as above;    retain_dominate */
    uint64_t bytes, most_bytes; /* of memory, now and at most */
};

/* RETAIN_OK, or RETAIN_NO_MEMORY; retain_close is right after either. The rows must not change afterwards. */
int retain_open(struct retain *r, const struct csr *rows);
void retain_close(struct retain *r);

/* What roots lead to and earlier ones did not. Kinds in ascending order, all roots of one kind in one call. */
int retain_reach(struct retain *r, unsigned kind, const uint32_t *roots, uint64_t count);

/* What nothing has led to, as roots of a kind and what these lead to: as few roots as there can be, one of each cycle
   that nothing outside leads to. */
int retain_rest(struct retain *r, unsigned kind);

/* Dominators and retained sizes. Once, after all roots. */
int retain_dominate(struct retain *r);

struct retain_lost {
    uint64_t objects, bytes;
    uint8_t *gone; /* [count] by object: not 0 where it would go; retain_lost_close gives it back */
};

/* What would go if some objects went, all of them at once: these, and what every path from a root leads through them to.
   One alone loses what r->retained says. RETAIN_OK or RETAIN_NO_MEMORY, or what there is when r->progress was stopped; retain_lost_close
   is right after any. */
int retain_lose(struct retain *r, const uint32_t *objects, uint64_t count, struct retain_lost *lost);
void retain_lost_close(struct retain *r, struct retain_lost *lost);

#endif
