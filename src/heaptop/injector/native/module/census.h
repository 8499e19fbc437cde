/* census: one count of the heap, packed. It runs in a snapshot child or in the process itself, alike.

   The data of the result:
       ┌─────────────┬──────────────────────────┬─────────────────────────┬───────────────────────────┬─────────┐
       │ census_head │ keys: a name_key for     │ types: msgpack array of │ rows: msgpack array of    │ samples │
       │             │ each type new here       │ [module, qualname]      │ [type, generation, count, │         │
       │             │                          │                         │  bytes, hidden, guessed]  │         │
       └─────────────┴──────────────────────────┴─────────────────────────┴───────────────────────────┴─────────┘
   samples: while allocations are sampled, a sample_known for each type object met, and for those known before that are
   there still, so that the type of a block that dies can be told by address; then a census_typed for each living sample that had no type. Nothing of both where the
   sampler was in the middle of a change when the image was taken: the next census will say. */
#ifndef HEAPTOP_CENSUS_H
#define HEAPTOP_CENSUS_H

#include "clone/clone.h"
#include "heap/names.h"
#include "progress.h"

/* What census_run returns; above 0. */
enum census_status {
    CENSUS_NO_MEMORY = 1,
    CENSUS_BROKEN_LIST = 2,
    CENSUS_TOO_LONG = 3, /* the result does not hold it */
    CENSUS_TIMED_OUT = 4,
    CENSUS_GUESSES = 5, /* see as_clone */
};

struct census_head {
    uint64_t objects, guessed, duration_ns;
    uint64_t owned, mapped, at_least; /* as in walk.h */
    uint64_t bytes; /* that the count itself used, by its own books: not what the kernel has of a clone (its tables of
                       pages, and pages of the target that either side wrote to) */
    uint64_t cut; /* 1: there are more than MAX_NAMES, and those behind are counted together */
    uint64_t left_out; /* interpreters whose objects are not counted */
    uint64_t changing, unfollowed; /* as in walk.h */
    uint64_t new_types, types_size, rows_size;
    uint64_t kinds, typed; /* entries */
    uint64_t middle; /* for the next request: walk.h */
};

struct census_typed { /* see sample_found */
    uint32_t id, birth, number;
};

struct census_request {
    struct names *names;      /* of the session */
    uint32_t first_number;    /* for the first type that is new to it */
    const uint64_t *excluded; /* addresses of objects to leave out */
    size_t excluded_count;
    bool in_child; /* allocate nothing from the interpreter; any C method may be called */
    struct progress *limit; /* of a count in the process itself: as in walk.h */
    bool as_clone; /* count nothing where a clone would measure or follow what this count does not */
    uint64_t middle; /* address where the middle of generation 2 may be, or 0; used in a child only */
};

/* The ``work`` of snapshot_begin: ``context`` is a census_request. 0, or a census_status and nothing in the result. */
int census_run(void *context, struct result *out);

/* A census_status in words, without a full stop. */
const char *census_reason(int status);

#endif
