/* sampling: the sampler as the agent sees it, as functions of the module. All for the agent's thread, with the GIL. */
#ifndef HEAPTOP_SAMPLING_H
#define HEAPTOP_SAMPLING_H

#include "layout.h"

/* sample_start(options) -> None. ``interval``, ``depth``, ``seed`` (0: by the kernel) and ``bytes`` (of all tables; 0:
   a default), ``quota`` (as sample_set has it; 0 by default), ``own`` (a list of code objects: what is allocated in one of them is not sampled), ``reborn`` (whether to
   follow blocks that free lists hand on). RuntimeError gives the reason. Ids restart, and what a session before left is
   gone. */
PyObject *sampling_start(PyObject *module, PyObject *args);

/* sample_set(interval, depth, quota=0) -> None; RuntimeError when that cannot be, or sampling is off. ``quota``:
   as sample.h has it. */
PyObject *sampling_set(PyObject *module, PyObject *args);

/* sample_stop() -> "" or a sentence on what stays. Any time; the calling thread is sampled again like any other. */
PyObject *sampling_stop(PyObject *module, PyObject *args);

/* sample_leave() -> None. In a fork's child, where there is no agent, on the thread that is there: hooks are taken out as
   far as that can be, and tables given back. The only system call is munmap; so what is in libraries' slots stays,
   and passes on. */
PyObject *sampling_leave(PyObject *module, PyObject *args);

/* sample_read(limit) -> (codes, first_code, stacks, first_stack, births, deaths, stats): what is new since the last.
   codes and stacks are msgpack arrays of [file, function, line] and [parent, code, line]; births and deaths packed
   records; at most ``limit`` of each of the four. ``more``: there is more to read at once. After an exception nothing was read; where something had been taken from the tables by
   then, all samples are void, and the epoch is raised. */
PyObject *sampling_read(PyObject *module, PyObject *args);

/* sample_stats() -> stats, as sample_read gives them, and reads nothing. */
PyObject *sampling_stats(PyObject *module, PyObject *args);

/* sample_clock() -> bytes allocated since sampling began. For any thread with the GIL. */
PyObject *sampling_clock(PyObject *module, PyObject *args);

/* sample_frames() -> [(code, line or 0), …] of the calling thread, the innermost first, as the sampler sees it. */
PyObject *sampling_frames(PyObject *module, PyObject *args);

#endif
