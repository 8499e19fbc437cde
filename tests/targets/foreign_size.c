/* A module with a type whose __sizeof__ is C code that is neither CPython's nor numpy's. */
#include <Python.h>

static PyObject *size(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyLong_FromLong(12345);
}

static PyMethodDef methods[] = {{"__sizeof__", size, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0}};
static PyType_Spec spec = {"foreign_size.Sized", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};

static PyObject *make(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *type = PyType_FromSpec(&spec), *made = type == NULL ? NULL : PyObject_CallObject(type, NULL);
    Py_XDECREF(type);
    return made;
}

static PyMethodDef functions[] = {{"make", make, METH_NOARGS, NULL}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "foreign_size", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_foreign_size(void) { return PyModule_Create(&definition); }
