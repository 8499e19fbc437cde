/* pages: memory straight from the kernel, for all that a census needs. Sparse: what is not touched costs nothing.
   Never malloc: in a snapshot child its lock may be held by a thread that does not exist. */
#ifndef HEAPTOP_PAGES_H
#define HEAPTOP_PAGES_H

#include "raw.h"

#include <linux/mman.h>
#include <stddef.h>
#include <sys/mman.h>

/* Zeros, or NULL. Small pages: a huge one for every region that is touched once would be most of what we use. */
static inline void *pages_map(size_t size) {
    long result = raw_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (raw_failed(result))
        return NULL;
    raw_call(SYS_madvise, result, (long)size, MADV_NOHUGEPAGE, 0, 0);
    return (void *)result;
}

static inline void pages_unmap(void *pages, size_t size) {
    if (pages != NULL)
        raw_call(SYS_munmap, (long)pages, (long)size, 0, 0, 0);
}

/* The same bytes in a larger place; NULL, with the old place as it was, when there is none. */
static inline void *pages_grow(void *pages, size_t size, size_t wanted) {
    long result = raw_call(SYS_mremap, (long)pages, (long)size, (long)wanted, MREMAP_MAYMOVE, 0);
    return raw_failed(result) ? NULL : (void *)result;
}

#endif
