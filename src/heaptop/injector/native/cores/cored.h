/* cored: the heap of a core file, as a snapshot: image_look and its like (imaging.h) answer for it. In the helper that
   dumps/cores/walker.py is, and nowhere else: the process must have nothing but that to do.

   core_begin({"version", "runtime", "symbols": {name: address}, "pieces": bytes of struct mapped_piece, "id", "keep_ns",
               "memory"})      begins; RuntimeError says why not
   core_end()                  (how, address): one of the words of ``endings`` in cored.c; ends the child where it lives
   core_symbols()              names of the symbols that core_begin wants */
#ifndef HEAPTOP_CORED_H
#define HEAPTOP_CORED_H

#include "layout.h"

PyObject *cored_begin(PyObject *module, PyObject *args);
PyObject *cored_end(PyObject *module, PyObject *args);
PyObject *cored_symbols(PyObject *module, PyObject *args);

#endif
