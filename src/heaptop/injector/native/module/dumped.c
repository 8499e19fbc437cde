/* dumped: handles for heaps that were read from files. */
#include "module/dumped.h"

#include "dump/reading.h"
#include "query/paths.h"
#include "snapshot/answers.h"

enum { ANSWER_BYTES = 32 << 20 };

static const char name[] = "heaptop heap dump";

struct dumped {
    struct reading reading;
    struct seen_marks seen_marks;
    struct answering_kept kept;
    struct progress progress;
    uint64_t done, total; /* read by any thread */
    uint32_t cancel;
    bool is_open, is_busy, has_failed;
};

static PyObject *refuse(const char *sentence) {
    PyErr_SetString(PyExc_RuntimeError, sentence);
    return NULL;
}

static bool look(struct progress *p, void *context) {
    struct dumped *d = context;
    __atomic_store_n(&d->done, p->done, __ATOMIC_RELAXED);
    __atomic_store_n(&d->total, p->total, __ATOMIC_RELAXED);
    return __atomic_load_n(&d->cancel, __ATOMIC_RELAXED) == 0;
}

static void forget_kept(struct dumped *d) {
    uint64_t rows = d->reading.heap.graph.rows.count + 1ull;
    pages_unmap(d->kept.candidates, rows * sizeof *d->kept.candidates);
    pages_unmap(d->kept.several, (rows - 1) / 8 + 1);
    pages_unmap(d->seen_marks.seen, d->reading.heap.graph.objects + 1ull);
    paths_forget(&d->kept.paths);
}

static void end(PyObject *handle) {
    struct dumped *d = PyCapsule_GetPointer(handle, name);
    if (d == NULL)
        return;
    forget_kept(d);
    reading_close(&d->reading);
    pages_unmap(d, sizeof *d);
}

/* NULL with an exception set where it is none, or where another call of it is under way. */
static struct dumped *begin(PyObject *handle) {
    struct dumped *d = PyCapsule_GetPointer(handle, name);
    if (d != NULL && (d->is_busy || d->has_failed)) {
        refuse(d->is_busy ? "another call is under way" : "the heap dump could not be read");
        return NULL;
    }
    if (d != NULL) {
        d->is_busy = true;
        d->progress = (struct progress){.look = look, .context = d};
        __atomic_store_n(&d->cancel, 0, __ATOMIC_RELAXED);
    }
    return d;
}

PyObject *dumped_limit(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long bytes;
    if (!PyArg_ParseTuple(args, "K:dump_limit", &bytes))
        return NULL;
    if (pages_account.limit == 0) /* what was mapped before is in no account */
        pages_account.limit = bytes;
    return new_reference(Py_None);
}

PyObject *dumped_new(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    struct dumped *d = pages_map(sizeof *d);
    if (d == NULL)
        return PyErr_NoMemory();
    if (!reading_open(&d->reading)) {
        reading_close(&d->reading);
        pages_unmap(d, sizeof *d);
        return PyErr_NoMemory();
    }
    return PyCapsule_New(d, name, end);
}

PyObject *dumped_add(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle;
    const char *bytes, *refusal;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Oy#:dump_add", &handle, &bytes, &size))
        return NULL;
    struct dumped *d = begin(handle);
    if (d == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    refusal = reading_add(&d->reading, (const unsigned char *)bytes, (size_t)size);
    Py_END_ALLOW_THREADS
    d->is_busy = false;
    d->has_failed = refusal != NULL;
    return refusal != NULL ? refuse(refusal) : new_reference(Py_None);
}

PyObject *dumped_finish(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle;
    const char *refusal;
    if (!PyArg_ParseTuple(args, "O:dump_finish", &handle))
        return NULL;
    struct dumped *d = begin(handle);
    if (d == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    refusal = reading_finish(&d->reading, &d->progress);
    Py_END_ALLOW_THREADS
    d->is_busy = false;
    d->is_open = refusal == NULL;
    d->has_failed = refusal != NULL;
    const struct heap *h = &d->reading.heap;
    return refusal != NULL ? refuse(refusal)
                           : Py_BuildValue("IKK", h->graph.objects, (unsigned long long)d->reading.edges.count, h->bytes);
}

PyObject *dumped_count(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle, *bytes = NULL;
    uint64_t count;
    size_t room;
    if (!PyArg_ParseTuple(args, "O:dump_count", &handle))
        return NULL;
    struct dumped *d = begin(handle);
    if (d == NULL)
        return NULL;
    struct reading_row *rows = reading_count(&d->reading, &count, &room);
    if (rows != NULL)
        bytes = PyBytes_FromStringAndSize((const char *)rows, (Py_ssize_t)(count * sizeof *rows));
    pages_unmap(rows, room);
    d->is_busy = false;
    return rows == NULL ? PyErr_NoMemory() : bytes;
}

/* The answer is in ``out``; NULL, or why there is none. */
static const char *answer(struct dumped *d, const unsigned char *question, size_t size, struct pack *out) {
    struct query query;
    if (!query_parse(&query, question, size))
        return "the question is malformed";
    struct answering a = {
        .heap = &d->reading.heap,
        .types = &d->reading.types,
        .seen_marks = &d->seen_marks,
        .kept = &d->kept,
        .query = &query,
        .out = out,
        .progress = &d->progress,
    };
    const char *refusal = answers_give(&a);
    return refusal == NULL && out->full ? "the answer is longer than its room" : refusal;
}

PyObject *dumped_ask(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle, *bytes = NULL;
    const char *question, *refusal = query_no_memory;
    Py_ssize_t size;
    struct pack out;
    if (!PyArg_ParseTuple(args, "Oy#:dump_ask", &handle, &question, &size))
        return NULL;
    struct dumped *d = begin(handle);
    if (d == NULL)
        return NULL;
    unsigned char *room = d->is_open ? pages_map_sparse(ANSWER_BYTES) : NULL;
    Py_BEGIN_ALLOW_THREADS
    if (room != NULL) {
        pack_open(&out, room, ANSWER_BYTES);
        refusal = answer(d, (const unsigned char *)question, (size_t)size, &out);
    }
    Py_END_ALLOW_THREADS
    if (refusal == NULL)
        bytes = PyBytes_FromStringAndSize((const char *)room, (Py_ssize_t)pack_size(&out));
    pages_unmap_sparse(room, ANSWER_BYTES);
    d->is_busy = false;
    return refusal != NULL ? refuse(refusal) : bytes;
}

/* -- rows of objects ------------------------------------------------------------------------------------------ */

enum { ADDRESS, DOMINATOR, SIZE, RETAINED, LENGTH, TYPE, STACK, GENERATION, KIND, COLUMNS };
enum { MOST_OBJECTS = 1 << 17 };

static const uint8_t widths[COLUMNS] = {8, 8, 8, 8, 8, 4, 4, 1, 1};

static uint64_t address_of(const struct heap *h, uint32_t number) {
    return number < h->graph.objects ? (uint64_t)graph_object(&h->graph, number) : 0; /* the virtual root; a frame */
}

static void fill(struct heap *h, uint32_t first, uint32_t count, char *const columns[COLUMNS]) {
    const struct stored *s = h->stored;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = first + i, length = table_number(&s->lengths, number);
        const struct stored_note *sample = stored_note(s, number, NOTE_SAMPLE, NULL);
        ((uint64_t *)columns[ADDRESS])[i] = address_of(h, number);
        ((uint64_t *)columns[DOMINATOR])[i] = address_of(h, h->retain.dominator[number]);
        ((uint64_t *)columns[SIZE])[i] = csr_size(&h->graph.rows, number);
        ((uint64_t *)columns[RETAINED])[i] = h->retain.retained[number];
        ((int64_t *)columns[LENGTH])[i] = length == LENGTH_NONE ? -1 : (int64_t)length;
        ((uint32_t *)columns[TYPE])[i] = stored_kind(s, graph_kind(&h->graph, number)->position)->type;
        ((uint32_t *)columns[STACK])[i] = sample == NULL ? 0 : (uint32_t)sample->value;
        ((int8_t *)columns[GENERATION])[i] = ((const int8_t *)s->generations.items)[number];
        ((uint8_t *)columns[KIND])[i] = h->retain.kind[number] < HEAP_KINDS ? h->retain.kind[number] : HEAP_NONE;
    }
}

/* A tuple of bytes, and where each of them begins; NULL with an exception set. */
static PyObject *columns_open(uint32_t count, char *columns[COLUMNS]) {
    PyObject *found = PyTuple_New(COLUMNS);
    for (int i = 0; found != NULL && i < COLUMNS; i++) {
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count * widths[i]);
        if (bytes == NULL || PyTuple_SetItem(found, i, bytes) != 0) {
            Py_DecRef(found);
            return NULL;
        }
        columns[i] = PyBytes_AsString(bytes);
    }
    return found;
}

PyObject *dumped_rows(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle, *found = NULL;
    char *columns[COLUMNS];
    unsigned int first, count;
    if (!PyArg_ParseTuple(args, "OII:dump_rows", &handle, &first, &count))
        return NULL;
    struct dumped *d = begin(handle);
    if (d == NULL)
        return NULL;
    uint32_t objects = d->is_open ? d->reading.heap.graph.objects : 0, left = first < objects ? objects - first : 0;
    count = count < MOST_OBJECTS ? count : MOST_OBJECTS;
    count = count < left ? count : left;
    found = columns_open(count, columns);
    if (found != NULL) {
        Py_BEGIN_ALLOW_THREADS
        fill(&d->reading.heap, first, count, columns);
        Py_END_ALLOW_THREADS
    }
    d->is_busy = false;
    return found;
}

PyObject *dumped_look(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle;
    if (!PyArg_ParseTuple(args, "O:dump_look", &handle))
        return NULL;
    const struct dumped *d = PyCapsule_GetPointer(handle, name);
    if (d == NULL)
        return NULL;
    return Py_BuildValue("KK", __atomic_load_n(&d->done, __ATOMIC_RELAXED), __atomic_load_n(&d->total, __ATOMIC_RELAXED));
}

PyObject *dumped_cancel(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *handle;
    if (!PyArg_ParseTuple(args, "O:dump_cancel", &handle))
        return NULL;
    struct dumped *d = PyCapsule_GetPointer(handle, name);
    if (d == NULL)
        return NULL;
    __atomic_store_n(&d->cancel, 1, __ATOMIC_RELAXED);
    return new_reference(Py_None);
}
