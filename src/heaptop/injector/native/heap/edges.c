/* edges: choosing the rule of a type, and the rules for code objects and types. */
#include "heap/edges.h"

#include <string.h>

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
    if (numpy_is_array(type))
        return EDGES_ARRAY;
    if (!collected)
        return EDGES_NONE;
    if (type == symbols.list_type)
        return EDGES_LIST;
    if (type == symbols.tuple_type)
        return EDGES_TUPLE;
    if (type == symbols.dict_type)
        return EDGES_DICT;
    if (type == symbols.set_type || type == symbols.frozenset_type)
        return EDGES_SET;
    if (flags & (unsigned long)FLAG_TYPE_SUBCLASS)
        return EDGES_TYPE;
    return is_dict_like(type) ? EDGES_DICT_LIKE : EDGES_TRAVERSE;
}

static bool is_named(PyTypeObject *type, const char *full) {
    const char *name = pointer_at(type, layout.type_name);
    return name != NULL && strcmp(name, full) == 0;
}

enum uneven_rule edges_decide_uneven(PyTypeObject *type) {
    if (type_is_made_from(type, symbols.ordered_type))
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
    ((struct kind *)kind)->type_visits = w->types != 0 ? kind->type_visits + 1 : 0;
    if (w->types == 0)
        w->visit((PyObject *)kind->type, w->context);
}

static int stop(PyObject *o, void *context) {
    (void)o, (void)context;
    return 1;
}

/* The instance visits them, and dict_traverse does not; or the one or the other does, as Python goes. */
PyObject *edges_shared_dict(PyObject *o, const struct kind *kind) {
    PyObject *dict = kind->values == VALUES_INLINE ? object_at(o, layout.object_dict) : NULL;
    bool same = dict != NULL && pointer_at(dict, layout.dict_values) == at(o, (int32_t)kind->basic);
    if (!same || symbols.without_code)
        return same && layout.values_visited_twice ? dict : NULL;
    return symbols.dict_traverse(dict, stop, NULL) == 0 ? dict : NULL;
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
    edges_traverse(o, kind, watch, &w);
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
        PyObject *value = keys_value(&items->keys, items->values, items->at);
        if (value != NULL)
            return items->at_key ? keys_entry(&items->keys, items->at)[0] : value;
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
    if (symbols.without_code) {
        rules_visit(o, kind, visit, context);
        return;
    }
    struct items items = {keys_open(pointer_at(o, layout.dict_keys)), dict_values(o), 0, false, false,
                          {kind->type, NULL, 0, 0, visit, context}};
    int64_t visits = 0;
    symbols.dict_traverse(o, count_visit, &visits);
    items.with_keys = visits > int64_at(o, layout.dict_used);
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

/* Keys that nodes hold, but where tp_traverse visits them there too, as some versions do. */
static void correct_ordered(PyObject *o, const struct kind *kind, edges_correction correct, void *context) {
    if (symbols.without_code) /* rules_visit is such a version */
        return;
    struct items items = {.keys = keys_open(pointer_at(o, layout.dict_keys)), .values = dict_values(o), .at_key = true};
    struct seeking all = {next_item(&items), 0}, table = all;
    edges_traverse(o, kind, seek, &all);
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
    if (Py_TYPE(o) != symbols.dict_type || caching->link != NULL)
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
    edges_traverse(o, kind, correct_table, &caching);
    if (caching.link == NULL)
        return;
    struct seeking types = {caching.link, 0};
    edges_traverse(o, kind, seek, &types);
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
        layout.code_code,       layout.code_consts,       layout.code_names,        layout.code_varnames, layout.code_freevars,
        layout.code_cellvars,   layout.code_filename,     layout.code_name,         layout.code_qualname, layout.code_lines,
        layout.code_exceptions, layout.code_locals_names, layout.code_locals_kinds,
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        visit_member(code, members[i], visit, context);
    PyObject **cached = layout.code_cached ? pointer_at(code, layout.code_cached) : NULL;
    if (cached != NULL)
        span_visit(cached, 4, visit, context);
}

/* A dict: address of a subclass -> weak reference to it. A builtin type may have a small number in its place. */
static void visit_subclasses(const PyTypeObject *type, visitproc visit, void *context) {
    enum { NO_NUMBER = 1 << 16 };
    if ((uintptr_t)pointer_at(type, layout.type_subclasses) >= NO_NUMBER)
        visit(object_at(type, layout.type_subclasses), context);
}

/* typeobject.c, type_traverse. */
static void edges_of_heap_type(PyObject *type, const struct kind *kind, visitproc visit, void *context) {
    const int32_t members[] = {layout.type_dict,  layout.type_cache, layout.type_mro,
                               layout.type_bases, layout.type_base,  layout.heap_module};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        visit_member(type, members[i], visit, context);
    rules_visit(type, kind, visit, context);
}

void edges_of_type(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    PyTypeObject *type = (PyTypeObject *)o;
    visit_subclasses(type, visit, context);
    if (type_flags(type) & FLAG_HEAP_TYPE) {
        if (symbols.without_code)
            edges_of_heap_type(o, kind, visit, context);
        else
            edges_of_watched(o, kind, visit, context);
        visit_member(type, layout.heap_name, visit, context);
        visit_member(type, layout.heap_qualname, visit, context);
        visit_member(type, layout.heap_slots, visit, context);
        const void *shared = pointer_at(type, layout.heap_cached_keys);
        if (shared == NULL)
            return;
        struct keys_view keys = keys_open(shared);
        for (int64_t i = 0; i < keys.count; i++)
            span_visit(keys_entry(&keys, i), 1, visit, context);
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
