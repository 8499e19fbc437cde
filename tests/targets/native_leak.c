/* A module of the limited API that leaks malloc's memory: leak(blocks, size) with the GIL, quietly(blocks, size) without. */
#include <Python.h>
#include <stdlib.h>

static char *volatile kept;

__attribute__((noinline, visibility("default"))) void native_leak(long blocks, long size) {
    for (long i = 0; i < blocks; i++)
        kept = malloc((size_t)size);
}

/* Counted on every version: in the headers of 3.12 Py_RETURN_NONE takes None for immortal. */
static PyObject *none(void) {
    Py_IncRef(Py_None);
    return Py_None;
}

static PyObject *leak(PyObject *module, PyObject *args) {
    long blocks, size;
    (void)module;
    if (!PyArg_ParseTuple(args, "ll", &blocks, &size))
        return NULL;
    native_leak(blocks, size);
    return none();
}

static PyObject *quietly(PyObject *module, PyObject *args) {
    long blocks, size;
    (void)module;
    if (!PyArg_ParseTuple(args, "ll", &blocks, &size))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    native_leak(blocks, size);
    Py_END_ALLOW_THREADS
    return none();
}

static PyMethodDef methods[] = {
    {"leak", leak, METH_VARARGS, NULL},
    {"quietly", quietly, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_leak", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native_leak(void) { return PyModule_Create(&module); }
