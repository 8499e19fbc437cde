/* edges: what an object refers to: what tp_traverse visits, and what it leaves out.

   Left out by CPython and visited here: the keys of dicts whose keys are all str; every member of a code object; the
   table of a type's subclasses; names, slots and shared attribute names of heap types; namespace, mro and bases of static
   types; the heap type of an instance that is not collected; items (also in fields of records), base and dtype of numpy
   arrays; the dict of an instance whose values are inline; the type of an instance, where C code forgets it.
   What tp_traverse visits is visited once, also by types made from dict. Items of an array are visited by that array
   alone which owns them, and not by its views, whose shapes may be larger than any memory.

   A reference represents a counted one (ob_refcnt), but for: keys that several dicts share, values that an instance and
   its dict share, keys of an OrderedDict and links of an lru_cache, which are counted twice. edges_correct corrects these
   but the first, which are names of attributes.

   The visitor is inlined where builtin containers are visited: pass one that the compiler sees. */
#ifndef HEAPTOP_EDGES_H
#define HEAPTOP_EDGES_H

#include "heap/containers.h"
#include "heap/kind.h"
#include "heap/numpy.h"
#include "heap/without_code/rules.h"

enum edge_rule edges_decide(PyTypeObject *type);
enum uneven_rule edges_decide_uneven(PyTypeObject *type);

/* Visit what is in the rows of an object and not counted, or counted and in no row. ``sign``: -1 or 1. */
typedef void (*edges_correction)(PyObject *o, int sign, void *context);
void edges_correct(PyObject *o, const struct kind *kind, edges_correction correct, void *context);

/* The dict of an instance where both visit the same values, or NULL. */
PyObject *edges_shared_dict(PyObject *o, const struct kind *kind);

/* What tp_traverse visits, or without code the rule in its place. */
static inline void edges_traverse(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    if (symbols.without_code)
        rules_visit(o, kind, visit, context);
    else
        kind->traverse(o, visit, context);
}

/* Whether edges_correct has anything to do. */
static inline bool edges_uneven(PyObject *o, const struct kind *kind) {
    return kind->uneven != EVEN || (kind->values == VALUES_INLINE && edges_shared_dict(o, kind) != NULL);
}

/* The rules that need no inlining. */
void edges_of_rest(PyObject *o, const struct kind *kind, visitproc visit, void *context);
void edges_of_watched(PyObject *o, const struct kind *kind, visitproc visit, void *context);
void edges_of_code(PyObject *code, visitproc visit, void *context);
void edges_of_type(PyObject *type, const struct kind *kind, visitproc visit, void *context);

/* Visit what ``o`` refers to. A visitor that returns something else than 0 ends a builtin container, and most types that
   have a tp_traverse; others go on. */
CONTAINER_INLINE void edges_each(PyObject *o, const struct kind *kind, visitproc visit, void *context) {
    switch (kind->edges) {
    case EDGES_NONE:
        break;
    case EDGES_LIST:
        span_visit(pointer_at(o, layout.list_items), size_field(o), visit, context);
        break;
    case EDGES_TUPLE:
        span_visit(at(o, layout.tuple_items), size_field(o), visit, context);
        break;
    case EDGES_SET:
        set_visit(o, visit, context);
        break;
    case EDGES_DICT:
        dict_visit(o, visit, context);
        break;
    case EDGES_DICT_LIKE: /* the items first, so that their positions say which they are */
        dict_visit(o, visit, context);
        edges_of_rest(o, kind, visit, context);
        break;
    case EDGES_TRAVERSE:
        if (!kind_collects(kind, o))
            break;
        if (kind_is_watched(kind) || (kind->values == VALUES_INLINE && object_at(o, layout.object_dict) != NULL))
            edges_of_watched(o, kind, visit, context);
        else
            edges_traverse(o, kind, visit, context);
        break;
    case EDGES_CODE:
        edges_of_code(o, visit, context);
        break;
    case EDGES_TYPE:
        edges_of_type(o, kind, visit, context);
        break;
    case EDGES_ARRAY:
        numpy_visit(o, visit, context);
        if (kind_collects(kind, o)) /* a class made from it */
            edges_traverse(o, kind, visit, context);
        break;
    }
    if (kind->holds_type)
        visit((PyObject *)kind->type, context);
}

#endif
