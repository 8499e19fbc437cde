/* hook: the functions that the interpreter calls, and putting them in and out. */
#include "sampler/hook.h"

#include "allocator.h"
#include "layout.h"
#include "sampler/sample.h"

#include <string.h>

enum { PLACES = 6, DOMAINS = 2 };
static const int python_domain[DOMAINS] = {1, 2}; /* PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ; ours: SAMPLE_MEM, SAMPLE_OBJECT */

/* What each place forwards to. Written with the GIL before the place's functions are given to anybody, and never again. */
static struct {
    struct allocator to SAMPLE_OWN_LINE;
} below[PLACES][DOMAINS];
static bool used[PLACES][DOMAINS];
static bool installed[DOMAINS]; /* and not seen to be gone */

/* -- slow paths --------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void *slow_malloc(const struct allocator *to, void *context, size_t size, int domain) {
    uint64_t interval = sample_draw(size);
    void *block = to->malloc(context, size);
    if (block == NULL)
        sample_undo(size);
    else if (interval != 0)
        sample_follow(block, size, domain, interval);
    return block;
}

static __attribute__((noinline)) void *slow_calloc(const struct allocator *to, void *context, size_t count, size_t size,
                                                   int domain) {
    uint64_t interval = sample_draw(count * size);
    void *block = to->calloc(context, count, size);
    if (block == NULL)
        sample_undo(count * size);
    else if (interval != 0)
        sample_follow(block, count * size, domain, interval);
    return block;
}

/* ``due``: what sample_due said. The new block is counted in whole, whatever the old one was. */
static __attribute__((noinline)) void *slow_realloc(const struct allocator *to, void *context, void *old, size_t size,
                                                    int domain, bool due) {
    uint64_t lifted = old != NULL && sample_may_be(old) ? sample_lift(old) : 0;
    uint64_t interval = due ? sample_draw(size) : 0;
    void *block = to->realloc(context, old, size);
    if (block == NULL) {
        if (due)
            sample_undo(size);
        sample_put_back(old, lifted);
        return NULL;
    }
    sample_drop(lifted);
    if (interval != 0)
        sample_follow(block, size, domain, interval);
    return block;
}

static __attribute__((noinline)) void slow_free(const struct allocator *to, void *context, void *block) {
    sample_forget(block);
    to->free(context, block);
}

/* -- fast paths: the same for each place and domain --------------------------------------------------------- */

#define FUNCTIONS(place, domain)                                                                                               \
    static SAMPLE_OWN_LINE void *malloc_##place##domain(void *context, size_t size) {                                          \
        if (sample_due(size))                                                                                                  \
            return slow_malloc(&below[place][domain].to, context, size, domain);                                               \
        return below[place][domain].to.malloc(context, size);                                                                  \
    }                                                                                                                          \
    static SAMPLE_OWN_LINE void *calloc_##place##domain(void *context, size_t count, size_t size) {                            \
        if (sample_due(count * size)) /* the interpreter has seen that it does not overflow */                                 \
            return slow_calloc(&below[place][domain].to, context, count, size, domain);                                        \
        return below[place][domain].to.calloc(context, count, size);                                                           \
    }                                                                                                                          \
    static SAMPLE_OWN_LINE void *realloc_##place##domain(void *context, void *old, size_t size) {                              \
        bool due = sample_due(size);                                                                                           \
        if (due || sample_may_be(old))                                                                                         \
            return slow_realloc(&below[place][domain].to, context, old, size, domain, due);                                    \
        return below[place][domain].to.realloc(context, old, size);                                                            \
    }                                                                                                                          \
    static SAMPLE_OWN_LINE void free_##place##domain(void *context, void *block) {                                             \
        if (sample_may_be(block))                                                                                              \
            slow_free(&below[place][domain].to, context, block);                                                               \
        else                                                                                                                   \
            below[place][domain].to.free(context, block);                                                                      \
    }
#define BOTH(place) FUNCTIONS(place, 0) FUNCTIONS(place, 1)
/* clang-format off */
BOTH(0) BOTH(1) BOTH(2) BOTH(3) BOTH(4) BOTH(5)

#define OURS(place, domain)                                                                                            \
    {NULL, malloc_##place##domain, calloc_##place##domain, realloc_##place##domain, free_##place##domain}
#define OURS_BOTH(place) {OURS(place, 0), OURS(place, 1)}
static const struct allocator ours[PLACES][DOMAINS] = {OURS_BOTH(0), OURS_BOTH(1), OURS_BOTH(2),
                                                       OURS_BOTH(3), OURS_BOTH(4), OURS_BOTH(5)};
/* clang-format on */

/* -- the chain ---------------------------------------------------------------------------------------------- */

static struct allocator top_of(int domain) {
    struct allocator top;
    symbols.get_allocator(python_domain[domain], &top);
    return top;
}

static bool same(const struct allocator *a, const struct allocator *b) { return memcmp(a, b, sizeof *a) == 0; }

/* The place on top of a domain; -1 when it is somebody else's. */
static int place_on_top(int domain) {
    struct allocator top = top_of(domain);
    for (int place = 0; place < PLACES; place++)
        if (top.malloc == ours[place][domain].malloc)
            return place;
    return -1;
}

/* How often a block asked for comes by us, 2 for more: by how much this thread's countdown moves. Who hooks above us may
   make a block a little larger. */
static int times_called(int domain, size_t size) {
    int64_t before = sample_thread.left;
    void *block = domain == SAMPLE_MEM ? PyMem_Malloc(size) : PyObject_Malloc(size);
    uint64_t moved = (uint64_t)before - (uint64_t)sample_thread.left;
    if (domain == SAMPLE_MEM)
        PyMem_Free(block);
    else
        PyObject_Free(block);
    return block == NULL ? 1 /* no memory: it is unknown, so nothing is done */ : moved == 0 ? 0 : moved < 2 * size ? 1 : 2;
}

enum { SMALL = 48, LARGE = 4000 }; /* some who hook small blocks pass on large ones */

static bool is_called(int domain) { return times_called(domain, SMALL) > 0 || times_called(domain, LARGE) > 0; }

static bool is_called_twice(int domain) { return times_called(domain, SMALL) > 1 && times_called(domain, LARGE) > 1; }

enum hook_state hook_state(void) {
    enum hook_state state = HOOK_ON_TOP;
    for (int domain = 0; domain < DOMAINS; domain++) {
        if (!installed[domain])
            return HOOK_OUT;
        if (!is_called(domain))
            return HOOK_DROPPED;
        if (is_called_twice(domain))
            return HOOK_TWICE;
        if (place_on_top(domain) < 0)
            state = HOOK_COVERED;
    }
    return state;
}

/* A place over what is on top now; -1 when there is none. */
static int place_over(const struct allocator *top, int domain) {
    for (int place = 0; place < PLACES; place++)
        if (used[place][domain] && same(&below[place][domain].to, top))
            return place;
    for (int place = 0; place < PLACES; place++)
        if (!used[place][domain])
            return place;
    return -1;
}

static bool install(int domain) {
    if (place_on_top(domain) >= 0 || (installed[domain] && is_called(domain))) {
        installed[domain] = true;
        return true;
    }
    struct allocator top = top_of(domain);
    int place = place_over(&top, domain);
    if (place < 0)
        return false;
    if (!used[place][domain]) {
        below[place][domain].to = top;
        used[place][domain] = true;
    }
    struct allocator mine = ours[place][domain];
    mine.context = top.context;
    /* Who has another GIL takes our functions as soon as they are there: what they forward to must be there before. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    symbols.set_allocator(python_domain[domain], &mine);
    return installed[domain] = true;
}

const char *hook_install(void) {
    for (int domain = 0; domain < DOMAINS; domain++)
        if (!install(domain)) {
            hook_remove();
            return "other tools changed the allocators too often";
        }
    return NULL;
}

static bool remove_from(int domain) {
    for (int place; (place = place_on_top(domain)) >= 0;)
        symbols.set_allocator(python_domain[domain], &below[place][domain].to);
    if (installed[domain] && is_called(domain))
        return false;
    installed[domain] = false;
    return true;
}

bool hook_remove(void) {
    bool gone = true;
    for (int domain = 0; domain < DOMAINS; domain++)
        gone = remove_from(domain) && gone;
    return gone;
}
