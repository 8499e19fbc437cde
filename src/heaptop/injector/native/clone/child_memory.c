/* child_memory: the allocator that gives nothing back. */
#include "clone/child_memory.h"

#include "allocator.h"
#include "layout.h"
#include "pages.h"

static struct {
    char *next, *end;
    uint64_t bytes;
    bool failed; /* there was no memory for somebody */
} bump;

static void *bump_malloc(void *context, size_t size) {
    (void)context;
    enum { PIECE = 1 << 20 };
    size = (size + 15) & ~(size_t)15;
    if (size > PIECE)
        return NULL;
    if ((size_t)(bump.end - bump.next) < size) {
        bump.next = pages_map(PIECE);
        bump.end = bump.next == NULL ? NULL : bump.next + PIECE;
        if (bump.next == NULL) {
            bump.failed = true;
            return NULL;
        }
        bump.bytes += PIECE;
    }
    bump.next += size;
    return bump.next - size; /* zeros: nothing is used twice */
}

static void *bump_calloc(void *context, size_t count, size_t size) {
    return size != 0 && count > SIZE_MAX / size ? NULL : bump_malloc(context, count * size);
}

static void *bump_realloc(void *context, void *old, size_t size) {
    return old == NULL ? bump_malloc(context, size) : NULL; /* how long the old one is, nobody knows */
}

static void bump_free(void *context, void *old) {
    (void)context;
    (void)old;
}

void child_memory_use(void) {
    struct allocator own = {NULL, bump_malloc, bump_calloc, bump_realloc, bump_free};
    for (int domain = 0; domain < 3; domain++)
        symbols.set_allocator(domain, &own);
}

void child_memory_limit(uint64_t limit) { pages_account = (struct pages_account){.limit = limit != 0 ? limit : UINT64_MAX}; }

bool child_memory_refused(void) {
    const struct pages_account *a = &pages_account;
    return a->refused || a->used + a->besides > a->limit;
}

void child_memory_forgive(void) { pages_account.refused = false; }

uint64_t child_memory_used(uint64_t sparse) {
    pages_account.besides = sparse;
    return pages_account.used + sparse;
}

bool child_memory_failed(void) { return bump.failed; }

uint64_t child_memory_bytes(void) { return bump.bytes; }
