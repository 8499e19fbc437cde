/* heap_stats of injector/native as a module of its own. */
#include "module/heap_stats.h"

static PyMethodDef methods[] = {{"heap_stats", heap_stats_face, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "heap_stats", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_heap_stats(void);

PyMODINIT_FUNC PyInit_heap_stats(void) { return PyModuleDef_Init(&definition); }
