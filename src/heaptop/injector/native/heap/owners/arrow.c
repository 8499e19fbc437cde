/* arrow: buffers of a memory pool that objects of pyarrow hold through shared pointers of C++ (arrow/buffer.h, array/data.h,
   chunked_array.h, table.cc, record_batch.cc; the same from 17 to 26). Each is counted with the first object that has it.

       Table ─► ChunkedArray ─► Array ─► ArrayData ─► Buffer ─► parent ─► … ─► PoolBuffer
       RecordBatch ────────────────────►    │ children, dictionary: ArrayData

   A class of C++ is known by the name that its table of functions leads to. Buffers over memory of others (a Python object, a
   file in memory, another library) are not counted, and nobody need count them: there may be more. */
#include "heap/owners.h"
#include "raw.h"

#include <string.h>

struct shared { /* std::shared_ptr */
    const void *at, *count;
};

struct vector { /* std::vector<std::shared_ptr<…>> */
    const struct shared *begin, *end, *room;
};

struct buffer {
    const void *functions;
    bool writable, in_ram;
    const void *data;
    int64_t size, capacity;
    int32_t device[2];
    struct shared parent;
};

struct array_data {
    struct shared type;
    int64_t length, nulls, offset;
    struct vector buffers, children;
    struct shared dictionary;
};

struct summing {
    struct owners_seen *seen;
    struct owned owned;
    uint32_t steps;
    bool ended; /* something did not fit */
};

static const char ANY_CLASS[] = "N5arrow";

enum { DEEPEST = 64, MOST_STEPS = 1 << 20, PAGE = 4096 };

static bool step(struct summing *s, bool fits, int depth) {
    if (!fits || depth > DEEPEST || s->steps++ == MOST_STEPS)
        s->ended = s->owned.unknown = true;
    return !s->ended;
}

static void add_buffer(struct summing *s, const struct buffer *buffer, int depth) {
    if (buffer == NULL) {
        step(s, true, depth);
        return;
    }
    if (!step(s, owners_is(buffer, ANY_CLASS) && owners_has(buffer, sizeof *buffer), depth))
        return;
    if (buffer->parent.at != NULL) {
        add_buffer(s, buffer->parent.at, depth + 1);
    } else if (owners_is(buffer, "N5arrow10PoolBufferE")) {
        bool fits = buffer->size >= 0 && buffer->size <= buffer->capacity;
        bool is_first = buffer->capacity != 0 && owners_first(s->seen, buffer);
        s->owned.unknown = s->owned.unknown || s->seen->failed;
        if (!is_first)
            return;
        if (step(s, fits && owners_has(buffer->data, (uint64_t)buffer->capacity), depth))
            s->owned.bytes += (uint64_t)buffer->capacity;
    } else {
        s->owned.unknown = true;
    }
}

static bool is_vector(const struct vector *v) {
    uint64_t size = (uint64_t)v->end - (uint64_t)v->begin;
    bool fits =
        v->begin <= v->end && v->end <= v->room && size % sizeof *v->begin == 0 && size <= MOST_STEPS * sizeof *v->begin;
    fits = fits && (size == 0 || owners_has(v->begin, size));
    for (uint64_t at = 0; fits && at < size; at += PAGE) /* there may be holes */
        fits = raw_readable((uint64_t)v->begin + at);
    return fits;
}

static void add_data(struct summing *s, const struct array_data *data, int depth) {
    bool fits = data != NULL && owners_has(data, sizeof *data) && data->length >= 0 && data->offset >= 0;
    if (!step(s, fits && is_vector(&data->buffers) && is_vector(&data->children), depth))
        return;
    for (const struct shared *each = data->buffers.begin; each != data->buffers.end && !s->ended; each++)
        add_buffer(s, each->at, depth + 1);
    for (const struct shared *each = data->children.begin; each != data->children.end && !s->ended; each++)
        add_data(s, each->at, depth + 1);
    if (data->dictionary.at != NULL)
        add_data(s, data->dictionary.at, depth + 1);
}

enum { DATA = 8, COLUMNS = 32 }; /* of an Array; of a SimpleTable, a SimpleRecordBatch */

static void add_array(struct summing *s, const void *array) {
    if (step(s, owners_is(array, ANY_CLASS) && owners_has(array, DATA + sizeof(void *)), 0))
        add_data(s, pointer_at(array, DATA), 0);
}

/* What is in the vector of an object, each by ``add``. */
static void add_each(struct summing *s, const void *object, int32_t offset, void (*add)(struct summing *s, const void *each)) {
    const struct vector *v = at(object, offset);
    if (!step(s, owners_has(object, (uint64_t)offset + sizeof *v) && is_vector(v), 0))
        return;
    for (const struct shared *each = v->begin; each != v->end && !s->ended; each++)
        add(s, each->at);
}

static void add_chunks(struct summing *s, const void *chunked) { add_each(s, chunked, 0, add_array); }

static void add_column(struct summing *s, const void *data) { add_data(s, data, 0); }

static void add_buffer_alone(struct summing *s, const void *buffer) { add_buffer(s, buffer, 0); }

static void add_table(struct summing *s, const void *table) {
    if (step(s, owners_is(table, "N5arrow11SimpleTableE"), 0))
        add_each(s, table, COLUMNS, add_chunks);
}

static void add_batch(struct summing *s, const void *batch) {
    if (step(s, owners_is(batch, "N5arrow17SimpleRecordBatchE"), 0))
        add_each(s, batch, COLUMNS, add_column);
}

static const char *const types[] = {
    "pyarrow.lib.Array", "pyarrow.lib.Buffer", "pyarrow.lib.ChunkedArray", "pyarrow.lib.RecordBatch", "pyarrow.lib.Table", NULL,
};

static void (*const adds[])(struct summing *s, const void *object) = {
    add_array, add_buffer_alone, add_chunks, add_batch, add_table,
};

enum { POINTER = 32, AGAIN = 48 }; /* in pyarrow's objects: a shared pointer; but in a Buffer, the same without its count */

/* The place of the entry that a type has; -1: none. */
static int place_of(PyTypeObject *type) {
    for (; type != NULL; type = type_base(type)) {
        const char *name = pointer_at(type, layout.type_name);
        for (int i = 0; name != NULL && types[i] != NULL; i++)
            if (strcmp(types[i], name) == 0)
                return i;
    }
    return -1;
}

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    struct summing s = {seen, {0, false}, 0, false};
    const void *object = pointer_at(body_of(o), POINTER);
    int place = place_of(Py_TYPE(o));
    if (object == NULL)
        return s.owned;
    if (step(&s, place >= 0 && (adds[place] == add_buffer_alone || object == pointer_at(body_of(o), AGAIN)), 0))
        adds[place](&s, object);
    return s.owned;
}

const struct owner owner_arrow = {types, 56, measure, .far = true, .maps = true}; /* its pools map memory of their own */
