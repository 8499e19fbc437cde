/* Another tool's hook in the allocators, which passes on to whom it is told. */
#include <stddef.h>

struct allocator {
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
};

void PyMem_GetAllocator(int domain, struct allocator *found);
void PyMem_SetAllocator(int domain, struct allocator *allocator);

enum { DOMAINS = 3 };
static struct allocator found[DOMAINS], below[DOMAINS];

static void *tool_malloc(void *context, size_t size) {
    const struct allocator *to = &below[(size_t)context];
    return to->malloc(to->context, size);
}

static void *tool_calloc(void *context, size_t count, size_t size) {
    const struct allocator *to = &below[(size_t)context];
    return to->calloc(to->context, count, size);
}

static void *tool_realloc(void *context, void *old, size_t size) {
    const struct allocator *to = &below[(size_t)context];
    return to->realloc(to->context, old, size);
}

static void tool_free(void *context, void *block) {
    const struct allocator *to = &below[(size_t)context];
    to->free(to->context, block);
}

/* Over what is there now. */
void put_over(int domain);
void put_over(int domain) {
    struct allocator own = {(void *)(size_t)domain, tool_malloc, tool_calloc, tool_realloc, tool_free};
    PyMem_GetAllocator(domain, &found[domain]);
    below[domain] = found[domain];
    PyMem_SetAllocator(domain, &own);
}

/* Pass on to another one; to what was there before for NULL. */
void pass_on_to(int domain, const struct allocator *other);
void pass_on_to(int domain, const struct allocator *other) { below[domain] = other == NULL ? found[domain] : *other; }
