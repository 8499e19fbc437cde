/* To be preloaded: another thread than main takes its time to let go of a lock that is a semaphore, as Python's are.

   So a fork of main's falls into it: what a thread has locked without the GIL stays locked in the child. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <unistd.h>

int sem_post(sem_t *lock) {
    static int (*real)(sem_t *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "sem_post");
    if (getpid() != gettid())
        usleep(3000);
    return real(lock);
}
