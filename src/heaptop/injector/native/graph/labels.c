/* labels: finding out what a reference is, by where in its object it stands, and writing it down. */
#include "graph/labels.h"

#include "heap/edges.h"
#include "heap/names.h"
#include "heap/size.h"
#include "heap/writer.h"

#include <string.h>

/* -- what kind of object refers ----------------------------------------------------------------------------- */

enum rule {
    RULE_NOT_KNOWN, /* yet */
    RULE_OTHER,
    RULE_DICT,
    RULE_LIST,
    RULE_TUPLE,
    RULE_SET,
    RULE_MODULE,
    RULE_TYPE,
    RULE_FUNCTION,
    RULE_BUILTIN,
    RULE_CELL,
    RULE_FRAME,
    RULE_GENERATOR,
    RULE_TRACEBACK,
    RULE_EXCEPTION,
    RULE_WEAKREF,
    RULE_CACHE,
    RULE_DEQUE,
    RULE_LOCAL,
    RULE_ITERATOR,
    RULE_CONTEXT,
    RULE_VARIABLES,
    RULE_FUTURE,
    RULE_TASK,
    RULE_WAKEUP,
    RULE_ARRAY,
};

enum { RULES = 1 << 10, COUNTED = 1 << 10 };

static struct {
    const PyTypeObject *type;
    enum rule rule;
} rules[RULES]; /* of the types met last */

/* How far the emptied entries of a dict were counted, so that its items one after the other take one pass. */
static struct counted {
    const PyObject *dict;
    int64_t place, before; /* an entry, and how many before it are not empty */
} counted[COUNTED];

void labels_reset(void) {
    memset(rules, 0, sizeof rules);
    memset(counted, 0, sizeof counted);
}

static enum rule rule_of_base(PyTypeObject *type) {
    static const struct {
        const char *name;
        enum rule rule;
    } named[] = {
        {"functools._lru_cache_wrapper", RULE_CACHE},
        {"collections.deque", RULE_DEQUE},
        {"_thread._local", RULE_LOCAL},
        {"_asyncio.Task", RULE_TASK},
        {"_asyncio.Future", RULE_FUTURE},
        {"TaskStepMethWrapper", RULE_WAKEUP},
        {"TaskWakeupMethWrapper", RULE_WAKEUP}, /* the same, under its old name */
        {"_asyncio.TaskStepMethWrapper", RULE_WAKEUP},
        {"_contextvars.Context", RULE_CONTEXT},
        {"Context", RULE_CONTEXT}, /* the same, under its old name */
        {"hamt", RULE_CONTEXT},
        {"hamt_array_node", RULE_CONTEXT},
        {"hamt_bitmap_node", RULE_VARIABLES},
        {"hamt_collision_node", RULE_VARIABLES},
    };
    static const char *const iterators[] = {
        "list_iterator",    "list_reverseiterator", "tuple_iterator",    "set_iterator",
        "dict_keyiterator", "dict_valueiterator",   "dict_itemiterator",
    };
    if (type == symbols.list_type)
        return RULE_LIST;
    if (type == symbols.tuple_type)
        return RULE_TUPLE;
    if (type == symbols.set_type || type == symbols.frozenset_type)
        return RULE_SET;
    if (type == symbols.function_type)
        return RULE_FUNCTION;
    if (type == symbols.builtin_type)
        return RULE_BUILTIN;
    if (type == symbols.cell_type)
        return RULE_CELL;
    if (type == symbols.frame_type)
        return RULE_FRAME;
    if (type == symbols.generator_type || type == symbols.coroutine_type || type == symbols.asynchronous_type)
        return RULE_GENERATOR;
    if (type == symbols.traceback_type)
        return RULE_TRACEBACK;
    if (type == symbols.module_type)
        return RULE_MODULE;
    if (type == symbols.weakref_type)
        return RULE_WEAKREF;
    const char *name = pointer_at(type, layout.type_name);
    bool is_builtin = name != NULL && !(type_flags(type) & FLAG_HEAP_TYPE);
    for (size_t i = 0; name != NULL && i < sizeof named / sizeof *named; i++)
        if ((is_builtin || strchr(name, '.') != NULL) && strcmp(named[i].name, name) == 0) /* a class in Python has no dot */
            return named[i].rule;
    for (size_t i = 0; is_builtin && i < sizeof iterators / sizeof *iterators; i++)
        if (strcmp(iterators[i], name) == 0)
            return RULE_ITERATOR;
    return RULE_NOT_KNOWN;
}

static enum rule decide(const struct kind *kind) {
    switch (kind->edges) {
    case EDGES_DICT:
    case EDGES_DICT_LIKE:
        return RULE_DICT;
    case EDGES_TYPE:
        return RULE_TYPE;
    case EDGES_ARRAY:
        return RULE_ARRAY;
    default:
        break;
    }
    if (type_flags(kind->type) & FLAG_EXCEPTION)
        return RULE_EXCEPTION;
    enum rule rule = RULE_NOT_KNOWN;
    for (PyTypeObject *type = kind->type; type != NULL && rule == RULE_NOT_KNOWN; type = type_base(type))
        rule = rule_of_base(type);
    return rule == RULE_NOT_KNOWN ? RULE_OTHER : rule;
}

static enum rule rule_of(const struct kind *kind) {
    uint32_t place = kinds_hash(kind->type) % RULES;
    if (rules[place].type != kind->type) {
        rules[place].rule = decide(kind);
        rules[place].type = kind->type;
    }
    return rules[place].rule;
}

/* -- making labels ------------------------------------------------------------------------------------------ */

static struct label plain(enum label_kind kind) { return (struct label){.kind = kind, .index = -1}; }

static struct label collapsed(enum label_role role, PyObject *owner) {
    return (struct label){.kind = LABEL_COLLAPSED, .role = role, .owner = owner, .index = -1};
}

static struct label attribute(PyObject *name) { return (struct label){.kind = LABEL_ATTRIBUTE, .name = name, .index = -1}; }

static struct label attribute_called(const char *name) {
    return (struct label){.kind = LABEL_ATTRIBUTE, .text = name, .index = -1};
}

static struct label text_label(const char *text) { return (struct label){.kind = LABEL_TEXT, .text = text, .index = -1}; }

static bool is_str(PyObject *o) { return o != NULL && Py_TYPE(o) == symbols.str_type; }

/* -- attributes --------------------------------------------------------------------------------------------- */

/* Values that are outside a dict, by the names that the class keeps. */
static bool open_values(PyObject *o, const struct kind *kind, struct attribute_table *found) {
    const void *shared = kind->values == VALUES_NONE ? NULL : pointer_at(kind->type, layout.heap_cached_keys);
    if (shared == NULL)
        return false;
    PyObject **values = at(o, (int32_t)kind->basic + layout.values_items);
    int64_t room = kind->values == VALUES_INLINE ? uint8_at(o, (int32_t)kind->basic) : INT64_MAX;
    if (kind->values == VALUES_POINTER) {
        uintptr_t word = (uintptr_t)pointer_at(o, layout.object_values);
        if (word == 0 || (layout.values_tag && !(word & 1)))
            return false;
        values = (PyObject **)(word + (uintptr_t)layout.values_tag);
    }
    struct keys_view keys = keys_open(shared);
    *found = (struct attribute_table){NULL, keys, values, keys.count < room ? keys.count : room};
    return true;
}

bool labels_attributes_of(PyObject *o, const struct kind *kind, struct attribute_table *found) {
    PyObject *dict = instance_dict(o, kind);
    if (dict == NULL)
        return open_values(o, kind, found);
    if (Py_TYPE(dict) != symbols.dict_type)
        return false;
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    *found = (struct attribute_table){dict, keys, dict_values(dict), keys.count};
    return true;
}

/* The name of an attribute whose value is outside a dict, or NULL. */
static PyObject *name_of_value(PyObject *o, const struct kind *kind, PyObject *referent) {
    struct attribute_table table;
    if (!open_values(o, kind, &table))
        return NULL;
    for (int64_t i = 0; i < table.count; i++)
        if (table.values[i] == referent)
            return keys_entry(&table.keys, i)[0];
    return NULL;
}

PyObject *labels_next_slot(PyObject *o, const struct kind *kind, struct labels_slot *slot) {
    enum { OBJECT = 6, OBJECT_OR_ERROR = 16, RELATIVE = 8 };
    for (; slot->type != NULL; slot->type = type_base(slot->type), slot->next = NULL) {
        const struct kind_member *m = slot->next != NULL ? slot->next : pointer_at(slot->type, layout.type_members);
        for (; m != NULL && m->name != NULL; m++) {
            if ((m->type != OBJECT && m->type != OBJECT_OR_ERROR) || m->flags & RELATIVE || m->offset % 8 != 0 ||
                m->offset < (Py_ssize_t)head_size() || (uint64_t)m->offset + 8 > kind->basic)
                continue;
            PyObject *value = object_at(o, (int32_t)m->offset);
            if (value == NULL)
                continue;
            slot->name = m->name;
            slot->next = m + 1;
            return value;
        }
    }
    return NULL;
}

/* The name of a slot, or of a member that a type of C has published, or NULL. */
static const char *name_of_member(PyObject *o, const struct kind *kind, PyObject *referent) {
    struct labels_slot slot = {.type = kind->type};
    for (PyObject *value; (value = labels_next_slot(o, kind, &slot)) != NULL;)
        if (value == referent)
            return slot.name;
    return NULL;
}

static struct label find_attribute(PyObject *o, const struct kind *kind, PyObject *referent) {
    if (referent == instance_dict(o, kind))
        return collapsed(ROLE_ATTRIBUTES, o);
    PyObject *name = name_of_value(o, kind, referent);
    if (name != NULL)
        return attribute(name);
    const char *member = name_of_member(o, kind, referent);
    if (member != NULL)
        return attribute_called(member);
    return referent == (PyObject *)kind->type ? attribute_called("__class__") : plain(LABEL_INSIDE);
}

struct place {
    int32_t offset;
    const char *name;
};

/* The name of the first of these words that is the referent, or NULL. */
static const char *find_place(PyObject *o, const struct kind *kind, const struct place *places, size_t count,
                              PyObject *referent) {
    for (size_t i = 0; i < count; i++)
        if (places[i].offset > 0 && (uint32_t)places[i].offset + 8 <= kind->basic && object_at(o, places[i].offset) == referent)
            return places[i].name;
    return NULL;
}

/* -- containers --------------------------------------------------------------------------------------------- */

/* The position of an item; -1 when it is not there. It is near the ordinal: some references may be before those to the
   items, and those to what is left out are not counted. */
static int64_t index_of(PyObject **items, int64_t count, int64_t ordinal, PyObject *referent) {
    enum { BEFORE = 16 };
    if (ordinal >= 0 && ordinal < count && items[ordinal] == referent)
        return ordinal;
    int64_t from = ordinal > BEFORE && ordinal - BEFORE < count ? ordinal - BEFORE : 0;
    for (int64_t n = 0; n < count; n++) {
        int64_t i = from + n < count ? from + n : from + n - count;
        if (items[i] == referent)
            return i;
    }
    return -1;
}

struct entry {
    PyObject *key;
    bool is_key; /* the reference is to the key itself */
};

/* Where the n-th entry stands, the emptied ones left out; keys->count where there are not so many. */
static int64_t place_of(PyObject *dict, const struct keys_view *keys, PyObject **values, int64_t n) {
    enum { FEW = 64 }; /* few are counted each time */
    if (int64_at(dict, layout.dict_used) == keys->count)
        return n < keys->count ? n : keys->count;
    struct counted *known = &counted[((uint64_t)dict >> 4) % COUNTED];
    int64_t place = 0, before = 0;
    if (known->dict == dict && known->before <= n)
        place = known->place, before = known->before;
    for (; place < keys->count; place++)
        if (keys_value(keys, values, place) != NULL && before++ == n)
            break;
    if (place >= FEW && place < keys->count)
        *known = (struct counted){dict, place, n};
    return place;
}

/* The entry with the referent as its value, or else as its key, from ``from`` on and round; {NULL, false} when there is
   none. */
static struct entry search(const struct keys_view *keys, PyObject **values, int64_t from, PyObject *referent) {
    struct entry found = {NULL, false};
    for (int64_t n = 0; n < keys->count; n++) {
        int64_t i = from + n < keys->count ? from + n : from + n - keys->count;
        PyObject *key = keys_entry(keys, i)[0], *value = keys_value(keys, values, i);
        if (value == NULL)
            continue;
        if (value == referent)
            return (struct entry){key, false};
        if (key == referent)
            found = (struct entry){key, true};
    }
    return found;
}

/* ``ordinal``: key, value, key, value …, emptied entries left out (edges.h), and references to what is left out. */
static struct entry entry_of(PyObject *dict, int64_t ordinal, PyObject *referent) {
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    PyObject **values = dict_values(dict);
    int64_t i = ordinal < 0 ? keys.count : place_of(dict, &keys, values, ordinal / 2);
    if (i == keys.count)
        return search(&keys, values, 0, referent);
    PyObject *key = keys_entry(&keys, i)[0];
    if ((ordinal & 1 ? keys_value(&keys, values, i) : key) == referent)
        return (struct entry){key, !(ordinal & 1)};
    return search(&keys, values, i, referent);
}

static struct label find_data(PyObject *dict, int64_t ordinal, PyObject *referent) {
    struct entry entry = entry_of(dict, ordinal, referent);
    if (entry.key == NULL)
        return plain(LABEL_INSIDE);
    struct label label = plain(entry.is_key ? LABEL_KEY : LABEL_ITEM);
    label.key = entry.key;
    return label;
}

static struct label find_named(PyObject *dict, enum label_kind kind, PyObject *owner, int64_t ordinal, PyObject *referent) {
    struct entry entry = entry_of(dict, ordinal, referent);
    if (!is_str(entry.key))
        return plain(entry.key == NULL ? LABEL_INSIDE : LABEL_ITEM);
    if (entry.is_key)
        return plain(LABEL_KEY);
    return (struct label){.kind = kind, .name = entry.key, .owner = owner, .index = -1};
}

static struct label find_in_dict(const struct label *before, PyObject *dict, const struct kind *kind, int64_t ordinal,
                                 PyObject *referent) {
    enum label_role role = before == NULL ? ROLE_NONE : before->role;
    switch (role) {
    case ROLE_ATTRIBUTES:
        return find_named(dict, LABEL_ATTRIBUTE, NULL, ordinal, referent);
    case ROLE_KEYWORDS:
        return find_named(dict, LABEL_DEFAULT, before->owner, ordinal, referent);
    case ROLE_THREAD:
        return find_named(dict, LABEL_THREAD_LOCAL, before->owner, ordinal, referent);
    case ROLE_THREADS:
        return collapsed(Py_TYPE(referent) == symbols.dict_type ? ROLE_THREAD : ROLE_NONE, before->owner);
    case ROLE_CACHE:
        return collapsed(ROLE_CONTENTS, NULL);
    default:
        break;
    }
    if (kind->edges == EDGES_DICT)
        return find_data(dict, ordinal, referent);
    struct label label = find_attribute(dict, kind, referent);
    return label.kind == LABEL_INSIDE ? find_data(dict, ordinal, referent) : label;
}

/* Of what is not exactly a list, a tuple or a set: an attribute, if it is one. */
static bool is_attribute(PyObject *o, const struct kind *kind, PyObject *referent, struct label *label) {
    if (kind->edges != EDGES_TRAVERSE)
        return false;
    *label = find_attribute(o, kind, referent);
    return label->kind != LABEL_INSIDE;
}

static struct label find_in_list(PyObject *list, const struct kind *kind, int64_t ordinal, PyObject *referent) {
    struct label label;
    if (is_attribute(list, kind, referent, &label))
        return label;
    label = plain(LABEL_ITEM);
    if (kind->edges == EDGES_LIST && ordinal >= 0)
        label.index = index_of(pointer_at(list, layout.list_items), size_field(list), ordinal, referent);
    return label;
}

static struct label find_in_set(PyObject *set, const struct kind *kind, PyObject *referent) {
    struct label label;
    return is_attribute(set, kind, referent, &label) ? label : plain(LABEL_ELEMENT);
}

/* -- functions ---------------------------------------------------------------------------------------------- */

/* The code of a function; NULL when it is none. */
static PyObject *code_of(PyObject *function) {
    bool is_function = function != NULL && Py_TYPE(function) == symbols.function_type;
    return is_function ? object_at(function, layout.function_code) : NULL;
}

static PyObject *name_of_cell(PyObject *function, int64_t i, int64_t count) {
    PyObject *code = code_of(function);
    return code == NULL || i < 0 ? NULL : roots_local_name(code, roots_locals(code) - (uint32_t)(count - i));
}

static PyObject *name_of_argument(PyObject *function, int64_t i, int64_t count) {
    PyObject *code = code_of(function);
    int64_t arguments = code == NULL ? 0 : uint32_at(code, layout.code_arguments);
    return code == NULL || i < 0 || arguments < count ? NULL : roots_local_name(code, (uint32_t)(arguments - count + i));
}

PyObject *labels_next_variable(PyObject *function, int64_t *next, PyObject **name) {
    if (code_of(function) == NULL)
        return NULL;
    PyObject *cells = object_at(function, layout.function_closure), *defaults = object_at(function, layout.function_defaults);
    int64_t closed = cells != NULL && Py_TYPE(cells) == symbols.tuple_type ? size_field(cells) : 0;
    int64_t given = defaults != NULL && Py_TYPE(defaults) == symbols.tuple_type ? size_field(defaults) : 0;
    for (int64_t i; (i = (*next)++) < closed + given;) {
        PyObject *value = i < closed ? object_at(cells, layout.tuple_items + 8 * (int32_t)i)
                                     : object_at(defaults, layout.tuple_items + 8 * (int32_t)(i - closed));
        if (i < closed)
            value = value != NULL && Py_TYPE(value) == symbols.cell_type ? object_at(value, (int32_t)head_size()) : NULL;
        *name = i < closed ? name_of_cell(function, i, closed) : name_of_argument(function, i - closed, given);
        if (value != NULL && *name != NULL)
            return value;
    }
    return NULL;
}

/* The name of a named tuple's field, or NULL. */
static PyObject *name_of_field(const struct kind *kind, int64_t i) {
    PyObject *dict = kind->edges == EDGES_TUPLE ? NULL : kind_dict(kind->type), *name = NULL;
    PyObject *names = dict == NULL ? NULL : dict_find(dict, names_is, "_fields");
    if (names != NULL && Py_TYPE(names) == symbols.tuple_type && i < size_field(names))
        name = object_at(names, layout.tuple_items + 8 * (int32_t)i);
    if (dict != NULL)
        kind_release_dict(kind->type, dict);
    return is_str(name) ? name : NULL;
}

static struct label find_in_tuple(const struct label *before, PyObject *tuple, const struct kind *kind, int64_t ordinal,
                                  PyObject *referent) {
    struct label label;
    if (is_attribute(tuple, kind, referent, &label))
        return label;
    int64_t count = size_field(tuple), i = index_of(at(tuple, layout.tuple_items), count, ordinal, referent);
    label = plain(i < 0 ? LABEL_INSIDE : LABEL_POSITION);
    label.index = i;
    PyObject *field = i < 0 ? NULL : name_of_field(kind, i);
    if (field != NULL)
        return attribute(field);
    if (before != NULL && before->role == ROLE_CLOSURE) {
        label.kind = LABEL_CLOSURE;
        label.role = ROLE_CELL;
        label.owner = before->owner;
        label.name = name_of_cell(before->owner, label.index, count);
    } else if (before != NULL && before->role == ROLE_DEFAULTS) {
        label.kind = LABEL_DEFAULT;
        label.owner = before->owner;
        label.name = name_of_argument(before->owner, label.index, count);
    }
    return label;
}

static struct label find_in_function(PyObject *o, const struct kind *kind, PyObject *referent) {
    const struct place places[] = {
        {layout.function_code, "__code__"},
        {layout.function_annotations, "__annotations__"},
        {layout.function_module, "__module__"},
        {layout.function_qualname, "__qualname__"},
    };
    if (referent == object_at(o, layout.function_closure))
        return collapsed(ROLE_CLOSURE, o);
    if (referent == object_at(o, layout.function_defaults))
        return collapsed(ROLE_DEFAULTS, o);
    if (referent == object_at(o, layout.function_keywords))
        return collapsed(ROLE_KEYWORDS, o);
    if (referent == object_at(o, layout.function_dict))
        return collapsed(ROLE_ATTRIBUTES, o);
    if (referent == object_at(o, layout.function_globals)) {
        struct label label = attribute_called("__globals__");
        label.role = ROLE_ATTRIBUTES;
        return label;
    }
    const char *name = find_place(o, kind, places, sizeof places / sizeof *places, referent);
    struct label label = name != NULL ? attribute_called(name) : find_attribute(o, kind, referent);
    return label.kind == LABEL_INSIDE && is_str(referent) ? attribute_called("__name__") : label; /* the only one left */
}

static struct label find_in_cell(const struct label *before) {
    return before != NULL && before->role == ROLE_CELL ? collapsed(ROLE_CONTENTS, NULL) : attribute_called("cell_contents");
}

static struct label find_in_cache(PyObject *o, const struct kind *kind, PyObject *referent) {
    PyObject *dict = instance_dict(o, kind);
    if (dict == referent)
        return collapsed(ROLE_ATTRIBUTES, o);
    if (dict != NULL && referent == dict_find(dict, names_is, "__wrapped__"))
        return attribute_called("__wrapped__");
    if (type_flags(Py_TYPE(referent)) & (unsigned long)FLAG_TYPE_SUBCLASS)
        return plain(LABEL_INSIDE);
    struct label label = plain(LABEL_CACHE);
    label.role = Py_TYPE(referent) == symbols.dict_type ? ROLE_CACHE : ROLE_NONE;
    label.owner = o;
    return label;
}

static struct label find_in_local(PyObject *o, const struct kind *kind, PyObject *referent) {
    struct label label = find_attribute(o, kind, referent);
    bool table = label.kind == LABEL_INSIDE && Py_TYPE(referent) == symbols.dict_type;
    return table ? collapsed(ROLE_THREADS, o) : label;
}

/* -- frames ------------------------------------------------------------------------------------------------- */

static PyObject *code_of_frame(const void *frame) {
    uintptr_t code = (uintptr_t)pointer_at(frame, layout.frame_code) & ~(uintptr_t)layout.frame_code_flags;
    return code != 0 && Py_TYPE((PyObject *)code) == symbols.code_type ? (PyObject *)code : NULL;
}

/* A local or a value on the stack; ``owner``: a generator, or NULL for the frame alone. */
static struct label find_in_frame(const void *frame, PyObject *owner, PyObject *referent) {
    PyObject *code = code_of_frame(frame);
    if (code == NULL)
        return plain(LABEL_INSIDE);
    struct label label = {.kind = LABEL_LOCAL, .role = ROLE_CELL, .owner = owner == NULL ? code : owner, .index = -1};
    uint32_t locals = roots_locals(code), most = locals + uint32_at(code, layout.code_stack_size);
    for (uint32_t slot = 0; slot < most; slot++) {
        bool counted;
        if (roots_item(frame, slot, &counted) != referent)
            continue;
        label.kind = slot < locals ? LABEL_LOCAL : LABEL_STACK;
        label.name = slot < locals ? roots_local_name(code, slot) : NULL;
        return label;
    }
    label.kind = LABEL_FRAME;
    label.role = ROLE_NONE;
    if (referent == object_at(frame, layout.frame_namespace))
        label.text = "namespace", label.role = ROLE_ATTRIBUTES;
    else if (referent == object_at(frame, layout.frame_globals))
        label.text = "globals", label.role = ROLE_ATTRIBUTES;
    else if (frames_are_structures() && ((uintptr_t)pointer_at(frame, layout.frame_function) ^ (uintptr_t)referent) <= 3)
        label.text = "function";
    else if (referent == code)
        label.text = "code";
    else
        return plain(LABEL_INSIDE);
    return label;
}

static struct label find_in_frame_object(const struct label *before, PyObject *o, const struct kind *kind, PyObject *referent) {
    const void *frame = frames_are_structures() ? pointer_at(o, layout.frame_object_frame) : o;
    if (Py_TYPE(referent) == symbols.frame_type)
        return attribute_called("f_back");
    PyObject *owner = before != NULL && before->role == ROLE_GENERATOR ? before->owner : NULL;
    struct label label = frame == NULL ? plain(LABEL_INSIDE) : find_in_frame(frame, owner, referent);
    return label.kind == LABEL_INSIDE ? find_attribute(o, kind, referent) : label;
}

static struct label find_in_generator(PyObject *o, const struct kind *kind, PyObject *referent) {
    if (frames_are_structures()) {
        struct label label = find_in_frame(at(o, layout.generator_frame), o, referent);
        if (label.kind != LABEL_INSIDE)
            return label;
    } else if (referent == object_at(o, layout.generator_frame)) {
        return collapsed(ROLE_GENERATOR, o);
    }
    return find_attribute(o, kind, referent);
}

static struct label find_in_traceback(PyObject *o, const struct kind *kind, PyObject *referent) {
    if (referent == object_at(o, layout.traceback_frame))
        return collapsed(ROLE_TRACEBACK, NULL);
    return referent == object_at(o, layout.traceback_next) ? collapsed(ROLE_NONE, NULL) : find_attribute(o, kind, referent);
}

static struct label find_in_exception(PyObject *o, const struct kind *kind, PyObject *referent) {
    const struct place places[] = {
        {layout.exception_arguments, "args"},      {layout.exception_traceback, "__traceback__"},
        {layout.exception_context, "__context__"}, {layout.exception_cause, "__cause__"},
        {layout.exception_notes, "__notes__"},
    };
    const char *name = find_place(o, kind, places, sizeof places / sizeof *places, referent);
    return name != NULL ? attribute_called(name) : find_attribute(o, kind, referent);
}

/* -- the rest ----------------------------------------------------------------------------------------------- */

static struct label find_in_type(PyObject *o, const struct kind *kind, PyObject *referent) {
    bool heap = type_flags((PyTypeObject *)o) & FLAG_HEAP_TYPE;
    const struct place places[] = {
        {layout.type_base, "__base__"},
        {layout.type_mro, "__mro__"},
        {layout.type_bases, "__bases__"},
        {layout.type_subclasses, "__subclasses__"},
        {heap ? layout.heap_name : 0, "__name__"},
        {heap ? layout.heap_qualname : 0, "__qualname__"},
        {heap ? layout.heap_slots : 0, "__slots__"},
    };
    PyObject *dict = kind_dict((PyTypeObject *)o);
    kind_release_dict((PyTypeObject *)o, dict);
    if (referent == dict)
        return collapsed(ROLE_ATTRIBUTES, o);
    const char *name = find_place(o, kind, places, sizeof places / sizeof *places, referent);
    return name != NULL ? attribute_called(name) : find_attribute(o, kind, referent);
}

static struct label find_in_future(PyObject *o, const struct kind *kind, PyObject *referent, bool task) {
    const struct place places[] = {
        {layout.future_loop, "_loop"},
        {layout.future_callback, "_callbacks"},
        {layout.future_context, "_callbacks"},
        {layout.future_callbacks, "_callbacks"},
        {layout.future_exception, "_exception"},
        {layout.future_result, "_result"},
        {layout.future_source, "_source_traceback"},
        {task ? layout.task_waiter : 0, "_fut_waiter"},
        {task ? layout.task_coroutine : 0, "_coro"},
        {task ? layout.task_name : 0, "_name"},
        {task ? layout.task_context : 0, "_context"},
    };
    const struct place awaited_by = {layout.future_awaited_by, "_asyncio_awaited_by"};
    const char *name = find_place(o, kind, places, sizeof places / sizeof *places, referent);
    struct label label = name != NULL ? attribute_called(name) : find_attribute(o, kind, referent);
    bool is_last = label.kind == LABEL_INSIDE && find_place(o, kind, &awaited_by, 1, referent) != NULL;
    return is_last ? attribute_called(awaited_by.name) : label;
}

/* A method of a task's, and for its first step what is sent. */
static struct label find_in_wakeup(PyObject *o, const struct kind *kind, PyObject *referent) {
    const struct place places[] = {{layout.step_task, "__self__"}};
    const char *name = find_place(o, kind, places, 1, referent);
    return name != NULL ? attribute_called(name) : find_attribute(o, kind, referent);
}

static struct label find_in_array(PyObject *o, const struct kind *kind, PyObject *referent) {
    const struct numpy_array *array = numpy_at(o);
    if (referent == array->base)
        return attribute_called("base");
    if (referent == array->descr)
        return attribute_called("dtype");
    struct label label = find_attribute(o, kind, referent);
    return label.kind == LABEL_INSIDE ? plain(LABEL_ITEM) : label;
}

static struct label find_in_module(PyObject *o, const struct kind *kind, PyObject *referent) {
    if (referent == object_at(o, layout.module_dict))
        return collapsed(ROLE_ATTRIBUTES, o);
    struct label label = find_attribute(o, kind, referent);
    return label.kind == LABEL_INSIDE ? text_label("held by C") : label;
}

static struct label find_in_builtin(PyObject *o, const struct kind *kind, PyObject *referent) {
    if (referent == object_at(o, layout.builtin_self))
        return attribute_called("__self__");
    return referent == object_at(o, layout.builtin_module) ? attribute_called("__module__") : find_attribute(o, kind, referent);
}

/* Items, where it is no attribute. */
static struct label find_in_items(PyObject *o, const struct kind *kind, PyObject *referent) {
    struct label label = find_attribute(o, kind, referent);
    return label.kind == LABEL_INSIDE ? plain(LABEL_ITEM) : label;
}

/* Of a context, { variable, value } … or { NULL, node } … in the leaves of a tree. */
static struct label find_in_variables(PyObject *node, PyObject *referent) {
    PyObject **pairs = at(node, layout.hamt_items);
    for (int64_t i = 0; i + 1 < size_field(node); i += 2) {
        if (pairs[i] == referent && pairs[i] != NULL)
            return plain(LABEL_KEY);
        if (pairs[i + 1] == referent && pairs[i] == NULL)
            return collapsed(ROLE_NONE, NULL);
        if (pairs[i + 1] == referent)
            return (struct label){.kind = LABEL_VARIABLE, .name = object_at(pairs[i], layout.variable_name), .index = -1};
    }
    return plain(LABEL_INSIDE);
}

static struct label find_in_context(PyObject *o, const struct kind *kind, PyObject *referent) {
    const char *name = pointer_at(Py_TYPE(referent), layout.type_name);
    bool tree = name != NULL && strncmp(name, "hamt", 4) == 0;
    return tree ? collapsed(ROLE_NONE, NULL) : find_attribute(o, kind, referent);
}

static struct label find_in_weakref(PyObject *o, const struct kind *kind, PyObject *referent) {
    struct label label = find_attribute(o, kind, referent);
    bool is_callback = label.kind == LABEL_INSIDE || (label.text != NULL && strcmp(label.text, "__callback__") == 0);
    return is_callback ? text_label("weakref callback") : label;
}

struct label labels_find(const struct label *before, PyObject *o, const struct kind *kind, int64_t ordinal,
                         PyObject *referent) {
    switch (rule_of(kind)) {
    case RULE_DICT:
        return find_in_dict(before, o, kind, ordinal, referent);
    case RULE_LIST:
        return find_in_list(o, kind, ordinal, referent);
    case RULE_TUPLE:
        return find_in_tuple(before, o, kind, ordinal, referent);
    case RULE_SET:
        return find_in_set(o, kind, referent);
    case RULE_MODULE:
        return find_in_module(o, kind, referent);
    case RULE_TYPE:
        return find_in_type(o, kind, referent);
    case RULE_FUNCTION:
        return find_in_function(o, kind, referent);
    case RULE_BUILTIN:
        return find_in_builtin(o, kind, referent);
    case RULE_CELL:
        return find_in_cell(before);
    case RULE_FRAME:
        return find_in_frame_object(before, o, kind, referent);
    case RULE_GENERATOR:
        return find_in_generator(o, kind, referent);
    case RULE_TRACEBACK:
        return find_in_traceback(o, kind, referent);
    case RULE_EXCEPTION:
        return find_in_exception(o, kind, referent);
    case RULE_WEAKREF:
        return find_in_weakref(o, kind, referent);
    case RULE_CACHE:
        return find_in_cache(o, kind, referent);
    case RULE_DEQUE:
        return find_in_items(o, kind, referent);
    case RULE_ITERATOR: /* over what it refers to: nobody has another name for that */
        return collapsed(ROLE_CONTENTS, NULL);
    case RULE_CONTEXT:
        return find_in_context(o, kind, referent);
    case RULE_VARIABLES:
        return find_in_variables(o, referent);
    case RULE_LOCAL:
        return find_in_local(o, kind, referent);
    case RULE_FUTURE:
        return find_in_future(o, kind, referent, false);
    case RULE_TASK:
        return find_in_future(o, kind, referent, true);
    case RULE_WAKEUP:
        return find_in_wakeup(o, kind, referent);
    case RULE_ARRAY:
        return find_in_array(o, kind, referent);
    default:
        return find_attribute(o, kind, referent);
    }
}

bool labels_depend(const struct kind *kind) {
    enum rule rule = rule_of(kind);
    return rule == RULE_DICT || rule == RULE_TUPLE || rule == RULE_CELL || rule == RULE_FRAME;
}

/* -- roots -------------------------------------------------------------------------------------------------- */

/* Whose frame it is: a generator where there is one, else the code. */
static PyObject *owner_of(const struct roots_frame *frame) {
    bool generator = frame->object != NULL && Py_TYPE(frame->object) != symbols.frame_type;
    return generator ? frame->object : frame->code;
}

struct label labels_frame(const struct roots_frame *frame) {
    return (struct label){.kind = LABEL_FRAME, .owner = owner_of(frame), .index = -1};
}

static struct label label_in_frame(const struct root *root) {
    static const char *const texts[] = {
        [PART_CODE] = "code",
        [PART_FUNCTION] = "function",
        [PART_NAMESPACE] = "namespace",
        [PART_GLOBALS] = "globals",
        [PART_BUILTINS] = "builtins",
        [PART_FRAME] = "frame object",
        [PART_TRACE] = "trace function",
    };
    struct label label = labels_frame(root->frame);
    switch (root->part) {
    case PART_ITSELF:
        return collapsed(ROLE_CONTENTS, NULL);
    case PART_LOCAL:
        label.kind = LABEL_LOCAL;
        label.role = ROLE_CELL;
        label.name = root->name;
        break;
    case PART_STACK:
        label.kind = LABEL_STACK;
        break;
    default:
        label.text = texts[root->part];
        label.role = root->part == PART_GLOBALS || root->part == PART_NAMESPACE || root->part == PART_BUILTINS ? ROLE_ATTRIBUTES
                                                                                                               : ROLE_NONE;
    }
    return label;
}

struct label labels_root(enum root_class class, const struct root *root) {
    if (root->part == PART_MODULE) {
        struct label label = plain(LABEL_MODULE);
        label.name = root->name;
        label.text = class == ROOT_INTERPRETER ? "another interpreter's module" : "module";
        return label;
    }
    if (root->frame != NULL)
        return label_in_frame(root);
    return text_label(root->what != NULL && strcmp(root->what, "atexit") == 0 ? "held by C (atexit)" : root->what);
}

struct label labels_stored(const struct stored *stored, uint32_t number) {
    const struct stored_label *found = (const struct stored_label *)stored->labels.items + number;
    return (struct label){
        .kind = (enum label_kind)found->kind,
        .role = (enum label_role)found->role,
        .text = stored_text(stored, found->text),
        .index = -1,
        .stored = found,
    };
}

uint64_t labels_hash(const struct label *label) {
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    if (label->stored != NULL)
        return (label->stored->alike + 1ull) * factor;
    PyObject *owner = label->owner;
    if (label->kind == LABEL_CLOSURE || label->kind == LABEL_DEFAULT)
        owner = code_of(owner);
    else if (owner != NULL && Py_TYPE(owner) != symbols.code_type && label->kind != LABEL_CACHE)
        owner = label->kind == LABEL_LOCAL || label->kind == LABEL_STACK || label->kind == LABEL_FRAME
                    ? object_at(owner, layout.generator_qualname)
                    : NULL;
    uint64_t hash = (uint64_t)label->kind + 1;
    hash = (hash ^ (uint64_t)label->name) * factor;
    hash = (hash ^ hash >> 29 ^ (uint64_t)label->text) * factor;
    hash = (hash ^ hash >> 31 ^ (uint64_t)owner) * factor;
    if (label->kind == LABEL_POSITION)
        hash = (hash ^ (uint64_t)label->index) * factor;
    return hash ^ hash >> 32;
}

/* -- writing ------------------------------------------------------------------------------------------------ */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (uint8_t)c >= 0x80; }

/* Whether what is in ``writer_scratch`` can be written behind a dot. What cannot is no name, but data. */
static bool is_name(void) {
    for (uint32_t i = 0; i < writer_scratch.size; i++)
        if (!is_letter(writer_scratch.bytes[i]) && (i == 0 || writer_scratch.bytes[i] < '0' || writer_scratch.bytes[i] > '9'))
            return false;
    return writer_scratch.size > 0;
}

static void put_attribute(struct writer *w, const struct label *label, bool values) {
    if (label->name == NULL) {
        writer_text(w, ".");
        writer_text(w, label->text);
    } else if (names_read_str(label->name, &writer_scratch) && (values || is_name())) {
        writer_text(w, ".");
        writer_bytes(w, writer_scratch.bytes, writer_scratch.size);
    } else {
        writer_text(w, "[*]");
    }
}

static void put_qualified(struct writer *w, PyObject *module, PyObject *qualname) {
    if (is_str(module)) {
        writer_str(w, module);
        writer_text(w, ".");
    }
    writer_str(w, qualname);
}

static void put_function(struct writer *w, PyObject *function) {
    put_qualified(w, object_at(function, layout.function_module), object_at(function, layout.function_qualname));
}

/* Of a nested function, that which made it, and with it the variables that they share. */
static void put_maker(struct writer *w, PyObject *function) {
    static const char locals[] = ".<locals>.";
    char *begin = w->at;
    put_function(w, function);
    for (char *at = w->at - (sizeof locals - 1); at > begin; at--)
        if (memcmp(at, locals, sizeof locals - 1) == 0) {
            w->at = at;
            return;
        }
}

static void put_cached(struct writer *w, PyObject *wrapper) {
    struct kind kind = {.type = Py_TYPE(wrapper), .basic = uint32_at(Py_TYPE(wrapper), layout.type_basicsize)};
    PyObject *dict = instance_dict(wrapper, &kind), *qualname = dict == NULL ? NULL : dict_find(dict, names_is, "__qualname__");
    writer_text(w, "lru_cache");
    if (!is_str(qualname))
        return;
    writer_text(w, " of ");
    put_qualified(w, dict_find(dict, names_is, "__module__"), qualname);
}

/* "frame f()", "coroutine f()". */
static void put_frame(struct writer *w, PyObject *owner) {
    PyTypeObject *type = Py_TYPE(owner);
    bool code = type == symbols.code_type;
    int32_t qualname = layout.code_qualname != 0 ? layout.code_qualname : layout.code_name;
    writer_text(w, code                             ? "frame "
                   : type == symbols.generator_type ? "generator "
                   : type == symbols.coroutine_type ? "coroutine "
                                                    : "async generator ");
    writer_str(w, object_at(owner, code ? qualname : layout.generator_qualname));
    writer_text(w, "()");
}

/* A key of an exact built-in type; false, and nothing, for any other. */
static bool put_key(struct writer *w, PyObject *key) {
    char *begin = w->at;
    writer_text(w, "[");
    if (writer_value(w, key)) {
        writer_text(w, "]");
        return true;
    }
    w->at = begin;
    return false;
}

static void put_item(struct writer *w, const struct label *label, bool values) {
    if (values && label->index >= 0) {
        writer_text(w, "[");
        writer_int(w, label->index);
        writer_text(w, "]");
    } else if (!values || label->key == NULL || !put_key(w, label->key)) {
        writer_text(w, "[*]");
    }
}

static void put_label(struct writer *w, const struct label *label, bool values) {
    switch (label->kind) {
    case LABEL_COLLAPSED:
        break;
    case LABEL_INSIDE:
        writer_text(w, "(inside)");
        break;
    case LABEL_ATTRIBUTE:
        put_attribute(w, label, values);
        break;
    case LABEL_POSITION:
        writer_text(w, "[");
        writer_int(w, label->index);
        writer_text(w, "]");
        break;
    case LABEL_ITEM:
        put_item(w, label, values);
        break;
    case LABEL_KEY:
        writer_text(w, "(a key)");
        break;
    case LABEL_ELEMENT:
        writer_text(w, "{*}");
        break;
    case LABEL_LOCAL:
        put_frame(w, label->owner);
        writer_text(w, " local ");
        writer_str(w, label->name);
        break;
    case LABEL_STACK:
        put_frame(w, label->owner);
        writer_text(w, " value in use");
        break;
    case LABEL_CLOSURE:
        writer_text(w, "closure of ");
        put_maker(w, label->owner);
        writer_text(w, ": ");
        writer_str(w, label->name);
        break;
    case LABEL_DEFAULT:
        writer_text(w, "default argument ");
        writer_str(w, label->name);
        writer_text(w, " of ");
        put_function(w, label->owner);
        break;
    case LABEL_CACHE:
        put_cached(w, label->owner);
        break;
    case LABEL_THREAD_LOCAL:
        put_attribute(w, label, values);
        writer_text(w, " of a thread");
        break;
    case LABEL_VARIABLE:
        writer_text(w, "context variable ");
        writer_str(w, label->name);
        break;
    case LABEL_MODULE:
        writer_text(w, label->text);
        writer_text(w, " ");
        writer_str(w, label->name);
        break;
    case LABEL_TEXT:
        writer_text(w, label->text);
        break;
    case LABEL_FRAME:
        put_frame(w, label->owner);
        if (label->text != NULL) {
            writer_text(w, " ");
            writer_text(w, label->text);
        }
        break;
    }
}

uint32_t labels_write(const struct label *label, bool values, char text[LABEL_BYTES]) {
    struct writer writer = {text, text + LABEL_BYTES - 1};
    if (label->stored != NULL)
        writer_text(&writer, label->text);
    else
        put_label(&writer, label, values);
    *writer.at = 0;
    return (uint32_t)(writer.at - text);
}
