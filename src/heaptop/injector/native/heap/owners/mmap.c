/* mmap: the pages of an mmap.mmap (mmapmodule.c). They are not touched: that may be to read a file, or to wait for one. */
#include "heap/owners.h"
#include "machine.h"

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)seen;
    uint64_t data = uint64_at(o, layout.mmap_data), size = uint64_at(o, layout.mmap_size);
    uint64_t position = uint64_at(o, layout.mmap_position), offset = uint64_at(o, layout.mmap_offset);
    if (data == 0) /* closed */
        return (struct owned){0, false};
    uint64_t page = machine_page(), room = (size + page - 1) & -page;
    bool fits = size > 0 && size < MACHINE_HIGHEST && data % page == 0 && data + room < MACHINE_HIGHEST && position <= size;
    return fits && offset % page == 0 ? (struct owned){room, false} : OWNED_UNKNOWN;
}

static const char *const types[] = {"mmap.mmap", NULL};

const struct owner owner_mmap = {types, 72, measure, .maps = true};
