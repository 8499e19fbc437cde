/* numpy: the rule for arrays. */
#include "heap/numpy.h"

#include "heap/containers.h"

#include <stddef.h>
#include <string.h>

bool numpy_is_array(PyTypeObject *type) {
    for (; type != NULL; type = type_base(type)) {
        const char *name = pointer_at(type, layout.type_name);
        if (name != NULL && strcmp(name, "numpy.ndarray") == 0)
            return !(type_flags(type) & FLAG_HEAP_TYPE) && uint64_at(type, layout.type_basicsize) >= sizeof(struct numpy_array);
    }
    return false;
}

enum { OBJECT = 17, VOID = 20 }; /* ndarraytypes.h, NPY_TYPES */

/* ndarraytypes.h: what a dtype that is itself an array is made of. */
struct descr_array {
    PyObject *descr, *shape;
};

/* ndarraytypes.h, PyArray_Descr of numpy 1.x. */
struct descr_1 {
    PyObject head;
    PyTypeObject *scalar;
    char kind, letter, order;
    uint8_t flags;
    int number, size, alignment;
    struct descr_array *array;
    PyObject *fields, *names;
    void *functions;
    PyObject *metadata;
    void *private;
    Py_hash_t hash;
};

/* ndarraytypes.h, _PyArray_LegacyDescr of numpy 2.x: all dtypes of 1.x have it still. */
struct descr_2 {
    PyObject head;
    PyTypeObject *scalar;
    char kind, letter, order, unused;
    int number;
    uint64_t flags;
    intptr_t size, alignment;
    PyObject *metadata;
    Py_hash_t hash;
    void *reserved[2];
    struct descr_array *array;
    PyObject *fields, *names;
    void *private;
};

/* A dtype of either. */
struct descr {
    int number;
    bool objects; /* whether there are some in its items */
    intptr_t size;
    const struct descr_array *array;
    PyObject *fields; /* a dict: name -> (dtype, offset[, title]), and title -> the same */
};

/* The size of its instances tells them apart; one that is like neither is left alone. */
static bool open_descr(PyObject *o, struct descr *descr) {
    uint64_t basic = o == NULL ? 0 : uint64_at(Py_TYPE(o), layout.type_basicsize) - (uint64_t)layout.head_extra;
    if (basic == sizeof(struct descr_1)) {
        const struct descr_1 *d = body_of(o);
        *descr = (struct descr){d->number, d->flags & 1, d->size, d->array, d->fields};
        return true;
    }
    if (basic == sizeof(struct descr_2)) {
        const struct descr_2 *d = body_of(o);
        *descr = (struct descr){d->number, d->flags & 1, d->size, d->array, d->fields};
        return true;
    }
    return false;
}

uint64_t numpy_bytes(PyObject *o) {
    const struct numpy_array *array = numpy_at(o);
    struct descr descr;
    if (!open_descr(array->descr, &descr))
        return 0;
    uint64_t bytes = (uint64_t)descr.size;
    for (int i = 0; i < array->dimensions; i++)
        bytes *= (uint64_t)array->shape[i];
    return bytes;
}

struct scan {
    const struct numpy_array *array;
    visitproc visit;
    void *context;
};

/* The object that is at ``data`` in the first item, and its like in the other items, until the visitor returns something
   else than 0. */
static int visit_items(const struct scan *scan, const char *data, int dimension) {
    const struct numpy_array *array = scan->array;
    if (dimension == array->dimensions) {
        PyObject *item;
        memcpy(&item, data, sizeof item); /* numpy does not promise that it is aligned */
        return item != NULL ? scan->visit(item, scan->context) : 0;
    }
    intptr_t stride = array->strides[dimension], length = stride == 0 ? 1 : array->shape[dimension];
    int ended = 0;
    for (intptr_t i = 0; i < length && ended == 0; i++)
        ended = visit_items(scan, data + i * stride, dimension + 1);
    return ended;
}

static void visit_part(const struct scan *scan, PyObject *dtype, const char *data, intptr_t room, int depth);

static void visit_array_part(const struct scan *scan, const struct descr *whole, const char *data, int depth) {
    struct descr each;
    if (!open_descr(whole->array->descr, &each) || !each.objects || each.size <= 0)
        return;
    for (intptr_t at = 0; at + each.size <= whole->size; at += each.size)
        visit_part(scan, whole->array->descr, data + at, each.size, depth);
}

static void visit_fields(const struct scan *scan, const struct descr *whole, const char *data, int depth) {
    struct keys_view keys = keys_open(pointer_at(whole->fields, layout.dict_keys));
    for (int64_t i = 0; i < keys.count; i++) {
        PyObject **entry = keys_entry(&keys, i), *field = entry[1];
        if (field == NULL || Py_TYPE(field) != symbols.tuple_type || size_field(field) < 2)
            continue;
        PyObject **part = at(field, layout.tuple_items);
        if (Py_TYPE(part[1]) != symbols.int_type || (size_field(field) > 2 && part[2] == entry[0])) /* by its title, too */
            continue;
        int64_t offset;
        if (int_value(part[1], &offset) && offset >= 0 && offset <= whole->size)
            visit_part(scan, part[0], data + offset, whole->size - offset, depth);
    }
}

/* What is at ``data`` in each item. Fields with objects never overlap (descriptor.c, validate_object_field_overlap),
   so this takes no more steps than the items have words. Records nested deeper than anybody writes them are left alone. */
static void visit_part(const struct scan *scan, PyObject *dtype, const char *data, intptr_t room, int depth) {
    enum { DEEPEST = 32 };
    struct descr descr;
    if (depth > DEEPEST || !open_descr(dtype, &descr) || !descr.objects || descr.size > room)
        return;
    if (descr.number == OBJECT)
        visit_items(scan, data, 0);
    else if (descr.number == VOID && descr.array != NULL)
        visit_array_part(scan, &descr, data, depth + 1);
    else if (descr.number == VOID && descr.fields != NULL && Py_TYPE(descr.fields) == symbols.dict_type)
        visit_fields(scan, &descr, data, depth + 1);
}

/* Whether nothing else leads to the items. A view's base is, at last, the array that owns them, or an object that the
   collector can ask. A capsule is neither: C code has made the array over memory of its own. Any other stranger (bytes,
   a file in memory) holds no references: what looks like an item may be gone. */
static bool has_items(const struct numpy_array *array) {
    enum { MOST_DIMENSIONS = 64 };
    if (array->data == NULL || array->dimensions < 0 || array->dimensions > MOST_DIMENSIONS)
        return false;
    for (int i = 0; i < array->dimensions; i++)
        if (array->shape[i] <= 0)
            return false;
    return array->base == NULL || array->flags & ARRAY_OWNS_DATA || Py_TYPE(array->base) == symbols.capsule_type;
}

void numpy_visit(PyObject *o, visitproc visit, void *context) {
    const struct numpy_array *array = numpy_at(o);
    struct scan scan = {array, visit, context};
    if (array->base != NULL)
        visit(array->base, context);
    if (array->descr == NULL)
        return;
    visit(array->descr, context);
    if (!has_items(array))
        return;
    _Static_assert(offsetof(struct descr_1, number) == offsetof(struct descr_2, number), "promised for all of numpy");
    if (((struct descr_2 *)body_of(array->descr))->number == OBJECT)
        visit_items(&scan, array->data, 0);
    else
        visit_part(&scan, array->descr, array->data, INTPTR_MAX, 0);
}
