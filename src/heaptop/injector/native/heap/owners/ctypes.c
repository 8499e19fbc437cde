/* ctypes: what an array or a structure has in a block of its own (_ctypes/ctypes.h). A pointer's target, and what was made
   from a buffer or is part of another object, belong to others. */
#include "heap/owners.h"

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)seen;
    const char *data = pointer_at(o, layout.ctypes_data);
    uint64_t size = uint64_at(o, layout.ctypes_size);
    bool is_inside = data == at(o, layout.ctypes_inside), is_part = pointer_at(o, layout.ctypes_base) != NULL;
    if (data == NULL || is_inside || is_part || uint32_at(o, layout.ctypes_owns) == 0)
        return (struct owned){0, false};
    return owners_has(data, size) ? (struct owned){size, false} : OWNED_UNKNOWN;
}

static const char *const types[] = {"_ctypes._CData", NULL};

const struct owner owner_ctypes = {types, 96, measure, .maps = false};
