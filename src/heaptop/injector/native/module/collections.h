/* collections: what the collector does, noted by a function for gc.callbacks that runs no Python code.

   The interpreter looks for signals before the first line of a Python function. In a callback of the collector that is
   where the program's own handler would run, and what it raises there (KeyboardInterrupt, sys.exit, a time that is over)
   is lost: the collector drops it. A C function looks for no signals; they wait for the program's next line, as ever.

     gc.callbacks ─► heaptop_gc ─► rows[MOST] ─► collections_read, at each tick
                         └─ in a fork's child: ``leave``, once

   Guarded by the GIL; the rows are pages of ours, given back by collections_unwatch. */
#ifndef HEAPTOP_COLLECTIONS_H
#define HEAPTOP_COLLECTIONS_H

#include "pages.h"

#include <Python.h>

/* gc_watch(leave, blocks) -> None: from now on heaptop_gc notes. ``leave()`` is called where it finds itself in a fork's
   child; ``blocks()`` says how many blocks the interpreter has given out, and must run no Python code. MemoryError. */
PyObject *collections_watch(PyObject *module, PyObject *args);

/* gc_unwatch() -> None: nothing is noted any more, and both functions are released. Any time, and twice. */
PyObject *collections_unwatch(PyObject *module, PyObject *args);

/* heaptop_gc(phase, info) -> None: the callback. Never raises; not watched, it does nothing. */
PyObject *collections_note(PyObject *module, PyObject *args);

/* gc_read() -> (rows, dropped): a list of [begin, generation, collected, uncollectable, ns, blocks or None, clock or None]
   of what has ended since the last time, and how many collections ever had no room. MemoryError: nothing was read. */
PyObject *collections_read(PyObject *module, PyObject *args);

/* gc_begun() -> collections that have begun since it is watched. */
PyObject *collections_begun(PyObject *module, PyObject *args);

/* blocks(function) -> what sys.getallocatedblocks, which is given, says; None where calling it is not safe. */
PyObject *collections_blocks(PyObject *module, PyObject *args);

/* Where the rows are. */
struct pages_range collections_range(void);

/* Watch no more, where the interpreter that the functions were of has ended. */
void collections_abandon(void);

#endif
