/* samples: which blocks are sampled, and following them until they are freed.

   A Poisson process over allocated bytes, as the object sampler has it (injector/native/sampler): each thread counts down
   to its next mark, and a block with a mark in it is sampled. When samples come too fast the interval doubles by itself;
   each record has the one that it was sampled at.

     fast paths    malloc: a countdown in the thread's own memory. free: a counter for each KiB of addresses
     slow paths    under one spinlock, for which nobody waits long. No system call, no allocation, no other lock; the real
                   allocator is never called with it. ``busy`` keeps a thread out of what it is in already: a signal
                   handler that allocates is not sampled

   In a fork's child a page is zero that is not in its parent (MADV_WIPEONFORK), and nothing is done. */
#ifndef HEAPTOP_PRELOAD_SAMPLES_H
#define HEAPTOP_PRELOAD_SAMPLES_H

#include "preload/table.h"
#include "malloc_stack.h"

#include <stdbool.h>
#include <stddef.h>

struct samples_thread {
    int64_t left; /* bytes to the mark */
    uint8_t interval; /* its logarithm; 0 before the first gap */
    bool busy, is_agent, is_first;
};
extern __thread struct samples_thread samples_thread __attribute__((tls_model("initial-exec")));

enum { GRANULES = 1 << 20, GRANULE_SHIFT = 10 };
extern uint8_t samples_granules[GRANULES]; /* live samples in it; 255: that or more */

static inline uint8_t *samples_granule(const void *block) {
    return &samples_granules[(uintptr_t)block >> GRANULE_SHIFT & (GRANULES - 1)];
}

/* Begin, in an empty table. ``interval``: logarithm of the mean number of bytes from mark to mark. */
void samples_open(struct table *table, uint8_t interval);

/* Slow paths. -- A block of ``size`` bytes was allocated, and the countdown ran out. */
void samples_hit(void *block, size_t size, enum kind kind, const void *caller);

/* A block that may be sampled is about to be freed, or moved: what was known of it, for samples_put_back. */
struct record samples_lift(void *block);

/* It was not moved after all. */
void samples_put_back(const struct record *lifted);

/* A part of the address space is about to be unmapped, or was mapped anew: whole pages. */
void samples_unmap(void *start, size_t size);

static inline void samples_born(void *block, size_t size, enum kind kind, const void *caller) {
    if (block == NULL)
        return; /* none was allocated: the next block must not pay for it */
    if (__builtin_expect((samples_thread.left -= (int64_t)size) < 0, 0))
        samples_hit(block, size, kind, caller);
}

static inline bool samples_may_have(const void *block) {
    return __builtin_expect(__atomic_load_n(samples_granule(block), __ATOMIC_RELAXED) != 0, 0);
}

#endif
