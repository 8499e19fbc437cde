/* progress: how far a long step has come, and whether it is to go on. Every PROGRESS_STEP objects, which take some milliseconds,
   or so many halvings of that (``finer``), somebody looks at it. */
#ifndef HEAPTOP_PROGRESS_H
#define HEAPTOP_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROGRESS_STEP = 1 << 14 };

struct progress {
    uint64_t done, total; /* objects, or references; total 0: not known */
    uint32_t finer;
    bool stopped; /* given up, for good: what was made since may not be whole */
    bool (*look)(struct progress *p, void *context); /* false: give up */
    void *context;
};

static inline bool progress_look(struct progress *p) {
    p->stopped = p->stopped || !p->look(p, p->context);
    return !p->stopped;
}

/* Another step begins. In all of these ``p`` may be NULL: nobody looks. */
static inline void progress_begin(struct progress *p, uint64_t total) {
    if (p == NULL)
        return;
    p->done = 0;
    p->total = total;
    progress_look(p);
}

/* Whether to continue: asked for each object. */
static inline bool progress_on(struct progress *p) {
    return p == NULL || __builtin_expect((++p->done << p->finer) % PROGRESS_STEP != 0, 1) || progress_look(p);
}

#endif
