/* cffi: what ffi.new() has made, behind the object's own fields (_cffi_backend.c, CDataObject_own_length). A pointer to a
   structure keeps another object that has it. What is cast, borrowed from a buffer or given by gc() belongs to others. */
#include "heap/owners.h"

enum { TYPE = 16, DATA = 24, LENGTH = 40, STRUCTURE = LENGTH, INSIDE = 48 };                  /* of the object */
enum { ITEM = 24, SIZE = 64, FLAGS = 80, IS_POINTER = 0x10, IS_ARRAY = 0x20, IS_STRUCTURE = 0xc0, TYPE_BYTES = 96 };

/* Of the data that is inside of an object; -1: its fields do not fit. */
static int64_t size_of_data(const char *o) {
    const void *type = pointer_at(o, TYPE), *item = NULL;
    if (!owners_has(type, TYPE_BYTES))
        return -1;
    const uint32_t flags = uint32_at(type, FLAGS);
    const int64_t size = int64_at(type, SIZE), length = int64_at(o, LENGTH);
    if (flags & IS_STRUCTURE)
        return length > size ? length : size; /* one that ends with an open array */
    if ((flags & IS_ARRAY) && size >= 0)
        return size;
    if (!(flags & (IS_ARRAY | IS_POINTER)) || !owners_has(item = pointer_at(type, ITEM), TYPE_BYTES))
        return -1;
    const int64_t one = int64_at(item, SIZE), many = flags & IS_ARRAY ? length : 1;
    return one < 0 || many < 0 || one > INT32_MAX || many > INT64_MAX >> 32 ? -1 : one * many;
}

static bool is_inside(const char *o) { return (const char *)pointer_at(o, DATA) == o + INSIDE; }

/* The object that has the structure which this one points to; NULL where it is none of these. */
static const char *structure_of(PyObject *o, const char *body) {
    PyObject *other = object_at(body, STRUCTURE);
    if (!owners_has(other, INSIDE) || Py_TYPE(other) != Py_TYPE(o))
        return NULL;
    const char *found = body_of(other);
    return is_inside(found) && pointer_at(found, DATA) == pointer_at(body, DATA) ? found : NULL;
}

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    const char *body = body_of(o), *holder = body;
    if (pointer_at(body, DATA) == NULL || pointer_at(body, DATA) == (void *)o) /* of new_handle */
        return (struct owned){0, false};
    if (!is_inside(body))
        holder = structure_of(o, body);
    const int64_t size = holder == NULL ? -1 : size_of_data(holder);
    const char *data = holder == NULL ? NULL : pointer_at(holder, DATA);
    if (size < 0 || (size >= 8 && !owners_has(data, (uint64_t)size)))
        return OWNED_UNKNOWN;
    if (!owners_first(seen, data)) /* the structure's object was met by itself too */
        return (struct owned){0, seen->failed};
    return (struct owned){(uint64_t)size + (holder == body ? INSIDE - LENGTH : INSIDE), false};
}

static const char *const types[] = {"_cffi_backend.__CDataOwn", "_cffi_backend.CDataOwn", NULL};

const struct owner owner_cffi = {types, 40, measure, .maps = false};
