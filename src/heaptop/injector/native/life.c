/* life: see life.h. */
#include "life.h"

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

static void end_thread(void) {
    last_words();
    pthread_exit(NULL);
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
