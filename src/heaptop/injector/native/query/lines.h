/* lines: the line of an instruction, from the table of its code. The same as PyCode_Addr2Line, where that must not be called. */
#ifndef HEAPTOP_LINES_H
#define HEAPTOP_LINES_H

#include "layout.h"

/* Of the instruction at ``offset``, in bytes; -1 where it has none. Of a negative offset, where the code begins. */
int lines_at(PyObject *code, int offset);

#endif
