/* See heap_stats.h. Everything outside the limited API is looked up at run time, so that one library loads with every
 * glibc and every Python. */
#include "module/heap_stats.h"

#include "layout.h"
#include "life.h"
#include "lookup.h"

#include <string.h>

/* malloc.h, mallinfo(3): spelled out here, since the headers of a build machine may be older than mallinfo2. */
struct mallinfo_wide {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo_narrow {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* The object that malloc belongs to.
 *
 * malloc itself cannot be asked: in a program that is not position-independent its address is that of a stub in the
 * program. malloc_usable_size is in every replacement too, and nobody takes its address. */
static int heap_owner(struct lookup_object *owner) { return lookup_object(lookup_symbol("malloc_usable_size"), owner); }

/* A function of that object: one of the same name in another library may be anybody's. */
static void *heap_function(const struct lookup_object *owner, const char *name) {
    struct lookup_object found;
    void *function = lookup_symbol(name);
    return lookup_object(function, &found) && found.base == owner->base ? function : NULL;
}

/* jemalloc's mallctl(3). It takes the lock of its figures, then for each arena in turn those that malloc and free take,
 * to copy counters. Whoever holds one of them does not wait for this thread, which holds nothing else, not even the GIL.
 * Its fork handlers know them all. The first call allocates tables for the figures from its own metadata, which stay. */
typedef int jemalloc_mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

static int jemalloc_figure(jemalloc_mallctl *mallctl, const char *name, size_t *out) {
    size_t size = sizeof *out;
    *out = SIZE_MAX; /* no figure, whoever that function is of */
    return mallctl(name, out, &size, NULL, 0) == 0 && size == sizeof *out;
}

static int jemalloc_read(void *function, struct heap_stats *out) {
    jemalloc_mallctl *mallctl;
    *(void **)&mallctl = function;
    uint64_t epoch = 1;
    size_t size = sizeof epoch, allocated, active, metadata, resident;
    /* All figures are of the last epoch: one moment. */
    if (mallctl("epoch", &epoch, &size, &epoch, sizeof epoch) != 0)
        return 0;
    if (!jemalloc_figure(mallctl, "stats.allocated", &allocated) || !jemalloc_figure(mallctl, "stats.active", &active) ||
        !jemalloc_figure(mallctl, "stats.metadata", &metadata) || !jemalloc_figure(mallctl, "stats.resident", &resident))
        return 0; /* built without statistics */
    out->other_in_use = allocated;
    out->other_blocks = active > allocated ? active - allocated : 0;
    out->other_pages = resident > active + metadata ? resident - active - metadata : 0;
    out->other_metadata = metadata;
    return 1;
}

/* tcmalloc of gperftools. Figures of thread caches and pages are read with the lock of the page heap, those of each
 * size class with that class's: locks that malloc and free take, one at a time, and nothing is allocated. Each figure
 * is of a moment of its own. (Abseil's tcmalloc exports none of these functions.) */
typedef int tcmalloc_property(const char *name, size_t *value);

static int tcmalloc_read(void *function, struct heap_stats *out) {
    static const char *const cached[] = {"tcmalloc.thread_cache_free_bytes", "tcmalloc.central_cache_free_bytes",
                                         "tcmalloc.transfer_cache_free_bytes"};
    tcmalloc_property *property;
    *(void **)&property = function;
    size_t allocated, pages;
    if (!property("generic.current_allocated_bytes", &allocated) || !property("tcmalloc.pageheap_free_bytes", &pages))
        return 0;
    for (size_t i = 0; i < sizeof cached / sizeof *cached; i++) {
        size_t value;
        if (!property(cached[i], &value))
            return 0;
        out->other_blocks += value;
    }
    out->other_in_use = allocated;
    out->other_pages = pages;
    return 1;
}

/* Allocators by a function that each exports. mimalloc has no figures of running threads: each adds its
 * counts to the sums when it ends (mi_stats_merge), and only its own thread may search a heap for free blocks. */
static void heap_other(const struct lookup_object *owner, struct heap_stats *out) {
    static const struct {
        const char *name, *function;
        int (*read)(void *function, struct heap_stats *out);
    } known[] = {
        {"jemalloc", "mallctl", jemalloc_read},
        {"tcmalloc", "MallocExtension_GetNumericProperty", tcmalloc_read},
        {"mimalloc", "mi_version", NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        void *function = heap_function(owner, known[i].function);
        if (function == NULL)
            continue;
        out->name = known[i].name;
        out->foreign = owner->file;
        /* Sums that other threads change meanwhile may fall below 0. */
        out->has_other = known[i].read != NULL && known[i].read(function, out) &&
                         (out->other_in_use | out->other_blocks | out->other_pages | out->other_metadata) >> 62 == 0;
        return;
    }
}

/* Whether malloc is glibc's own: in the same object as what only glibc has. When it is not, and that is known, the
 * other object's name is left in out->foreign. */
static int heap_is_glibc(struct heap_stats *out) {
    struct lookup_object libc, owner;
    if (!heap_owner(&owner))
        return 0;
    if (lookup_object(lookup_symbol("gnu_get_libc_version"), &libc)) {
        if (libc.base == owner.base)
            return 1;
        out->foreign = owner.file;
    }
    heap_other(&owner, out);
    return 0;
}

static const char *heap_allocator(void) {
    const char *(*name)(void) = (const char *(*)(void))lookup_symbol("_PyMem_GetCurrentAllocatorName");
    return name ? name() : NULL;
}

int heap_stats_read(struct heap_stats *out) {
    memset(out, 0, sizeof *out);
    out->allocator = heap_allocator();
    if (!heap_is_glibc(out))
        return -1;
    struct mallinfo_wide (*wide)(void) = (struct mallinfo_wide (*)(void))lookup_symbol("mallinfo2");
    if (wide) {
        struct mallinfo_wide found = wide();
        out->heaps = found.arena;
        out->in_use = found.uordblks;
        out->free = found.fordblks;
        out->mapped = found.hblkhd;
        out->mapped_chunks = found.hblks;
        out->free_chunks = found.ordblks + found.smblks;
        return 0;
    }
    struct mallinfo_narrow (*narrow)(void) = (struct mallinfo_narrow (*)(void))lookup_symbol("mallinfo");
    if (!narrow)
        return -1;
    struct mallinfo_narrow found = narrow();
    out->heaps = (uint32_t)found.arena;
    out->in_use = (uint32_t)found.uordblks;
    out->free = (uint32_t)found.fordblks;
    out->mapped = (uint32_t)found.hblkhd;
    out->mapped_chunks = (uint32_t)found.hblks;
    out->free_chunks = (uint64_t)(uint32_t)found.ordblks + (uint32_t)found.smblks;
    out->wraps = 1;
    return 0;
}

static PyObject *heap_figures(const struct heap_stats *stats) {
    return Py_BuildValue("(KKKKKOK)", (unsigned long long)stats->heaps, (unsigned long long)stats->in_use,
                         (unsigned long long)stats->free, (unsigned long long)stats->mapped,
                         (unsigned long long)stats->mapped_chunks, stats->wraps ? Py_True : Py_False,
                         (unsigned long long)stats->free_chunks);
}

static PyObject *heap_other_figures(const struct heap_stats *stats) {
    return Py_BuildValue("(KKKK)", (unsigned long long)stats->other_in_use, (unsigned long long)stats->other_blocks,
                         (unsigned long long)stats->other_pages, (unsigned long long)stats->other_metadata);
}

PyObject *heap_stats_face(PyObject *module, PyObject *unused) {
    struct heap_stats stats;
    (void)module;
    (void)unused;
    /* Other threads may continue meanwhile: a heap of many free chunks takes its time. */
    struct life_wait wait = life_release();
    int failed = heap_stats_read(&stats);
    life_return(wait);
    return Py_BuildValue("{szszszsNsN}", "allocator", stats.allocator, "foreign", stats.foreign, "name", stats.name, "malloc",
                         failed ? new_reference(Py_None) : heap_figures(&stats), "other",
                         stats.has_other ? heap_other_figures(&stats) : new_reference(Py_None));
}
