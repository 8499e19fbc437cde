/* life: see life.h. */
#include "life.h"

#include "maps.h"
#include "raw.h"

#include <string.h>

extern void pthread_exit(void *) __attribute__((noreturn)); /* as CPython ends a thread that comes late */

static uint32_t ended, begun; /* so many interpreters; and when the session began */
static bool is_watched; /* the interpreter that runs now */
static void (*last_words)(void);

static void at_end(void) {
    is_watched = false;
    __atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
}

void life_begin(void) { begun = life_number(); }

bool life_watch(void (*last)(void)) {
    last_words = last;
    if (!is_watched)
        is_watched = Py_AtExit(at_end) == 0;
    return is_watched;
}

uint32_t life_number(void) { return __atomic_load_n(&ended, __ATOMIC_SEQ_CST); }

struct life_wait life_release(void) {
    uint32_t number = life_number();
    return (struct life_wait){PyEval_SaveThread(), number};
}

/* Whether pthread_exit needs nothing that is not there. glibc loads libgcc_s for it: a filter may kill for that, and where there
   is none, glibc ends the process. */
static bool can_exit(void) {
#ifdef HEAPTOP_MUSL
    return true;
#else
    struct maps m;
    struct mapping each;
    bool found = false;
    if (!maps_open(&m))
        return false;
    while (!found && maps_line(&m, &each))
        found = strstr(each.path, "/libgcc_s.so") != NULL;
    maps_close(&m);
    return found;
#endif
}

/* Where it cannot end, it sleeps until the process exits. */
static void end_thread(void) {
    enum { SET_NAME = 15, HOUR = 3600 };
    static const char name[] = "heaptop ended"; /* no agent's, which the next heaptop would look for */
    uint64_t none = 0;
    struct timespec span = {HOUR, 0};
    last_words();
    raw_call(SYS_prctl, SET_NAME, (long)name, 0, 0, 0);
    if (can_exit())
        pthread_exit(NULL);
    for (;;)
        raw_call(SYS_rt_sigtimedwait, (long)&none, 0, (long)&span, sizeof none, 0);
}

void life_return(struct life_wait wait) {
    if (life_number() != wait.number)
        end_thread();
    PyEval_RestoreThread(wait.state);
    if (life_number() != wait.number) { /* an old Python does not notice, when it waits for the GIL */
        PyEval_SaveThread();
        end_thread();
    }
}

void life_look(void) {
    if (life_number() != begun) {
        PyEval_SaveThread();
        end_thread();
    }
}
