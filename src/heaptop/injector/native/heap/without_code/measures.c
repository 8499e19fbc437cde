/* measures: one function a __sizeof__, named above it, and the table of them. */
#include "heap/without_code/measures.h"

#include "heap/containers.h"
#include "heap/numpy.h"

#include <string.h>

static uint64_t length_of(PyObject *tuple) { return tuple == NULL ? 0 : (uint64_t)size_field(tuple); }

/* bytearrayobject.c, bytearray_sizeof */
static uint64_t bytearray_size(PyObject *o, const struct kind *kind) { return kind->basic + bytearray_buffer_size(o); }

/* arraymodule.c, array___sizeof__: allocated items, each as large as the description says */
static uint64_t array_size(PyObject *o, const struct kind *kind) {
    enum { ALLOCATED = 32, DESCRIPTION = 40, ITEM_SIZE = 4 };
    const void *fields = body_of(o), *description = pointer_at(fields, DESCRIPTION);
    return kind->basic + uint64_at(fields, ALLOCATED) * (description == NULL ? 0 : uint32_at(description, ITEM_SIZE));
}

/* codeobject.c, code_sizeof, without what debuggers keep in co_extra */
static uint64_t code_size(PyObject *o, const struct kind *kind) {
    enum { CACHE_ENTRY = 32, UNIT = 2 };
    if (layout.code_cell_arguments == 0)
        return (kind->basic + (uint64_t)size_field(o) * kind->item + 7) & ~(uint64_t)7;
    uint64_t size = kind->basic;
    if (pointer_at(o, layout.code_cell_arguments) != NULL)
        size += 8 * length_of(object_at(o, layout.code_cellvars));
    if (pointer_at(o, layout.code_cache) != NULL)
        size += length_of(object_at(o, layout.code_code)) / UNIT + CACHE_ENTRY * (uint64_t)uint8_at(o, layout.code_cache_size);
    return size;
}

/* Bytes of the locals and the stack of a frame of this code; 0 where it is none. */
static uint64_t items_size(PyObject *code) {
    if (code == NULL || Py_TYPE(code) != symbols.code_type)
        return 0;
    uint64_t locals = layout.code_slots != 0
                          ? uint32_at(code, layout.code_slots)
                          : uint32_at(code, layout.code_locals) + length_of(object_at(code, layout.code_cellvars)) +
                                length_of(object_at(code, layout.code_freevars));
    return 8 * (locals + uint32_at(code, layout.code_stack_size));
}

static PyObject *code_at(const void *base, int32_t offset) {
    return (PyObject *)((uintptr_t)pointer_at(base, offset) & ~(uintptr_t)layout.frame_code_flags);
}

/* frameobject.c, frame_sizeof */
static uint64_t frame_size(PyObject *o, const struct kind *kind) {
    const void *frame = frames_are_structures() ? pointer_at(o, layout.frame_object_frame) : o;
    uint64_t before = frames_are_structures() ? kind->basic : (uint64_t)layout.frame_items;
    return before + (frame == NULL ? 0 : items_size(code_at(frame, layout.frame_code)));
}

/* genobject.c, gen_sizeof, where a generator has its frame inside */
static uint64_t generator_size(PyObject *o, const struct kind *kind) {
    return kind->basic + items_size(code_at(o, layout.generator_code));
}

/* typeobject.c, type___sizeof__ */
static uint64_t type_size(PyObject *o, const struct kind *kind) {
    (void)kind;
    PyTypeObject *type = (PyTypeObject *)o;
    if (!(type_flags(type) & FLAG_HEAP_TYPE))
        return (uint64_t)layout.type_size;
    const void *keys = pointer_at(type, layout.heap_cached_keys);
    uint64_t own = uint32_at(symbols.type_type, layout.type_basicsize);
    return own + (keys == NULL ? 0 : keys_bytes_of(keys_size(keys), keys_unhashed(keys)));
}

/* _collectionsmodule.c, deque___sizeof__ */
static uint64_t deque_size(PyObject *o, const struct kind *kind) {
    enum { LEFT = 16, ITEMS = 64 };
    uint64_t items = uint64_at(o, layout.deque_block + LEFT) + (uint64_t)size_field(o);
    return kind->basic + (items + ITEMS - 1) / ITEMS * (uint64_t)(layout.deque_block_next + 8);
}

/* odictobject.c, odict_sizeof: nodes, and a table of them */
static uint64_t ordered_size(PyObject *o, const struct kind *kind) {
    enum { TABLE_SIZE = 24, NODE = 32 };
    bool empty = pointer_at(o, layout.ordered_first) == NULL;
    return dict_size(o, kind) + 8 * uint64_at(o, layout.ordered_first + TABLE_SIZE) +
           (empty ? 0 : NODE * uint64_at(o, layout.dict_used));
}

/* _struct.c, s_sizeof: format codes up to one that has no definition */
static uint64_t struct_size(PyObject *o, const struct kind *kind) {
    enum { CODES = 32, CODE = 32, MOST = 1 << 20 };
    const char *codes = pointer_at(body_of(o), CODES);
    uint64_t count = 0;
    while (codes != NULL && count < MOST && pointer_at(codes, (int32_t)(CODE * count)) != NULL)
        count++;
    return kind->basic + CODE * (count + 1);
}

enum { ITERTOOLS_POOL = 16 };

/* itertoolsmodule.c, product_sizeof */
static uint64_t product_size(PyObject *o, const struct kind *kind) {
    return kind->basic + 8 * length_of(object_at(body_of(o), ITERTOOLS_POOL));
}

/* itertoolsmodule.c, combinations_sizeof and cwr_sizeof */
static uint64_t combinations_size(PyObject *o, const struct kind *kind) {
    enum { TAKEN = 40 };
    return kind->basic + 8 * uint64_at(body_of(o), TAKEN);
}

/* itertoolsmodule.c, permutations_sizeof */
static uint64_t permutations_size(PyObject *o, const struct kind *kind) {
    enum { TAKEN = 48 };
    return kind->basic + 8 * (length_of(object_at(body_of(o), ITERTOOLS_POOL)) + uint64_at(body_of(o), TAKEN));
}

/* bufferedio.c, buffered___sizeof__ */
static uint64_t buffered_size(PyObject *o, const struct kind *kind) {
    enum { BUFFER = 56, BUFFER_SIZE = 120 };
    const void *fields = body_of(o);
    return kind->basic + (pointer_at(fields, BUFFER) == NULL ? 0 : uint64_at(fields, BUFFER_SIZE));
}

/* bytesio.c, bytesio___sizeof__: its buffer, a bytes object, where nobody else has it */
static uint64_t bytesio_size(PyObject *o, const struct kind *kind) {
    PyObject *buffer = object_at(o, (int32_t)head_size());
    bool own = buffer != NULL && reference_count(buffer) == 1 && Py_TYPE(buffer) == symbols.bytes_type;
    return kind->basic + (own ? uint32_at(symbols.bytes_type, layout.type_basicsize) + (uint64_t)size_field(buffer) : 0);
}

/* _elementtree.c, Element___sizeof__: attributes and children, of which four have a place inside */
static uint64_t element_size(PyObject *o, const struct kind *kind) {
    enum { EXTRA = 40, EXTRA_SIZE = 64, ALLOCATED = 16, CHILDREN = 24, INSIDE = 32 };
    const void *extra = pointer_at(body_of(o), EXTRA);
    if (extra == NULL)
        return kind->basic;
    bool outside = pointer_at(extra, CHILDREN) != at(extra, INSIDE);
    return kind->basic + EXTRA_SIZE + (outside ? 8 * uint64_at(extra, ALLOCATED) : 0);
}

/* _decimal.c, dec_sizeof: digits that do not fit inside */
static uint64_t decimal_size(PyObject *o, const struct kind *kind) {
    enum { FLAGS = 24, NOT_DYNAMIC = 0xe0, ALLOCATED = 56 };
    const void *fields = body_of(o);
    return kind->basic + (uint8_at(fields, FLAGS) & NOT_DYNAMIC ? 0 : 8 * uint64_at(fields, ALLOCATED));
}

/* numpy's methods.c, array_sizeof: two numbers a dimension, and the data of who owns them */
static uint64_t ndarray_size(PyObject *o, const struct kind *kind) {
    const struct numpy_array *array = numpy_at(o);
    return kind->basic + 16 * (uint64_t)array->dimensions + (array->flags & ARRAY_OWNS_DATA ? numpy_bytes(o) : 0);
}

/* mmapmodule.c, mmap___sizeof__: nothing more, on Linux */
static uint64_t basic_size(PyObject *o, const struct kind *kind) {
    (void)o;
    return kind->basic;
}

static const struct {
    const char *name;
    kind_measure measure;
} measures[] = {
    {"bytearray", bytearray_size},
    {"code", code_size},
    {"frame", frame_size},
    {"generator", generator_size},
    {"coroutine", generator_size},
    {"async_generator", generator_size},
    {"type", type_size},
    {"array.array", array_size},
    {"collections.deque", deque_size},
    {"collections.OrderedDict", ordered_size},
    {"Struct", struct_size},
    {"_struct.Struct", struct_size},
    {"itertools.product", product_size},
    {"itertools.combinations", combinations_size},
    {"itertools.combinations_with_replacement", combinations_size},
    {"itertools.permutations", permutations_size},
    {"_io.BufferedReader", buffered_size},
    {"_io.BufferedWriter", buffered_size},
    {"_io.BufferedRandom", buffered_size},
    {"_io.BytesIO", bytesio_size},
    {"xml.etree.ElementTree.Element", element_size},
    {"decimal.Decimal", decimal_size},
    {"numpy.ndarray", ndarray_size},
    {"mmap.mmap", basic_size},
};

kind_measure measures_find(const char *name) {
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++)
        if (strcmp(measures[i].name, name) == 0)
            return measures[i].measure;
    return NULL;
}
