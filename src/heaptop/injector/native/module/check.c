/* check: the self-check's frame: the lists of the collector here in C, where no other thread can come in between, and
   all about objects in Python (check_source.h), where known ones are easily made. */
#include "module/check.h"

#include "raw.h"
#include "module/check_source.h"

#include <string.h>

/* -- what the Python part may call -------------------------------------------------------------------------- */

enum { TEXT_BYTES = 32 };

/* word(address): the eight bytes there, as an unsigned number. The layout may be wrong, and what is taken for a pointer
   anything: each is asked about before it is read. */
static PyObject *word(PyObject *self, PyObject *address) {
    (void)self;
    unsigned long long place = PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred())
        return NULL;
    if (!raw_readable(place)) {
        PyErr_SetString(PyExc_LookupError, "an address");
        return NULL;
    }
    uint64_t found;
    memcpy(&found, (void *)place, sizeof found);
    return PyLong_FromUnsignedLongLong(found);
}

/* text_at(address): the text that ends with a NUL there, as far as it is short; "" when it is no text. */
static PyObject *text_at(PyObject *self, PyObject *address) {
    (void)self;
    unsigned long long place = PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred())
        return NULL;
    PyObject *text = NULL;
    if (raw_readable(place) && raw_readable(place + TEXT_BYTES))
        text = PyUnicode_DecodeUTF8((char *)place, (Py_ssize_t)strnlen((char *)place, TEXT_BYTES), "strict");
    if (text != NULL)
        return text;
    PyErr_Clear();
    return PyUnicode_FromString("");
}

/* slots_of(heap type): addresses of tp_traverse and tp_is_gc, as the interpreter finds them. */
static PyObject *slots_of(PyObject *self, PyObject *type) {
    (void)self;
    void *traverse = PyType_GetSlot((PyTypeObject *)type, Py_tp_traverse);
    void *is_gc = PyType_GetSlot((PyTypeObject *)type, Py_tp_is_gc);
    return Py_BuildValue("KK", (unsigned long long)traverse, (unsigned long long)is_gc);
}

/* The caller's; NULL where the symbol is missing. */
static void *own_interpreter(void) { return symbols.interpreter == NULL ? NULL : symbols.interpreter(); }

/* thread(): addresses of the calling thread's state, of its interpreter's, of the first state of that, of the thread's
   own dict and of sys.modules, and the thread's number. */
static PyObject *thread(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    void *interpreter = own_interpreter();
    if (interpreter == NULL || symbols.first_thread == NULL) {
        PyErr_SetString(PyExc_LookupError, "PyInterpreterState_Get");
        return NULL;
    }
    const void *const found[] = {symbols.thread_state(), interpreter, symbols.first_thread(interpreter),
                                 PyThreadState_GetDict(), PyImport_GetModuleDict()};
    unsigned long long words[5];
    for (int i = 0; i < 5; i++)
        words[i] = (unsigned long long)found[i];
    return Py_BuildValue("KKKKKk", words[0], words[1], words[2], words[3], words[4], PyThread_get_thread_ident());
}

/* places(): addresses of _PyRuntime, of the first interpreter, of the main one, and of the one behind the caller's: the
   first may be freed at any moment by a thread of its own. */
static PyObject *places(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    void *own = own_interpreter();
    if (own == NULL || symbols.first_interpreter == NULL || symbols.main_interpreter == NULL ||
        symbols.next_interpreter == NULL || symbols.runtime == NULL) {
        PyErr_SetString(PyExc_LookupError, "_PyRuntime");
        return NULL;
    }
    const void *const found[] = {symbols.runtime, symbols.first_interpreter(), symbols.main_interpreter(),
                                 symbols.next_interpreter(own)};
    unsigned long long words[4];
    for (int i = 0; i < 4; i++)
        words[i] = (unsigned long long)found[i];
    return Py_BuildValue("KKKK", words[0], words[1], words[2], words[3]);
}

static PyMethodDef helpers[] = {
    {"thread", thread, METH_NOARGS, NULL}, {"places", places, METH_NOARGS, NULL}, {"word", word, METH_O, NULL},
    {"text_at", text_at, METH_O, NULL},    {"slots_of", slots_of, METH_O, NULL},
};

/* -- lists against the gc module ---------------------------------------------------------------------------- */

enum { LONG_LIST = 10000 }; /* longer ones are not compared: gc.get_objects would hold the target up */

/* Objects in a list, or LONG_LIST + 1 when there are more. */
static size_t length_of(gc_head *head) {
    size_t length = 0;
    for (gc_head *g = gc_next(head); g != NULL && g != head && length <= LONG_LIST; g = gc_next(g))
        length++;
    return length;
}

/* Whether a list has exactly the objects of ``found``, in order; it may have ``found`` itself. */
static bool has_exactly(gc_head *head, PyObject *found) {
    Py_ssize_t i = 0, count = PyList_Size(found);
    for (gc_head *g = gc_next(head); g != head; g = gc_next(g)) {
        if (gc_object(g) == found)
            continue;
        if (i == count || PyList_GetItem(found, i) != gc_object(g))
            return false;
        i++;
    }
    return i == count;
}

/* NULL, or the fact that does not fit. No bytecode runs here, so the lists stand still. */
static const char *check_lists(PyObject *gc) {
    for (int generation = 0; generation < GENERATIONS; generation++) {
        if (length_of(gc_lists[generation]) > LONG_LIST)
            continue;
        PyObject *found = PyObject_CallMethod(gc, "get_objects", "i", generation);
        if (found == NULL)
            return "gc.get_objects";
        bool agrees = has_exactly(gc_lists[generation], found);
        Py_DecRef(found);
        if (!agrees)
            return "gc_generation";
    }
    PyObject *frozen = PyObject_CallMethod(gc, "get_freeze_count", NULL);
    if (frozen == NULL)
        return "gc.get_freeze_count";
    size_t count = PyLong_AsSize_t(frozen), length = length_of(gc_lists[PERMANENT]);
    Py_DecRef(frozen);
    return length == count || (length > LONG_LIST && count > LONG_LIST) ? NULL : "gc_permanent";
}

/* -- the namespace ------------------------------------------------------------------------------------------ */

/* Put a new reference into the namespace and let it go; false when there is none. */
static bool put(PyObject *space, const char *name, PyObject *value) {
    bool done = value != NULL && PyDict_SetItemString(space, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

static PyObject *list_addresses(void) {
    PyObject *heads = PyList_New(0);
    for (int i = 0; heads != NULL && i < LISTS; i++) {
        PyObject *address = PyLong_FromVoidPtr(gc_lists[i]);
        if (address == NULL || PyList_Append(heads, address) < 0)
            PyErr_Clear();
        Py_XDECREF(address);
    }
    return heads;
}

static bool fill(PyObject *space, PyObject *module, PyObject *gc) {
    PyObject *builtins = PyEval_GetBuiltins(), *sys = PyDict_GetItemString(PyImport_GetModuleDict(), "sys");
    Py_XINCREF(builtins);
    Py_XINCREF(sys); /* not imported: a program may have replaced __import__ */
    Py_XINCREF(gc);
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
        if (!put(space, helpers[i].ml_name, PyCFunction_NewEx(&helpers[i], NULL, NULL)))
            return false;
    bool done = put(space, "size", sys == NULL ? NULL : PyObject_GetAttrString(sys, "getsizeof"));
    return put(space, "__builtins__", builtins) && put(space, "gc", gc) && put(space, "sys", sys) && done &&
           put(space, "__name__", PyUnicode_FromString("heaptop")) && put(space, "CLASSES", PyList_New(0)) &&
           put(space, "heads", list_addresses()) && put(space, "facts", PyObject_CallMethod(module, "layout", NULL)) &&
           put(space, "sample_frames", PyObject_GetAttrString(module, "sample_frames")) &&
           put(space, "give_way", PyObject_GetAttrString(module, "give_way")) &&
           put(space, "size_of", PyObject_GetAttrString(module, "size_of")) &&
           put(space, "edges_of", PyObject_GetAttrString(module, "edges_of"));
}

/* A class is a cycle that only a collection would end, and it may be switched off: do to it what that would. */
static void end_classes(PyObject *space) {
    PyObject *classes = PyDict_GetItemString(space, "CLASSES");
    inquiry clear = (inquiry)pointer_at(&PyType_Type, layout.type_clear);
    for (Py_ssize_t i = 0; classes != NULL && i < PyList_Size(classes); i++)
        clear(PyList_GetItem(classes, i));
}

static bool call(PyObject *space, const char *name) {
    PyObject *done = PyObject_CallObject(PyDict_GetItemString(space, name), NULL);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *run_source(PyObject *space) {
    for (size_t i = 0; i < sizeof check_source / sizeof *check_source; i++) {
        PyObject *code = Py_CompileString(check_source[i], "<heaptop>", Py_file_input);
        PyObject *done = code == NULL ? NULL : PyEval_EvalCode(code, space, space);
        Py_XDECREF(done);
        Py_XDECREF(code);
        if (done == NULL || !call(space, "give_way"))
            return NULL;
    }
    return PyObject_CallObject(PyDict_GetItemString(space, "check"), NULL);
}

/* What the core does without from now on. */
static void forget_missing(PyObject *space) {
    PyObject *names = PyDict_GetItemString(space, "missing");
    for (Py_ssize_t i = 0; names != NULL && i < PyList_Size(names); i++) {
        PyObject *name = PyUnicode_AsASCIIString(PyList_GetItem(names, i));
        if (name != NULL)
            layout_set(PyBytes_AsString(name), 0);
        Py_XDECREF(name);
    }
}

static PyObject *misfit(const char *fact) { return PyUnicode_FromFormat("the layout does not fit this Python at %s", fact); }

static PyObject *check_objects(PyObject *module, PyObject *gc) {
    PyObject *space = PyDict_New(), *sentence = NULL;
    if (space != NULL && fill(space, module, gc))
        sentence = run_source(space);
    if (sentence != NULL && PyUnicode_Check(sentence) && PyUnicode_GetLength(sentence) == 0) {
        end_classes(space); /* else the layout is not to be trusted, and a collection may do it */
        forget_missing(space);
    }
    if (space != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyDict_Clear(space);
        Py_DecRef(space);
        PyErr_Restore(type, value, traceback);
    }
    return sentence;
}

PyObject *check_run(PyObject *module, PyObject *gc) {
    if (layout.head_extra != 0) /* or Py_TYPE is wrong of all that follows */
        return misfit("head_extra");
    const char *refusal = layout_find_lists();
    if (refusal != NULL)
        return PyUnicode_FromString(refusal);
    const char *fact = layout_published();
    if (fact != NULL)
        return misfit(fact);
    if (layout_collecting()) {
        PyErr_SetString(PyExc_BlockingIOError, "the interpreter is collecting, or gc_collecting does not fit this Python");
        return NULL;
    }
    fact = check_lists(gc);
    return PyErr_Occurred() ? NULL : fact != NULL ? misfit(fact) : check_objects(module, gc);
}
