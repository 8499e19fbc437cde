#include "check.h"

PyObject *check_run(void) {
    const char *refusal = layout_find_lists();
    return PyUnicode_FromString(refusal == NULL ? "" : refusal);
}
