/* See heap_stats.h. Everything outside the limited API is looked up at run time, so that one library loads with every
 * glibc and every Python. */

#define _GNU_SOURCE
#include "heap_stats.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* glibc 2.34 moved dlsym into libc, with a new version; the old one is in both. */
extern void *heap_dlsym(void *handle, const char *name);
__asm__(".symver heap_dlsym, dlsym@GLIBC_2.2.5");

/* malloc.h, mallinfo(3): spelled out here, since the headers of a build machine may be older than mallinfo2. */
struct mallinfo_wide {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo_narrow {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

static void *
heap_find(const char *name)
{
    return heap_dlsym(RTLD_DEFAULT, name);
}

/* The object that an address belongs to; 0 when that cannot be said. */
static int
heap_object_of(const void *address, Dl_info *info)
{
    int (*whose)(const void *, Dl_info *) = (int (*)(const void *, Dl_info *))heap_find("dladdr");
    memset(info, 0, sizeof *info);
    return address && whose && whose(address, info) && info->dli_fbase;
}

/* Whether malloc is glibc's own: in the same object as what only glibc has. When it is not, and that can be said, the
 * other object's name is left in *foreign.
 *
 * malloc itself cannot be asked: in a program that is not position-independent its address is that of a stub in the
 * program. malloc_usable_size is in every replacement too, and nobody takes its address. */
static int
heap_is_glibc(const char **foreign)
{
    Dl_info libc, malloc_s;
    if (!heap_object_of(heap_find("gnu_get_libc_version"), &libc) ||
        !heap_object_of(heap_find("malloc_usable_size"), &malloc_s))
        return 0;
    if (libc.dli_fbase == malloc_s.dli_fbase)
        return 1;
    *foreign = malloc_s.dli_fname;
    return 0;
}

static const char *
heap_allocator(void)
{
    const char *(*name)(void) = (const char *(*)(void))heap_find("_PyMem_GetCurrentAllocatorName");
    return name ? name() : NULL;
}

int
heap_stats_read(struct heap_stats *out)
{
    memset(out, 0, sizeof *out);
    out->allocator = heap_allocator();
    if (!heap_is_glibc(&out->foreign))
        return -1;
    struct mallinfo_wide (*wide)(void) = (struct mallinfo_wide (*)(void))heap_find("mallinfo2");
    if (wide) {
        struct mallinfo_wide found = wide();
        out->heaps = found.arena;
        out->in_use = found.uordblks;
        out->free = found.fordblks;
        out->mapped = found.hblkhd;
        out->mapped_chunks = found.hblks;
        return 0;
    }
    struct mallinfo_narrow (*narrow)(void) = (struct mallinfo_narrow (*)(void))heap_find("mallinfo");
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

PyObject *
heap_stats_face(PyObject *module, PyObject *unused)
{
    struct heap_stats stats;
    (void)module;
    (void)unused;
    /* Other threads may go on meanwhile: a heap of many free chunks takes its time. */
    PyThreadState *state = PyEval_SaveThread();
    int failed = heap_stats_read(&stats);
    PyEval_RestoreThread(state);
    if (failed)
        return Py_BuildValue("{szszsO}", "allocator", stats.allocator, "foreign", stats.foreign, "malloc", Py_None);
    return Py_BuildValue("{szszs(KKKKKO)}", "allocator", stats.allocator, "foreign", stats.foreign, "malloc",
                         (unsigned long long)stats.heaps, (unsigned long long)stats.in_use,
                         (unsigned long long)stats.free, (unsigned long long)stats.mapped,
                         (unsigned long long)stats.mapped_chunks, stats.wraps ? Py_True : Py_False);
}
