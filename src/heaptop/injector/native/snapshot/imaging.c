/* imaging: from Python's arguments to an open snapshot. */
#include "snapshot/imaging.h"

#include "life.h"
#include "snapshot/image.h"

#include <string.h>

/* Guarded by the GIL. A clone that has ended by itself has no pid any more, and its result still is to be released. */
static struct {
    struct snapshot snapshot;
    struct image_request request;
} open;

static PyObject *refuse(const char *sentence) {
    PyErr_SetString(PyExc_RuntimeError, sentence);
    return NULL;
}

static void close_request(void) {
    pages_unmap((void *)open.request.excluded, open.request.excluded_count * sizeof *open.request.excluded);
    roots_close(&open.request.roots);
    open.request = (struct image_request){.id = 0};
}

static uint64_t option(PyObject *options, const char *name) {
    PyObject *given = PyDict_GetItemString(options, name);
    return given == NULL ? 0 : PyLong_AsUnsignedLongLong(given);
}

/* Addresses of what is left out: the arguments of this call, and those told. False with an exception set. */
static bool read_own(PyObject *args, PyObject *options) {
    PyObject *own = PyDict_GetItemString(options, "own");
    Py_ssize_t size = own == NULL ? 0 : PyList_Size(own);
    if (size < 0)
        return false;
    open.request.excluded_count = (size_t)size + 2;
    uint64_t *addresses = pages_map(open.request.excluded_count * sizeof *addresses);
    open.request.excluded = addresses;
    if (addresses == NULL)
        return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < size; i++)
        addresses[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(own, i));
    addresses[size] = (uint64_t)args;
    addresses[size + 1] = (uint64_t)options;
    return !PyErr_Occurred();
}

static bool read_request(PyObject *args, PyObject *options) {
    struct image_request *r = &open.request;
    r->id = option(options, "id");
    r->image = (uint32_t)option(options, "image");
    r->keep_ns = option(options, "keep_ns");
    r->memory = option(options, "memory");
    r->gc_enabled = option(options, "gc_enabled") != 0;
    return !PyErr_Occurred() && read_own(args, options);
}

/* Whether the heap can be examined now. False with an exception set. */
static bool is_time(void) {
    const char *refusal = layout_find_lists();
    if (refusal != NULL)
        return refuse(refusal) != NULL;
    if (!layout_collecting())
        return true;
    PyErr_SetString(PyExc_BlockingIOError, "the interpreter is collecting");
    return false;
}

enum { MARGIN_NS = 2000000000 }; /* the child ends by itself before it is ended */

/* Whether none is open. False with an exception set. */
static bool is_free(void) {
    if (snapshot_poll(&open.snapshot) == SNAPSHOT_RUNNING)
        return refuse("there is an image already") != NULL;
    imaging_close(); /* one that would not end when it was asked to, and has since */
    return true;
}

PyObject *imaging_start(int (*work)(void *context, struct result *out), void *context, const struct snapshot_limits *limits) {
    int error = is_free() ? snapshot_begin(&open.snapshot, work, context, limits) : 0;
    if (error == 0 && PyErr_Occurred() == NULL) {
        image_box(&open.snapshot)->pause_ns = open.snapshot.pause_ns;
        return Py_BuildValue("iK", open.snapshot.pid, open.snapshot.pause_ns);
    }
    close_request();
    if (PyErr_Occurred() != NULL)
        return NULL;
    const char *refusal = snapshot_refusal(error);
    return refusal != NULL ? refuse(refusal) : PyErr_Format(PyExc_RuntimeError, "clone failed with error %d", -error);
}

PyObject *imaging_begin(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *options;
    if (!PyArg_ParseTuple(args, "O!:image_begin", &PyDict_Type, &options) || !is_free())
        return NULL;
    if (!is_time())
        return NULL;
    if (!read_request(args, options)) {
        close_request();
        return NULL;
    }
    const char *refusal = roots_open(&open.request.roots, false);
    open.request.begin_ns = raw_clock();
    const struct snapshot_limits limits = {.wall_ns = open.request.keep_ns + MARGIN_NS};
    if (refusal == NULL)
        return imaging_start(image_run, &open.request, &limits);
    close_request();
    return refuse(refusal);
}

/* Whose box can be examined: in a fork's child there is none, and the snapshot is another process's. */
static bool lives(void) { return open.snapshot.pid != 0 && snapshot_poll(&open.snapshot) == SNAPSHOT_RUNNING; }

static uint32_t state(void) { return __atomic_load_n(&image_box(&open.snapshot)->state, __ATOMIC_ACQUIRE); }

PyObject *imaging_look(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    if (!lives())
        return Py_BuildValue("iiiiii", -1, 0, 0, 0, 0, 0);
    const struct image_box *box = image_box(&open.snapshot);
    return Py_BuildValue("IIKKKK", state(), box->phase, box->done, box->total, box->memory, box->holding);
}

PyObject *imaging_wait(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long most_ns;
    if (!PyArg_ParseTuple(args, "K:image_wait", &most_ns))
        return NULL;
    uint32_t before = lives() ? state() : IMAGE_READY;
    if (before == IMAGE_ANSWERED)
        return new_reference(Py_True);
    if (before == IMAGE_READY)
        return new_reference(Py_False);
    struct life_wait wait = life_release();
    image_wait(image_box(&open.snapshot), before, most_ns);
    life_return(wait);
    return new_reference(Py_True);
}

PyObject *imaging_take(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    if (!lives() || state() != IMAGE_ANSWERED)
        return new_reference(Py_None);
    struct image_box *box = image_box(&open.snapshot);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)image_answer(box), (Py_ssize_t)box->answer_size);
    if (bytes != NULL)
        __atomic_store_n(&box->state, IMAGE_READY, __ATOMIC_RELEASE);
    return bytes;
}

PyObject *imaging_ask(PyObject *module, PyObject *args) {
    (void)module;
    const char *question;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#:image_ask", &question, &size))
        return NULL;
    if (!lives() || state() != IMAGE_READY || size > QUESTION_BYTES)
        return new_reference(Py_False);
    struct image_box *box = image_box(&open.snapshot);
    memcpy(image_question(box), question, (size_t)size);
    box->question_size = (uint64_t)size;
    box->cancel = 0;
    __atomic_store_n(&box->state, IMAGE_ASKED, __ATOMIC_RELEASE);
    image_wake(box);
    return new_reference(Py_True);
}

PyObject *imaging_cancel(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    if (lives())
        __atomic_store_n(&image_box(&open.snapshot)->cancel, 1, __ATOMIC_RELEASE);
    return new_reference(Py_None);
}

static const char *reason(char *text, size_t room, bool *expected) {
    const struct snapshot *s = &open.snapshot;
    *expected = s->status == SNAPSHOT_ABORTED;
    if (s->status == SNAPSHOT_ABORTED)
        return "it was closed";
    if (s->status == SNAPSHOT_FAILED && s->detail == IMAGE_OVER) {
        *expected = true;
        return "its time was over";
    }
    if (s->status == SNAPSHOT_FAILED)
        return s->detail == IMAGE_TOO_MUCH     ? "it would take more memory than it may"
               : s->detail == HEAP_NO_MEMORY   ? "there was no memory for the graph"
               : s->detail == HEAP_BROKEN_LIST ? "a list of the collector was not whole"
                                               : "there are too many references for a graph";
    snapshot_reason(s, text, room);
    return text;
}

PyObject *imaging_end(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    char text[256];
    bool expected;
    if (open.snapshot.status == SNAPSHOT_NONE)
        return Py_BuildValue("sOi", "there is none", Py_True, 0);
    int status;
    struct life_wait wait = life_release();
    status = snapshot_abort(&open.snapshot);
    life_return(wait);
    if (status == SNAPSHOT_RUNNING)
        return refuse("the image does not end");
    const char *why = reason(text, sizeof text, &expected);
    PyObject *result = Py_BuildValue("sOK", why, expected ? Py_True : Py_False, open.snapshot.cpu_ns);
    snapshot_release(&open.snapshot);
    close_request();
    return result;
}

const struct snapshot *imaging_abort(void) {
    struct life_wait wait = life_release();
    snapshot_abort(&open.snapshot);
    life_return(wait);
    return &open.snapshot;
}

struct pages_range imaging_range(void) {
    const struct result *result = &open.snapshot.result;
    if (result->head == NULL)
        return (struct pages_range){0};
    return (struct pages_range){result->head, (size_t)(result->data - (unsigned char *)result->head) + result->capacity};
}

void imaging_abandon(void) {
    if (snapshot_abort(&open.snapshot) == SNAPSHOT_RUNNING)
        return;
    snapshot_release(&open.snapshot);
    close_request();
}

void imaging_close(void) {
    if (open.snapshot.status == SNAPSHOT_NONE)
        return;
    struct life_wait wait = life_release();
    snapshot_abort(&open.snapshot);
    life_return(wait);
    snapshot_release(&open.snapshot);
    close_request();
}
