/* preload: the functions that stand in front of the C library's, in a program that `heaptop run --native` starts.

   Each calls what would have been called without it (RTLD_NEXT: glibc's, or another preloaded allocator's), and reports to
   samples.h. A block is taken out of the tables before it is freed, because another thread may get its address at once.

   The library is loaded into whatever stands in for the interpreter too (env, a script). The first process takes the table
   for its pid; sampling begins when that pid runs a Python, which then finds an environment without this library. */
#define _GNU_SOURCE
#include "preload/samples.h"

#include "lookup.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define VARIABLE "HEAPTOP_MALLOC" /* "FD:LOGARITHM OF THE INTERVAL:PATH OF THIS LIBRARY" */
#define NEXT ((void *)-1)         /* RTLD_NEXT */
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* -- the functions behind ours ------------------------------------------------------------------------------ */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, void *);
} next;
static bool is_found, is_looking;

/* What dlsym asks for while the functions are looked up, on the first thread. Never freed. */
static struct {
    size_t used;
    _Alignas(16) char bytes[1 << 14];
} early;

static bool is_early(const void *block) {
    return (const char *)block >= early.bytes && (const char *)block < early.bytes + sizeof early.bytes;
}

static void *early_block(size_t size) {
    size_t at = (early.used + 15) & ~(size_t)15;
    if (size > sizeof early.bytes - at)
        return NULL;
    early.used = at + size;
    return early.bytes + at;
}

static void find(void) {
    is_looking = true;
    const struct {
        void *place;
        const char *name;
    } wanted[] = {
        {&next.malloc, "malloc"},
        {&next.calloc, "calloc"},
        {&next.realloc, "realloc"},
        {&next.free, "free"},
        {&next.aligned_alloc, "aligned_alloc"},
        {&next.memalign, "memalign"},
        {&next.posix_memalign, "posix_memalign"},
        {&next.valloc, "valloc"},
        {&next.pvalloc, "pvalloc"},
        {&next.mmap, "mmap"},
        {&next.munmap, "munmap"},
        {&next.mremap, "mremap"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        *(void **)wanted[i].place = lookup_dlsym(NEXT, wanted[i].name);
    __atomic_store_n(&is_found, true, __ATOMIC_RELEASE);
    is_looking = false;
}

/* False while they are being looked up. */
static inline bool ready(void) {
    if (__builtin_expect(__atomic_load_n(&is_found, __ATOMIC_ACQUIRE), 1))
        return true;
    if (is_looking)
        return false;
    find();
    return true;
}

/* -- malloc and its like ------------------------------------------------------------------------------------ */

static inline void *born(void *block, size_t size, const void *caller) {
    samples_born(block, size, MALLOC, caller);
    return block;
}

SHOWN void *malloc(size_t size) {
    if (!ready())
        return early_block(size);
    return born(next.malloc(size), size, CALLER);
}

SHOWN void *calloc(size_t count, size_t size) {
    if (!ready())
        return early_block(count * size); /* dlsym's own, small */
    return born(next.calloc(count, size), count * size, CALLER);
}

SHOWN void free(void *block) {
    if (is_early(block) || !ready())
        return;
    if (samples_may_have(block))
        samples_lift(block);
    next.free(block);
}

static void *moved(void *block, size_t size, const void *caller) {
    struct record lifted = {0};
    if (block != NULL && samples_may_have(block))
        lifted = samples_lift(block);
    void *larger = next.realloc(block, size);
    if (larger == NULL && size != 0)
        samples_put_back(&lifted);
    return born(larger, size, caller);
}

/* Of a block of ours, whose size nobody knows. */
static void *moved_early(void *block, size_t size) {
    void *larger = next.malloc(size);
    if (larger != NULL) {
        size_t rest = (size_t)(early.bytes + sizeof early.bytes - (char *)block);
        memcpy(larger, block, size < rest ? size : rest);
    }
    return larger;
}

SHOWN void *realloc(void *block, size_t size) {
    if (is_early(block))
        return moved_early(block, size);
    return ready() ? moved(block, size, CALLER) : early_block(size);
}

SHOWN void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (is_early(block))
        return moved_early(block, bytes);
    return ready() ? moved(block, bytes, CALLER) : early_block(bytes);
}

SHOWN void *aligned_alloc(size_t alignment, size_t size) {
    return ready() ? born(next.aligned_alloc(alignment, size), size, CALLER) : NULL;
}

SHOWN void *memalign(size_t alignment, size_t size) {
    return ready() ? born(next.memalign(alignment, size), size, CALLER) : NULL;
}

SHOWN int posix_memalign(void **block, size_t alignment, size_t size) {
    if (!ready())
        return ENOMEM;
    int error = next.posix_memalign(block, alignment, size);
    if (error == 0)
        born(*block, size, CALLER);
    return error;
}

SHOWN void *valloc(size_t size) { return ready() ? born(next.valloc(size), size, CALLER) : NULL; }

SHOWN void *pvalloc(size_t size) { return ready() ? born(next.pvalloc(size), size, CALLER) : NULL; }

/* -- mappings ----------------------------------------------------------------------------------------------- */

static struct {
    const char *start, *end;
} allocator; /* the library that has next.malloc: its mappings hold blocks that are counted already */

/* Memory of a file is in the rows of its kind, and what may not be written to is not used yet. */
static bool is_followed(int protection, int flags, const char *caller) {
    return (flags & MAP_ANONYMOUS) && (protection & PROT_WRITE) && !(caller >= allocator.start && caller < allocator.end);
}

static void *mapped(void *address, size_t size, int protection, int flags, int fd, off_t offset, const void *caller) {
    if (!ready()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *found = next.mmap(address, size, protection, flags, fd, offset);
    if (found != MAP_FAILED && (flags & MAP_FIXED))
        samples_unmap(address, size); /* nobody else can have been given this place meanwhile */
    if (found != MAP_FAILED && is_followed(protection, flags, caller))
        samples_born(found, size, MAPPING, caller);
    return found;
}

SHOWN void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return mapped(address, size, protection, flags, fd, offset, CALLER);
}

SHOWN void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return mapped(address, size, protection, flags, fd, offset, CALLER);
}

/* Else munmap fails, and changes nothing. */
static bool may_be_unmapped(const void *address, size_t size) {
    enum { PAGE = 4096 };
    const uintptr_t highest = (uintptr_t)1 << 56; /* of five levels of page tables */
    return (uintptr_t)address % PAGE == 0 && size != 0 && size < highest && (uintptr_t)address <= highest - size;
}

SHOWN int munmap(void *address, size_t size) {
    if (!ready()) {
        errno = ENOMEM;
        return -1;
    }
    if (may_be_unmapped(address, size))
        samples_unmap(address, size); /* before: another thread may be given this place at once */
    return next.munmap(address, size);
}

/* The sample stays the one it was: its chance was that of the first size. What it has more or less is what is left of it. */
static void resize(struct record *sample, void *address, size_t size, size_t wanted) {
    sample->address = (uint64_t)address;
    sample->left = sample->left + wanted > size ? sample->left + wanted - size : wanted;
}

SHOWN void *mremap(void *address, size_t size, size_t wanted, int flags, ...) {
    void *target = NULL;
    if (flags & MREMAP_FIXED) {
        va_list arguments;
        va_start(arguments, flags);
        target = va_arg(arguments, void *);
        va_end(arguments);
    }
    if (!ready()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    struct record lifted = {0};
    if (samples_may_have(address))
        lifted = samples_lift(address);
    void *found = next.mremap(address, size, wanted, flags, target);
    if (found != MAP_FAILED && (flags & MREMAP_FIXED))
        samples_unmap(target, wanted);
    if (found != MAP_FAILED && lifted.address != 0)
        resize(&lifted, found, size, wanted);
    samples_put_back(&lifted);
    return found;
}

/* -- beginning ---------------------------------------------------------------------------------------------- */

extern char **environ;

static char *variable(const char *name) {
    size_t size = strlen(name);
    for (char **each = environ; each != NULL && *each != NULL; each++)
        if (strncmp(*each, name, size) == 0 && (*each)[size] == '=')
            return *each + size + 1;
    return NULL;
}

static void remove_variable(const char *value) {
    char **kept = environ;
    for (char **each = environ; *each != NULL; each++)
        if (!(value > *each && value <= *each + strlen(*each)))
            *kept++ = *each;
    *kept = NULL;
}

/* What this process starts is as without this library: its path goes out of LD_PRELOAD, in place. */
static void leave_environment(char *value, const char *path) {
    char *list = variable("LD_PRELOAD"), *found = list == NULL ? NULL : strstr(list, path);
    size_t size = strlen(path);
    if (found != NULL) {
        char *rest = found + size + (found[size] != '\0');
        memmove(found, rest, strlen(rest) + 1);
        if (*list == '\0')
            remove_variable(list);
    }
    remove_variable(value);
}

static struct table *map_table(int fd) {
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || lseek(fd, 0, SEEK_END) != sizeof(struct table))
        return NULL;
    long mapped = raw_mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    struct table *table = (struct table *)mapped;
    if (raw_failed(mapped) || table->magic != TABLE_MAGIC)
        return NULL;
    raw_call(SYS_madvise, mapped, sizeof(struct table), MADV_DONTFORK, 0, 0);
    return table;
}

/* The whole library, by the mappings of its code and data. */
static void find_allocator(void) {
    struct lookup_object object;
    if (!lookup_object((void *)next.malloc, &object))
        return;
    enum { LARGEST = 64 << 20 };
    allocator.start = object.base;
    allocator.end = allocator.start;
    for (const char *at = object.base; at < (const char *)object.base + LARGEST; at += 4096) {
        struct lookup_object other;
        if (!lookup_object(at, &other) || other.base != object.base)
            break;
        allocator.end = at + 4096;
    }
}

/* Whether C++ calls an operator new of the allocator's, which need not call malloc. */
static bool allocator_has_new(void) {
    const char *found = lookup_symbol("_Znwm");
    return found != NULL && found >= allocator.start && found < allocator.end;
}

/* Whether a call of malloc arrives here: the address that the linker finds may be a stub of the program's. */
static bool is_called(void) {
    void *(*allocate)(size_t);
    void (*release)(void *);
    *(void **)&allocate = lookup_symbol("malloc");
    *(void **)&release = lookup_symbol("free");
    int64_t before = samples_thread.left;
    release(allocate(1));
    return samples_thread.left != before;
}

/* "7:17:/path": the number before a colon, and what is behind it. -1: there is none. */
static int number_at(char **text) {
    char *end;
    long number = strtol(*text, &end, 10);
    if (end == *text || *end != ':' || number < 0 || number > INT32_MAX)
        return -1;
    *text = end + 1;
    return (int)number;
}

static __attribute__((constructor(101))) void begin(void) {
    ready();
    char *value = variable(VARIABLE), *rest = value;
    if (value == NULL)
        return;
    int fd = number_at(&rest), interval = fd < 0 ? -1 : number_at(&rest);
    struct table *table = interval < 10 || interval > 30 ? NULL : map_table(fd);
    int32_t nobody = 0, own = getpid();
    if (table != NULL)
        __atomic_compare_exchange_n(&table->pid, &nobody, own, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (table != NULL && table->pid == own && lookup_symbol("Py_IsInitialized") == NULL)
        return; /* and the interpreter it starts may be sampled */
    leave_environment(value, rest);
    if (table == NULL)
        return;
    close(fd);
    if (table->pid != own || table->state != WAITING)
        return;
    if (!is_called()) {
        table->state = OTHER_MALLOC;
        return;
    }
    find_allocator();
    table->own_new = allocator_has_new();
    samples_open(table, (uint8_t)interval);
}
