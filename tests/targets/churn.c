/* Mallocs, reallocs and frees for a while without the GIL: what targets call through ctypes, with
 * MALLOC_ARENA_MAX=1, so that at any moment some thread holds malloc's one lock. */
#include <stdlib.h>
#include <time.h>

enum { SLOTS = 256, BATCH = 200 };

static unsigned next_random(unsigned *state) { return (*state = *state * 1103515245u + 12345u) >> 10; }

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns the number of allocations made in about `duration` ms. */
unsigned long churn(long duration, unsigned seed) {
    void *slots[SLOTS] = {0};
    unsigned long made = 0;
    long end = milliseconds() + duration;
    do {
        for (int i = 0; i < BATCH; i++, made++) {
            void **slot = &slots[next_random(&seed) % SLOTS];
            size_t size = 1 + next_random(&seed) % 3000;
            if (next_random(&seed) % 4096 == 0)
                size = 300000; /* above the mmap threshold */
            if (*slot && next_random(&seed) % 2) {
                void *moved = realloc(*slot, size);
                if (moved)
                    *slot = moved;
            } else {
                free(*slot);
                *slot = malloc(size);
            }
            if (*slot)
                *(volatile char *)*slot = 1;
        }
    } while (milliseconds() < end);
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    return made;
}
