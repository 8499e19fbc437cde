/* A module of the limited API that leaks malloc's memory: leak(blocks, size) with the GIL, quietly(blocks, size) without;
   by functions of other libraries, which call malloc: python and raw by the interpreter's, cplusplus by libstdc++'s.
   back(function) calls it. */
#include <Python.h>
#include <dlfcn.h>
#include <stdlib.h>

void *PyMem_RawMalloc(size_t size); /* of the limited API since 3.13 */

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

__attribute__((noinline, visibility("default"))) void native_leak_by(void *(*allocate)(size_t), long blocks, long size) {
    for (long i = 0; i < blocks; i++)
        kept = allocate((size_t)size);
}

static PyObject *leak_by(PyObject *args, void *(*allocate)(size_t)) {
    long blocks, size;
    if (!PyArg_ParseTuple(args, "ll", &blocks, &size))
        return NULL;
    native_leak_by(allocate, blocks, size);
    return none();
}

static PyObject *python(PyObject *module, PyObject *args) {
    (void)module;
    return leak_by(args, PyMem_Malloc);
}

static PyObject *raw(PyObject *module, PyObject *args) {
    (void)module;
    return leak_by(args, PyMem_RawMalloc);
}

static PyObject *cplusplus(PyObject *module, PyObject *args) {
    void *library = dlopen("libstdc++.so.6", RTLD_NOW);
    void *(*allocate)(size_t);
    (void)module;
    *(void **)&allocate = library == NULL ? NULL : dlsym(library, "_Znwm");
    return allocate == NULL ? none() : leak_by(args, allocate);
}

static PyObject *back(PyObject *module, PyObject *function) {
    (void)module;
    return PyObject_CallObject(function, NULL);
}

static PyMethodDef methods[] = {
    {"leak", leak, METH_VARARGS, NULL},
    {"quietly", quietly, METH_VARARGS, NULL},
    {"python", python, METH_VARARGS, NULL},
    {"raw", raw, METH_VARARGS, NULL},
    {"cplusplus", cplusplus, METH_VARARGS, NULL},
    {"back", back, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_leak", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native_leak(void) { return PyModule_Create(&module); }
