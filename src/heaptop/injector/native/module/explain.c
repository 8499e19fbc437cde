/* explain: the face of roots and labels. */
#include "module/explain.h"

#include "clone/clone.h"
#include "graph/labels.h"
#include "heap/edges.h"
#include "heap/walk.h"
#include "query/lines.h"

/* -- labels ------------------------------------------------------------------------------------------------- */

static bool append(PyObject *list, PyObject *item) {
    bool done = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

static PyObject *text_of(const struct label *label, bool values) {
    char text[LABEL_BYTES];
    uint32_t size = labels_write(label, values, text);
    return PyUnicode_DecodeUTF8(text, size, "strict");
}

/* Positions of one referent among all references of an object. */
struct positions {
    PyObject *wanted;
    int64_t at, first;
    PyObject *list; /* of ints; NULL: only the first is wanted */
};

static int note_position(PyObject *o, void *context) {
    struct positions *p = context;
    if (o == p->wanted) {
        if (p->first < 0)
            p->first = p->at;
        if (p->list != NULL)
            append(p->list, PyLong_FromLongLong(p->at));
    }
    p->at++;
    return 0;
}

PyObject *explain_label(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o, *referent, *labels = PyList_New(0), *places = PyList_New(0);
    int values = 0;
    struct kinds kinds;
    if (labels == NULL || places == NULL || !PyArg_ParseTuple(args, "OO|p:label_of", &o, &referent, &values)) {
        Py_XDECREF(labels);
        Py_XDECREF(places);
        return NULL;
    }
    labels_reset();
    if (kinds_open(&kinds, true) == 0) {
        const struct kind *kind = kinds_get(&kinds, Py_TYPE(o));
        struct positions positions = {referent, 0, -1, places};
        edges_each(o, kind, note_position, &positions);
        for (Py_ssize_t i = 0; i < PyList_Size(places) && !PyErr_Occurred(); i++) {
            struct label label = labels_find(NULL, o, kind, PyLong_AsLongLong(PyList_GetItem(places, i)), referent);
            append(labels, text_of(&label, values));
        }
    } else {
        PyErr_NoMemory();
    }
    kinds_close(&kinds);
    Py_DecRef(places);
    if (!PyErr_Occurred())
        return labels;
    Py_DecRef(labels);
    return NULL;
}

static void follow(PyObject *path, PyObject *labels, struct kinds *kinds, bool values) {
    struct label before = {.kind = LABEL_COLLAPSED};
    for (Py_ssize_t i = 0; i + 1 < PyList_Size(path) && !PyErr_Occurred(); i++) {
        PyObject *o = PyList_GetItem(path, i), *referent = PyList_GetItem(path, i + 1);
        const struct kind *kind = kinds_get(kinds, Py_TYPE(o));
        struct positions positions = {referent, 0, -1, NULL};
        edges_each(o, kind, note_position, &positions);
        if (positions.first < 0) {
            PyErr_Format(PyExc_LookupError, "step %zd is no reference", i);
            return;
        }
        before = labels_find(&before, o, kind, positions.first, referent);
        append(labels, text_of(&before, values));
    }
}

PyObject *explain_path(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path, *labels;
    int values = 0;
    if (!PyArg_ParseTuple(args, "O!|p:path_of", &PyList_Type, &path, &values) || (labels = PyList_New(0)) == NULL)
        return NULL;
    struct kinds kinds;
    labels_reset();
    if (kinds_open(&kinds, true) == 0)
        follow(path, labels, &kinds, values);
    else
        PyErr_NoMemory();
    kinds_close(&kinds);
    if (!PyErr_Occurred())
        return labels;
    Py_DecRef(labels);
    return NULL;
}

/* -- roots -------------------------------------------------------------------------------------------------- */

static PyObject *or_none(const void *o) { return o != NULL ? (PyObject *)o : Py_None; }

static void note_root(void *context, enum root_class class, const struct root *root) {
    const struct roots_thread *thread = root->thread;
    const struct roots_frame *frame = root->frame;
    struct label label = labels_root(class, root);
    PyObject *text = text_of(&label, false);
    if (text == NULL)
        return;
    append(context, Py_BuildValue("iiOOzIKiiOOIiiN", (int)class, (int)root->part, root->object, or_none(root->name), root->what,
                                  root->slot, thread == NULL ? 0ull : (unsigned long long)thread->id,
                                  thread == NULL ? UNKNOWN : thread->blocked, thread != NULL && thread->own,
                                  or_none(frame == NULL ? NULL : frame->code), or_none(frame == NULL ? NULL : frame->object),
                                  frame == NULL ? 0 : frame->depth, root->counted, root->maybe, text));
}

static void note_greenlets(const struct roots *roots, const struct marks *marks, PyObject *list, PyObject *greenlets) {
    for (Py_ssize_t i = 0; greenlets != NULL && i < PyList_Size(greenlets); i++) {
        PyObject *o = PyList_GetItem(greenlets, i);
        if (roots_is_greenlet(Py_TYPE(o)))
            roots_of_greenlet(roots, marks, o, note_root, list);
    }
}

PyObject *explain_roots(PyObject *module, PyObject *args) {
    (void)module;
    int states = 0;
    PyObject *greenlets = NULL;
    if (!PyArg_ParseTuple(args, "|pO!:roots", &states, &PyList_Type, &greenlets))
        return NULL;
    PyObject *list = PyList_New(0);
    struct walk walk = {0};
    struct roots roots = {0};
    layout_block_collector(true); /* the lists of what is made here grow behind the walk, and nothing else may happen */
    const char *refusal = layout_find_lists();
    layout_find_others();
    if (refusal == NULL && (walk_open(&walk, false) < 0 || walk_run(&walk) != WALK_OK))
        refusal = "the heap could not be walked";
    if (refusal == NULL)
        refusal = roots_open(&roots, states);
    bool whole = refusal == NULL && list != NULL && roots_each(&roots, &walk.marks, note_root, list);
    uint32_t left_out = interpreters.left_out;
    if (refusal == NULL && list != NULL)
        note_greenlets(&roots, &walk.marks, list, greenlets);
    roots_close(&roots);
    walk_close(&walk);
    layout_block_collector(false);
    if (refusal != NULL)
        PyErr_SetString(PyExc_RuntimeError, refusal);
    if (!PyErr_Occurred() && list != NULL)
        return Py_BuildValue("NOI", list, whole ? Py_True : Py_False, left_out);
    Py_XDECREF(list);
    return NULL;
}

/* -- in a snapshot child ------------------------------------------------------------------------------------ */

enum { MOST_THREADS = 64 };

struct request {
    struct roots roots;
    uint64_t threads[MOST_THREADS];
    size_t count;
    struct result *out;
};

static void report_root(void *context, enum root_class class, const struct root *root) {
    struct request *request = context;
    char text[LABEL_BYTES];
    for (size_t i = 0; i < request->count; i++)
        if (root->thread != NULL && root->thread->id == request->threads[i] && !root->maybe) {
            struct label label = labels_root(class, root);
            uint32_t size = labels_write(&label, false, text);
            text[size] = '\n';
            result_append(request->out, text, size + 1);
        }
}

static int work(void *context, struct result *out) {
    struct request *request = context;
    struct walk walk;
    request->out = out;
    if (walk_open(&walk, true) < 0 || walk_run(&walk) != WALK_OK)
        return 1;
    return roots_each(&request->roots, &walk.marks, report_root, request) ? 0 : 1;
}

PyObject *explain_clone(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *threads, *text = NULL;
    static struct snapshot snapshot;
    static struct request request;
    if (!PyArg_ParseTuple(args, "O!:roots_in_clone", &PyList_Type, &threads))
        return NULL;
    request = (struct request){0};
    for (Py_ssize_t i = 0; i < PyList_Size(threads) && i < MOST_THREADS; i++)
        request.threads[request.count++] = PyLong_AsUnsignedLongLong(PyList_GetItem(threads, i));
    const char *refusal = layout_find_lists();
    if (refusal == NULL)
        refusal = roots_open(&request.roots, false);
    struct snapshot_limits limits = {0};
    if (refusal == NULL && snapshot_begin(&snapshot, work, &request, &limits) < 0)
        refusal = "no clone";
    if (refusal == NULL && snapshot_end(&snapshot) != SNAPSHOT_OK)
        refusal = "the clone did not end well";
    if (refusal == NULL)
        text = PyUnicode_DecodeUTF8((char *)snapshot.result.data, (Py_ssize_t)snapshot.result.head->used, "strict");
    else
        PyErr_SetString(PyExc_RuntimeError, refusal);
    snapshot_release(&snapshot);
    roots_close(&request.roots);
    PyObject *lines = text == NULL ? NULL : PyObject_CallMethod(text, "splitlines", NULL);
    Py_XDECREF(text);
    return lines;
}

PyObject *explain_line(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *code;
    int offset;
    if (!PyArg_ParseTuple(args, "Oi:line_of", &code, &offset))
        return NULL;
    return Py_TYPE(code) == symbols.code_type ? PyLong_FromLong(lines_at(code, offset)) : new_reference(Py_None);
}
