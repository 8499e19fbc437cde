/* rules: deciding by the tp_base chain, and visiting. */
#include "heap/without_code/rules.h"

#include "raw.h"
#include "heap/containers.h"
#include "heap/names.h"
#include "heap/size.h"

#include <string.h>

/* -- what a walk without code needs ------------------------------------------------------------------------- */

static uint64_t static_number(PyTypeObject *type) { return uint64_at(type, layout.type_subclasses); }

/* Whether what an interpreter keeps of its own types begins here. */
static bool begins_here(const char *place, PyTypeObject *type) {
    const char *state = place + (static_number(type) - 1) * (uint64_t)layout.static_type_size;
    return raw_readable((uint64_t)state) && pointer_at(state, 0) == type;
}

/* It is somewhere in the interpreter's state, at a place that differs between builds. */
static const char *find_static_types(const char *interpreter) {
    enum { STATE_BYTES = 1 << 19, MOST_TYPES = 1 << 10 };
    PyTypeObject *const known[] = {symbols.type_type, symbols.list_type, symbols.dict_type};
    for (int i = 0; i < 3; i++)
        if (static_number(known[i]) == 0 || static_number(known[i]) > MOST_TYPES)
            return NULL;
    for (const char *place = interpreter; place < interpreter + STATE_BYTES && raw_readable((uint64_t)place); place += 8)
        if (begins_here(place, known[0]) && begins_here(place, known[1]) && begins_here(place, known[2]))
            return place;
    return NULL;
}

/* Whether there is an object of exactly that type: the place where it should be may differ between builds. */
static bool is_exactly(const PyObject *o, const PyTypeObject *type) {
    return raw_readable((uint64_t)o) && raw_readable((uint64_t)o + head_size() - sizeof(uint64_t)) && Py_TYPE(o) == type;
}

/* A value in the namespace of a module, or NULL. */
static PyObject *find_in_module(PyObject *modules, const char *module, const char *name) {
    PyObject *found = is_exactly(modules, symbols.dict_type) ? dict_find(modules, names_is, module) : NULL;
    PyObject *dict = is_exactly(found, symbols.module_type) ? object_at(found, layout.module_dict) : NULL;
    return is_exactly(dict, symbols.dict_type) ? dict_find(dict, names_is, name) : NULL;
}

/* tp_traverse of classes in Python: that of two which every interpreter has from its start. */
static traverseproc find_python_traverse(const void *interpreter) {
    PyObject *modules = object_at(interpreter, layout.interpreter_modules);
    PyObject *spec = find_in_module(modules, "_frozen_importlib", "ModuleSpec");
    PyObject *finder = find_in_module(modules, "_frozen_importlib_external", "FileFinder");
    if (!is_exactly(spec, symbols.type_type) || !is_exactly(finder, symbols.type_type))
        return NULL;
    traverseproc found = type_traverse((PyTypeObject *)spec);
    return found == type_traverse((PyTypeObject *)finder) ? found : NULL;
}

const char *rules_open(const void *interpreter) {
    symbols.type_is_gc = (inquiry)pointer_at(symbols.type_type, layout.type_is_gc);
    symbols.dict_traverse = type_traverse(symbols.dict_type);
    symbols.python_traverse = find_python_traverse(interpreter);
    if (layout.static_type_size != 0 && symbols.static_types == NULL)
        symbols.static_types = find_static_types(interpreter);
    if (symbols.python_traverse == NULL)
        return "the classes of importlib are not where they should be";
    if (layout.static_type_size != 0 && symbols.static_types == NULL)
        return "the interpreter's table of its own types is not where it should be";
    symbols.without_code = true;
    return size_open() == 0 ? NULL : "the interpreter's own __sizeof__ is not where it should be";
}

const char *rules_open_here(void) {
    return symbols.interpreter == NULL ? "PyInterpreterState_Get is missing" : rules_open(symbols.interpreter());
}

void rules_close(void) { symbols.without_code = false; }

/* -- the rule of a type ------------------------------------------------------------------------------------- */

/* A line of a type, or of one that it has its tp_traverse from, which visits the same words in both. */
static const struct structure *find_structure(PyTypeObject *type) {
    for (traverseproc own = type_traverse(type); type != NULL && type_traverse(type) == own; type = type_base(type)) {
        const char *name = pointer_at(type, layout.type_name);
        uint64_t size = uint64_at(type, layout.type_basicsize) - (uint64_t)layout.head_extra;
        const struct structure *found = name == NULL ? NULL : structures_find(name, size, layout_minor());
        if (found != NULL)
            return found;
    }
    return NULL;
}

static enum structure_more container_of(PyTypeObject *type) {
    traverseproc traverse = type_traverse(type);
    if (traverse == type_traverse(symbols.list_type))
        return MORE_LIST;
    if (traverse == type_traverse(symbols.tuple_type))
        return MORE_TUPLE;
    if (traverse == type_traverse(symbols.set_type) || traverse == type_traverse(symbols.frozenset_type))
        return MORE_SET;
    return type_base(type) == symbols.tuple_type ? MORE_RECORD : MORE_NONE;
}

void rules_decide(struct kind *kind) {
    PyTypeObject *native = kind->type;
    while (type_traverse(native) == symbols.python_traverse && type_base(native) != NULL)
        native = type_base(native);
    kind->native = native;
    kind->words = 0;
    kind->more = MORE_NONE;
    kind->opaque = false;
    bool is_type = type_flags(kind->type) & (unsigned long)FLAG_TYPE_SUBCLASS;
    if (is_type)
        kind->opaque = type_traverse(native) != type_traverse(symbols.type_type);
    bool has_own_rule = is_type || native == symbols.code_type; /* of edges.h */
    if (has_own_rule || type_traverse(native) == NULL || type_traverse(native) == symbols.dict_traverse)
        return;
    kind->more = container_of(native);
    if (kind->more != MORE_NONE)
        return;
    const struct structure *found = find_structure(native);
    kind->opaque = found == NULL || found->more == MORE_STATE;
    kind->words = found == NULL ? 0 : found->words << layout.head_extra / 8;
    kind->more = found == NULL ? MORE_NONE : found->more;
}

/* -- classes in Python -------------------------------------------------------------------------------------- */

struct visiting {
    visitproc visit;
    void *context;
};

static void visit_at(const struct visiting *v, const void *base, int64_t offset) {
    PyObject *o = *(PyObject **)((const char *)base + offset);
    if (o != NULL)
        v->visit(o, v->context);
}

/* typeobject.c, traverse_slots. */
static void visit_slots(const struct visiting *v, PyObject *o, const struct kind *kind) {
    enum { OBJECT_OR_ERROR = 16 };
    for (PyTypeObject *type = kind->type; type != kind->native; type = type_base(type)) {
        const struct kind_member *member = pointer_at(type, layout.type_members);
        for (int64_t left = member == NULL ? 0 : size_field(type); left > 0; left--, member++)
            if (member->type == OBJECT_OR_ERROR)
                visit_at(v, o, member->offset);
    }
}

/* dictobject.c, PyObject_VisitManagedDict and its forerunners: values outside a dict. */
static void visit_values(const struct visiting *v, PyObject *o, const struct kind *kind) {
    PyObject **values = NULL;
    uint64_t count = 0;
    if (kind->values == VALUES_INLINE) {
        enum { VALID = 3 }; /* struct _dictvalues: capacity, size, embedded, valid */
        const char *inside = at(o, (int32_t)kind->basic);
        values = at(inside, layout.values_items);
        bool has_dict = object_at(o, layout.object_dict) != NULL; /* which visits what it shares with the instance */
        count = uint8_at(inside, VALID) && (!has_dict || layout.values_visited_twice) ? uint8_at(inside, 0) : 0;
    } else if (kind->values == VALUES_POINTER) {
        uintptr_t word = (uintptr_t)pointer_at(o, layout.object_values);
        const void *keys = pointer_at(kind->type, layout.heap_cached_keys);
        if (word != 0 && keys != NULL && (!layout.values_tag || word & 1)) {
            values = (PyObject **)(word + (uintptr_t)layout.values_tag);
            count = keys_room(keys);
        }
    }
    for (uint64_t i = 0; i < count; i++)
        visit_at(v, values, (int64_t)(8 * i));
}

static void visit_attributes(const struct visiting *v, PyObject *o, const struct kind *kind) {
    bool managed = layout.object_dict != 0 && type_flags(kind->type) & FLAG_MANAGED_DICT;
    visit_values(v, o, kind);
    /* that of a C type is one of its words */
    if (!managed && int64_at(kind->type, layout.type_dict_offset) == int64_at(kind->native, layout.type_dict_offset))
        return;
    PyObject *dict = instance_dict(o, kind);
    if (dict != NULL)
        v->visit(dict, v->context);
}

/* -- what C types keep besides words ------------------------------------------------------------------------ */

/* _collectionsmodule.c, deque_traverse. */
static void visit_deque(const struct visiting *v, PyObject *o) {
    enum { ITEMS = 64, AT_BLOCK = 8, INDEX = 16 };
    const char *block = pointer_at(o, layout.deque_block);
    int64_t index = int64_at(o, layout.deque_block + INDEX), left = size_field(o);
    for (; left > 0 && block != NULL; block = pointer_at(block, layout.deque_block_next), index = 0)
        for (; index < ITEMS && left > 0; index++, left--)
            visit_at(v, block, AT_BLOCK + 8 * index);
}

/* _functoolsmodule.c, lru_cache_tp_traverse. No more than the table has: memory that somebody else wrote may lead in a circle. */
static void visit_links(const struct visiting *v, PyObject *o) {
    enum { NEXT = 24, KEY = 40, RESULT = 48 };
    const PyObject *table = object_at(o, layout.cache_table);
    int64_t left = table == NULL || Py_TYPE(table) != symbols.dict_type ? 0 : int64_at(table, layout.dict_used);
    const PyObject *link = object_at(body_of(o), NEXT);
    for (; left > 0 && link != NULL && link != o; link = object_at(body_of(link), NEXT), left--) {
        visit_at(v, body_of(link), KEY);
        visit_at(v, body_of(link), RESULT);
        if (type_flags(Py_TYPE(link)) & FLAG_HEAP_TYPE)
            v->visit((PyObject *)Py_TYPE(link), v->context);
    }
}

/* odictobject.c, odict_traverse. */
static void visit_nodes(const struct visiting *v, PyObject *o) {
    int64_t left = int64_at(o, layout.dict_used);
    for (const void *node = pointer_at(o, layout.ordered_first); left > 0 && node != NULL; left--) {
        visit_at(v, node, 0);
        node = pointer_at(node, layout.ordered_next);
    }
}

/* _elementtree.c, element_gc_traverse: a flag in the lowest bit of texts; an array of children. */
static void visit_element(const struct visiting *v, PyObject *o) {
    enum { TEXT = 24, TAIL = 32, EXTRA = 40, ATTRIBUTES = 0, LENGTH = 8, CHILDREN = 24 };
    for (int32_t at = TEXT; at <= TAIL; at += TAIL - TEXT) {
        PyObject *text = (PyObject *)((uintptr_t)pointer_at(body_of(o), at) & ~(uintptr_t)1);
        if (text != NULL)
            v->visit(text, v->context);
    }
    const void *extra = pointer_at(body_of(o), EXTRA), *children = extra == NULL ? NULL : pointer_at(extra, CHILDREN);
    if (extra == NULL)
        return;
    visit_at(v, extra, ATTRIBUTES);
    for (int64_t i = 0; children != NULL && i < int64_at(extra, LENGTH); i++)
        visit_at(v, children, 8 * i);
}

static void visit_words_from(const struct visiting *v, const void *base, int64_t offset, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        visit_at(v, base, offset + 8 * i);
}

static void visit_flagged(const struct visiting *v, const void *frame, int32_t offset) {
    bool counted;
    PyObject *o = frame_reference(frame, offset, &counted);
    if (o != NULL)
        v->visit(o, v->context);
}

/* Python/frame.c, _PyFrame_Traverse. The stack's top is a pointer or a count, and -1 or NULL while it runs. */
static void visit_frame(const struct visiting *v, const void *frame) {
    enum { MOST = 1 << 20 };
    visit_at(v, frame, layout.frame_object);
    visit_at(v, frame, layout.frame_namespace);
    visit_flagged(v, frame, layout.frame_function);
    visit_flagged(v, frame, layout.frame_code);
    int64_t top = *(int32_t *)at(frame, layout.frame_top);
    if (!layout.frame_top_is_count) {
        const char *end = pointer_at(frame, layout.frame_top);
        top = end == NULL ? 0 : (end - (char *)at(frame, layout.frame_items)) / 8;
    }
    for (int64_t i = 0; i < top && top < MOST; i++)
        visit_flagged(v, frame, layout.frame_items + 8 * (int32_t)i);
}

/* frameobject.c, frame_traverse, where frames are objects alone. */
static void visit_old_frame(const struct visiting *v, PyObject *o) {
    const char *items = at(o, layout.frame_items), *stack = pointer_at(o, layout.frame_stack);
    const char *top =
        layout.frame_top_is_count ? stack + 8 * *(int32_t *)at(o, layout.frame_top) : pointer_at(o, layout.frame_top);
    visit_words_from(v, items, 0, (stack - items) / 8);
    if (top != NULL)
        visit_words_from(v, stack, 0, (top - stack) / 8);
}

static void visit_frame_object(const struct visiting *v, PyObject *o) {
    enum { OF_FRAME_OBJECT = 2 };
    if (!frames_are_structures()) {
        visit_old_frame(v, o);
        return;
    }
    const void *frame = pointer_at(o, layout.frame_object_frame);
    if (frame != NULL && uint8_at(frame, layout.frame_owner) == OF_FRAME_OBJECT)
        visit_frame(v, frame);
}

static void visit_suspended(const struct visiting *v, PyObject *o) {
    const void *frame = at(o, layout.generator_frame);
    if (*(int8_t *)at(o, layout.generator_state) < layout.generator_cleared)
        visit_frame(v, frame);
    else if (layout.frame_item_flags != 0) /* then it keeps its code */
        visit_flagged(v, frame, layout.frame_code);
}

/* structseq.c: "n_fields" of the type's dict. */
static void visit_record(const struct visiting *v, PyObject *o, const struct kind *kind) {
    enum { MOST_FIELDS = 1 << 10 };
    PyObject *dict = kind_dict(kind->native), *found = dict == NULL ? NULL : dict_find(dict, names_is, "n_fields");
    kind_release_dict(kind->native, dict);
    int64_t fields = size_field(o);
    if (found != NULL && Py_TYPE(found) == symbols.int_type && int_value(found, &fields) && fields > MOST_FIELDS)
        fields = size_field(o);
    visit_words_from(v, o, layout.tuple_items, fields);
}

static void visit_more(const struct visiting *v, PyObject *o, const struct kind *kind) {
    enum { TEE_COUNT = 24, TEE_ITEMS = 40, TEE_MOST = 57 };
    switch ((enum structure_more)kind->more) {
    case MORE_NONE:
    case MORE_STATE:
        break;
    case MORE_DEQUE:
        visit_deque(v, o);
        break;
    case MORE_LINKS:
        visit_links(v, o);
        break;
    case MORE_NODES:
        visit_nodes(v, o);
        break;
    case MORE_TAIL:
        visit_words_from(v, o, uint32_at(kind->native, layout.type_basicsize), size_field(o));
        break;
    case MORE_TEE: {
        int64_t count = *(int32_t *)at(body_of(o), TEE_COUNT);
        visit_words_from(v, body_of(o), TEE_ITEMS, count < TEE_MOST ? count : TEE_MOST);
        break;
    }
    case MORE_ELEMENT:
        visit_element(v, o);
        break;
    case MORE_SUSPENDED:
        visit_suspended(v, o);
        break;
    case MORE_FRAME:
        visit_frame_object(v, o);
        break;
    case MORE_LIST:
        span_visit(pointer_at(o, layout.list_items), size_field(o), v->visit, v->context);
        break;
    case MORE_TUPLE:
        span_visit(at(o, layout.tuple_items), size_field(o), v->visit, v->context);
        break;
    case MORE_SET:
        set_visit(o, v->visit, v->context);
        break;
    case MORE_RECORD:
        visit_record(v, o, kind);
        break;
    }
}

void rules_visit(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    const struct visiting v = {visit, context};
    for (uint64_t words = kind->words; words != 0; words &= words - 1)
        visit_at(&v, o, 8 * __builtin_ctzll(words));
    visit_more(&v, o, kind);
    visit_slots(&v, o, kind);
    visit_attributes(&v, o, kind);
    if (type_flags(kind->type) & FLAG_HEAP_TYPE)
        visit((PyObject *)kind->type, context);
}
