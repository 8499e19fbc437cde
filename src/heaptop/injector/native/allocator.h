/* allocator: PyMemAllocatorEx, which is not in the limited API. */
#ifndef HEAPTOP_ALLOCATOR_H
#define HEAPTOP_ALLOCATOR_H

#include <stddef.h>

struct allocator {
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
};

#endif
