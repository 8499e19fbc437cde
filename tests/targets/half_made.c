/* A module with a type whose objects the collector must not see before they are whole: its tp_traverse crashes on one that is
   half made. */
#include <Python.h>

typedef struct {
    PyObject ob_base;
    PyObject **items;
} Part;

static int traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(*((Part *)o)->items);
    return 0;
}

static PyObject *size(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(((Part *)o)->items[0] != NULL ? 48 : 32);
}

static void dealloc(PyObject *o) { PyObject_GC_Del(o); }

static PyMethodDef methods[] = {{"__sizeof__", size, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {
    {Py_tp_methods, methods}, {Py_tp_traverse, (void *)traverse}, {Py_tp_dealloc, (void *)dealloc}, {0}};
static PyType_Spec spec = {"half_made.Part", sizeof(Part), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

static PyObject *make(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *type = PyType_FromSpec(&spec);
    Part *made = type == NULL ? NULL : PyObject_GC_New(Part, (PyTypeObject *)type);
    if (made != NULL)
        made->items = NULL;
    return (PyObject *)made;
}

static PyMethodDef functions[] = {{"make", make, METH_NOARGS, NULL}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "half_made", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_half_made(void) { return PyModule_Create(&definition); }
