/* size: each rule is one __sizeof__ of CPython, named above it; versions differ only by `layout`. */
#include "heap/size.h"

#include "maps.h"
#include "heap/containers.h"
#include "heap/without_code/measures.h"
#include "heap/numpy.h"

#include <string.h>

static struct {
    PyCFunction object, integer, text, list, dict, set, frozenset;
} own;

/* The layout of PyMethodDef is part of the limited API. */
static PyMethodDef *method_of(PyObject *descriptor) {
    return Py_TYPE(descriptor) == symbols.descriptor_type ? pointer_at(descriptor, layout.descr_method) : NULL;
}

static bool is_sizeof(PyObject *key, const char *name) {
    if (key == symbols.sizeof_name)
        return true;
    /* not interned: somebody made the namespace by hand */
    uint32_t state = uint32_at(key, layout.str_state);
    return Py_TYPE(key) == symbols.str_type && state >> layout.str_state_ascii & 1 && state >> layout.str_state_compact & 1 &&
           int64_at(key, layout.str_length) == 10 && memcmp(at(key, layout.str_ascii_size), name, 10) == 0;
}

/* The value of "__sizeof__" in a type's own namespace, or NULL. */
static PyObject *find_in(PyTypeObject *type) {
    PyObject *dict = kind_dict(type), *found = dict == NULL ? NULL : dict_find(dict, is_sizeof, "__sizeof__");
    kind_release_dict(type, dict);
    return found;
}

/* What type(o).__sizeof__ is, by the mro; NULL also for a type that was never made ready and has none. */
static PyObject *find(PyTypeObject *type) {
    PyObject *mro = object_at(type, layout.type_mro);
    for (int64_t i = 0; mro != NULL && i < size_field(mro); i++) {
        PyObject *found = find_in(pointer_at(mro, layout.tuple_items + 8 * (int32_t)i));
        if (found != NULL)
            return found;
    }
    return NULL;
}

static PyCFunction function_of(PyTypeObject *type) {
    PyObject *found = find(type);
    PyMethodDef *method = found == NULL ? NULL : method_of(found);
    return method == NULL ? NULL : method->ml_meth;
}

int size_open(void) {
    own.object = function_of(symbols.object_type);
    own.integer = function_of(symbols.int_type);
    own.text = function_of(symbols.str_type);
    own.list = function_of(symbols.list_type);
    own.dict = function_of(symbols.dict_type);
    own.set = function_of(symbols.set_type);
    own.frozenset = function_of(symbols.frozenset_type);
    bool whole = own.object && own.integer && own.text && own.list && own.dict && own.set && own.frozenset;
    return whole ? 0 : -1;
}

enum { MOST_CODE = 256, MOST_MAPPINGS = 20000 };

/* Code of the interpreter and of its standard library's modules, as far as it was mapped at the last look. */
static struct {
    struct {
        uintptr_t begin, end;
    } ranges[MOST_CODE];
    size_t count;
    uintptr_t interpreter; /* the file's inode */
    bool looked;
} code;

void size_look_again(void) { code.looked = false; }

static bool has_code(uintptr_t address) {
    for (size_t i = 0; i < code.count; i++)
        if (address >= code.ranges[i].begin && address < code.ranges[i].end)
            return true;
    return false;
}

/* Where there are too many mappings some is not found: then a method is not called, and its objects are guessed at. */
static void find_code(void) {
    struct maps m;
    struct mapping found;
    code.count = 0;
    for (int pass = code.interpreter == 0 ? 0 : 1; pass < 2; pass++) {
        if (!maps_open(&m))
            return;
        for (int lines = 0; lines < MOST_MAPPINGS && code.count < MOST_CODE && maps_line(&m, &found); lines++) {
            if (!(found.protection & PROT_EXEC))
                continue;
            if (pass == 0 && (uintptr_t)own.object >= found.begin && (uintptr_t)own.object < found.end)
                code.interpreter = found.inode;
            bool is_own = found.inode != 0 && found.inode == code.interpreter;
            if (pass == 1 && (is_own || strstr(found.path, "/lib-dynload/") != NULL)) {
                code.ranges[code.count].begin = found.begin;
                code.ranges[code.count++].end = found.end;
            }
        }
        maps_close(&m);
    }
}

bool size_is_cpython(uintptr_t function) {
    if (!has_code(function) && !code.looked) {
        code.looked = true;
        find_code();
    }
    return has_code(function);
}

/* By the type whose method it is (descrobject.h, PyDescr_COMMON). */
static void decide_by_rule(struct kind *kind, PyObject *descriptor) {
    const char *name = pointer_at(pointer_at(descriptor, (int32_t)head_size()), layout.type_name);
    kind->measure = name == NULL ? NULL : measures_find(name);
    if (kind->measure != NULL)
        kind->size = SIZE_RULE;
}

void size_decide(struct kind *kind, bool call_methods) {
    kind->size = SIZE_GUESS;
    if (symbols.without_code && kind->collected == COLLECTED_ASK && !layout.flags_pre_header)
        return; /* sys.getsizeof asks it whether the collector's head counts (see size_of) */
    PyObject *found = find(kind->type);
    PyMethodDef *method = found == NULL ? NULL : method_of(found);
    if (method == NULL)
        return;
    PyCFunction function = method->ml_meth;
    if (function == own.object)
        kind->size = SIZE_OBJECT;
    else if (function == own.integer)
        kind->size = SIZE_INT;
    else if (function == own.text)
        kind->size = SIZE_STR;
    else if (function == own.list)
        kind->size = SIZE_LIST;
    else if (function == own.dict)
        kind->size = SIZE_DICT;
    else if (function == own.set || function == own.frozenset)
        kind->size = SIZE_SET;
    else if (symbols.without_code)
        decide_by_rule(kind, found);
    else if ((method->ml_flags & ~METH_COEXIST) == METH_NOARGS &&
             (call_methods || numpy_is_array(kind->type) || size_is_cpython((uintptr_t)function))) {
        kind->size = SIZE_CALL;
        kind->sizeof_method = function;
    }
}

/* -- the rules --------------------------------------------------------------------------------------------- */

/* typeobject.c, object___sizeof___impl */
static uint64_t object_size(PyObject *o, const struct kind *kind) {
    if (kind->item == 0)
        return kind->basic;
    int64_t items = size_field(o);
    return kind->basic + (uint64_t)(items < 0 ? -items : items) * kind->item;
}

/* longobject.c, int___sizeof___impl */
static uint64_t int_size(PyObject *o) {
    int64_t digits = size_field(o);
    digits = layout.int_shift ? (int64_t)((uint64_t)digits >> layout.int_shift) : digits < 0 ? -digits : digits;
    if (digits < layout.int_least_digits)
        digits = layout.int_least_digits;
    return (uint64_t)layout.int_digits + 4 * (uint64_t)digits; /* no subclass can put anything before the digits */
}

/* unicodeobject.c, unicode_sizeof_impl */
static uint64_t str_size(PyObject *o) {
    uint32_t state = uint32_at(o, layout.str_state);
    uint64_t width = state >> layout.str_state_kind & 7, length = uint64_at(o, layout.str_length);
    bool compact = state >> layout.str_state_compact & 1, ascii = compact && (state >> layout.str_state_ascii & 1);
    uint64_t size;
    void *data;
    if (compact) {
        size = (uint64_t)(ascii ? layout.str_ascii_size : layout.str_compact_size);
        data = at(o, (int32_t)size);
        size += (length + 1) * (ascii ? 1 : width);
    } else {
        size = (uint64_t)layout.str_size;
        data = pointer_at(o, layout.str_data);
        if (data != NULL)
            size += (length + 1) * width;
    }
    if (!ascii) {
        void *utf8 = pointer_at(o, layout.str_utf8);
        if (utf8 != NULL && utf8 != data)
            size += uint64_at(o, layout.str_utf8_length) + 1;
    }
    if (layout.str_wstr) {
        void *wide = pointer_at(o, layout.str_wstr);
        if (wide != NULL && wide != data)
            size += ((ascii ? length : uint64_at(o, layout.str_wstr_length)) + 1) * sizeof(wchar_t);
    }
    return size;
}

/* listobject.c, list___sizeof___impl */
static uint64_t list_size(PyObject *o, const struct kind *kind) {
    return kind->basic + 8 * uint64_at(o, layout.list_allocated);
}

/* setobject.c, set___sizeof___impl */
static uint64_t set_size(PyObject *o, const struct kind *kind) {
    bool small = pointer_at(o, layout.set_table) == at(o, layout.set_small_table);
    return kind->basic + (small ? 0 : 16 * (uint64_at(o, layout.set_mask) + 1));
}

static uint64_t called_size(PyObject *o, const struct kind *kind) {
    PyObject *answer = kind->sizeof_method(o, NULL);
    int64_t size = answer == NULL ? -1 : PyLong_AsSsize_t(answer);
    if (answer != NULL)
        Py_DecRef(answer);
    if (size >= 0)
        return (uint64_t)size;
    PyErr_Clear();
    return kind->basic;
}

/* Whether it decides which of its objects are collected, by a function of its own. */
static bool decides(const struct kind *kind) {
    inquiry is_gc = (inquiry)pointer_at(kind->type, layout.type_is_gc);
    return is_gc != NULL && is_gc != symbols.type_is_gc;
}

uint64_t size_of(PyObject *o, const struct kind *kind) {
    uint64_t size;
    switch (kind->size) {
    case SIZE_INT:
        size = int_size(o);
        break;
    case SIZE_STR:
        size = str_size(o);
        break;
    case SIZE_LIST:
        size = list_size(o, kind);
        break;
    case SIZE_DICT:
        size = dict_size(o, kind);
        break;
    case SIZE_SET:
        size = set_size(o, kind);
        break;
    case SIZE_CALL:
        size = called_size(o, kind);
        break;
    case SIZE_RULE:
        size = kind->measure(o, kind);
        break;
    case SIZE_OBJECT:
        size = object_size(o, kind);
        break;
    default:
        return kind->basic + kind->before;
    }
    /* sysmodule.c, _PySys_GetSizeOf: what the object has; or (flags_pre_header) what its type says, also of an object
       that does not have it (an active greenlet), but for a static type whose own type is `type`, where layout says so */
    bool by_type = layout.size_static_pre_header || (layout.flags_pre_header && decides(kind));
    bool has_header = kind->collected <= COLLECTED_ALWAYS || by_type || kind_collects(kind, o);
    return size + (has_header ? kind->before : 0);
}

uint64_t size_hidden(PyObject *o, const struct kind *kind) {
    if (kind->values == VALUES_NONE)
        return 0;
    const void *keys = pointer_at(kind->type, layout.heap_cached_keys);
    void *dict = pointer_at(o, layout.object_dict);
    if (keys == NULL)
        return 0;
    uint64_t room = keys_room(keys);
    if (kind->values == VALUES_INLINE) {
        /* pycore_dict.h, struct _dictvalues: a header, the values, a byte for the place of each in the order */
        uint64_t capacity = uint8_at(o, (int32_t)kind->basic), more = layout.values_items + ((capacity + 7) & ~(uint64_t)7);
        bool is_inline = dict != NULL && pointer_at(dict, layout.dict_values) == at(o, (int32_t)kind->basic);
        return more + (is_inline ? 0 : 8 * capacity); /* the dict counts the values */
    }
    uintptr_t values = (uintptr_t)pointer_at(o, layout.object_values);
    if (values == 0 || (layout.values_tag && !(values & 1)))
        return 0;
    /* dictobject.c, new_values: two bytes and one for each value, rounded, are before the values */
    return ((2 + room + 7) & ~(uint64_t)7) + 8 * room;
}

/* -- where it is ------------------------------------------------------------------------------------------- */

/* Of a text, what is in its own block. */
static uint64_t str_block(PyObject *o, const struct kind *kind) {
    uint32_t state = uint32_at(o, layout.str_state);
    if (!(state >> layout.str_state_compact & 1))
        return kind->basic;
    bool ascii = state >> layout.str_state_ascii & 1;
    return (uint64_t)(ascii ? layout.str_ascii_size : layout.str_compact_size) +
           (uint64_at(o, layout.str_length) + 1) * (ascii ? 1 : state >> layout.str_state_kind & 7);
}

enum { STATIC_TYPE = 400 }; /* object.h, PyTypeObject: no less in any version, and some words more in others */

static uint64_t own_size(PyObject *o, const struct kind *kind) {
    if (kind->collected == COLLECTED_HEAP_TYPES && !kind_collects(kind, o))
        return STATIC_TYPE;
    switch (kind->size) {
    case SIZE_INT:
        return int_size(o);
    case SIZE_STR:
        return str_block(o, kind);
    case SIZE_OBJECT:
        return object_size(o, kind) + (kind->values == VALUES_INLINE ? size_hidden(o, kind) : 0);
    default:
        return kind->basic;
    }
}

static struct size_block elsewhere(PyObject *o, const struct kind *kind) {
    uint64_t at = 0, size = 0;
    if (kind->size == SIZE_LIST) {
        at = uint64_at(o, layout.list_items);
        size = 8 * uint64_at(o, layout.list_allocated);
    } else if (kind->size == SIZE_DICT) {
        const void *keys = pointer_at(o, layout.dict_keys);
        at = (uint64_t)keys;
        size = int64_at(keys, 0) == 1 ? keys_bytes(keys) : 0;
    } else if (kind->size == SIZE_SET) {
        at = uint64_at(o, layout.set_table);
        size = set_size(o, kind) - kind->basic;
    } else if (kind->type == symbols.bytearray_type && uint64_at(o, layout.bytearray_allocated) != 0) {
        at = uint64_at(o, layout.bytearray_items) - (uint64_t)layout.bytearray_head;
        size = bytearray_buffer_size(o);
    }
    return (struct size_block){at, at == 0 ? 0 : size};
}

bool size_has_buffer(const struct kind *kind) {
    return kind->size == SIZE_LIST || kind->size == SIZE_DICT || kind->size == SIZE_SET || kind->type == symbols.bytearray_type;
}

bool size_has_more(const struct kind *kind) { return size_has_buffer(kind) || kind->values == VALUES_POINTER; }

uint32_t size_blocks(PyObject *o, const struct kind *kind, struct size_block blocks[SIZE_BLOCKS]) {
    uint32_t before = kind->before != 0 && kind_collects(kind, o) ? kind->before : 0, count = 1;
    uint64_t values = kind->values == VALUES_POINTER ? size_hidden(o, kind) : 0;
    blocks[0] = (struct size_block){(uint64_t)o - before, before + own_size(o, kind)};
    blocks[count] = elsewhere(o, kind);
    count += blocks[count].size != 0;
    if (values != 0) {
        uint64_t room = keys_room(pointer_at(kind->type, layout.heap_cached_keys));
        uint64_t items = uint64_at(o, layout.object_values) + (uint64_t)layout.values_tag;
        blocks[count++] = (struct size_block){items + 8 * room - values, values};
    }
    return count;
}
