/* heap: all of a frozen heap's graph: the objects, what refers to them and is none, what keeps them, and what each retains.

   roots.h tells references one by one. Those of a frame become a pseudo-object with a row of its own, so that the frame is
   the root, and all that only it keeps would go with it; the others are roots themselves:

       roots ─► HEAP_MODULE       the modules                                            ┐ each a struct heap_item, in the order
                HEAP_FRAME        pseudo-objects; what a thread handles, has raised      │ of retain's roots: r->place of a
                HEAP_RUNTIME      what the interpreter holds; static types               ├ root says which
                HEAP_INTERPRETER  modules and frames of others                           │
                HEAP_C            more references are counted of it than there are       │
                HEAP_NONE         what nothing leads to                                  ┘

       pseudo-object ─► heap_frame ─► items [first …]: what each edge of its row is, in the order of the row

   Static types are of the interpreter, as are what it keeps of them, and what nothing but our own thread leads to: that is no
   garbage. What may be a value in use by a call under way (root.maybe) is one where more references are counted than are known of
   otherwise; it is of a pseudo-object of its own. */
#ifndef HEAPTOP_HEAP_H
#define HEAPTOP_HEAP_H

#include "graph/graph.h"
#include "graph/labels.h"
#include "graph/retain.h"
#include "graph/roots.h"
#include "graph/table.h"

enum heap_kind { HEAP_MODULE, HEAP_FRAME, HEAP_RUNTIME, HEAP_INTERPRETER, HEAP_C, HEAP_NONE, HEAP_KINDS };

enum heap_status {
    HEAP_OK = 0,
    HEAP_NO_MEMORY = 1,
    HEAP_BROKEN_LIST = 2,
    HEAP_TOO_LARGE = 3,
    HEAP_STOPPED = 4, /* ``tell`` stopped it */
};

enum heap_phase { PHASE_WALK, PHASE_ROWS, PHASE_ROOTS, PHASE_SEARCH, PHASE_DOMINATORS, HEAP_PHASES };

struct heap_item { /* a reference that a root has */
    enum root_class class;
    struct root root;       /* its ``frame`` and ``thread`` are not to be used: */
    uint32_t frame, thread; /* positions in h->frames and h->threads; CSR_NONE */
};

struct heap_call { /* roots of a kind that were searched from at once */
    uint32_t kind, count;
};

struct heap_frame { /* a pseudo-object: number h->graph.objects + its position */
    struct roots_frame frame;
    enum root_class class;
    uint32_t thread; /* position in h->threads */
    uint32_t first;  /* of its row's items in h->items */
};

struct heap {
    struct graph graph;
    struct retain retain;
    struct table threads; /* struct roots_thread */
    struct table frames;  /* struct heap_frame */
    struct table items;   /* struct heap_item */
    struct table roots;   /* uint32_t by place of a root: its item; CSR_NONE for a pseudo-object, C and none */
    struct table calls;   /* struct heap_call: what the search was begun with, in this order */
    const struct stored *stored; /* where it was read from a file: nothing of it is in memory; else NULL */
    bool whole;           /* the lists of threads were */
    uint64_t bytes;       /* of all objects */
};

struct heap_request {
    const struct roots *roots;
    const uint64_t *excluded; /* addresses of objects to leave out */
    size_t excluded_count;
    bool call_methods;
    /* Said at the beginning of each phase. False: stop. NULL: nobody listens. */
    bool (*notify)(void *context, enum heap_phase phase, uint64_t objects);
    void *context;
    struct progress *progress; /* receives the progress of a phase, or NULL */
};

/* In a snapshot child, or in the process itself with the GIL held and collections blocked. A heap_status; heap_close is right
   after any. */
int heap_open(struct heap *h, const struct heap_request *request);
void heap_close(struct heap *h);

/* -- what is known of an object, by its number. Pseudo-objects count where stated. ------------------------- */

static inline bool heap_is_frame(const struct heap *h, uint32_t number) { return number >= h->graph.objects; }

/* The label of the step to it: of the reference from its parent, or of the root. ``before``: the label of the step to the
   parent, or NULL. Also of pseudo-objects. */
struct label heap_label(struct heap *h, uint32_t number, const struct label *before);

/* Whether labels of what an object refers to depend on the label of the step to it. Also of pseudo-objects. */
bool heap_labels_depend(struct heap *h, uint32_t from);

/* The label of any reference: the ``place``-th of the row of ``from``, which may be a pseudo-object. */
struct label heap_reference(struct heap *h, uint32_t from, uint32_t place, const struct label *before);

/* The label of the ``place``-th root of retain's. */
struct label heap_root(struct heap *h, uint64_t place);

/* stored_sort of an object: what instances of its type are. None of a pseudo-object. */
unsigned heap_sorts(struct heap *h, uint32_t number);
unsigned heap_sorts_of(PyTypeObject *type);

/* Its generation as in a census: 0, 1, 2, 3 for permanent, -1. */
int heap_generation(struct heap *h, uint32_t number);

#endif
