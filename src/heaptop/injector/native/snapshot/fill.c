/* fill: reading lengths and bounds. */
#include "snapshot/fill.h"

#include "graph/labels.h"
#include "heap/edges.h"
#include "heap/names.h"

#include <string.h>

/* -- types of C ----------------------------------------------------------------------------------------------- */

/* Whether instances begin with the structure of that type, which has a word at the offset. 0: the self-check did not find it. */
static bool has_structure(PyTypeObject *type, const char *full, int32_t offset) {
    while (type != NULL && !type_is_of_c(type, full))
        type = type_base(type);
    return type != NULL && offset > 0 && (uint32_t)offset + 8 <= uint32_at(type, layout.type_basicsize);
}

static bool is_deque(const struct kind *kind) { return has_structure(kind->type, "collections.deque", layout.deque_maxlen); }

static bool is_cache(const struct kind *kind) {
    const char *name = "functools._lru_cache_wrapper";
    return has_structure(kind->type, name, layout.cache_table) && has_structure(kind->type, name, layout.cache_maxsize);
}

struct seeking {
    const void *sought;
    bool found;
};

static int seek(PyObject *o, void *context) {
    struct seeking *seeking = context;
    seeking->found |= o == seeking->sought;
    return seeking->found;
}

/* How many entries an lru_cache has. */
static int64_t cache_length(PyObject *o, const struct kind *kind) {
    struct seeking table = {pointer_at(o, layout.cache_table), false};
    if (kind->traverse != NULL)
        edges_traverse(o, kind, seek, &table);
    bool is_dict = table.found && Py_TYPE((PyObject *)table.sought) == symbols.dict_type;
    return is_dict ? int64_at(table.sought, layout.dict_used) : FILL_UNKNOWN;
}

/* What a structure has as its limit: -1 for none. What can hold nothing at all does not fill. */
static int64_t limit_of(int64_t word) { return word == -1 ? FILL_UNLIMITED : word > 0 ? word : FILL_UNKNOWN; }

/* -- attributes ----------------------------------------------------------------------------------------------- */

static const char *const bounds[] = {"maxsize", "max_size", "maxlen", "max_len", "max_items", "max_entries", "capacity", NULL};
static const char *const lengths[] = {"currsize", NULL};

struct attribute {
    const char *const *names;
    uint32_t found; /* attributes of such a name with an int */
    int64_t value;  /* of the first; FILL_UNKNOWN where another one is not the same */
};

/* Whether it is one of the names, with underscores before it, or as "_Class__name" keeps it apart. */
static bool is_named(const char *name, size_t size, const char *const *names) {
    const char *end = name + size;
    if (size > 2 && name[0] == '_' && name[1] != '_')
        for (const char *c = name + 2; c + 2 < end; c++)
            if (c[0] == '_' && c[1] == '_') {
                name = c;
                break;
            }
    while (name < end && *name == '_')
        name++;
    size = (size_t)(end - name);
    while (*names != NULL && (strlen(*names) != size || memcmp(*names, name, size) != 0))
        names++;
    return *names != NULL;
}

static void offer(struct attribute *a, const char *name, size_t size, PyObject *value) {
    int64_t number;
    if (!is_named(name, size, a->names) || Py_TYPE(value) != symbols.int_type || !int_value(value, &number))
        return;
    a->value = a->found++ == 0 || a->value == number ? number : FILL_UNKNOWN;
}

static void look_in_table(struct attribute *a, const struct attribute_table *table) {
    enum { MOST = 1000 };
    struct name_data name;
    for (int64_t i = 0; i < table->count && i < MOST; i++) {
        PyObject *key = keys_entry(&table->keys, i)[0], *value = keys_value(&table->keys, table->values, i);
        if (value != NULL && names_data(key, &name) && name.width == 1)
            offer(a, name.data, (size_t)name.length, value);
    }
}

static void look_in_dict(struct attribute *a, PyObject *dict) {
    if (dict == NULL || Py_TYPE(dict) != symbols.dict_type)
        return;
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    look_in_table(a, &(struct attribute_table){dict, keys, dict_values(dict), keys.count});
}

/* What classes in Python have, and those that they inherit from: the first that has one. */
static void look_in_classes(struct attribute *a, PyTypeObject *type) {
    for (; a->found == 0 && type != NULL && type_flags(type) & FLAG_HEAP_TYPE; type = type_base(type))
        look_in_dict(a, object_at(type, layout.type_dict));
}

/* A cache that is a function keeps its bound as it keeps its entries: in its closure, or as a default argument. */
static void look_in_function(struct attribute *a, PyObject *function) {
    struct name_data name;
    PyObject *variable;
    int64_t next = 0;
    for (PyObject *value; (value = labels_next_variable(function, &next, &variable)) != NULL;)
        if (names_data(variable, &name) && name.width == 1)
            offer(a, name.data, (size_t)name.length, value);
    look_in_dict(a, object_at(function, layout.function_keywords));
}

/* An instance of a class, by its attributes and slots, else by those of its class. A module's globals are no attributes of what it holds. */
static bool has_attributes(const struct kind *kind) {
    if (!(type_flags(kind->type) & FLAG_HEAP_TYPE) || (kind->edges != EDGES_TRAVERSE && kind->edges != EDGES_DICT_LIKE))
        return false;
    return !type_is_made_from(kind->type, symbols.module_type);
}

static struct attribute attribute_of(PyObject *o, const struct kind *kind, const char *const *names) {
    struct attribute found = {names, 0, FILL_UNKNOWN};
    struct attribute_table table;
    if (names == bounds && Py_TYPE(o) == symbols.function_type)
        look_in_function(&found, o);
    if (names == bounds && type_flags(kind->type) & FLAG_TYPE_SUBCLASS)
        look_in_classes(&found, (PyTypeObject *)o);
    if (!has_attributes(kind))
        return found;
    if (labels_attributes_of(o, kind, &table))
        look_in_table(&found, &table);
    struct labels_slot slot = {.type = kind->type};
    for (PyObject *value; (value = labels_next_slot(o, kind, &slot)) != NULL;)
        offer(&found, slot.name, strlen(slot.name), value);
    if (names == bounds)
        look_in_classes(&found, kind->type);
    return found;
}

/* -- both ----------------------------------------------------------------------------------------------------- */

int64_t fill_length(PyObject *o, const struct kind *kind) {
    PyTypeObject *type = kind->type;
    if (type_is_made_from(type, symbols.str_type))
        return int64_at(o, layout.str_length);
    if (kind->edges == EDGES_DICT || kind->edges == EDGES_DICT_LIKE)
        return int64_at(o, layout.dict_used);
    if (type_is_made_from(type, symbols.set_type) || type_is_made_from(type, symbols.frozenset_type))
        return int64_at(o, layout.set_used);
    if (type_is_made_from(type, symbols.list_type) || type_is_made_from(type, symbols.tuple_type) ||
        type_is_made_from(type, symbols.bytes_type) || type_is_made_from(type, symbols.bytearray_type) || is_deque(kind))
        return size_field(o);
    if (is_cache(kind))
        return cache_length(o, kind);
    int64_t taken = attribute_of(o, kind, lengths).value;
    return taken < 0 ? FILL_UNKNOWN : taken;
}

int64_t fill_bound(PyObject *o, const struct kind *kind) {
    int64_t own = is_deque(kind)   ? limit_of(int64_at(o, layout.deque_maxlen))
                  : is_cache(kind) ? limit_of(int64_at(o, layout.cache_maxsize))
                                   : FILL_UNKNOWN;
    struct attribute kept = own > 0 ? (struct attribute){NULL, 0, 0} : attribute_of(o, kind, bounds);
    if (kept.found == 0 || (kept.found > 1 && kept.value == FILL_UNKNOWN))
        return own;
    return kept.value > 0 ? kept.value : FILL_UNLIMITED;
}

int64_t fill_changes(PyObject *o, const struct kind *kind) {
    int64_t changes = is_deque(kind) ? int64_at(o, layout.deque_state) : FILL_UNKNOWN;
    return changes < 0 ? FILL_UNKNOWN : changes;
}

const void *fill_next_block(PyObject *o, const struct kind *kind, const void *block) {
    if (kind->uneven == UNEVEN_ORDERED && layout.ordered_first > 0 && layout.ordered_next > 0)
        return block == NULL ? pointer_at(o, layout.ordered_first) : pointer_at(block, layout.ordered_next);
    if (!is_deque(kind) || layout.deque_block <= 0 || layout.deque_block_next <= 0)
        return NULL;
    const void *first = pointer_at(o, layout.deque_block), *last = pointer_at(o, layout.deque_block + 8);
    return block == NULL ? first : block != last ? pointer_at(block, layout.deque_block_next) : NULL;
}
