/* image: a snapshot child that builds the graph of its heap and stays to answer questions about it.

       agent's thread                         the child
         image_begin ── snapshot_begin ──────► heap_open ─ progress ─► answer (types, image)
         image_look: a few words              │
         image_wait: rests, looks             │
         image_take: an answer ◄── ANSWERED ──┤
         image_ask ── ASKED, futex ──────────►│ query_parse, …, answer
                                              └ its time is over, or the parent's thread ends: so does it

   Both look at one box at the beginning of the shared result:

       ┌───────────┬──────────────────────┬─────────────────────────────────────┐
       │ image_box │ question: 512 KiB    │ answer: frames of the protocol      │
       └───────────┴──────────────────────┴─────────────────────────────────────┘

       state:   BUILDING ──► ANSWERED ──(image_take)──► READY ──(image_ask)──► ASKED ──► ANSWERED …
       who writes: the child until ANSWERED, and from ASKED on; the parent in between.

   The target's threads have no part in it: the agent's waits for some milliseconds at a time, without the GIL. */
#ifndef HEAPTOP_IMAGE_H
#define HEAPTOP_IMAGE_H

#include "clone/clone.h"
#include "graph/heap.h"

enum image_state { IMAGE_BUILDING, IMAGE_ANSWERED, IMAGE_READY, IMAGE_ASKED };

enum { QUESTION_BYTES = 1 << 19 };

struct image_box {
    uint32_t state;  /* enum image_state; the futex of both: the child waits in the states that the parent writes */
    uint32_t cancel; /* the parent: give the question up; taken back by the next one */
    uint32_t phase;  /* enum image_phase */
    uint32_t image;  /* its number */
    uint64_t done, total, memory;
    uint64_t pause_ns; /* the parent, once it knows */
    uint64_t question_size, answer_size;
    uint64_t until_ns; /* CLOCK_MONOTONIC at which the child ends */
    uint64_t holding;  /* bytes that it alone has, as it saw at most a second ago while it waits; 0: it cannot say */
};

enum image_phase {
    /* enum heap_phase, then: */
    PHASE_QUESTION = HEAP_PHASES,
    PHASE_WRITING,
    IMAGE_PHASES,
};

struct image_request {
    struct roots roots;
    const uint64_t *excluded; /* addresses of objects to leave out */
    size_t excluded_count;
    uint64_t id;     /* of the request that it answers */
    uint32_t image;
    uint64_t begin_ns, keep_ns;
    uint64_t memory; /* bytes that the child may take, or 0 */
    bool gc_enabled;
};

/* The ``work`` of snapshot_begin: ``context`` is an image_request. Returns a heap_status, or IMAGE_OVER. */
enum { IMAGE_OVER = 16, IMAGE_TOO_MUCH = 17 };
int image_run(void *context, struct result *out);

/* The box of a running snapshot. */
struct image_box *image_box(const struct snapshot *s);
unsigned char *image_question(struct image_box *box);
const unsigned char *image_answer(const struct image_box *box);

/* Wake the child, which waits for ASKED. */
void image_wake(struct image_box *box);

/* Rest until the state is no longer this one, for so long at most. No futex: one with a time is resumed by restart_syscall where the
   process was stopped meanwhile, and a filter may kill for that. */
void image_wait(const struct image_box *box, uint32_t state, uint64_t most_ns);

#endif
