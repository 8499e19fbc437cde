/* imaging: the open snapshot's face in the core: for the agent's thread, with the GIL held. One image at a time. */
#ifndef HEAPTOP_IMAGING_H
#define HEAPTOP_IMAGING_H

#include "clone/clone.h"
#include "layout.h"
#include "pages.h"

/* image_begin({"id", "image", "own": [address, …], "keep_ns", "memory"}) -> (pid, pause in ns). RuntimeError says why not;
   BlockingIOError: the interpreter is collecting, ask again. */
PyObject *imaging_begin(PyObject *module, PyObject *args);

/* image_look() -> (state, phase, done, total, memory, holding): state 0 builds, 1 has an answer, 2 waits for a question, 3 works on one,
   -1: there is none, or it has just ended; then image_end tells how. */
PyObject *imaging_look(PyObject *module, PyObject *args);

/* image_wait(ns) -> whether it waited, without the GIL, until the child had an answer, or so long: False where there is nothing to
   wait for. */
PyObject *imaging_wait(PyObject *module, PyObject *args);

/* image_take() -> the answer's frames of the protocol, as bytes, or None when there is none. */
PyObject *imaging_take(PyObject *module, PyObject *args);

/* image_ask(question) -> whether it takes it: it waits for one. */
PyObject *imaging_ask(PyObject *module, PyObject *args);

/* image_cancel(): the question is to be given up: the answer will be partial. */
PyObject *imaging_cancel(PyObject *module, PyObject *args);

/* image_end() -> (reason, whether it was to be expected, CPU time in ns): ends the child where it lives. */
PyObject *imaging_end(PyObject *module, PyObject *args);

/* Begin one whose child does other work before it is one, and ends by image_run: what image_begin returns. */
PyObject *imaging_start(int (*work)(void *context, struct result *out), void *context, const struct snapshot_limits *limits);

/* End the child where it lives. How it has ended is known until imaging_close. */
const struct snapshot *imaging_abort(void);

/* What is mapped for it in the process itself. */
struct pages_range imaging_range(void);

/* The same where nobody asks how. In a fork's child: forget it. */
void imaging_close(void);

/* The same without the GIL, where no interpreter is there any more. */
void imaging_abandon(void);

#endif
