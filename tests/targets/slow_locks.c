/* To be preloaded: another thread than main computes for 60 ms before it first releases a lock that is a semaphore, as
   Python's are. It stands for a thread that gets no processor just then.

   So a fork of main's falls into it: what a thread has locked without the GIL stays locked in the child. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int sem_post(sem_t *lock) {
    static int (*real)(sem_t *);
    static __thread bool was_slow;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "sem_post");
    if (!was_slow && getpid() != gettid()) {
        was_slow = true;
        for (double end = now() + 0.06; now() < end;)
            ;
    }
    return real(lock);
}
