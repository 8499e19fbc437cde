/* core: the module face of the native core, as the agent sees it. It loads into every supported Python.

   No Python code of the target's runs here, and of its C code no more than a count needs. tp_traverse is called of
   every type that has one, as a collection does, also in the process itself, but there of no object that may be half made
   (walk.c). A __sizeof__ written in C is called in a
   clone whoever wrote it, and in the process itself where it is CPython's own or numpy's (size.c). Nobody can say
   whether an extension of the application's does more there than look; in a clone, what it does dies with the clone.

   All functions but heaptop_gc are for the agent's thread, and all with the GIL. State is static and belongs to the
   process: the library is never unloaded, and one agent at a time uses it. */

#include "pages.h"
#include "life.h"
#include "lookup.h"
#include "raw.h"
#include "clone/clone.h"
#include "cores/cored.h"
#include "heap/edges.h"
#include "heap/without_code/rules.h"
#include "heap/size.h"
#include "heap/walk.h"
#include "module/census.h"
#include "module/check.h"
#include "module/collections.h"
#include "module/dumped.h"
#include "module/explain.h"
#include "module/graphing.h"
#include "module/heap_stats.h"
#include "sampler/arrays.h"
#include "sampler/malloc_stacks.h"
#include "sampler/reborn.h"
#include "sampler/sample.h"
#include "sampler/sampling.h"
#include "snapshot/imaging.h"

#include <string.h>
#include <sys/stat.h>

enum { REST_NS = 300 * 1000 }; /* agent/clock.py, REST */

/* Guarded by the GIL. */
static struct {
    bool is_open;
    struct names names; /* of the session that counts, see census_of */
    struct snapshot snapshot;
    struct census_request request; /* of the snapshot's child */
    uint64_t middle;               /* where the last count has found the middle of generation 2, or 0 */
    uint32_t life;                 /* in which it was opened: life.h */
    int socket;                    /* the session's, as core_read had it; -1: none yet */
    struct stat file;
} core = {.socket = -1};

/* For a count that failed: MemoryError or TimeoutError where there was too little of either, so that it is not taken for
   a fault. */
static PyObject *fail(int census_status) {
    PyObject *type = census_status == CENSUS_NO_MEMORY   ? PyExc_MemoryError
                     : census_status == CENSUS_TIMED_OUT ? PyExc_TimeoutError
                                                         : PyExc_RuntimeError;
    PyErr_SetString(type, census_reason(census_status));
    return NULL;
}

static PyObject *refuse(const char *sentence) {
    PyErr_SetString(PyExc_RuntimeError, sentence);
    return NULL;
}

static void close_request(struct census_request *request) {
    pages_unmap((void *)request->excluded, request->excluded_count * sizeof *request->excluded);
    *request = (struct census_request){0};
}

/* At rest again. */
static void release(void) {
    snapshot_release(&core.snapshot);
    close_request(&core.request);
}

/* -- open, check, layout ------------------------------------------------------------------------------------ */

/* sys.hexversion, or its hexadecimal text. 0 with an exception set when it is neither. */
static uint32_t version_of(PyObject *args) {
    unsigned int version;
    const char *text;
    if (PyArg_ParseTuple(args, "I:open", &version))
        return version;
    PyErr_Clear();
    if (!PyArg_ParseTuple(args, "s:open", &text))
        return 0;
    PyObject *number = PyLong_FromString(text, NULL, 16);
    version = number == NULL ? 0 : (uint32_t)PyLong_AsUnsignedLong(number);
    Py_XDECREF(number);
    return version;
}

/* Who has the dynamic linker's lock may wait for the GIL. */
static void look_up(uint32_t version) {
    struct life_wait wait = life_release();
    layout_look_up(version);
    arrays_look_up();
    reborn_look_up();
    sample_look_up();
    malloc_stacks_look_up();
    life_return(wait);
}

static bool look_at(int fd, struct stat *file) { return raw_call(SYS_fstat, fd, (long)file, 0, 0, 0) == 0; }

/* The agent's thread, in the next life: end its clones, and let heaptop know. */
static void leave_life(void) {
    struct stat now;
    core.is_open = false;
    if (core.snapshot.pid != 0 && snapshot_abort(&core.snapshot) != SNAPSHOT_RUNNING)
        release();
    imaging_abandon();
    if (core.socket >= 0 && look_at(core.socket, &now) && now.st_ino == core.file.st_ino && now.st_dev == core.file.st_dev)
        raw_call(SYS_close, core.socket, 0, 0, 0, 0);
    core.socket = -1;
}

/* The objects that were ours went with their interpreter. */
static void begin_life(void) {
    if (core.life == life_number())
        return;
    core.life = life_number();
    symbols.sizeof_name = NULL;
    collections_abandon();
}

/* As within a trace function. */
static PyObject *core_enter_tracing(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    if (symbols.enter_tracing != NULL)
        symbols.enter_tracing(symbols.thread_state());
    return new_reference(Py_None);
}

static PyObject *core_open(PyObject *module, PyObject *args) {
    (void)module;
    uint32_t version = version_of(args);
    if (PyErr_Occurred())
        return NULL;
    if (!life_watch(leave_life))
        return refuse("Py_AtExit has no free slot: heaptop cannot see when Python is finalized");
    begin_life();
    look_up(version);
    core.is_open = false;
    core.middle = 0;
    imaging_close(); /* of a process that this one was forked from */
    names_clear(&core.names); /* a session begins; its first count may not be ours, and so not number its types from 0 */
    const char *refusal = layout_open(version);
    if (refusal == NULL && size_open() < 0)
        refusal = "a __sizeof__ of a builtin type was not found";
    if (refusal != NULL)
        return refuse(refusal);
    core.is_open = true;
    return new_reference(Py_None);
}

/* A function of the module that needs an open core. */
#define WHEN_OPEN(name, function)                                                                                              \
    static PyObject *name(PyObject *module, PyObject *args) {                                                                  \
        return core.is_open ? function(module, args) : refuse("the native core is not open");                                  \
    }

WHEN_OPEN(core_check, check_run)

/* The agent puts a function of its own here, which gives the GIL back when it is time. */
static PyObject *core_give_way(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    return new_reference(Py_None);
}

static PyObject *core_layout(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    PyObject *dict = PyDict_New();
    const char *name;
    int32_t value;
    for (int i = 0; dict != NULL && (name = layout_fact(i, &value)) != NULL; i++) {
        PyObject *number = PyLong_FromLong(value);
        if (number == NULL || PyDict_SetItemString(dict, name, number) < 0) {
            Py_DecRef(dict);
            dict = NULL;
        }
        Py_DecRef(number);
    }
    return dict;
}

static PyObject *core_set_layout(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    int value;
    if (!PyArg_ParseTuple(args, "si:set_layout", &name, &value))
        return NULL;
    if (layout_set(name, value) < 0) {
        PyErr_SetString(PyExc_KeyError, name);
        return NULL;
    }
    return new_reference(Py_None);
}

/* -- the census --------------------------------------------------------------------------------------------- */

/* What is left out: the arguments of this call, and the "own" of the options. As addresses in pages, and their number.
   -1 with an exception set. */
static int read_own(PyObject *args, PyObject *options, uint64_t **addresses, size_t *count) {
    PyObject *own = options == NULL ? NULL : PyDict_GetItemString(options, "own");
    Py_ssize_t size = own == NULL ? 0 : PyList_Size(own);
    if (size < 0)
        return -1;
    *count = (size_t)size + 2;
    *addresses = pages_map(*count * sizeof **addresses);
    if (*addresses == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++)
        (*addresses)[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(own, i));
    (*addresses)[size] = (uint64_t)args;
    (*addresses)[size + 1] = (uint64_t)(options == NULL ? args : options);
    if (!PyErr_Occurred())
        return 0;
    pages_unmap(*addresses, *count * sizeof **addresses);
    return -1;
}

/* Read (first_type_id[, options]), and see that a count may begin now. False with an exception set. */
static bool open_request(PyObject *args, struct census_request *request, PyObject **options) {
    unsigned int first;
    *options = NULL;
    if (!PyArg_ParseTuple(args, "I|O!", &first, &PyDict_Type, options))
        return false;
    if (!core.is_open)
        return refuse("the native core is not open") != NULL;
    const char *refusal = layout_find_lists();
    if (refusal != NULL)
        return refuse(refusal) != NULL;
    if (layout_collecting()) {
        PyErr_SetString(PyExc_BlockingIOError, "the interpreter is collecting");
        return false;
    }
    uint64_t *own;
    size_t count;
    if (read_own(args, *options, &own, &count) < 0)
        return false;
    if (first == 0)
        names_clear(&core.names); /* a session begins */
    *request = (struct census_request){.names = &core.names, .first_number = first, .excluded = own, .excluded_count = count};
    return true;
}

/* Note the names that the count was the first to meet. */
static bool learn_names(const struct name_key *keys, uint64_t count, uint32_t first) {
    for (uint64_t i = 0; i < count; i++)
        if (names_find(&core.names, keys[i]) == NULL && names_add(&core.names, keys[i], first + (uint32_t)i) == NULL)
            return PyErr_NoMemory() != NULL;
    return true;
}

/* Tell the sampler what the count says of types: those of blocks that will die, and those of living ones. Records of
   protocol/messages.py's TYPED, of samples that live still: new bytes. NULL with an exception set. */
static PyObject *learn_samples(const char *kinds, uint64_t kind_count, const char *typed, uint64_t typed_count) {
    struct {
        uint32_t id, number;
    } *records = pages_map(typed_count * sizeof *records + 1);
    size_t count = 0;
    if (records == NULL)
        return PyErr_NoMemory();
    if (kind_count != 0) /* else the image did not say */
        sample_know_types(kinds, (uint32_t)kind_count);
    for (uint64_t i = 0; i < typed_count; i++) {
        struct census_typed one;
        memcpy(&one, typed + i * sizeof one, sizeof one);
        if (!sample_set_type(one.id, one.birth, one.number))
            continue; /* it has died */
        records[count].id = one.id;
        records[count++].number = one.number;
    }
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)records, (Py_ssize_t)(count * sizeof *records));
    pages_unmap(records, typed_count * sizeof *records + 1);
    return bytes;
}

#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)
enum { CUT_BYTES = 384 };

/* What a census leaves out, one after the other. */
static void add_cut(char cut[CUT_BYTES], bool is_so, const char *words) {
    if (is_so && *cut != 0)
        strcat(cut, "; ");
    if (is_so)
        strcat(cut, words);
}

/* The tuple that stop and end return. */
static PyObject *census_of(const struct result *result, uint32_t first, uint64_t cpu_ns, uint64_t pause_ns) {
    struct census_head head;
    if (result->head == NULL || result->head->used < sizeof head)
        return refuse("the count left no result");
    memcpy(&head, result->data, sizeof head);
    const unsigned char *keys = result->data + sizeof head;
    const char *types = (const char *)keys + head.new_types * sizeof(struct name_key);
    const char *rows = types + head.types_size, *kinds = rows + head.rows_size;
    const char *typed = kinds + head.kinds * sizeof(struct sample_known);
    const char *end = typed + head.typed * sizeof(struct census_typed);
    if ((uint64_t)(end - (const char *)result->data) != result->head->used)
        return refuse("the count left half a result");
    if (!learn_names((const struct name_key *)keys, head.new_types, first))
        return NULL;
    PyObject *samples = learn_samples(kinds, head.kinds, typed, head.typed);
    if (samples == NULL)
        return NULL;
    core.middle = head.middle;
    char cut[CUT_BYTES] = "";
    add_cut(cut, head.left_out != 0, "objects of some interpreters are not counted");
    add_cut(cut, head.changing != 0, WALK_CHANGING);
    add_cut(cut, head.unfollowed != 0, WALK_UNFOLLOWED);
    add_cut(cut, head.cut != 0, "types after the first " TEXT(MAX_NAMES) " are counted together");
    return Py_BuildValue("y#y#{sOsssKsKsKsKsKsKsKsKsKsKsN}", types, (Py_ssize_t)head.types_size, rows,
                         (Py_ssize_t)head.rows_size, "complete", *cut != 0 ? Py_False : Py_True, "cut", cut, "objects",
                         head.objects, "sizeof_guessed", head.guessed, "duration_ns", head.duration_ns, "cpu_ns", cpu_ns,
                         "pause_ns", pause_ns, "child_bytes", head.bytes, "middle", head.middle, "owned", head.owned, "mapped",
                         head.mapped, "at_least", head.at_least, "typed", samples);
}

static uint64_t limit(PyObject *options, const char *name) {
    PyObject *given = options == NULL ? NULL : PyDict_GetItemString(options, name);
    return given == NULL ? 0 : PyLong_AsUnsignedLongLong(given);
}

static bool has_option(PyObject *options, const char *name) {
    return options != NULL && PyDict_GetItemString(options, name) != NULL;
}

/* How long a count in the process itself may take. */
struct time_limit {
    uint64_t ns, begin, cpu_begin;
};

/* The machine's load lengthens the one and not the other, and memory that was swapped out takes no processor time. */
static bool in_time(struct progress *progress, void *context) {
    enum { LOAD = 4 };
    const struct time_limit *most = context;
    (void)progress;
    return raw_cpu_clock() - most->cpu_begin <= most->ns && (raw_clock() - most->begin) / LOAD <= most->ns;
}

static PyObject *core_stop(PyObject *module, PyObject *args) {
    (void)module;
    struct census_request request;
    PyObject *options, *census = NULL;
    struct result result = {0};
    uint64_t begin = raw_clock();
    if (!open_request(args, &request, &options))
        return NULL;
    size_look_again();
    struct time_limit most = {limit(options, "wall_ns"), begin, raw_cpu_clock()};
    struct progress in_most = {.look = in_time, .context = &most, .finer = 6}; /* each object may be swapped out */
    request.limit = most.ns != 0 ? &in_most : NULL;
    request.as_clone = has_option(options, "as_clone");
    if (result_open(&result, RESULT_BYTES) < 0) {
        close_request(&request);
        return fail(CENSUS_NO_MEMORY);
    }
    layout_block_collector(true); /* an exception in a __sizeof__ might set one off */
    int status = census_run(&request, &result);
    layout_block_collector(false);
    if (status == 0) {
        uint64_t pause = raw_clock() - begin;
        census = census_of(&result, request.first_number, pause, pause);
    } else {
        if (status == CENSUS_NO_MEMORY || status == CENSUS_TOO_LONG)
            names_clear(&core.names); /* the caller never gets those that were added */
        fail(status);
    }
    result_close(&result);
    close_request(&request);
    return census;
}

/* Give the GIL back for so long. */
static void rest(uint64_t ns) {
    uint64_t none = 0;
    struct timespec span = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    struct life_wait wait = life_release();
    raw_call(SYS_rt_sigtimedwait, (long)&none, 0, (long)&span, sizeof none, 0); /* as the agent without a core */
    life_return(wait);
}

static PyObject *core_rest(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long ns;
    life_look();
    if (!PyArg_ParseTuple(args, "K:rest", &ns))
        return NULL;
    rest(ns);
    return new_reference(Py_None);
}

/* Wait for bytes of the session's socket, without the GIL. */
static PyObject *core_read(PyObject *module, PyObject *args) {
    enum { INTERRUPTED = -4 /* EINTR */, NOTHING = -11 /* EAGAIN */, MOST = 1 << 18 };
    char room[MOST]; /* of the agent's stack (1 MiB at least): of the interpreter's it would be lost with that */
    (void)module;
    Py_ssize_t size;
    life_look();
    if (!PyArg_ParseTuple(args, "in:read", &core.socket, &size))
        return NULL;
    look_at(core.socket, &core.file); /* the caller has seen that it is ours */
    struct life_wait wait = life_release();
    long got = raw_call(SYS_read, core.socket, (long)room, size < MOST ? size : MOST, 0, 0);
    life_return(wait);
    if (got == NOTHING || got == INTERRUPTED)
        return new_reference(Py_None);
    return PyBytes_FromStringAndSize(room, got < 0 ? 0 : got);
}

static PyObject *core_begin(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *options;
    if (core.snapshot.pid != 0) { /* one that an abort has killed may have taken its time to die */
        if (snapshot_poll(&core.snapshot) == SNAPSHOT_RUNNING)
            return refuse("a clone is counting already");
        release();
    }
    if (!open_request(args, &core.request, &options))
        return NULL;
    core.request.in_child = true;
    core.request.middle = has_option(options, "middle") ? limit(options, "middle") : core.middle; /* given: by tests */
    core.middle = 0; /* a count that fails leaves none */
    struct snapshot_limits limits = {limit(options, "wall_ns"), limit(options, "result_bytes"), 0,
                                     limit(options, "descriptor") != 0, 0};
    int error = PyErr_Occurred() ? 0 : snapshot_begin(&core.snapshot, census_run, &core.request, &limits);
    if (error == 0 && !PyErr_Occurred()) {
        rest(REST_NS); /* the program stood still; what we write next are pages that the clone shares, at a fault each */
        return Py_BuildValue("iiK", core.snapshot.fd, core.snapshot.pid, core.snapshot.pause_ns);
    }
    close_request(&core.request);
    if (PyErr_Occurred())
        return NULL;
    const char *refusal = snapshot_refusal(error);
    return refusal != NULL ? refuse(refusal) : PyErr_Format(PyExc_RuntimeError, "clone failed with error %d", -error);
}

static PyObject *failed_census(void) {
    char reason[256];
    if (core.snapshot.status == SNAPSHOT_FAILED)
        return fail(core.snapshot.detail);
    snapshot_reason(&core.snapshot, reason, sizeof reason);
    return refuse(reason);
}

static PyObject *core_end(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    if (core.snapshot.pid == 0)
        return refuse("no clone is counting");
    int status;
    struct life_wait wait = life_release();
    status = snapshot_end(&core.snapshot);
    life_return(wait);
    if (status == SNAPSHOT_RUNNING)
        return refuse("the clone does not end");
    struct snapshot *s = &core.snapshot;
    PyObject *census =
        status == SNAPSHOT_OK ? census_of(&s->result, core.request.first_number, s->cpu_ns, s->pause_ns) : failed_census();
    release();
    return census;
}

static PyObject *core_abort(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    if (core.snapshot.pid != 0) {
        struct life_wait wait = life_release();
        snapshot_abort(&core.snapshot);
        life_return(wait);
        release();
    }
    return new_reference(Py_None);
}

static PyObject *core_close(PyObject *module, PyObject *args) {
    core.is_open = false;
    names_clear(&core.names);
    imaging_close();
    return core_abort(module, args);
}

/* -- the sampler -------------------------------------------------------------------------------------------- */

WHEN_OPEN(core_sample_start, sampling_start)
WHEN_OPEN(core_sample_frames, sampling_frames)
WHEN_OPEN(core_image_begin, imaging_begin)

/* -- one object, for tests and the self-check --------------------------------------------------------------- */

static PyObject *core_size_of(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o;
    if (!core.is_open)
        return refuse("the native core is not open");
    if (!PyArg_ParseTuple(args, "O:size_of", &o))
        return NULL;
    struct kinds kinds;
    if (kinds_open(&kinds, true) < 0) {
        kinds_close(&kinds);
        return PyErr_NoMemory();
    }
    const struct kind *kind = kinds_get(&kinds, Py_TYPE(o));
    uint64_t size = size_of(o, kind), hidden = size_hidden(o, kind);
    bool guessed = kind->size == SIZE_GUESS;
    kinds_close(&kinds);
    return Py_BuildValue("KKi", size, hidden, guessed);
}

static PyObject *core_owned_by(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o;
    if (!core.is_open)
        return refuse("the native core is not open");
    if (!PyArg_ParseTuple(args, "O:owned_by", &o))
        return NULL;
    const struct owner *owner = owners_find(Py_TYPE(o));
    struct owners_seen seen = {0};
    struct owned owned = owner == NULL ? (struct owned){0, false} : owner->measure(o, &seen);
    owners_forget(&seen);
    return Py_BuildValue("Ki", owned.bytes, owned.unknown);
}

static int append_edge(PyObject *o, void *list) { return PyList_Append(list, o); }

static PyObject *core_edges_of(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o, *list;
    if (!core.is_open)
        return refuse("the native core is not open");
    if (!PyArg_ParseTuple(args, "O:edges_of", &o) || (list = PyList_New(0)) == NULL)
        return NULL;
    struct kinds kinds;
    if (kinds_open(&kinds, true) == 0)
        edges_each(o, kinds_get(&kinds, Py_TYPE(o)), append_edge, list);
    else
        PyErr_NoMemory();
    kinds_close(&kinds);
    if (!PyErr_Occurred())
        return list;
    Py_DecRef(list);
    return NULL;
}

/* What the rules say of an object that need no code of the interpreter (rules.h). */
static PyObject *core_without_code(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o, *list;
    if (!core.is_open)
        return refuse("the native core is not open");
    if (!PyArg_ParseTuple(args, "O:without_code", &o) || (list = PyList_New(0)) == NULL)
        return NULL;
    const char *refusal = rules_open_here();
    struct kinds kinds;
    PyObject *found = NULL;
    if (kinds_open(&kinds, true) == 0 && refusal == NULL) {
        const struct kind *kind = kinds_get(&kinds, Py_TYPE(o));
        edges_each(o, kind, append_edge, list);
        found = Py_BuildValue("NKKii", list, size_of(o, kind), size_hidden(o, kind), kind->size == SIZE_GUESS, kind->opaque);
    } else {
        Py_DecRef(list);
    }
    kinds_close(&kinds);
    rules_close();
    return found != NULL || PyErr_Occurred() ? found : refusal != NULL ? refuse(refusal) : PyErr_NoMemory();
}

static PyObject *core_generation_of(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o;
    if (!core.is_open)
        return refuse("the native core is not open");
    if (!PyArg_ParseTuple(args, "O:generation_of", &o))
        return NULL;
    for (int generation = 0; generation < LISTS; generation++)
        for (gc_head *g = gc_next(gc_lists[generation]); g != gc_lists[generation]; g = gc_next(g))
            if (gc_object(g) == o)
                return PyLong_FromLong(generation);
    return PyLong_FromLong(-1);
}

/* -- what memory is our own ---------------------------------------------------------------------------------- */

static bool add_range(PyObject *list, struct pages_range range, const char *name) {
    if (range.at == NULL)
        return true;
    PyObject *found =
        Py_BuildValue("KKs", (unsigned long long)(uintptr_t)range.at, (unsigned long long)pages_rounded(range.size), name);
    bool done = found != NULL && PyList_Append(list, found) == 0;
    Py_XDECREF(found);
    return done;
}

static PyObject *core_own_pages(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    struct pages_range tables[SAMPLE_RANGES];
    sample_ranges(tables);
    PyObject *list = PyList_New(0);
    bool done = list != NULL;
    for (int i = 0; i < SAMPLE_RANGES && done; i++)
        done = add_range(list, tables[i], "sampler: tables");
    struct pages_range names = {core.names.slots, core.names.size * sizeof *core.names.slots};
    done = done && add_range(list, names, "names of types");
    done = done && add_range(list, imaging_range(), "what the open snapshot says");
    done = done && add_range(list, collections_range(), "collections");
    if (done)
        return list;
    Py_XDECREF(list);
    return NULL;
}

static PyObject *core_malloc_stacks(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    return PyBool_FromLong(malloc_stacks_offer());
}

/* -- the graph ---------------------------------------------------------------------------------------------- */

WHEN_OPEN(core_graph_build, graphing_build)
WHEN_OPEN(core_roots, explain_roots)
WHEN_OPEN(core_roots_in_clone, explain_clone)
WHEN_OPEN(core_label_of, explain_label)
WHEN_OPEN(core_path_of, explain_path)
WHEN_OPEN(core_line_of, explain_line)
WHEN_OPEN(core_graph_in_clone, graphing_in_clone)

/* -- the module --------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"open", core_open, METH_VARARGS, "open(hexversion): find layout and symbols; RuntimeError says why not."},
    {"enter_tracing", core_enter_tracing, METH_VARARGS,
     "enter_tracing(): keep the program's trace, profile and monitoring functions off this thread, where Python can."},
    {"check", core_check, METH_O, "check(gc): '', or a sentence: what does not fit; BlockingIOError: ask again."},
    {"give_way", core_give_way, METH_VARARGS, "give_way(): called by check between its parts; the agent replaces it."},
    {"layout", core_layout, METH_VARARGS, "layout(): the table in use."},
    {"set_layout", core_set_layout, METH_VARARGS, "set_layout(name, value): change a fact. For tests."},
    {"begin", core_begin, METH_VARARGS, "begin(first_type_id, options): count in a clone: (fd or -1, pid, pause in ns)."},
    {"end", core_end, METH_VARARGS, "end(): wait for the clone; as stop."},
    {"abort", core_abort, METH_VARARGS, "abort(): end the clone, if there is one."},
    {"read", core_read, METH_VARARGS, "read(fd, most): bytes of the session's socket, none at its end; None: nothing now."},
    {"rest", core_rest, METH_VARARGS, "rest(ns): without the GIL."},
    {"close", core_close, METH_VARARGS, "close(): end the clones, and forget the session: its names are the target's memory."},
    {"stop", core_stop, METH_VARARGS, "stop(first_type_id, options): count here and now: (types, rows, stats)."},
    {"sample_start", core_sample_start, METH_VARARGS, "sample_start(options): sample allocations from now on."},
    {"sample_set", sampling_set, METH_VARARGS, "sample_set(interval, depth, quota): at another rate, to another depth."},
    {"sample_stop", sampling_stop, METH_VARARGS, "sample_stop(): '', or a sentence on what stays."},
    {"sample_leave", sampling_leave, METH_VARARGS, "sample_leave(): in a fork's child, without hooks and tables."},
    {"sample_read", sampling_read, METH_VARARGS, "sample_read(limit): what is new, see sampling.h."},
    {"sample_stats", sampling_stats, METH_VARARGS, "sample_stats(): how it stands."},
    {"sample_clock", sampling_clock, METH_VARARGS, "sample_clock(): bytes allocated since sampling began."},
    {"sample_frames", core_sample_frames, METH_VARARGS, "sample_frames(): [(code, line)] of the calling thread."},
    {"image_begin", core_image_begin, METH_VARARGS, "image_begin(options): open a snapshot, see imaging.h."},
    {"image_look", imaging_look, METH_VARARGS, "image_look(): (state, phase, done, total, memory, holding)."},
    {"image_wait", imaging_wait, METH_VARARGS, "image_wait(ns): whether it could wait for an answer."},
    {"image_take", imaging_take, METH_VARARGS, "image_take(): the answer, or None."},
    {"image_ask", imaging_ask, METH_VARARGS, "image_ask(question): whether it is taken."},
    {"image_cancel", imaging_cancel, METH_VARARGS, "image_cancel(): the answer may be partial."},
    {"image_end", imaging_end, METH_VARARGS, "image_end(): (reason, expected, CPU time in ns)."},
    {"heaptop_gc", collections_note, METH_VARARGS, "heaptop_gc(phase, info): for gc.callbacks, see collections.h."},
    {"blocks", collections_blocks, METH_VARARGS, "blocks(function): blocks in use, or None."},
    {"gc_watch", collections_watch, METH_VARARGS, "gc_watch(leave, blocks): note collections from now on."},
    {"gc_unwatch", collections_unwatch, METH_VARARGS, "gc_unwatch(): note nothing any more."},
    {"gc_read", collections_read, METH_VARARGS, "gc_read(): (rows, dropped): what has ended since the last."},
    {"gc_begun", collections_begun, METH_VARARGS, "gc_begun(): collections since it is watched."},
    {"size_of", core_size_of, METH_VARARGS, "size_of(o): (bytes, hidden bytes, whether guessed)."},
    {"owned_by", core_owned_by, METH_VARARGS, "owned_by(o): (bytes elsewhere, whether it may own more)."},
    {"edges_of", core_edges_of, METH_VARARGS, "edges_of(o): what it refers to, as the walk sees it."},
    {"without_code", core_without_code, METH_VARARGS, "without_code(o): (edges, bytes, hidden, guessed, opaque) by rule."},
    {"generation_of", core_generation_of, METH_VARARGS, "generation_of(o): 0, 1, 2, 3 for permanent, -1 for none."},
    {"graph_build", core_graph_build, METH_VARARGS, "graph_build(options): number all objects, see graphing.h."},
    {"graph_in_clone", core_graph_in_clone, METH_VARARGS, "graph_in_clone(roots, asked): all of it in a clone."},
    {"graph_close", graphing_close, METH_VARARGS, "graph_close(): forget the graph."},
    {"graph_info", graphing_info, METH_VARARGS, "graph_info(o): what the graph says of an object."},
    {"graph_add", graphing_add, METH_VARARGS, "graph_add(objects): a pseudo-object that refers to them."},
    {"graph_retain", graphing_retain, METH_VARARGS, "graph_retain(roots, rest): parents, dominators, retained sizes."},
    {"graph_retainers", graphing_retainers, METH_VARARGS, "graph_retainers(units, roots, limit): retainer sets."},
    {"graph_array", graphing_array, METH_VARARGS, "graph_array(name): the bytes of an array."},
    {"roots", core_roots, METH_VARARGS, "roots([states]): see explain.h, as the next three."},
    {"roots_in_clone", core_roots_in_clone, METH_VARARGS, "roots_in_clone(thread ids): labels."},
    {"label_of", core_label_of, METH_VARARGS, "label_of(o, referent[, values]): what its references to it are called."},
    {"path_of", core_path_of, METH_VARARGS, "path_of(objects[, values]): what each step is called."},
    {"line_of", core_line_of, METH_VARARGS, "line_of(code, offset): the line of an instruction, -1 where it has none."},
    {"heap_stats", heap_stats_face, METH_VARARGS, "heap_stats(): what malloc says of itself, and Python's allocator."},
    {"dump_limit", dumped_limit, METH_VARARGS, "dump_limit(bytes): see dumped.h, as the next eight."},
    {"dump_new", dumped_new, METH_VARARGS, "dump_new(): a heap that is read from a file."},
    {"dump_add", dumped_add, METH_VARARGS, "dump_add(dump, piece): take one piece more."},
    {"dump_finish", dumped_finish, METH_VARARGS, "dump_finish(dump): (objects, references, bytes)."},
    {"dump_count", dumped_count, METH_VARARGS, "dump_count(dump): counts by type and generation."},
    {"dump_ask", dumped_ask, METH_VARARGS, "dump_ask(dump, question): the answer."},
    {"dump_rows", dumped_rows, METH_VARARGS, "dump_rows(dump, first, count): columns of objects."},
    {"dump_look", dumped_look, METH_VARARGS, "dump_look(dump): (done, total)."},
    {"dump_cancel", dumped_cancel, METH_VARARGS, "dump_cancel(dump): give up."},
    {"core_begin", cored_begin, METH_VARARGS, "core_begin(options): walk a core file, see cored.h, as the next two."},
    {"core_end", cored_end, METH_VARARGS, "core_end(): (how, address)."},
    {"core_symbols", cored_symbols, METH_VARARGS, "core_symbols(): names of the symbols that core_begin wants."},
    {"malloc_stacks", core_malloc_stacks, METH_VARARGS,
     "malloc_stacks(): whether a preloaded library reads stacks from now on."},
    {"own_pages", core_own_pages, METH_VARARGS, "own_pages(): [(address, bytes, what for)] of what the core has mapped."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}}; /* all the same: several modules from one library, one after the other */

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_methods = methods,
    .m_slots = slots,
};

/* Another module, where the library cannot be loaded a second time (agent/core.py). The stub calls for the function that
   makes it, which nothing refers to, as a module and its functions do to each other. */
static PyObject *core_again(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    life_begin();
    PyObject *another = PyModule_New("_core");
    if (another == NULL || PyModule_AddFunctions(another, methods) == 0)
        return another;
    Py_DECREF(another);
    return NULL;
}

static PyMethodDef again = {"heaptop_core", core_again, METH_NOARGS, "heaptop_core(): a module as at the first load."};

PyObject *heaptop_core_again(void);

__attribute__((visibility("default"))) PyObject *heaptop_core_again(void) { return PyCFunction_New(&again, NULL); }

/* Debuggers and crash handlers open the file that the loader names for each library. The name of a descriptor would be one
   of their own, and perhaps a pipe that never answers. So the loader's text becomes a name that no file has, in its place:
   glibc finds the library again by another copy of the name, and musl by none. */
static void name_no_descriptor(void) {
    static const char from[] = "/proc/self/fd/", to[] = "/memfd:heaptop-core";
    struct lookup_object here;
    struct life_wait wait = life_release();
    if (lookup_object(&definition, &here) && strncmp(here.file, from, sizeof from - 1) == 0 && strlen(here.file) >= sizeof to)
        memcpy((char *)here.file, to, sizeof to);
    life_return(wait);
}

PyMODINIT_FUNC PyInit__core(void);

__attribute__((visibility("default"))) PyObject *PyInit__core(void) {
    life_begin();
    name_no_descriptor();
    return PyModuleDef_Init(&definition);
}
