/* roots: where everything that is kept alive is kept from: modules, the frames of every thread, the interpreter itself.

     MODULE       the values of sys.modules, by name
     FRAME        per thread, from its innermost frame outward; a frame is no object (or one that need not be in any
                  list), so that it comes as a pseudo-object with all it refers to, one after the other:
                      thread ─► frame ─► frame ─► …  what a thread handles or has raised is before its frames
                                 ├ itself      a generator that runs now, a frame object: it tells the rest
                                 ├ code, function, namespace, globals, builtins, frame object, trace function
                                 ├ locals      by slot, with a name
                                 └ stack       by slot: values in use, iterators of loops, arguments of a call under way
     RUNTIME      what the interpreter and its threads hold besides: codecs, atexit, storage of a thread …
     INTERPRETER  modules and frames of other interpreters, where they run under the same lock

   In the middle of a call to C, Python may not know how much of a frame's stack is in use. Then each word of it
   that is the address of an object is told as ``maybe``: the reference may be old. Who has seen all other references knows:
   it is one where ob_refcnt is above their number.

   roots_open asks the interpreter, after layout_find_lists and before a clone; roots_each reads memory alone. The list of threads may be changed by
   threads without the GIL: it is followed with care, and as far as it leads. */
#ifndef HEAPTOP_ROOTS_H
#define HEAPTOP_ROOTS_H

#include "layout.h"
#include "heap/marks.h"

enum root_class { ROOT_MODULE, ROOT_FRAME, ROOT_RUNTIME, ROOT_INTERPRETER };

enum root_part {
    PART_MODULE,    /* has a name, where the key is a str */
    PART_WHAT,      /* the part that ``what`` names; of a thread, where there is one */
    PART_ITSELF,
    PART_CODE,
    PART_FUNCTION,
    PART_NAMESPACE, /* f_locals of a module's or a class's body */
    PART_GLOBALS,
    PART_BUILTINS,
    PART_FRAME,     /* the frame object of a frame that is none itself */
    PART_TRACE,
    PART_LOCAL,     /* has a name; a cell where the variable is shared */
    PART_STACK,
};

enum { UNKNOWN = -1 };

struct roots_thread {
    const void *state;
    uint64_t id;     /* as threading.get_ident returns it */
    uint64_t native; /* the kernel's; 0 where it is not known */
    int blocked;     /* 1: in a system call and not for the GIL, when roots_open looked; 0: not; or UNKNOWN */
    bool own;        /* it called roots_open */
};

struct roots_frame {
    const void *address; /* distinguishes it from others */
    PyObject *code;
    PyObject *object; /* the generator whose frame it is, or the frame, where it is one and in a list; or NULL */
    uint32_t depth;   /* 0: the innermost */
};

struct root {
    PyObject *object;
    enum root_part part;
    uint32_t slot;                     /* of a local or a value on the stack: from the first local on */
    PyObject *name;                    /* an exact str, or NULL */
    const char *what;                  /* PART_WHAT */
    const struct roots_thread *thread; /* NULL where it is of none */
    const struct roots_frame *frame;   /* likewise. Gone after the call, as is the thread */
    bool counted;                      /* ob_refcnt has it */
    bool maybe;                        /* see above */
};

typedef void (*roots_visit)(void *context, enum root_class, const struct root *);

enum { ROOTS_THREADS = 1 << 16, ROOTS_STATES = 256 };

struct roots {
    const void *interpreter, *thread; /* the caller's */
    PyObject *modules;
    struct roots_state {
        const void *thread;
        uint64_t native;
        int blocked;
    } *states;
    uint32_t state_count;
};

/* Ask the interpreter. With the GIL; roots_close is right after either. NULL, or a sentence (static storage) that says
   why it cannot be told. ``states``: also which threads are blocked, which takes some 10 µs for each, of 256 at most. */
const char *roots_open(struct roots *r, bool states);
/* The same of memory in which nothing runs, where _PyRuntime is at ``runtime``: of no thread is it known whether it is blocked. */
const char *roots_open_at(struct roots *r, const void *runtime);
void roots_close(struct roots *r);

/* Visit each root, which may be left out of the marks, or not be in them yet. ``marks``: of the walk; without them no
   value is told that may be one. The GIL is held and nothing has run since roots_open, or this is a snapshot child.
   Whether the list of threads was whole. */
bool roots_each(const struct roots *r, const struct marks *marks, roots_visit visit, void *context);

/* Whether the instances of a type are greenlets, and the frames of one that is suspended: as those of a thread, of which
   there is none. Where frames are structures, nothing else leads to what its locals hold, for the collector does not look there. It is
   followed up to where C code has called into Python: what stood on the C stack then may be gone. */
bool roots_is_greenlet(PyTypeObject *type);
void roots_of_greenlet(const struct roots *r, const struct marks *marks, PyObject *greenlet, roots_visit visit, void *context);

/* The name of a local by its slot, or NULL: an exact str. */
PyObject *roots_local_name(PyObject *code, uint32_t slot);

/* How many locals, cells included, a frame of this code has. */
uint32_t roots_locals(PyObject *code);

/* What a word of a frame refers to, or NULL. */
static inline PyObject *roots_item(const void *frame, uint32_t slot, bool *counted) {
    return frame_reference(frame, layout.frame_items + 8 * (int32_t)slot, counted);
}

#endif
