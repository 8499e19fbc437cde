/* graphing: from Python's arguments to the graph, and from its tables to bytes. */
#include "module/graphing.h"

#include "clone/child_memory.h"
#include "clone/clone.h"
#include "graph/graph.h"
#include "graph/retain.h"
#include "graph/retainers.h"
#include "heap/without_code/rules.h"

#include <string.h>

/* Guarded by the GIL. */
static struct {
    bool is_built, is_retained, has_sets;
    struct graph graph;
    struct retain retain;
    struct retainers retainers;
    uint32_t *units;
} face;

static void close_retainers(void) {
    retainers_close(&face.retainers);
    pages_unmap(face.units, face.graph.rows.count * sizeof *face.units + 1);
    face.units = NULL;
    face.has_sets = false;
}

static void close_all(void) {
    close_retainers();
    retain_close(&face.retain);
    graph_close(&face.graph);
    face.is_built = face.is_retained = false;
}

static const char no_memory[] = "there was no memory for the graph";

static PyObject *refuse(const char *sentence) {
    PyErr_SetString(sentence == no_memory ? PyExc_MemoryError : PyExc_RuntimeError, sentence);
    return NULL;
}

/* A sentence where there can be no walk now, or NULL. */
static const char *find_lists(void) {
    const char *refusal = layout_find_lists();
    return refusal == NULL && layout_collecting() ? "the interpreter is collecting" : refusal;
}

/* A list under a key of the options; NULL without an exception where there is none. */
static PyObject *option(PyObject *options, const char *name) {
    return options == NULL ? NULL : PyDict_GetItemString(options, name);
}

static bool exclude_all(PyObject *own) {
    for (Py_ssize_t i = 0; own != NULL && i < PyList_Size(own); i++)
        walk_exclude(&face.graph.walk, (PyObject *)PyLong_AsUnsignedLongLong(PyList_GetItem(own, i)));
    return PyErr_Occurred() == NULL;
}

/* A sentence on what went wrong, or NULL. */
static const char *build(PyObject *also, uint64_t *walked) {
    struct graph *g = &face.graph;
    int walk = walk_run(&g->walk);
    for (Py_ssize_t i = 0; also != NULL && walk == WALK_OK && i < PyList_Size(also); i++)
        walk = walk_add(&g->walk, PyList_GetItem(also, i));
    *walked = raw_clock();
    if (walk != WALK_OK)
        return walk == WALK_NO_MEMORY ? no_memory : "a list of the collector was not whole";
    switch (graph_build(g)) {
    case GRAPH_OK:
        return NULL;
    case GRAPH_TOO_LARGE:
        return "there are too many references for a graph";
    default:
        return no_memory;
    }
}

PyObject *graphing_build(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *options = NULL;
    if (!PyArg_ParseTuple(args, "|O!:graph_build", &PyDict_Type, &options))
        return NULL;
    const char *refusal = find_lists();
    if (refusal != NULL)
        return refuse(refusal);
    close_all();
    uint64_t begin = raw_clock(), walked = begin;
    if (option(options, "without_code") != NULL)
        refusal = rules_open_here();
    if (refusal == NULL && graph_open(&face.graph, false) < 0)
        refusal = no_memory;
    if (refusal == NULL && exclude_all(option(options, "own"))) {
        layout_block_collector(true);
        refusal = build(option(options, "also"), &walked);
        layout_block_collector(false);
    }
    rules_close();
    uint64_t end = raw_clock();
    if (refusal != NULL || PyErr_Occurred()) {
        close_all();
        return refusal != NULL ? refuse(refusal) : NULL;
    }
    face.is_built = true;
    const struct csr *rows = &face.graph.rows;
    return Py_BuildValue("{sIsIsKsKsKsK}", "objects", rows->count, "edges", rows->first[rows->count], "bytes",
                         graph_bytes(&face.graph), "walk_ns", walked - begin, "rows_ns", end - walked, "opaque",
                         face.graph.walk.opaque_bytes);
}

PyObject *graphing_close(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    close_all();
    return new_reference(Py_None);
}

PyObject *graphing_info(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o;
    if (!PyArg_ParseTuple(args, "O:graph_info", &o))
        return NULL;
    uint32_t number = face.is_built ? graph_number(&face.graph, o) : CSR_NONE;
    if (number == CSR_NONE)
        return new_reference(Py_None);
    const struct csr *rows = &face.graph.rows;
    PyObject *edges = PyList_New(0);
    for (uint32_t e = rows->first[number]; edges != NULL && e < rows->first[number + 1]; e++) {
        PyObject *edge = PyLong_FromUnsignedLong(rows->edges[e]);
        if (edge == NULL || PyList_Append(edges, edge) < 0)
            Py_CLEAR(edges);
        Py_XDECREF(edge);
    }
    return edges == NULL ? NULL
                         : Py_BuildValue("{sIsKsOsN}", "number", number, "size", csr_size(rows, number), "type",
                                         graph_kind(&face.graph, number)->type, "edges", edges);
}

PyObject *graphing_add(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *referents;
    if (!PyArg_ParseTuple(args, "O!:graph_add", &PyList_Type, &referents))
        return NULL;
    if (!face.is_built || face.is_retained)
        return refuse("there is no graph to add to");
    uint32_t number = graph_add(&face.graph);
    bool done = number != CSR_NONE;
    for (Py_ssize_t i = 0; done && i < PyList_Size(referents); i++)
        done = graph_add_edge(&face.graph, PyList_GetItem(referents, i));
    return done ? PyLong_FromUnsignedLong(number) : PyErr_NoMemory();
}

/* -- what was found in it ----------------------------------------------------------------------------------- */

/* The number of an object, read from an int. False with an exception set. */
static bool read_number(PyObject *o, uint32_t *number) {
    unsigned long value = PyLong_AsUnsignedLong(o);
    if (!PyErr_Occurred() && value >= face.graph.rows.count)
        PyErr_SetString(PyExc_IndexError, "there is no such object");
    *number = (uint32_t)value;
    return PyErr_Occurred() == NULL;
}

static int reach_list(unsigned kind, PyObject *list) {
    Py_ssize_t size = PyList_Size(list);
    uint32_t *roots = size < 0 ? NULL : pages_map((size_t)size * sizeof *roots + 1);
    int status = RETAIN_NO_MEMORY;
    if (roots == NULL)
        return status;
    for (Py_ssize_t i = 0; i < size; i++)
        if (!read_number(PyList_GetItem(list, i), &roots[i]))
            goto done;
    status = retain_reach(&face.retain, kind, roots, (uint64_t)size);
done:
    pages_unmap(roots, (size_t)size * sizeof *roots + 1);
    return status;
}

/* Also what others lead to: it would not go with them. */
static int reach_held(unsigned kind) {
    struct graph_held held;
    bool found = graph_find_held(&face.graph, NULL, &held);
    int status = found ? retain_reach(&face.retain, kind, held.numbers, held.count) : RETAIN_NO_MEMORY;
    graph_held_close(&held);
    return status;
}

PyObject *graphing_retain(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kinds;
    unsigned int held;
    if (!PyArg_ParseTuple(args, "O!I:graph_retain", &PyList_Type, &kinds, &held))
        return NULL;
    if (!face.is_built || PyList_Size(kinds) > held || held + 1 >= RETAIN_KINDS)
        return refuse("there is no graph, or there are too many kinds");
    retain_close(&face.retain);
    face.is_retained = false;
    uint64_t begin = raw_clock();
    int status = retain_open(&face.retain, &face.graph.rows);
    for (Py_ssize_t i = 0; status == RETAIN_OK && i < PyList_Size(kinds); i++)
        status = reach_list((unsigned)i, PyList_GetItem(kinds, i));
    if (status == RETAIN_OK)
        status = reach_held(held);
    if (status == RETAIN_OK)
        status = retain_rest(&face.retain, held + 1);
    uint64_t found = raw_clock();
    if (status == RETAIN_OK)
        status = retain_dominate(&face.retain);
    uint64_t end = raw_clock();
    if (status != RETAIN_OK) {
        retain_close(&face.retain);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    face.is_retained = true;
    return Py_BuildValue("{sIsKsKsK}", "reached", face.retain.reached, "bytes", face.retain.most_bytes, "search_ns",
                         found - begin, "dominate_ns", end - found);
}

static bool read_roots(PyObject *list, struct retainers_root *roots) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        PyObject *object, *root = PyList_GetItem(list, i);
        if (!PyArg_ParseTuple(root, "OI", &object, &roots[i].unit) || !read_number(object, &roots[i].object))
            return false;
    }
    return true;
}

static PyObject *list_of_sets(void) {
    PyObject *sets = PyList_New(0);
    for (uint32_t set = 0; sets != NULL && set < face.retainers.count; set++) {
        const uint32_t *members;
        uint32_t count = retainers_members(&face.retainers, set, &members);
        PyObject *list = set == RETAINERS_MANY ? Py_BuildValue("") : PyList_New(0);
        for (uint32_t i = 0; list != NULL && i < count; i++) {
            PyObject *unit = PyLong_FromUnsignedLong(members[i]);
            if (unit == NULL || PyList_Append(list, unit) < 0)
                Py_CLEAR(list);
            Py_XDECREF(unit);
        }
        if (list == NULL || PyList_Append(sets, list) < 0)
            Py_CLEAR(sets);
        Py_XDECREF(list);
    }
    return sets;
}

static PyObject *list_of_totals(void) {
    PyObject *totals = PyList_New(0);
    for (uint32_t set = 0; totals != NULL && set < face.retainers.count; set++) {
        PyObject *pair = Py_BuildValue("KK", face.retainers.totals[set].objects, face.retainers.totals[set].bytes);
        if (pair == NULL || PyList_Append(totals, pair) < 0)
            Py_CLEAR(totals);
        Py_XDECREF(pair);
    }
    return totals;
}

static PyObject *retainers_found(uint64_t duration) {
    PyObject *sets = list_of_sets(), *totals = sets == NULL ? NULL : list_of_totals();
    if (totals == NULL) {
        Py_XDECREF(sets);
        return NULL;
    }
    return Py_BuildValue("{sNsNsKsKsK}", "sets", sets, "totals", totals, "bytes", retainers_bytes(&face.retainers), "steps",
                         face.retainers.steps, "ns", duration);
}

PyObject *graphing_retainers(PyObject *module, PyObject *args) {
    (void)module;
    const char *units;
    Py_ssize_t size;
    PyObject *list;
    unsigned int limit;
    const struct csr *rows = &face.graph.rows;
    if (!PyArg_ParseTuple(args, "y#O!I:graph_retainers", &units, &size, &PyList_Type, &list, &limit))
        return NULL;
    if (!face.is_built || (size_t)size != rows->count * sizeof(uint32_t) || limit < 1 || limit > RETAINERS_LIMIT)
        return refuse("there is no such graph, or no such limit");
    close_retainers();
    size_t root_count = (size_t)PyList_Size(list), root_bytes = root_count * sizeof(struct retainers_root) + 1;
    struct retainers_root *roots = pages_map(root_bytes);
    face.units = pages_map((size_t)size + 1);
    if (roots == NULL || face.units == NULL || !read_roots(list, roots)) {
        pages_unmap(roots, root_bytes);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    memcpy(face.units, units, (size_t)size);
    uint64_t begin = raw_clock();
    int status = retainers_open(&face.retainers, rows, face.units, limit);
    if (status == RETAINERS_OK)
        status = retainers_find(&face.retainers, roots, root_count);
    uint64_t end = raw_clock();
    pages_unmap(roots, root_bytes);
    face.has_sets = status == RETAINERS_OK;
    return face.has_sets ? retainers_found(end - begin) : PyErr_NoMemory();
}

/* -- in a clone --------------------------------------------------------------------------------------------- */

struct addresses {
    uint64_t *at;
    size_t count;
};

struct request {
    struct addresses roots, asked;
};

struct answer {
    uint64_t objects, edges, reached, bytes, walk_ns, rows_ns, search_ns, dominate_ns;
};

static bool addresses_open(struct addresses *a, PyObject *list) {
    *a = (struct addresses){.count = (size_t)PyList_Size(list)};
    a->at = pages_map(a->count * sizeof *a->at + 1);
    for (size_t i = 0; a->at != NULL && i < a->count; i++)
        a->at[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(list, (Py_ssize_t)i));
    if (a->at == NULL)
        PyErr_NoMemory();
    return PyErr_Occurred() == NULL;
}

static void addresses_close(struct addresses *a) { pages_unmap(a->at, a->count * sizeof *a->at + 1); }

static int reach_addresses(const struct addresses *a) {
    uint32_t *roots = pages_map(a->count * sizeof *roots + 1);
    uint64_t count = 0;
    for (size_t i = 0; roots != NULL && i < a->count; i++) {
        roots[count] = graph_number(&face.graph, (void *)a->at[i]);
        count += roots[count] != CSR_NONE;
    }
    int status = roots == NULL ? RETAIN_NO_MEMORY : retain_reach(&face.retain, 0, roots, count);
    pages_unmap(roots, a->count * sizeof *roots + 1);
    return status;
}

static bool retain_all(const struct request *request, struct answer *answer) {
    uint64_t begin = raw_clock();
    bool found = retain_open(&face.retain, &face.graph.rows) == RETAIN_OK && reach_addresses(&request->roots) == RETAIN_OK &&
                 reach_held(1) == RETAIN_OK && retain_rest(&face.retain, 2) == RETAIN_OK;
    uint64_t searched = raw_clock();
    found = found && retain_dominate(&face.retain) == RETAIN_OK;
    answer->reached = face.retain.reached;
    answer->search_ns = searched - begin;
    answer->dominate_ns = raw_clock() - searched;
    return found;
}

static int clone_work(void *context, struct result *out) {
    const struct request *request = context;
    child_memory_use();
    close_all();
    struct answer answer = {0};
    uint64_t begin = raw_clock(), walked;
    if (graph_open(&face.graph, true) < 0 || build(NULL, &walked) != NULL)
        return 1;
    answer.rows_ns = raw_clock() - walked;
    answer.walk_ns = walked - begin;
    if (!retain_all(request, &answer) || child_memory_failed())
        return 1;
    answer.objects = face.graph.rows.count;
    answer.edges = face.graph.rows.first[face.graph.rows.count];
    answer.bytes = graph_bytes(&face.graph) + face.retain.most_bytes + child_memory_bytes();
    int status = result_append(out, &answer, sizeof answer);
    for (size_t i = 0; status == 0 && i < request->asked.count; i++) {
        uint32_t number = graph_number(&face.graph, (void *)request->asked.at[i]);
        uint64_t retained = number == CSR_NONE ? 0 : face.retain.retained[number];
        status = result_append(out, &retained, sizeof retained);
    }
    return status;
}

static PyObject *answer_of(const struct snapshot *s, size_t asked) {
    struct answer a;
    memcpy(&a, s->result.data, sizeof a);
    PyObject *retained = PyList_New(0);
    for (size_t i = 0; retained != NULL && i < asked; i++) {
        uint64_t bytes;
        memcpy(&bytes, s->result.data + sizeof a + i * sizeof bytes, sizeof bytes);
        PyObject *number = PyLong_FromUnsignedLongLong(bytes);
        if (number == NULL || PyList_Append(retained, number) < 0)
            Py_CLEAR(retained);
        Py_XDECREF(number);
    }
    return retained == NULL
               ? NULL
               : Py_BuildValue("{sKsKsKsKsKsKsKsKsK}N", "objects", a.objects, "edges", a.edges, "reached", a.reached, "bytes",
                               a.bytes, "walk_ns", a.walk_ns, "rows_ns", a.rows_ns, "search_ns", a.search_ns, "dominate_ns",
                               a.dominate_ns, "pause_ns", s->pause_ns, retained);
}

static PyObject *run_in_clone(struct request *request) {
    static struct snapshot snapshot;
    const struct snapshot_limits limits = {0};
    const char *refusal = find_lists();
    if (refusal == NULL && snapshot_begin(&snapshot, clone_work, request, &limits) < 0)
        refusal = "there was no clone";
    int status = SNAPSHOT_NONE;
    if (refusal == NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = snapshot_end(&snapshot);
        Py_END_ALLOW_THREADS
    }
    if (refusal == NULL && status != SNAPSHOT_OK)
        refusal = "the clone did not end well";
    PyObject *answer = refusal != NULL ? refuse(refusal) : answer_of(&snapshot, request->asked.count);
    snapshot_release(&snapshot);
    return answer;
}

PyObject *graphing_in_clone(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *roots, *asked, *answer = NULL;
    struct request request = {0};
    if (!PyArg_ParseTuple(args, "O!O!:graph_in_clone", &PyList_Type, &roots, &PyList_Type, &asked))
        return NULL;
    if (addresses_open(&request.roots, roots) && addresses_open(&request.asked, asked))
        answer = run_in_clone(&request);
    addresses_close(&request.roots);
    addresses_close(&request.asked);
    return answer;
}

/* -- arrays ------------------------------------------------------------------------------------------------- */

static PyObject *addresses(void) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(face.graph.objects * sizeof(uint64_t)));
    uint64_t *out = bytes == NULL ? NULL : (uint64_t *)PyBytes_AsString(bytes);
    for (uint32_t number = 0; out != NULL && number < face.graph.objects; number++)
        out[number] = (uint64_t)graph_object(&face.graph, number);
    return bytes;
}

/* "in_first" or "in_edges". */
static PyObject *reversed(const char *name) {
    struct csr_reverse reverse;
    PyObject *bytes = NULL;
    if (csr_reverse_open(&reverse, &face.graph.rows) < 0)
        PyErr_NoMemory();
    else if (strcmp(name, "in_first") == 0)
        bytes = PyBytes_FromStringAndSize((char *)reverse.first, (reverse.count + 1) * sizeof *reverse.first);
    else
        bytes = PyBytes_FromStringAndSize((char *)reverse.edges, reverse.edge_count * sizeof *reverse.edges);
    csr_reverse_close(&reverse);
    return bytes;
}

static PyObject *references(void) {
    uint32_t *found = graph_references(&face.graph, NULL);
    if (found == NULL)
        return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize((char *)found, (Py_ssize_t)(face.graph.rows.count * sizeof *found));
    graph_references_close(&face.graph, found);
    return bytes;
}

PyObject *graphing_array(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    if (!PyArg_ParseTuple(args, "s:graph_array", &name))
        return NULL;
    if (!face.is_built)
        return refuse("there is no graph");
    if (strcmp(name, "addresses") == 0)
        return addresses();
    if (strncmp(name, "in_", 3) == 0)
        return reversed(name);
    if (strcmp(name, "references") == 0)
        return references();
    const struct csr *rows = &face.graph.rows;
    const struct retain *r = &face.retain;
    size_t count = rows->count;
    const struct {
        const char *name;
        const void *array;
        size_t size;
    } arrays[] = {
        {"first", rows->first, (count + 1) * sizeof *rows->first},
        {"edges", rows->edges, rows->first[count] * sizeof *rows->edges},
        {"sizes", rows->sizes, count * sizeof *rows->sizes},
        {"kind", r->kind, count * sizeof *r->kind},
        {"parent", r->parent, count * sizeof *r->parent},
        {"place", r->place, count * sizeof *r->place},
        {"order", r->order, r->reached * sizeof *r->order},
        {"roots", r->roots, r->root_count * sizeof *r->roots},
        {"dominator", r->dominator, count * sizeof *r->dominator},
        {"retained", r->retained, count * sizeof *r->retained},
        {"sets", face.has_sets ? face.retainers.set : NULL, count * sizeof *face.retainers.set},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (strcmp(name, arrays[i].name) == 0 && arrays[i].array != NULL)
            return PyBytes_FromStringAndSize(arrays[i].array, (Py_ssize_t)arrays[i].size);
    PyErr_SetString(PyExc_KeyError, name);
    return NULL;
}
