/* The floor under every census: the collector's list followed pointer by pointer, touching nothing else. */
#include <stdint.h>

/* Follows `next` (its two low bits are the collector's) from one head until it is back there; returns the steps. */
unsigned long chase(uintptr_t first) {
    unsigned long steps = 0;
    uintptr_t at = first;
    do {
        at = *(uintptr_t *)at & ~(uintptr_t)3;
        steps++;
    } while (at != first);
    return steps;
}
