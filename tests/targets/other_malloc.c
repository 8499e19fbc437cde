/* A malloc that is not glibc's, to be preloaded: it hands out, and never takes back. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static char *at, *end;
static char lock;

static void *take(size_t size) {
    size = (size + 31) & ~(size_t)15;
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        ;
    if ((size_t)(end - at) < size) {
        size_t room = size > (8u << 20) ? size : (8u << 20);
        at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = at + room;
    }
    char *found = at;
    at += size;
    __atomic_clear(&lock, __ATOMIC_RELEASE);
    *(size_t *)found = size - 16;
    return found + 16;
}

void *malloc(size_t size) { return take(size); }

#ifdef OWN_NEW
void *_Znwm(size_t size) { return take(size); } /* C++'s operator new */
#endif

size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-2] : 0; }

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return malloc(count * size); /* never used before: zero */ }

void *realloc(void *block, size_t size) {
    void *found = malloc(size);
    size_t old = malloc_usable_size(block);
    if (block)
        memcpy(found, block, old < size ? old : size);
    return found;
}
