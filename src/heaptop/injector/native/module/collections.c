/* collections: see collections.h. */
#include "module/collections.h"
#include "layout.h"

#include "sampler/sample.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096 };

struct row {
    int64_t begin, took; /* ns of CLOCK_MONOTONIC */
    int64_t generation, collected, uncollectable;
    int64_t blocks;   /* -1: not asked for */
    uint64_t sampled; /* bytes on the sampler's clock, where is_sampled */
    bool is_sampled;
};

static struct {
    PyObject *leave, *blocks;
    struct row *rows; /* NULL: nothing is watched */
    unsigned count;
    pid_t owner;
    int64_t begin; /* of the collection that is under way; 0: of one that began before we came */
    uint64_t begun, dropped;
} watch;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t number(PyObject *value) {
    int64_t result = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (PyErr_Occurred())
        PyErr_Clear();
    return result;
}

/* What sys.getallocatedblocks says, or None. Where interpreters may have locks of their own it reads the arenas of all of
   them, also while another frees them: the process would crash. */
static PyObject *count_blocks(PyObject *function) {
    bool is_safe = symbols.thread_state_is_shared || !layout_has_others();
    return is_safe ? PyObject_CallObject(function, NULL) : new_reference(Py_None);
}

PyObject *collections_blocks(PyObject *module, PyObject *args) {
    PyObject *function;
    (void)module;
    return PyArg_ParseTuple(args, "O:blocks", &function) ? count_blocks(function) : NULL;
}

/* How many blocks there are; -1 when it is not said. */
static int64_t blocks(void) {
    PyObject *result_object = count_blocks(watch.blocks);
    int64_t result = number(result_object);
    Py_XDECREF(result_object);
    return result;
}

static void end_of(PyObject *info) {
    if (watch.begin == 0 || watch.count == MOST) {
        watch.dropped++;
        return;
    }
    struct row row = {
        .begin = watch.begin,
        .took = now() - watch.begin,
        .generation = number(PyDict_GetItemString(info, "generation")),
        .collected = number(PyDict_GetItemString(info, "collected")),
        .uncollectable = number(PyDict_GetItemString(info, "uncollectable")),
        .blocks = -1,
        .is_sampled = sample_is_on(),
    };
    if (row.generation == 2)
        row.blocks = blocks();
    if (row.is_sampled)
        row.sampled = sample_clock();
    watch.rows[watch.count++] = row;
}

/* In a fork's child, where no agent is. The one who leaves lets go of itself. */
static void leave(void) {
    PyObject *function = watch.leave;
    Py_IncRef(function);
    PyObject *result = PyObject_CallObject(function, NULL);
    if (result == NULL)
        PyErr_Clear();
    Py_XDECREF(result);
    Py_DecRef(function);
}

PyObject *collections_note(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *phase, *info;
    if (watch.rows == NULL)
        return new_reference(Py_None);
    if (getpid() != watch.owner) {
        leave();
        return new_reference(Py_None);
    }
    if (!PyArg_ParseTuple(args, "UO!:heaptop_gc", &phase, &PyDict_Type, &info)) {
        PyErr_Clear(); /* somebody else called it */
        return new_reference(Py_None);
    }
    if (PyUnicode_CompareWithASCIIString(phase, "start") == 0) {
        watch.begun++;
        watch.begin = now();
    } else
        end_of(info);
    return new_reference(Py_None);
}

PyObject *collections_watch(PyObject *module, PyObject *args) {
    PyObject *leave, *blocks;
    if (!PyArg_ParseTuple(args, "OO:gc_watch", &leave, &blocks))
        return NULL;
    Py_XDECREF(collections_unwatch(module, NULL));
    struct row *rows = pages_map(MOST * sizeof *rows);
    if (rows == NULL)
        return PyErr_NoMemory();
    Py_IncRef(leave);
    Py_IncRef(blocks);
    watch.leave = leave;
    watch.blocks = blocks;
    watch.owner = getpid();
    watch.begin = 0;
    watch.count = 0;
    watch.begun = watch.dropped = 0;
    watch.rows = rows;
    return new_reference(Py_None);
}

PyObject *collections_unwatch(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    PyObject *leave = watch.leave, *blocks = watch.blocks;
    pages_unmap(watch.rows, MOST * sizeof *watch.rows);
    watch.rows = NULL;
    watch.leave = watch.blocks = NULL;
    Py_XDECREF(leave); /* last: it may be the end of somebody */
    Py_XDECREF(blocks);
    return new_reference(Py_None);
}

void collections_abandon(void) {
    pages_unmap(watch.rows, MOST * sizeof *watch.rows);
    watch.rows = NULL;
    watch.leave = watch.blocks = NULL;
}

static PyObject *row_tuple(const struct row *row) {
    PyObject *blocks = row->blocks < 0 ? Py_BuildValue("") : PyLong_FromLongLong(row->blocks);
    PyObject *sampled = !row->is_sampled ? Py_BuildValue("") : PyLong_FromUnsignedLongLong(row->sampled);
    if (blocks != NULL && sampled != NULL)
        return Py_BuildValue("[LLLLLNN]", row->begin, row->generation, row->collected, row->uncollectable, row->took, blocks,
                             sampled);
    Py_XDECREF(blocks);
    Py_XDECREF(sampled);
    return NULL;
}

PyObject *collections_read(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    unsigned count = watch.rows == NULL ? 0 : watch.count; /* making the lists may collect, and add to them */
    PyObject *rows = PyList_New(0);
    for (unsigned i = 0; i < count && rows != NULL; i++) {
        PyObject *row = row_tuple(&watch.rows[i]);
        if (row == NULL || PyList_Append(rows, row) < 0) {
            Py_DecRef(rows);
            rows = NULL;
        }
        Py_XDECREF(row);
    }
    PyObject *result = rows == NULL ? NULL : Py_BuildValue("NK", rows, (unsigned long long)watch.dropped);
    if (result != NULL && count != 0) {
        watch.count -= count;
        memmove(watch.rows, watch.rows + count, watch.count * sizeof *watch.rows);
    }
    return result;
}

PyObject *collections_begun(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    return PyLong_FromUnsignedLongLong(watch.begun);
}

struct pages_range collections_range(void) { return (struct pages_range){watch.rows, MOST * sizeof *watch.rows}; }
