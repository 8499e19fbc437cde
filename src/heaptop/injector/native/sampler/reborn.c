/* reborn: the tracer, and its place among others. The drawing, and what it does to the figures, are in the header. */
#include "sampler/reborn.h"

#include "layout.h"
#include "lookup.h"
#include "heap/size.h"
#include "sampler/sample.h"

enum { CREATE = 0 /* PyRefTracer_CREATE */ };

typedef int (*tracer)(PyObject *o, int event, void *data); /* PyRefTracer */

/* Somebody's tracer that we found. Written once, before ``below`` says that it is there. */
struct other {
    tracer function;
    void *data;
};
enum { OTHERS = 16 }; /* different ones that we can have found so far */

/* Written under the GIL; read by the tracer, which interpreters with a GIL of their own call too. What is below us is
   set before we are. */
static struct {
    int (*set)(tracer, void *);
    tracer (*get)(void **);
    const struct other *below; /* NULL: nobody */
    struct other others[OTHERS];
    int other_count;
    bool active;
    bool in_chain; /* we came and did not leave: a tracer above us may call us still, also when not active */
    int32_t left;  /* rebirths until the next poll; below 0: of some that came then, the block is followed no more */
    uint16_t turn; /* from one poll to the next */
    bool overrun;  /* it was below 0, in this session */
} reborn;

/* -- on every object ---------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void begin_life(PyObject *o) {
    void *block = (char *)o - size_before(Py_TYPE(o));
    if (!__atomic_load_n(&reborn.active, __ATOMIC_RELAXED) || !sample_may_be(block))
        return;
    bool follow = __atomic_load_n(&reborn.left, __ATOMIC_RELAXED) > 0;
    if (sample_reborn(block, __atomic_load_n(&reborn.turn, __ATOMIC_RELAXED), follow))
        __atomic_fetch_sub(&reborn.left, 1, __ATOMIC_RELAXED);
}

/* A block may begin in the granule before its object's. */
static inline bool may_be(PyObject *o) {
    return __builtin_expect((*sample_granule(o) | *sample_granule((char *)o - 32)) != 0, 0);
}

static int trace(PyObject *o, int event, void *data) {
    (void)data;
    if (event == CREATE && may_be(o))
        begin_life(o);
    const struct other *below = __atomic_load_n(&reborn.below, __ATOMIC_ACQUIRE);
    return __builtin_expect(below != NULL, 0) ? below->function(o, event, below->data) : 0;
}

/* -- coming and going --------------------------------------------------------------------------------------- */

void reborn_look_up(void) {
    if (reborn.set == NULL || reborn.get == NULL) {
        *(void **)&reborn.set = lookup_symbol("PyRefTracer_SetTracer");
        *(void **)&reborn.get = lookup_symbol("PyRefTracer_GetTracer");
    }
}

/* The place of another's tracer; NULL when there is none left. */
static const struct other *other_of(tracer function, void *data) {
    for (int i = 0; i < reborn.other_count; i++)
        if (reborn.others[i].function == function && reborn.others[i].data == data)
            return &reborn.others[i];
    if (reborn.other_count == OTHERS)
        return NULL;
    struct other *other = &reborn.others[reborn.other_count++];
    *other = (struct other){function, data};
    return other;
}

/* ``below``: NULL for nobody. */
static const char *put_on_top(const struct other *below) {
    __atomic_store_n(&reborn.below, below, __ATOMIC_RELEASE);
    if (reborn.set(trace, NULL) == 0) {
        reborn.in_chain = true;
        return NULL;
    }
    PyErr_Clear();
    return "the interpreter does not take a reference tracer";
}

/* Be called, where that is safe. NULL or a sentence. */
static const char *enter_chain(void) {
    void *data = NULL;
    tracer top = reborn.get(&data);
    if (top == trace)
        return NULL;
    if (top == NULL)
        return put_on_top(NULL);
    if (symbols.tracer_is_notified)
        return "another reference tracer is there";
    if (reborn.in_chain)
        return NULL; /* twice would be a circle */
    const struct other *other = other_of(top, data);
    return other == NULL ? "other tools changed the reference tracer too often" : put_on_top(other);
}

static void begin_turn(void) {
    if (__atomic_exchange_n(&reborn.left, REBORN_LIMIT, __ATOMIC_RELAXED) < 0)
        reborn.overrun = true;
    __atomic_fetch_add(&reborn.turn, 1, __ATOMIC_RELAXED);
}

const char *reborn_install(void) {
    if (reborn.set == NULL || reborn.get == NULL)
        return "this Python does not tell when a free list hands a block on";
    const char *refusal = enter_chain();
    if (refusal != NULL)
        return refusal;
    begin_turn();
    reborn.overrun = false; /* of an earlier session */
    __atomic_store_n(&reborn.active, true, __ATOMIC_RELEASE);
    return NULL;
}

bool reborn_poll(void) {
    if (!reborn.active)
        return false;
    void *data;
    begin_turn();
    if (reborn.get(&data) == NULL && put_on_top(NULL) != NULL) /* who was below left, and took us along */
        return false;
    return !reborn.overrun;
}

bool reborn_overrun(void) { return reborn.active && reborn.overrun; }

const char *reborn_remove(void) {
    __atomic_store_n(&reborn.active, false, __ATOMIC_RELEASE);
    if (!reborn.in_chain)
        return NULL;
    void *data;
    tracer top = reborn.get(&data);
    if (top != NULL && top != trace)
        return "another reference tracer stands above heaptop's, which passes on what it is told";
    const struct other *below = reborn.below;
    if (top == trace)
        reborn.set(below == NULL ? NULL : below->function, below == NULL ? NULL : below->data);
    reborn.in_chain = false;
    return NULL;
}
