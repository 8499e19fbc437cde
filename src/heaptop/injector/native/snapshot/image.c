/* image: the child's side, from the graph to the last question, and the few things that both sides do with the box. */
#include "snapshot/image.h"

#include "clone/child_memory.h"
#include "clone/holding.h"
#include "query/paths.h"
#include "snapshot/answers.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <time.h>

enum { BOX_BYTES = 4096, FRAME_HEAD = 4, TYPES_IN_FRAME = 2000, LEAST_ANSWER = 1 << 20 };
enum {
    SHORT_NS = 200000,
    SOON_NS = 20000000,
    LONG_NS = 1000000 /* between two looks at the state; up to SOON the short one */
};
enum { SECOND_NS = 1000000000, LOOK_SHARE = 50 /* of its time, a look at what it holds takes one part in so many */ };

struct image_box *image_box(const struct snapshot *s) { return (struct image_box *)s->result.data; }
unsigned char *image_question(struct image_box *box) { return (unsigned char *)box + BOX_BYTES; }
const unsigned char *image_answer(const struct image_box *box) {
    return (const unsigned char *)box + BOX_BYTES + QUESTION_BYTES;
}

static void set_state(struct image_box *box, uint32_t state) { __atomic_store_n(&box->state, state, __ATOMIC_RELEASE); }
static uint32_t state_of(const struct image_box *box) { return __atomic_load_n(&box->state, __ATOMIC_ACQUIRE); }

/* -- the child -------------------------------------------------------------------------------------------------- */

struct child {
    const struct image_request *request;
    struct image_box *box;
    struct heap heap;
    struct types types;
    struct seen_marks seen_marks;
    struct answering_kept kept;
    struct progress progress;
    struct pack out;
};

/* Seldom enough: its page table is as large as the target's, and takes some 12 ms a GiB. */
static void look_at_holding(const struct result *out, uint64_t now) {
    static uint64_t next_ns;
    struct image_box *box = (struct image_box *)out->data;
    if (now < next_ns || (out->head->guards & SNAPSHOT_OWN_TABLE) == 0)
        return;
    box->holding = holding_bytes();
    uint64_t took = raw_clock() - now;
    next_ns = now + SECOND_NS + LOOK_SHARE * took;
}

void image_wait(const struct image_box *box, uint32_t state, uint64_t most_ns) {
    uint64_t begin = raw_clock(), none = 0;
    for (uint64_t passed = 0; state_of(box) == state && passed < most_ns; passed = raw_clock() - begin) {
        struct timespec span = {0, passed < SOON_NS ? SHORT_NS : LONG_NS};
        raw_call(SYS_rt_sigtimedwait, (long)&none, 0, (long)&span, sizeof none, 0); /* as the agent rests */
    }
}

/* False when its time is over. The agent wakes it by image_wake. Its watchdog's timer wakes it, too. */
static bool wait_for_question(struct image_box *box, const struct result *out) {
    for (;;) {
        uint32_t state = state_of(box);
        uint64_t now = raw_clock();
        if (state != IMAGE_ASKED)
            look_at_holding(out, now);
        if (state == IMAGE_ASKED)
            return true;
        if (now >= box->until_ns)
            return false;
        uint64_t left = box->until_ns - now;
        struct timespec rest = {(time_t)(left / SECOND_NS), (long)(left % SECOND_NS)};
        raw_call(SYS_futex, (long)&box->state, FUTEX_WAIT, state, (long)&rest, 0); /* shared: not FUTEX_PRIVATE */
    }
}

void image_wake(struct image_box *box) { raw_call(SYS_futex, (long)&box->state, FUTEX_WAKE, 1, 0, 0); }

/* Tell how far it is. False when it is given up, or takes too much memory. */
static bool look(struct progress *p, void *context) {
    struct child *c = context;
    c->box->done = p->total != 0 && p->done > p->total ? p->total : p->done;
    c->box->total = p->total;
    c->box->memory = child_memory_used(marks_bytes(&c->heap.graph.walk.marks));
    return __atomic_load_n(&c->box->cancel, __ATOMIC_RELAXED) == 0 && !child_memory_refused();
}

static bool notify_phase(void *context, enum heap_phase phase, uint64_t objects) {
    struct child *c = context;
    c->box->phase = phase;
    progress_begin(&c->progress, phase == PHASE_WALK ? 0 : objects);
    return !child_memory_refused();
}

/* Frames of the protocol: the length of what follows, the highest byte first. */
static size_t frame_open(struct pack *out) {
    size_t place = pack_size(out);
    pack_bytes(out, "\0\0\0", FRAME_HEAD);
    return place;
}

static void frame_close(struct pack *out, size_t place) {
    size_t size = pack_size(out) - place - FRAME_HEAD;
    for (int i = 0; !out->full && i < FRAME_HEAD; i++)
        out->base[place + (size_t)i] = (unsigned char)(size >> (24 - 8 * i));
}

static void open_answer(struct child *c, struct result *out) {
    size_t used = BOX_BYTES + QUESTION_BYTES;
    pack_open(&c->out, (unsigned char *)out->data + used, out->capacity - used);
}

static void publish(struct child *c) {
    c->box->answer_size = pack_size(&c->out);
    set_state(c->box, IMAGE_ANSWERED);
    image_wake(c->box);
}

static void pack_types(struct child *c) {
    static struct name_text module, qualname;
    for (uint32_t first = 0; first < c->types.count; first += TYPES_IN_FRAME) {
        uint32_t count = c->types.count - first < TYPES_IN_FRAME ? c->types.count - first : TYPES_IN_FRAME;
        size_t frame = frame_open(&c->out);
        message_begin(&c->out, "image-types", c->request->id, 2);
        message_field(&c->out, "first", first);
        pack_words(&c->out, "names");
        pack_array(&c->out, count);
        for (uint32_t i = first; i < first + count; i++) {
            names_read(kinds_at(&c->heap.graph.walk.kinds, c->types.firsts[i])->type, &module, &qualname);
            pack_array(&c->out, 2);
            pack_str(&c->out, module.bytes, module.size);
            pack_str(&c->out, qualname.bytes, qualname.size);
        }
        frame_close(&c->out, frame);
    }
}

struct kind_total {
    uint64_t objects, bytes;
};

static void add_kinds(const struct heap *h, struct kind_total totals[HEAP_KINDS]) {
    for (uint32_t i = 0; i < h->graph.objects; i++) {
        uint8_t kind = h->retain.kind[i];
        struct kind_total *total = &totals[kind < HEAP_KINDS ? kind : HEAP_NONE];
        total->objects++;
        total->bytes += csr_size(&h->graph.rows, i);
    }
}

/* Types whose objects are measured by code that was not called: a type may be here twice. */
static void pack_guessed(struct child *c) {
    const struct kinds *kinds = &c->heap.graph.walk.kinds;
    uint32_t count = 0;
    for (uint32_t i = 0; symbols.without_code && i < kinds->count; i++)
        count += kinds_at(kinds, i)->size == SIZE_GUESS;
    pack_words(&c->out, "guessed");
    pack_array(&c->out, count);
    for (uint32_t i = 0; count != 0 && i < kinds->count; i++)
        if (kinds_at(kinds, i)->size == SIZE_GUESS)
            pack_uint(&c->out, c->types.numbers[i]);
}

/* Roots of the kind that nothing leads to: one for each cycle that nothing outside leads to. */
static uint64_t count_cycles(const struct heap *h) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < h->retain.root_count; i++)
        count += h->retain.kind[h->retain.roots[i]] == HEAP_NONE;
    return count;
}

static void pack_gaps(struct child *c) {
    bool others = interpreters.left_out != 0, changing = c->heap.graph.walk.changing != 0;
    pack_words(&c->out, "gaps");
    pack_array(&c->out, (uint32_t)others + changing + !c->heap.whole);
    if (others)
        pack_words(&c->out, "objects of some interpreters are not counted");
    if (changing)
        pack_words(&c->out, WALK_CHANGING);
    if (!c->heap.whole)
        pack_words(&c->out, "the list of threads was being changed: some frames may be missing");
}

static void pack_image(struct child *c) {
    struct kind_total totals[HEAP_KINDS] = {{0, 0}};
    const struct image_request *r = c->request;
    uint64_t now = raw_clock();
    add_kinds(&c->heap, totals);
    size_t frame = frame_open(&c->out);
    message_begin(&c->out, "image", r->id, 16);
    message_field(&c->out, "image", r->image);
    message_field(&c->out, "time_ns", r->begin_ns);
    message_field(&c->out, "pause_ns", c->box->pause_ns);
    message_field(&c->out, "build_ns", now - r->begin_ns);
    message_field(&c->out, "keep_ns", c->box->until_ns > now ? c->box->until_ns - now : 0);
    message_field(&c->out, "pid", (uint64_t)raw_call(SYS_getpid, 0, 0, 0, 0, 0));
    message_field(&c->out, "memory", c->box->memory);
    message_field(&c->out, "objects", c->heap.graph.objects);
    message_field(&c->out, "edges", c->heap.graph.rows.first[c->heap.graph.rows.count]);
    message_field(&c->out, "bytes", c->heap.bytes);
    message_field(&c->out, "opaque", c->heap.graph.walk.opaque_bytes);
    pack_words(&c->out, "kinds");
    pack_array(&c->out, HEAP_KINDS);
    for (unsigned kind = 0; kind < HEAP_KINDS; kind++) {
        pack_array(&c->out, 3);
        pack_uint(&c->out, kind);
        pack_uint(&c->out, totals[kind].objects);
        pack_uint(&c->out, totals[kind].bytes);
    }
    message_field(&c->out, "cycles", count_cycles(&c->heap));
    pack_words(&c->out, "gc_enabled");
    pack_bool(&c->out, r->gc_enabled);
    pack_gaps(c);
    pack_guessed(c);
    frame_close(&c->out, frame);
}

static void pack_failure(struct child *c, uint64_t id, const char *text) {
    pack_array(&c->out, 2);
    pack_words(&c->out, "failure");
    pack_map(&c->out, 2);
    message_field(&c->out, "request", id);
    pack_words(&c->out, "text");
    pack_words(&c->out, text);
}

static void answer(struct child *c) {
    struct query query;
    struct image_box *box = c->box;
    box->phase = PHASE_QUESTION;
    c->progress = (struct progress){.look = look, .context = c};
    child_memory_forgive();
    size_t frame = frame_open(&c->out);
    if (!query_parse(&query, image_question(box), box->question_size)) {
        pack_failure(c, 0, "the question is malformed");
    } else {
        struct answering a = {
            .heap = &c->heap,
            .types = &c->types,
            .seen_marks = &c->seen_marks,
            .kept = &c->kept,
            .query = &query,
            .out = &c->out,
            .progress = &c->progress,
            .interpreter = c->request->roots.interpreter,
        };
        size_t begin = pack_size(&c->out);
        const char *refusal = answers_give(&a);
        if (c->out.full)
            refusal = "the answer is longer than its room";
        if (refusal != NULL && child_memory_refused())
            refusal = "it would take more memory than it may";
        if (refusal != NULL) { /* in place of what was written */
            c->out.at = c->out.base + begin;
            c->out.full = false;
            pack_failure(c, query.id, refusal);
        }
    }
    frame_close(&c->out, frame);
}

int image_run(void *context, struct result *out) {
    static struct child child; /* the stack is small */
    struct child *c = &child;
    const struct image_request *r = context;
    *c = (struct child){.request = r, .box = (struct image_box *)out->data};
    c->progress = (struct progress){.look = look, .context = c};
    child_memory_limit(r->memory);
    if (symbols.set_allocator != NULL)
        child_memory_use();
    c->box->until_ns = r->begin_ns + r->keep_ns;
    layout_find_others();
    const struct heap_request request = {&r->roots, r->excluded, r->excluded_count, true, notify_phase, c, &c->progress};
    int status = heap_open(&c->heap, &request);
    if (status != HEAP_OK)
        return child_memory_refused() ? IMAGE_TOO_MUCH : status;
    if (!types_open(&c->types, &c->heap) || child_memory_failed())
        return child_memory_refused() ? IMAGE_TOO_MUCH : HEAP_NO_MEMORY;
    look(&c->progress, c);
    open_answer(c, out);
    pack_types(c);
    pack_image(c);
    if (c->out.full)
        return HEAP_TOO_LARGE;
    publish(c);
    while (wait_for_question(c->box, out)) {
        open_answer(c, out);
        answer(c);
        publish(c);
    }
    return IMAGE_OVER;
}
