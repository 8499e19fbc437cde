/* sampling: arguments in, packed bytes out. */
#include "sampler/sampling.h"

#include "packs.h"
#include "pages.h"
#include "sampler/arrays.h"
#include "sampler/hook.h"
#include "sampler/reborn.h"
#include "sampler/sample.h"
#include "sampler/stack.h"

/* Of the session. Guarded by the GIL. */
static struct {
    uint32_t codes, nodes; /* said so far */
    bool covered, arrays, reborn;
    bool full;        /* said that the tables are */
    bool overrun;     /* said that reborn.h's number for all blocks was met */
    uint64_t dropped; /* at the last read */
    const char *note; /* what voided the samples, or made that some are lost, until it is read */
    const char *reborn_refusal; /* why rebirths are not seen though they were asked for */
} reported;

static PyObject *refuse(const char *sentence) {
    PyErr_SetString(PyExc_RuntimeError, sentence);
    return NULL;
}

/* -- on and off --------------------------------------------------------------------------------------------- */

static unsigned long long option(PyObject *options, const char *name) {
    PyObject *given = PyDict_GetItemString(options, name);
    return given == NULL ? 0 : PyLong_AsUnsignedLongLong(given);
}

static void read_own(PyObject *list, const void *own[SAMPLE_OWNS]) {
    for (Py_ssize_t i = 0; list != NULL && PyList_Check(list) && i < PyList_Size(list) && i < SAMPLE_OWNS; i++)
        own[i] = PyList_GetItem(list, i);
}

/* Whether buffers of NumPy's arrays are sampled: once it is imported, for its library is whole then. */
static bool has_arrays(void) {
    PyObject *modules = PyImport_GetModuleDict();
    bool has_numpy = modules != NULL && PyDict_Check(modules) &&
                     (PyDict_GetItemString(modules, "numpy._core._multiarray_umath") != NULL ||
                      PyDict_GetItemString(modules, "numpy.core._multiarray_umath") != NULL);
    return arrays_scan(has_numpy ? (long)PyDict_Size(modules) : 0) > 0;
}

PyObject *sampling_start(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "O!:sample_start", &PyDict_Type, &given))
        return NULL;
    struct sample_options options = {.interval = option(given, "interval"), .seed = option(given, "seed")};
    unsigned long long depth = option(given, "depth");
    options.quota = (uint32_t)option(given, "quota");
    options.bytes = option(given, "bytes");
    options.depth = depth > UINT32_MAX ? UINT32_MAX : (uint32_t)depth;
    if (PyErr_Occurred())
        return NULL;
    read_own(PyDict_GetItemString(given, "own"), options.own);
    const char *refusal = sample_open(&options);
    if (refusal == NULL && (refusal = hook_install()) != NULL)
        sample_close();
    if (refusal != NULL)
        return refuse(refusal);
    reported.arrays = arrays_install() == NULL && has_arrays(); /* else the figures are of Python's allocators alone */
    reported.reborn_refusal = option(given, "reborn") != 0 ? reborn_install() : "";
    reported.reborn = option(given, "reborn") != 0 && reported.reborn_refusal == NULL;
    reported.codes = 0;
    reported.nodes = 1; /* node 0 represents none */
    reported.note = "";
    reported.full = reported.overrun = false;
    reported.dropped = 0;
    return new_reference(Py_None);
}

PyObject *sampling_set(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long interval;
    unsigned int depth, quota = 0;
    if (!PyArg_ParseTuple(args, "KI|I:sample_set", &interval, &depth, &quota))
        return NULL;
    const char *refusal = sample_set(interval, depth, quota);
    if (refusal != NULL)
        return refuse(refusal);
    return new_reference(Py_None);
}

PyObject *sampling_stop(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    bool closed = sample_close(); /* first: what is freed by it comes through our hooks like all else */
    const char *arrays = arrays_remove(), *reborn = reborn_remove();
    if (!hook_remove())
        return PyUnicode_FromString("another tool's hook lies over heaptop's, which stays, passing everything on");
    if (!closed)
        return PyUnicode_FromString("a thread has not come out of the tables of samples, which stay");
    return PyUnicode_FromString(reborn != NULL ? reborn : arrays != NULL ? arrays : "");
}

PyObject *sampling_leave(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    arrays_rest();
    reborn_remove();
    hook_remove();
    sample_leave();
    return new_reference(Py_None);
}

/* -- reading ------------------------------------------------------------------------------------------------ */

_Static_assert((int)SAMPLE_OWNS == (int)STACK_OWNS, "as many codes of the agent's");

enum { FIRST_ROOM = 1 << 14, LONGEST_HEAD = 5, LONGEST_NUMBER = 9, MAX_TEXT = 1000 /* characters */ };

/* A text of the target's as UTF-8, cut where it is too long: a new bytes object. NULL with an exception set. */
static PyObject *utf8_of(PyObject *text) {
    if (text == NULL || !PyUnicode_Check(text))
        return PyBytes_FromString("?");
    PyObject *cut = PyUnicode_Substring(text, 0, MAX_TEXT);
    PyObject *bytes = cut == NULL ? NULL : PyUnicode_AsEncodedString(cut, "utf-8", "backslashreplace");
    Py_XDECREF(cut);
    return bytes;
}

static bool pack_text(struct pack *p, PyObject *text) {
    PyObject *bytes = utf8_of(text);
    if (bytes == NULL)
        return false;
    size_t size = (size_t)PyBytes_Size(bytes);
    bool done = packs_make_room(p, size + LONGEST_HEAD);
    if (done)
        pack_str(p, PyBytes_AsString(bytes), (uint32_t)size);
    Py_DecRef(bytes);
    return done;
}

static bool pack_code(struct pack *p, uint32_t number) {
    PyObject *code = stack_code(number);
    if (!packs_make_room(p, 3 * LONGEST_HEAD + 2 * LONGEST_NUMBER + sizeof "(another interpreter)"))
        return false;
    pack_array(p, 3);
    if (code == NULL) {
        pack_str(p, "", 0);
        pack_str(p, "(another interpreter)", sizeof "(another interpreter)" - 1);
        pack_uint(p, 0);
        return true;
    }
    PyObject *name = object_at(code, layout.code_qualname != 0 ? layout.code_qualname : layout.code_name);
    if (!pack_text(p, object_at(code, layout.code_filename)) || !pack_text(p, name) || !packs_make_room(p, LONGEST_NUMBER))
        return false;
    int line = symbols.code_line(code, -1); /* of no instruction: the first line, in every version */
    pack_uint(p, line < 0 ? 0 : (uint64_t)line);
    return true;
}

static bool pack_nodes(struct pack *p, uint32_t end, uint32_t *code_end) {
    pack_array(p, end - reported.nodes);
    for (uint32_t i = reported.nodes; i < end; i++) {
        uint32_t parent, code;
        int line;
        stack_node(i, &parent, &code, &line);
        if (!packs_make_room(p, LONGEST_HEAD + 3 * LONGEST_NUMBER))
            return false;
        pack_array(p, 3);
        pack_uint(p, parent);
        pack_uint(p, code);
        pack_uint(p, (uint64_t)line);
        if (code >= *code_end)
            *code_end = code + 1;
    }
    return true;
}

static bool pack_codes(struct pack *p, uint32_t end) {
    pack_array(p, end - reported.codes);
    for (uint32_t i = reported.codes; i < end; i++)
        if (!pack_code(p, i))
            return false;
    return true;
}

/* Whether we are still called: where not, restart over what is there now. */
static void look_after_hooks(void) {
    enum hook_state state = hook_state();
    reported.covered = state == HOOK_COVERED;
    if (state != HOOK_DROPPED && state != HOOK_TWICE)
        return;
    const char *refusal = "other tools' hooks in the allocators call heaptop's twice";
    if (state == HOOK_DROPPED)
        refusal = hook_install();
    if (refusal == NULL) {
        sample_void();
        reported.note = "another tool took its hook out of the allocators, and heaptop's with it";
    } else {
        sample_close();
        arrays_remove();
        reborn_remove();
        reported.note = refusal;
    }
}

/* Count samples that did not fit, and report once that this continues. */
static void look_after_room(void) {
    struct sample_stats stats;
    bool has_room = sample_make_room();
    sample_stats(&stats);
    if (!has_room && !reported.full && stats.dropped > reported.dropped && reported.note[0] == '\0') {
        reported.note = "the sampler's tables are full: of what is new, not all is followed";
        reported.full = true;
    }
    reported.dropped = stats.dropped;
}

static void look_after_rebirths(void) {
    reported.reborn = reborn_poll();
    if (!reborn_overrun() || reported.overrun || reported.note[0] != '\0')
        return;
    reported.note = "free lists hand on more blocks than can be followed: sites are approximate from now on";
    reported.overrun = true;
}

static PyObject *intervals_of(const struct sample_stats *stats) {
    PyObject *list = PyList_New(stats->interval_count);
    for (uint32_t i = 0; list != NULL && i < stats->interval_count; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(stats->intervals[i]);
        if (number == NULL || PyList_SetItem(list, i, number) < 0) {
            Py_DecRef(list);
            list = NULL;
        }
    }
    return list;
}

/* A new dict; NULL with an exception set. */
static PyObject *stats_of(bool more) {
    struct sample_stats stats;
    sample_stats(&stats);
    PyObject *intervals = intervals_of(&stats);
    if (intervals == NULL)
        return NULL;
    return Py_BuildValue("{sNsKsKsIsNsKsIsNsIsssNsKsNsNss}", "more", PyBool_FromLong(more || stats.more), "clock", stats.clock,
                         "dropped", stats.dropped, "epoch", stats.epoch, "on", PyBool_FromLong(stats.on), "interval",
                         stats.interval, "depth", stats.depth, "intervals", intervals, "live", stats.live, "note",
                         reported.note, "covered", PyBool_FromLong(reported.covered), "bytes", stats.bytes, "arrays",
                         PyBool_FromLong(reported.arrays && stats.on), "reborn", PyBool_FromLong(reported.reborn && stats.on),
                         "reborn_refusal", reported.reborn_refusal == NULL ? "" : reported.reborn_refusal);
}

struct reading {
    struct pack nodes, codes;
    unsigned char *births, *deaths; /* pages for ``limit`` of each */
    uint32_t limit, node_end, code_end, birth_count, death_count;
};

/* What a read says of the tree: all of it, but for a burst of new stacks, which is parted. To find a line costs as much
   as ten records. */
static bool read_tree(struct reading *r) {
    uint64_t end = (uint64_t)reported.nodes + r->limit;
    r->node_end = end < stack_nodes() ? (uint32_t)end : stack_nodes();
    r->code_end = reported.codes;
    return pack_nodes(&r->nodes, r->node_end, &r->code_end) && pack_codes(&r->codes, r->code_end);
}

static PyObject *answer(struct reading *r) {
    PyObject *stats = stats_of(r->node_end < stack_nodes());
    if (stats == NULL)
        return NULL;
    return Py_BuildValue("y#Iy#Iy#y#N", r->codes.base, (Py_ssize_t)pack_size(&r->codes), reported.codes, r->nodes.base,
                         (Py_ssize_t)pack_size(&r->nodes), reported.nodes, r->births,
                         (Py_ssize_t)(SAMPLE_BIRTH_BYTES * r->birth_count), r->deaths,
                         (Py_ssize_t)(SAMPLE_DEATH_BYTES * r->death_count), stats);
}

static PyObject *read_all(struct reading *r) {
    if (!packs_open(&r->nodes, FIRST_ROOM) || !packs_open(&r->codes, FIRST_ROOM) || r->births == NULL || r->deaths == NULL ||
        !read_tree(r))
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    sample_drain(r->limit, r->node_end, r->births, &r->birth_count, r->deaths, &r->death_count);
    PyObject *result = answer(r);
    if (result == NULL) {
        sample_void(); /* what was drained is lost */
        return NULL;
    }
    reported.nodes = r->node_end;
    reported.codes = r->code_end;
    reported.note = "";
    return result;
}

/* With nothing to say but how it stands. */
static PyObject *read_nothing(void) {
    PyObject *stats = stats_of(false);
    return stats == NULL ? NULL
                         : Py_BuildValue("y#Iy#Iy#y#N", "\x90", (Py_ssize_t)1, reported.codes, "\x90", (Py_ssize_t)1,
                                         reported.nodes, "", (Py_ssize_t)0, "", (Py_ssize_t)0, stats);
}

PyObject *sampling_read(PyObject *module, PyObject *args) {
    (void)module;
    enum { MAX_LIMIT = 1 << 20 };
    struct reading r = {0};
    if (!PyArg_ParseTuple(args, "I:sample_read", &r.limit))
        return NULL;
    if (r.limit < 1 || r.limit > MAX_LIMIT) {
        PyErr_SetString(PyExc_ValueError, "limit");
        return NULL;
    }
    if (sample_is_on()) {
        look_after_hooks();
        if (sample_missed() && sample_void())
            reported.note = "a block was freed unseen, while a thread that was in the tables of samples did not run";
        look_after_room();
        reported.arrays = has_arrays();
        look_after_rebirths();
    }
    if (!sample_is_on())
        return read_nothing();
    r.births = pages_map(SAMPLE_BIRTH_BYTES * (size_t)r.limit);
    r.deaths = pages_map(SAMPLE_DEATH_BYTES * (size_t)r.limit);
    PyObject *result = read_all(&r);
    if (result != NULL)
        sample_release(reported.nodes, reported.codes);
    pages_unmap(r.births, SAMPLE_BIRTH_BYTES * (size_t)r.limit);
    pages_unmap(r.deaths, SAMPLE_DEATH_BYTES * (size_t)r.limit);
    packs_close(&r.nodes);
    packs_close(&r.codes);
    return result;
}

/* -- for tests and the self-check --------------------------------------------------------------------------- */

PyObject *sampling_frames(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    static struct stack_frame frames[STACK_MAX_DEPTH];
    uint32_t count = stack_walk(frames, STACK_MAX_DEPTH);
    for (uint32_t i = 0; i < count; i++)
        Py_IncRef(frames[i].code); /* building the list may let others run */
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; i < count; i++) {
        int line = symbols.code_line(frames[i].code, frames[i].instruction);
        PyObject *pair = list == NULL ? NULL : Py_BuildValue("Oi", frames[i].code, line < 0 ? 0 : line);
        if (list != NULL && (pair == NULL || PyList_Append(list, pair) < 0)) {
            Py_DecRef(list);
            list = NULL;
        }
        Py_XDECREF(pair);
    }
    for (uint32_t i = 0; i < count; i++)
        Py_DecRef(frames[i].code);
    return list;
}

PyObject *sampling_stats(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    return stats_of(false);
}

PyObject *sampling_clock(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    return PyLong_FromUnsignedLongLong(sample_clock());
}
