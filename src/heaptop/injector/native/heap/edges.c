/* edges: choosing the rule of a type, and the rules for code objects, types and numpy arrays. */
#include "heap/edges.h"

#include <stddef.h>
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
    bool collected = flags & FLAG_HAVE_GC;
    if (collected && type_traverse(type) == NULL)
        return EDGES_NONE;
    if (edges_is_array(type))
        return EDGES_ARRAY;
    if (!collected)
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

static bool is_made_from(PyTypeObject *type, const PyTypeObject *base) {
    while (type != NULL && type != base)
        type = type_base(type);
    return type != NULL;
}

static bool is_named(PyTypeObject *type, const char *full) {
    const char *name = pointer_at(type, layout.type_name);
    return name != NULL && strcmp(name, full) == 0;
}

enum uneven_rule edges_decide_uneven(PyTypeObject *type) {
    if (symbols.ordered_type != NULL && is_made_from(type, symbols.ordered_type))
        return UNEVEN_ORDERED;
    for (; type != NULL; type = type_base(type))
        if (is_named(type, "functools._lru_cache_wrapper"))
            return UNEVEN_CACHE;
    return EVEN;
}

/* -- what tp_traverse visits, and what it leaves out --------------------------------------------------------- */

struct watching {
    const void *type;
    const void *dict;
    uint32_t types, dicts; /* visits of either */
    visitproc visit;
    void *context;
};

static int watch(PyObject *o, void *context) {
    struct watching *w = context;
    w->types += o == w->type;
    w->dicts += o == w->dict;
    return w->visit(o, w->context);
}

/* Visit the type, where tp_traverse did not. That it does is believed after some instances: another reference to it may
   look alike, but hardly in the first of them all. */
static void finish_type(const struct watching *w, const struct kind *kind) {
    if (!kind_is_watched(kind))
        return;
    ((struct kind *)kind)->told = w->types != 0 ? kind->told + 1 : 0;
    if (w->types == 0)
        w->visit((PyObject *)kind->type, w->context);
}

static int stop(PyObject *o, void *context) {
    (void)o, (void)context;
    return 1;
}

/* Up to 3.13 the instance visits them, and dict_traverse does not; later the one or the other does. */
PyObject *edges_shared_dict(PyObject *o, const struct kind *kind) {
    PyObject *dict = kind->values == VALUES_INLINE ? object_at(o, layout.object_dict) : NULL;
    bool same = dict != NULL && pointer_at(dict, layout.dict_values) == at(o, (int32_t)kind->basic);
    return same && symbols.dict_traverse(dict, stop, NULL) == 0 ? dict : NULL;
}

/* How often the values of an instance have its own dict among them. */
static uint32_t count_in_values(PyObject *o, const struct kind *kind, PyObject *dict) {
    uint32_t found = 0;
    PyObject **values = at(o, (int32_t)kind->basic + layout.values_items);
    for (int i = 0; i < uint8_at(o, (int32_t)kind->basic); i++)
        found += values[i] == dict;
    return found;
}

void edges_of_watched(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    PyObject *dict = kind->values == VALUES_INLINE ? object_at(o, layout.object_dict) : NULL;
    struct watching w = {kind->type, dict, 0, 0, visit, context};
    kind->traverse(o, watch, &w);
    /* Where the values are the instance's own, tp_traverse visits them and leaves out the dict. */
    if (dict != NULL && w.dicts <= (edges_shared_dict(o, kind) != NULL ? count_in_values(o, kind, dict) : 0))
        visit(dict, context);
    finish_type(&w, kind);
}

/* What dict's own tp_traverse visits: value, key, value, key … or, where all keys are str, value, value … */
struct items {
    struct keys_view keys;
    PyObject **values;
    int64_t at;
    bool with_keys, at_key;
    struct watching watching;
};

static int count_visit(PyObject *o, void *context) {
    (void)o;
    ++*(int64_t *)context;
    return 0;
}

/* The next of them, or NULL; ``at`` is where it is from then on, so that entries that are gone are passed once. */
static PyObject *next_item(struct items *items) {
    for (; items->at < items->keys.count; items->at++) {
        PyObject **entry = items->keys.entries + items->at * items->keys.stride + items->keys.key;
        PyObject *value = items->values != NULL ? items->values[items->at] : entry[1];
        if (value != NULL)
            return items->at_key ? entry[0] : value;
    }
    return NULL;
}

/* Leave out what is next among the items. They come in a row, before, behind or between what else is visited; where that
   looks like an item, it is the item that is visited in its place. */
static int visit_rest(PyObject *o, void *context) {
    struct items *items = context;
    if (next_item(items) != o)
        return watch(o, &items->watching);
    items->at_key = items->with_keys && !items->at_key;
    items->at += !items->at_key;
    return 0;
}

void edges_of_rest(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    enum { USED = 16 };
    struct items items = {keys_open(pointer_at(o, layout.dict_keys)), dict_values(o), 0, false, false,
                          {kind->type, NULL, 0, 0, visit, context}};
    int64_t visits = 0;
    symbols.dict_traverse(o, count_visit, &visits);
    items.with_keys = visits > int64_at(o, USED);
    if (visits == 0)
        items.at = items.keys.count;
    kind->traverse(o, visit_rest, &items);
    finish_type(&items.watching, kind);
}

/* -- references that are not one for one --------------------------------------------------------------------- */

static void correct_items(PyObject *dict, bool keys, PyTypeObject *only, int sign, edges_correction correct, void *context) {
    struct items items = {.keys = keys_open(pointer_at(dict, layout.dict_keys)), .values = dict_values(dict), .at_key = keys};
    PyObject *found;
    for (; (found = next_item(&items)) != NULL; items.at++)
        if (only == NULL || Py_TYPE(found) == only)
            correct(found, sign, context);
}

struct seeking {
    const void *sought;
    uint32_t visits;
};

static int seek(PyObject *o, void *context) {
    struct seeking *seeking = context;
    seeking->visits += o == seeking->sought;
    return 0;
}

/* Keys that nodes hold, but where tp_traverse visits them there too, as it does in 3.11. */
static void correct_ordered(PyObject *o, const struct kind *kind, edges_correction correct, void *context) {
    struct items items = {.keys = keys_open(pointer_at(o, layout.dict_keys)), .values = dict_values(o), .at_key = true};
    struct seeking all = {next_item(&items), 0}, table = all;
    kind->traverse(o, seek, &all);
    symbols.dict_traverse(o, seek, &table);
    if (all.visits == table.visits)
        correct_items(o, true, NULL, 1, correct, context);
}

struct caching {
    PyTypeObject *link; /* the type of links; NULL where there are none */
    uint32_t links;
    edges_correction correct;
    void *context;
};

static void count_link(PyObject *link, int sign, void *context) {
    struct caching *caching = context;
    caching->links++;
    caching->correct(link, sign, caching->context);
}

/* The table of an lru_cache: its values are links where it is bounded. */
static int correct_table(PyObject *o, void *context) {
    struct caching *caching = context;
    if (Py_TYPE(o) != &PyDict_Type || caching->link != NULL)
        return 0;
    struct items items = {.keys = keys_open(pointer_at(o, layout.dict_keys)), .values = dict_values(o)};
    PyObject *first = next_item(&items);
    if (first != NULL && is_named(Py_TYPE(first), "functools._lru_list_elem")) {
        caching->link = Py_TYPE(first);
        correct_items(o, false, caching->link, 1, count_link, caching);
    }
    return 0;
}

/* Links are held twice; and the cache visits their type for each, as they do themselves. */
static void correct_cache(PyObject *o, const struct kind *kind, edges_correction correct, void *context) {
    struct caching caching = {NULL, 0, correct, context};
    kind->traverse(o, correct_table, &caching);
    if (caching.link == NULL)
        return;
    struct seeking types = {caching.link, 0};
    kind->traverse(o, seek, &types);
    for (uint32_t i = 0; i < caching.links && i < types.visits; i++)
        correct((PyObject *)caching.link, -1, context);
}

void edges_correct(PyObject *o, const struct kind *kind, edges_correction correct, void *context) {
    PyObject *dict = edges_shared_dict(o, kind);
    if (dict != NULL)
        correct_items(dict, false, NULL, -1, correct, context);
    if (kind->uneven == UNEVEN_ORDERED)
        correct_ordered(o, kind, correct, context);
    if (kind->uneven == UNEVEN_CACHE)
        correct_cache(o, kind, correct, context);
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

/* A dict: address of a subclass -> weak reference to it. From 3.12 on a builtin type has a small number in its place. */
static void visit_subclasses(const PyTypeObject *type, visitproc visit, void *context) {
    enum { NO_NUMBER = 1 << 16 };
    if ((uintptr_t)pointer_at(type, layout.type_subclasses) >= NO_NUMBER)
        visit(object_at(type, layout.type_subclasses), context);
}

void edges_of_type(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    PyTypeObject *type = (PyTypeObject *)o;
    visit_subclasses(type, visit, context);
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

/* -- arrays ------------------------------------------------------------------------------------------------- */

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
    uint64_t basic = o == NULL ? 0 : uint64_at(Py_TYPE(o), layout.type_basicsize);
    if (basic == sizeof(struct descr_1)) {
        const struct descr_1 *d = (struct descr_1 *)o;
        *descr = (struct descr){d->number, d->flags & 1, d->size, d->array, d->fields};
        return true;
    }
    if (basic == sizeof(struct descr_2)) {
        const struct descr_2 *d = (struct descr_2 *)o;
        *descr = (struct descr){d->number, d->flags & 1, d->size, d->array, d->fields};
        return true;
    }
    return false;
}

struct scan {
    const struct numpy_array *array;
    visitproc visit;
    void *context;
};

/* The object that stands at ``data`` in the first item, and its like in the other items. */
static void visit_items(const struct scan *scan, const char *data, int dimension) {
    const struct numpy_array *array = scan->array;
    if (dimension == array->dimensions) {
        PyObject *item;
        memcpy(&item, data, sizeof item); /* numpy does not promise that it is aligned */
        if (item != NULL)
            scan->visit(item, scan->context);
        return;
    }
    intptr_t stride = array->strides[dimension], length = stride == 0 ? 1 : array->shape[dimension];
    for (intptr_t i = 0; i < length; i++)
        visit_items(scan, data + i * stride, dimension + 1);
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
        PyObject **entry = keys.entries + i * keys.stride + keys.key, *field = entry[1];
        if (field == NULL || Py_TYPE(field) != &PyTuple_Type || size_field(field) < 2)
            continue;
        PyObject **part = at(field, layout.tuple_items);
        if (Py_TYPE(part[1]) != &PyLong_Type || (size_field(field) > 2 && part[2] == entry[0])) /* by its title, too */
            continue;
        Py_ssize_t offset = PyLong_AsSsize_t(part[1]);
        if (offset >= 0 && offset <= whole->size)
            visit_part(scan, part[0], data + offset, whole->size - offset, depth);
        else
            PyErr_Clear();
    }
}

/* What stands at ``data`` in each item. Fields with objects never overlap (descriptor.c, validate_object_field_overlap),
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
    else if (descr.number == VOID && descr.fields != NULL && Py_TYPE(descr.fields) == &PyDict_Type)
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
    return array->base == NULL || array->flags & ARRAY_OWNS_DATA || Py_TYPE(array->base) == &PyCapsule_Type;
}

void edges_of_array(PyObject *o, visitproc visit, void *context) {
    const struct numpy_array *array = (struct numpy_array *)o;
    struct scan scan = {array, visit, context};
    if (array->base != NULL)
        visit(array->base, context);
    if (array->descr == NULL)
        return;
    visit(array->descr, context);
    if (!has_items(array))
        return;
    _Static_assert(offsetof(struct descr_1, number) == offsetof(struct descr_2, number), "promised for all of numpy");
    if (((struct descr_2 *)array->descr)->number == OBJECT)
        visit_items(&scan, array->data, 0);
    else
        visit_part(&scan, array->descr, array->data, INTPTR_MAX, 0);
}
