/* sample: which allocated blocks are followed, as a Poisson process over allocated bytes, and what became of them.

   Each byte allocated is marked with probability 1/interval, independently; a block is sampled when a byte of it is
   marked, so with probability p = 1 - (1 - 1/interval)^size. Nobody draws for each byte: the bytes up to the next mark
   are a geometric number, which every thread counts down by itself.

     a thread       left: bytes up to its next mark, or, where that is further than 128 KiB, up to there (is_cut): then it
                    is drawn again for what is behind. Below 0: to ask about the block just asked for.
                    interval: by which ``left`` was drawn. A later change of the interval does not touch it (what is
                    left of a geometric number is geometric again), nor does a later session; and for the block that
                    crosses the cut it continues. So a block is always sampled at the rate that its record says. 0:
                    nothing was drawn yet, and ``left`` only says when to look again.
                    session: in which that was.

     granules       one byte counter for the sampled blocks that begin in each 64 bytes of the address space, modulo
                    256 MiB. All that freeing a block costs, where it is 0. Where a sampled block lives beside blocks
                    that come and go all the time, each of them is looked up: hence so fine. A counter at 255 stays.
     hash           block address -> slot; open addressing
     slots          the records; a slot's position is the block's id on the wire

          free ──► NEW ───(birth read)──► LIVE ──► DEAD ──(death read)──► free
                    └───────────────► BORN_DEAD ──(both read)─────────────► free

                    Those that are not LIVE are in a chain, oldest first, which sample_read drains. So what is read
                    is never out of step with what happened: where there is no room, a sample is dropped and counted.

   Clock: bytes allocated since sampling began: what was counted down, which each thread tells when it draws. Exact for
   the thread that asks. For each other one the mean of what is left is taken: its error is 0 on the average, and of the
   size of an interval. n threads that allocated little and ended leave an error of sqrt(n) times that.

   Locks: ``left`` and ``interval`` are the thread's own; granules are read by anybody and written under the lock. The
   lock is a spinlock, taken in slow paths only, and never held while the interpreter is called, but for Py_IncRef of a
   code object. Who has it may have been stopped by the kernel, or be left behind by a clone that nobody told of; so it
   is waited for a bounded time, and then a sample is dropped, or (a death) all of them are void. Every slow path asks
   under it whether sampling is on before it touches a table: stopping unmaps them.
   In a fork's child sampling is off, and the lock free; so it is when the interpreter has ended.

   System calls: none in what the target's threads run, for each may be under a filter of its own that kills for one. So
   room is made ahead, by the agent's thread; what comes faster than that is dropped, and counted. */
#ifndef HEAPTOP_SAMPLE_H
#define HEAPTOP_SAMPLE_H

#include "pages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMPLE_MEM, SAMPLE_OBJECT, SAMPLE_ARRAY, SAMPLE_DOMAINS }; /* as DOMAINS of protocol/messages.py */

/* -- on every allocation: inline, and for any thread, with the GIL or without ------------------------------- */

struct sample_thread {
    int64_t left;
    uint64_t interval;
    uint32_t session;
    bool is_cut;
    int64_t uncounted; /* bytes counted where the lock was not had: the clock hears of them at the next draw */
};
/* At a fixed place of each thread: glibc's __tls_get_addr would take memory at a thread's first look, in the middle of an
   allocation. musl loads no library that asks for such a place; there dlopen takes the memory, for every thread. */
#ifdef HEAPTOP_MUSL
#define SAMPLE_TLS "global-dynamic"
#else
#define SAMPLE_TLS "initial-exec"
#endif
extern __thread struct sample_thread sample_thread __attribute__((tls_model(SAMPLE_TLS), visibility("hidden")));

enum { SAMPLE_GRANULE_SHIFT = 6, SAMPLE_GRANULES = 1 << 22 };
extern uint8_t sample_granules[SAMPLE_GRANULES] __attribute__((visibility("hidden")));

static inline uint8_t *sample_granule(const void *block) {
    return &sample_granules[(uint32_t)(uintptr_t)block >> SAMPLE_GRANULE_SHIFT & (SAMPLE_GRANULES - 1)];
}

/* What each allocation runs or reads begins at a cache line: a hook over two of them costs more than its instructions.
   It is nearly half of what sampling costs the bench's JSON workload (docs/design/sampler.md). */
#define SAMPLE_OWN_LINE __attribute__((aligned(64)))

/* Count ``size`` bytes; whether to ask sample_draw about them. */
static inline bool sample_due(size_t size) { return __builtin_expect((sample_thread.left -= (int64_t)size) < 0, 0); }

/* Whether a block may be a sampled one. */
static inline bool sample_may_be(const void *block) { return __builtin_expect(*sample_granule(block) != 0, 0); }

/* -- slow paths: for any thread, with the GIL or without ---------------------------------------------------- */

/* No block is larger: an address has 47 bits. Whoever asks for more fails, and none of it is counted meanwhile: to
   sample_due such sizes are as any others, up to 2^63 - 1. */
#define SAMPLE_LARGEST ((size_t)1 << 47)

/* After sample_due said true of ``size``: the interval by which the block of that size is sampled, or 0: it is not. */
uint64_t sample_draw(size_t size);

/* After sample_draw: there is no block of that size after all, so nothing was allocated. */
void sample_undo(size_t size);

/* Follow a block for which sample_draw gave ``interval``, before anybody else knows it. Takes the stack of the calling
   thread, where that holds the GIL: in SAMPLE_MEM and SAMPLE_OBJECT it must, in SAMPLE_ARRAY it may. A block that is
   followed already dies first: it was freed unseen. */
void sample_follow(void *block, size_t size, int domain, uint64_t interval);

/* After sample_due said true of ``size``, for a block that is there already: both of the above. */
void sample_track(void *block, size_t size, int domain);

/* A block is about to be freed. Call where sample_may_be says true. */
void sample_forget(void *block);

/* All of it for one who learns of a block when it is there: a new one, and one about to go (or gone, while nobody else
   can have it). */
static inline void sample_new(void *block, size_t size, int domain) {
    if (sample_due(size))
        sample_track(block, size, domain);
}
static inline void sample_untrack(void *block) {
    if (sample_may_be(block))
        sample_forget(block);
}

/* A block is about to be reallocated: take its record out, so that nobody finds it who gets the old address. Then one
   of the other two, with what it returned: the block has moved or changed its size (a death; the new one is counted as
   any other), or it is as it was. 0: there was no record, and nothing to say. */
uint64_t sample_lift(void *block);
void sample_drop(uint64_t lifted);
void sample_put_back(void *block, uint64_t lifted);

/* An object begins its life in a block (PyRefTracer). The first one after the block was followed is the
   one that it was made for; each later one came by a free list, and is a death and a birth: the old id dies, and a new
   one is born with the calling thread's stack. Without ``follow``, and for one block more than SAMPLE_LIVES times in a
   turn, there is no birth, and one more was dropped. True when there was such a death. Needs the GIL. Call where
   sample_may_be says true. */
enum { SAMPLE_LIVES = 1000 };
bool sample_reborn(void *block, uint16_t turn, bool follow);

/* -- types -------------------------------------------------------------------------------------------------- */

/* A type of the session. When a sampled block of SAMPLE_OBJECT dies, the words where its type may stand (8, 24 and 40
   bytes in) are compared with those known, each where objects of that type have it. */
struct sample_known {
    const void *type;  /* an address to compare with: nothing is ever read through it */
    uint32_t number;   /* in the session */
    uint8_t before;    /* bytes of a block before its object: 0, 16 or 32 */
    bool is_on_heap;   /* the type may be freed, and another one come to its address */
};

/* From now on these are the known types, and no others. ``packed``: an array of them, aligned or not. -1: no memory, or
   off. For the agent's thread. */
int sample_know_types(const void *packed, uint32_t count);

/* A living block, as a census sees it. */
struct sample_found {
    const char *block;
    uint64_t size;
    uint32_t id;
    uint32_t birth; /* low bits of its birth's number: another block's under the same id has another */
    uint32_t type;  /* number + 1, or 0 */
    uint32_t stack; /* its node, as sample_read tells it */
    uint8_t domain;
};

/* Hold the records still. In an image (a snapshot's child) that is to say whether they are whole; in the process itself
   the lock is taken. False, and nothing is held: off, or the image is of the middle of a change. */
bool sample_freeze(bool is_image);
void sample_thaw(bool is_image);

/* The next living block from *position on, which is 0 at first. False behind the last. Only while they are frozen. */
bool sample_next(uint32_t *position, struct sample_found *found);

/* The living block at an address, likewise. False where there is none. */
bool sample_find(const void *block, struct sample_found *found);

/* The next known type, likewise. */
bool sample_next_known(uint32_t *position, struct sample_known *found);

/* Tell the record of ``id`` its type, if it still lives and is that birth's. True when it did. For the agent's thread. */
bool sample_set_type(uint32_t id, uint32_t birth, uint32_t number);

/* -- for core.c: the agent's thread, with the GIL ----------------------------------------------------------- */

enum { SAMPLE_OWNS = 4 };

/* Whom the interval follows, it is doubled for up to here. */
#define SAMPLE_COARSEST ((uint64_t)4 << 20)

struct sample_options {
    uint64_t interval; /* bytes, at least 1 */
    uint32_t depth;    /* frames kept of a stack */
    uint32_t quota;    /* as sample_set has it */
    uint64_t seed;     /* 0: from the kernel */
    uint64_t bytes;    /* for all tables; 0: SAMPLE_BYTES */
    const void *own[SAMPLE_OWNS]; /* code objects: what is allocated in one of them is not sampled. They are compared with
                                     and never followed; the agent keeps them alive. NULL for none */
};
enum { SAMPLE_BYTES = 64 << 20, SAMPLE_INTERVALS = 255 };

/* Begin with empty tables. The calling thread is the agent's: it is not sampled until sample_close.
   NULL, or a sentence (static storage) why not. Does not hook anything. */
const char *sample_open(const struct sample_options *options);

/* Look up what that needs. Without the GIL: see lookup.h. */
void sample_look_up(void);

/* End; the tables are given back. Any time, also twice. False when they stay, because a thread is still in them that
   does not run: to be called again. */
bool sample_close(void);

/* As sample_close, in a fork's child and on a thread of the target's: the only system call is munmap. */
void sample_leave(void);

bool sample_is_on(void);

/* Change what is in force from now on. After ``quota`` samples the interval is doubled, up to SAMPLE_COARSEST, and again
   after half as many, and so on, down to an eighth: so a program that begins to allocate a thousand times as much costs
   hardly more before the next call; 0: never. Only earlier samples decide about it, so each block's chance is known before it is drawn, and
   estimates stay right on the average. NULL, or a sentence. */
const char *sample_set(uint64_t interval, uint32_t depth, uint32_t quota);

/* All records are void: start with new ones, and raise the epoch. False when that cannot be now. */
bool sample_void(void);

/* Whether a death was not seen, so that all records should be void: somebody had to continue without the lock. */
bool sample_missed(void);

struct sample_stats {
    uint64_t clock, dropped /* since sampling began */, bytes /* of all tables */, interval;
    uint32_t depth, epoch, live;
    bool on, more; /* more: the chain is not empty yet */
    uint32_t interval_count;
    uint64_t intervals[SAMPLE_INTERVALS];
};
void sample_stats(struct sample_stats *stats);

/* Where all tables lie that are not static. */
enum { SAMPLE_RANGES = 10 };
void sample_ranges(struct pages_range found[SAMPLE_RANGES]);

/* Bytes allocated since sampling began, for the calling thread. Any thread. */
uint64_t sample_clock(void);

enum { SAMPLE_BIRTH_BYTES = 32, SAMPLE_DEATH_BYTES = 16 };

/* Make room for as much again as there is, where tables are half full. Now and then. False when there is none. */
bool sample_make_room(void);

/* Let go of code objects that nobody else holds: of all nodes below ``nodes``, and codes below ``codes``, everything was
   said. Code of the target may run by that. */
void sample_release(uint32_t nodes, uint32_t codes);

/* Drain up to ``limit`` blocks of the chain, none with a stack of ``stack_end`` or more: records as BIRTH and DEATH of
   protocol/messages.py say, into room for ``limit`` of each. */
void sample_drain(uint32_t limit, uint32_t stack_end, unsigned char *births, uint32_t *birth_count, unsigned char *deaths,
                  uint32_t *death_count);

#endif
