/* pages: memory straight from the kernel, for all that a census needs. Sparse: what is not touched costs nothing.
   Never malloc: in a snapshot child its lock may be held by a thread that does not exist. */
#ifndef HEAPTOP_PAGES_H
#define HEAPTOP_PAGES_H

#include "raw.h"

#include <linux/mman.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

/* Pages in use, to distinguish them from others. */
struct pages_range {
    const void *at; /* NULL: none */
    size_t size;
};

/* Under the address sanitizer, which knows nothing of these pages, one behind them is forbidden. */
#ifdef __SANITIZE_ADDRESS__
enum { PAGES_GUARD = 4096 };
#else
enum { PAGES_GUARD = 0 };
#endif

/* Bytes up to the guard. */
static inline size_t pages_rounded(size_t size) { return (size + 4095) & ~(size_t)4095; }

/* Where a limit is set (child_memory.h), what was mapped counts against it: in a snapshot child only, which has one thread. */
struct pages_account {
    uint64_t limit, used, besides; /* bytes; no limit: nothing is counted. besides: of what is mapped sparse, touched so far */
    bool refused; /* somebody got nothing because of the limit */
};
extern struct pages_account pages_account;
__attribute__((weak)) struct pages_account pages_account;

static inline bool pages_may(size_t size) {
    struct pages_account *a = &pages_account;
    bool may = a->limit == 0 || a->used + a->besides + size <= a->limit;
    a->refused = a->refused || !may;
    return may;
}

static inline void pages_count(size_t more, size_t less) {
    if (pages_account.limit != 0)
        pages_account.used += more - less;
}

/* Zeros, or NULL; outside of the account, because of most of it nothing is touched. Small pages: a huge one for every region that is touched once would be most of what we use. */
static inline void *pages_map_sparse(size_t size) {
    size_t whole = pages_rounded(size) + PAGES_GUARD;
    long result = raw_mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (raw_failed(result))
        return NULL;
    raw_call(SYS_madvise, result, (long)size, MADV_NOHUGEPAGE, 0, 0);
    if (PAGES_GUARD != 0)
        raw_call(SYS_mprotect, result + (long)pages_rounded(size), PAGES_GUARD, PROT_NONE, 0, 0);
    return (void *)result;
}

static inline void pages_unmap_sparse(void *pages, size_t size) {
    if (pages != NULL)
        raw_call(SYS_munmap, (long)pages, (long)(pages_rounded(size) + PAGES_GUARD), 0, 0, 0);
}

/* Zeros, or NULL. */
static inline void *pages_map(size_t size) {
    void *pages = pages_may(size) ? pages_map_sparse(size) : NULL;
    if (pages != NULL)
        pages_count(size, 0);
    return pages;
}

static inline void pages_unmap(void *pages, size_t size) {
    pages_unmap_sparse(pages, size);
    if (pages != NULL)
        pages_count(0, size);
}

/* The same bytes in a larger place; NULL, with the old place as it was, when there is none. */
static inline void *pages_grow(void *pages, size_t size, size_t wanted) {
    if (PAGES_GUARD != 0) {
        void *larger = pages_map(wanted);
        if (larger != NULL) {
            __builtin_memcpy(larger, pages, size);
            pages_unmap(pages, size);
        }
        return larger;
    }
    if (!pages_may(wanted - size))
        return NULL;
    long result = raw_call(SYS_mremap, (long)pages, (long)size, (long)wanted, MREMAP_MAYMOVE, 0);
    if (raw_failed(result))
        return NULL;
    pages_count(wanted, size);
    return (void *)result;
}

#endif
