/* cored: from the plan of the helper to a child in which a core's heap is walked. */
#include "cores/cored.h"

#include "cores/mapped.h"
#include "heap/without_code/rules.h"
#include "snapshot/answers.h"
#include "snapshot/image.h"
#include "snapshot/imaging.h"

#include <signal.h>
#include <string.h>

enum { MARGIN_NS = 2000000000 };
enum { CORED_UNFIT = 96, CORED_COLLECTING };

/* Of the child, which has a copy. */
static struct {
    struct image_request image;
    struct mapped_piece *pieces;
    size_t size; /* bytes of them */
} plan;

/* -- in the child ----------------------------------------------------------------------------------------------- */

/* Whether the layout's facts are those of this interpreter, as far as it says them itself. */
static bool fits(void) {
    const char *runtime = symbols.runtime, *interpreter = pointer_at(runtime, layout.runtime_main);
    if (!raw_readable((uint64_t)interpreter))
        return false;
    const char *holder = layout.runtime_collector != 0 ? runtime : interpreter;
    const char *lists = holder + layout.runtime_collector + layout.interpreter_collector;
    if (layout_lists_at((gc_head *)lists) != NULL && layout_lists_at((gc_head *)(lists - 4)) != NULL)
        return false; /* 4 bytes before, as in layout.c */
    return layout_published_at(runtime, interpreter) == NULL && rules_open(interpreter) == NULL &&
           roots_open_at(&plan.image.roots, runtime) == NULL;
}

static int run(void *context, struct result *out) {
    (void)context;
    int status = mapped_enter(plan.pieces, plan.size / sizeof *plan.pieces, out);
    if (status != MAPPED)
        return status;
    if (!fits())
        return CORED_UNFIT;
    return layout_collecting() ? CORED_COLLECTING : image_run(&plan.image, out);
}

/* -- in the helper ---------------------------------------------------------------------------------------------- */

static PyObject *refuse(const char *sentence) {
    PyErr_SetString(PyExc_RuntimeError, sentence);
    return NULL;
}

PyObject *cored_symbols(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    PyObject *names = PyList_New(0);
    const char *symbol;
    void **place;
    for (int i = 0; names != NULL && (symbol = layout_symbol(i, &place)) != NULL; i++) {
        PyObject *name = PyUnicode_FromString(symbol);
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static uint64_t number_of(PyObject *dict, const char *name) {
    PyObject *given = PyDict_GetItemString(dict, name);
    return given == NULL ? 0 : PyLong_AsUnsignedLongLong(given);
}

/* Whether each symbol is there. */
static bool take_symbols(PyObject *found) {
    const char *symbol;
    void **place;
    for (int i = 0; (symbol = layout_symbol(i, &place)) != NULL; i++)
        if ((*place = (void *)number_of(found, symbol)) == NULL)
            return refuse("a type of the interpreter is missing") != NULL;
    return !PyErr_Occurred();
}

static bool take_pieces(PyObject *packed) {
    char *bytes;
    Py_ssize_t size;
    if (packed == NULL || PyBytes_AsStringAndSize(packed, &bytes, &size) < 0)
        return false;
    pages_unmap(plan.pieces, plan.size);
    plan.size = (size_t)size;
    plan.pieces = pages_map(plan.size + 1);
    if (plan.pieces == NULL)
        return PyErr_NoMemory() != NULL;
    memcpy(plan.pieces, bytes, plan.size);
    return true;
}

PyObject *cored_begin(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *options;
    if (!PyArg_ParseTuple(args, "O!:core_begin", &PyDict_Type, &options))
        return NULL;
    PyObject *found = PyDict_GetItemString(options, "symbols");
    if (found == NULL || !PyDict_Check(found) || !take_pieces(PyDict_GetItemString(options, "pieces")))
        return PyErr_Occurred() ? NULL : refuse("the plan is malformed");
    /* From here on Py_TYPE is of the core's objects. */
    const char *refusal = layout_choose((uint32_t)number_of(options, "version"), number_of(options, "free_threaded") != 0);
    if (refusal != NULL)
        return refuse(refusal);
    if (!take_symbols(found))
        return NULL;
    symbols.runtime = (void *)number_of(options, "runtime");
    plan.image = (struct image_request){.id = number_of(options, "id"),
                                        .begin_ns = raw_clock(),
                                        .keep_ns = number_of(options, "keep_ns"),
                                        .gc_enabled = true, /* which nobody knows */
                                        .memory = number_of(options, "memory")};
    if (PyErr_Occurred())
        return NULL;
    answers_note_seed();
    const struct snapshot_limits limits = {.wall_ns = plan.image.keep_ns + MARGIN_NS, .nice = -1, .files = 1};
    return imaging_start(run, NULL, &limits);
}

static const struct {
    int status, detail; /* snapshot_status; what the work returned */
    const char *how;
} endings[] = {
    {SNAPSHOT_FAILED, MAPPED_COLLIDES, "collides"}, {SNAPSHOT_FAILED, MAPPED_NO_MEMORY, "memory"},
    {SNAPSHOT_FAILED, MAPPED_UNREADABLE, "cut"},    {SNAPSHOT_FAILED, MAPPED_OPEN, "open"},
    {SNAPSHOT_FAILED, CORED_UNFIT, "unfit"},        {SNAPSHOT_FAILED, CORED_COLLECTING, "collecting"},
    {SNAPSHOT_FAILED, HEAP_NO_MEMORY, "memory"},    {SNAPSHOT_FAILED, IMAGE_TOO_MUCH, "memory"},
    {SNAPSHOT_FAILED, HEAP_BROKEN_LIST, "broken"},  {SNAPSHOT_FAILED, HEAP_TOO_LARGE, "large"},
    {SNAPSHOT_FAILED, IMAGE_OVER, "slow"},          {SNAPSHOT_HUNG, 0, "slow"},
};

static const char *how_of(const struct snapshot *s) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (endings[i].status == s->status && (endings[i].detail == s->detail || s->status == SNAPSHOT_HUNG))
            return endings[i].how;
    return s->status == SNAPSHOT_CRASHED ? s->detail == SIGSYS ? "forbidden" : "damaged" : "ended";
}

PyObject *cored_end(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    const struct snapshot *s = imaging_abort();
    PyObject *result =
        Py_BuildValue("sK", how_of(s), s->result.head == NULL ? 0ull : (unsigned long long)s->result.head->address);
    imaging_close();
    return result;
}
