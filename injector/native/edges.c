/* edges: choosing the rule of a type, and the rules for code objects, types and numpy arrays. */
#include "edges.h"

#include <string.h>

bool edges_is_array(PyTypeObject *type) {
    for (; type != NULL; type = type_base(type)) {
        const char *name = pointer_at(type, layout.type_name);
        if (name != NULL && strcmp(name, "numpy.ndarray") == 0)
            return !(type_flags(type) & FLAG_HEAP_TYPE) &&
                   uint64_at(type, layout.type_basicsize) >= sizeof(struct numpy_array);
    }
    return false;
}

static bool is_dict_like(PyTypeObject *type) {
    while (type != NULL && type_traverse(type) != symbols.dict_traverse)
        type = type_base(type);
    return type != NULL;
}

enum edge_rule edges_decide(PyTypeObject *type) {
    unsigned long flags = type_flags(type);
    if (type == symbols.code_type)
        return EDGES_CODE;
    if (edges_is_array(type) && !(flags & FLAG_HAVE_GC))
        return EDGES_ARRAY;
    if (!(flags & FLAG_HAVE_GC) || type_traverse(type) == NULL)
        return EDGES_NONE;
    if (type == &PyList_Type)
        return EDGES_LIST;
    if (type == &PyTuple_Type)
        return EDGES_TUPLE;
    if (type == &PyDict_Type)
        return EDGES_DICT;
    if (type == &PySet_Type || type == &PyFrozenSet_Type)
        return EDGES_SET;
    if (flags & (unsigned long)FLAG_TYPE_SUBCLASS)
        return EDGES_TYPE;
    return is_dict_like(type) ? EDGES_DICT_LIKE : EDGES_TRAVERSE;
}

static void visit_member(const void *holder, int32_t offset, visitproc visit, void *context) {
    PyObject *member = offset == 0 ? NULL : object_at(holder, offset);
    if (member != NULL)
        visit(member, context);
}

void edges_of_code(PyObject *code, visitproc visit, void *context) {
    const int32_t members[] = {
        layout.code_code,     layout.code_consts,   layout.code_names,      layout.code_varnames,
        layout.code_freevars, layout.code_cellvars, layout.code_filename,   layout.code_name,
        layout.code_qualname, layout.code_lines,    layout.code_exceptions, layout.code_locals_names,
        layout.code_locals_kinds,
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        visit_member(code, members[i], visit, context);
    PyObject **cached = layout.code_cached ? pointer_at(code, layout.code_cached) : NULL;
    if (cached != NULL)
        edges_of_span(cached, 4, visit, context);
}

void edges_of_type(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    PyTypeObject *type = (PyTypeObject *)o;
    if (type_flags(type) & FLAG_HEAP_TYPE) {
        kind->traverse(o, visit, context);
        visit_member(type, layout.heap_name, visit, context);
        visit_member(type, layout.heap_qualname, visit, context);
        visit_member(type, layout.heap_slots, visit, context);
        const void *shared = pointer_at(type, layout.heap_cached_keys);
        if (shared == NULL)
            return;
        struct keys_view keys = keys_open(shared);
        for (int64_t i = 0; i < keys.count; i++)
            edges_of_span(keys.entries + i * keys.stride + keys.key, 1, visit, context);
        return;
    }
    /* A static type has the collector's flag but not its head: type_traverse would abort the process. */
    visit_member(type, layout.type_mro, visit, context);
    visit_member(type, layout.type_bases, visit, context);
    PyObject *dict = kind_dict(type);
    if (dict != NULL)
        visit(dict, context);
    kind_release_dict(type, dict);
}

static bool holds_objects(const struct numpy_array *array) {
    enum { TYPE_NUMBER = 28, OBJECT = 17, MOST_DIMENSIONS = 64 };
    return array->descr != NULL && uint32_at(array->descr, TYPE_NUMBER) == OBJECT && array->data != NULL &&
           array->dimensions >= 0 && array->dimensions <= MOST_DIMENSIONS;
}

static void visit_items(const char *data, const struct numpy_array *array, int dimension, visitproc visit, void *context) {
    if (dimension == array->dimensions) {
        PyObject *item;
        memcpy(&item, data, sizeof item); /* numpy does not promise that it is aligned */
        if (item != NULL)
            visit(item, context);
        return;
    }
    for (intptr_t i = 0; i < array->shape[dimension]; i++)
        visit_items(data + i * array->strides[dimension], array, dimension + 1, visit, context);
}

void edges_of_array(PyObject *o, visitproc visit, void *context) {
    const struct numpy_array *array = (struct numpy_array *)o;
    if (array->base != NULL)
        visit(array->base, context);
    if (array->descr != NULL)
        visit(array->descr, context);
    if (holds_objects(array))
        visit_items(array->data, array, 0, visit, context);
}
