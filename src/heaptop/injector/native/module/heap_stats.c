/* See heap_stats.h. Everything outside the limited API is looked up at run time, so that one library loads with every
 * glibc and every Python. */
#include "module/heap_stats.h"

#include "lookup.h"

#include <string.h>

/* malloc.h, mallinfo(3): spelled out here, since the headers of a build machine may be older than mallinfo2. */
struct mallinfo_wide {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo_narrow {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* Whether malloc is glibc's own: in the same object as what only glibc has. When it is not, and that is known, the
 * other object's name is left in *foreign.
 *
 * malloc itself cannot be asked: in a program that is not position-independent its address is that of a stub in the
 * program. malloc_usable_size is in every replacement too, and nobody takes its address. */
static int heap_is_glibc(const char **foreign) {
    struct lookup_object libc, malloc_s;
    if (!lookup_object(lookup_symbol("gnu_get_libc_version"), &libc) ||
        !lookup_object(lookup_symbol("malloc_usable_size"), &malloc_s))
        return 0;
    if (libc.base == malloc_s.base)
        return 1;
    *foreign = malloc_s.file;
    return 0;
}

static const char *heap_allocator(void) {
    const char *(*name)(void) = (const char *(*)(void))lookup_symbol("_PyMem_GetCurrentAllocatorName");
    return name ? name() : NULL;
}

int heap_stats_read(struct heap_stats *out) {
    memset(out, 0, sizeof *out);
    out->allocator = heap_allocator();
    if (!heap_is_glibc(&out->foreign))
        return -1;
    struct mallinfo_wide (*wide)(void) = (struct mallinfo_wide (*)(void))lookup_symbol("mallinfo2");
    if (wide) {
        struct mallinfo_wide found = wide();
        out->heaps = found.arena;
        out->in_use = found.uordblks;
        out->free = found.fordblks;
        out->mapped = found.hblkhd;
        out->mapped_chunks = found.hblks;
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
    out->wraps = 1;
    return 0;
}

PyObject *heap_stats_face(PyObject *module, PyObject *unused) {
    struct heap_stats stats;
    (void)module;
    (void)unused;
    /* Other threads may continue meanwhile: a heap of many free chunks takes its time. */
    PyThreadState *state = PyEval_SaveThread();
    int failed = heap_stats_read(&stats);
    PyEval_RestoreThread(state);
    if (failed)
        return Py_BuildValue("{szszsO}", "allocator", stats.allocator, "foreign", stats.foreign, "malloc", Py_None);
    return Py_BuildValue("{szszs(KKKKKO)}", "allocator", stats.allocator, "foreign", stats.foreign, "malloc",
                         (unsigned long long)stats.heaps, (unsigned long long)stats.in_use, (unsigned long long)stats.free,
                         (unsigned long long)stats.mapped, (unsigned long long)stats.mapped_chunks,
                         stats.wraps ? Py_True : Py_False);
}
