/* dumped: heaps that were read from files, as heaptop's own process sees them. No target has a part in it.

   dump_limit(bytes)          all of them together take no more memory than that; once, before the first
   dump_new()                 a handle, which gives all back at its end
   dump_add(handle, piece)    RuntimeError says why it cannot be taken
   dump_finish(handle)        after the last piece: (objects, references, bytes); RuntimeError likewise
   dump_count(handle)         bytes of struct reading_row, also while pieces come
   dump_ask(handle, question) the answer as the clone would write it: [kind, {…}]; RuntimeError where there is none
   dump_rows(handle, first, count)  of these objects, by number, at most 131,072: bytes of a column each, in this order
       address, dominator (0: none, or a frame), size, retained   uint64_t
       length (-1: not known)                                     int64_t
       type, stack that allocated it (0: not sampled)             uint32_t
       generation                                                 int8_t
       kind of the root that leads there                          uint8_t
   dump_look(handle)          (done, total) of what takes its time; any thread
   dump_cancel(handle)        give that up; any thread

   Of one handle one call at a time, but for the last two. The GIL is released in what takes its time. */
#ifndef HEAPTOP_DUMPED_H
#define HEAPTOP_DUMPED_H

#include "layout.h"

PyObject *dumped_limit(PyObject *module, PyObject *args);
PyObject *dumped_new(PyObject *module, PyObject *args);
PyObject *dumped_add(PyObject *module, PyObject *args);
PyObject *dumped_finish(PyObject *module, PyObject *args);
PyObject *dumped_count(PyObject *module, PyObject *args);
PyObject *dumped_ask(PyObject *module, PyObject *args);
PyObject *dumped_rows(PyObject *module, PyObject *args);
PyObject *dumped_look(PyObject *module, PyObject *args);
PyObject *dumped_cancel(PyObject *module, PyObject *args);

#endif
