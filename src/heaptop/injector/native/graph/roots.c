/* roots: the interpreter's and its threads' own references. The drawing is in the header. */
#include "graph/roots.h"

#include "lookup.h"
#include "pages.h"
#include "heap/containers.h"
#include "heap/size.h"

#include <string.h>

enum { MOST_SLOTS = 1 << 20, MOST_CALLBACKS = 1 << 16 };

/* -- looking with care: at what may be anything ------------------------------------------------------------- */

static bool is_readable(const void *address, size_t size) {
    return (uintptr_t)address % 8 == 0 && raw_readable((uint64_t)address) && raw_readable((uint64_t)address + size - 8);
}

/* Whether there is an object of exactly that type, if the type is right. */
static bool is_exactly(PyObject *o, const PyTypeObject *type) { return is_readable(o, head_size()) && Py_TYPE(o) == type; }

static bool is_state_of(const void *thread, const void *interpreter) {
    return is_readable(thread, (size_t)layout.thread_handled + 24) &&
           pointer_at(thread, layout.thread_interpreter) == interpreter;
}

/* -- before a clone ----------------------------------------------------------------------------------------- */

/* A number in decimal or, behind 0x, hexadecimal; ``*text`` behind it. */
static uint64_t read_number(const char **text) {
    uint64_t number = 0, base = 10;
    if ((*text)[0] == '0' && (*text)[1] == 'x') {
        base = 16;
        *text += 2;
    }
    for (;; ++*text) {
        uint64_t digit = (uint64_t)(**text >= 'a' ? **text - 'a' + 10 : **text - '0');
        if (digit >= base)
            return number;
        number = number * base + digit;
    }
}

static char *put_text(char *at, const char *text) {
    size_t size = strlen(text);
    memcpy(at, text, size + 1);
    return at + size;
}

static char *put_number(char *at, uint64_t number) {
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* Whether each interpreter may have a lock of its own. */
static bool has_locks(void) { return !symbols.thread_state_is_shared; }

/* Whether an address is within the lock of the interpreter: a thread that waits there wants to run. */
static bool is_in_lock(const struct roots *r, uint64_t address) {
    enum { LOCK_BYTES = 512, RUNTIME_BYTES = 1 << 16 };
    bool own = has_locks(); /* else it stands near the beginning of _PyRuntime */
    uint64_t lock = (uint64_t)(own ? pointer_at(r->interpreter, layout.interpreter_lock) : symbols.runtime);
    return address - lock < (own ? LOCK_BYTES : RUNTIME_BYTES);
}

/* From /proc: "running", or the number of a system call and its arguments, or -1 outside of one. */
static int state_of(const struct roots *r, uint64_t native) {
    char path[64], text[128];
    if (has_locks() && layout.interpreter_lock == 0)
        return UNKNOWN;
    put_text(put_number(put_text(path, "/proc/self/task/"), native), "/syscall");
    long file = raw_open(path, 0 /* O_RDONLY */);
    if (raw_failed(file))
        return UNKNOWN;
    long size = raw_call(SYS_read, file, (long)text, sizeof text - 1, 0, 0);
    raw_call(SYS_close, file, 0, 0, 0, 0);
    if (raw_failed(size) || size == 0)
        return UNKNOWN;
    text[size] = 0;
    if (text[0] < '0' || text[0] > '9')
        return text[0] == 'r' ? 0 : UNKNOWN;
    const char *at = text;
    bool waits = read_number(&at) == SYS_futex;
    return waits && *at == ' ' && (at++, is_in_lock(r, read_number(&at))) ? 0 : 1;
}

/* The kernel's number of a thread. Where Python has none, glibc does: its struct pthread has it at an offset that has not
   changed since 2003, and which the calling thread confirms. */
static uint64_t native_of(const struct roots *r, const void *thread) {
    enum { GLIBC_TID = 720 };
    if (layout.thread_native_id != 0)
        return uint64_at(thread, layout.thread_native_id);
    const char *own = (char *)uint64_at(r->thread, layout.thread_id), *other = (char *)uint64_at(thread, layout.thread_id);
    if (!is_readable(own, GLIBC_TID + 8) || !is_readable(other, GLIBC_TID + 8))
        return 0;
    bool known = (long)uint32_at(own, GLIBC_TID) == raw_call(SYS_gettid, 0, 0, 0, 0, 0);
    return known ? uint32_at(other, GLIBC_TID) : 0;
}

/* The first of an interpreter's threads, and the next. NULL behind the last, and where the list leads astray, which
   ``*whole`` distinguishes. */
static const void *first_thread(const void *interpreter, bool *whole) {
    const void *thread = pointer_at(interpreter, layout.interpreter_threads);
    *whole = thread == NULL || is_state_of(thread, interpreter);
    return *whole ? thread : NULL;
}

static const void *next_thread(const void *interpreter, const void *thread, bool *whole) {
    const void *next = pointer_at(thread, layout.thread_next);
    *whole = next == NULL || (is_state_of(next, interpreter) && pointer_at(next, 0) == thread);
    return *whole ? next : NULL;
}

static bool note_states(struct roots *r) {
    r->states = pages_map(ROOTS_STATES * sizeof *r->states);
    if (r->states == NULL)
        return false;
    bool whole;
    for (const void *t = first_thread(r->interpreter, &whole); t != NULL && r->state_count < ROOTS_STATES;
         t = next_thread(r->interpreter, t, &whole)) {
        uint64_t native = native_of(r, t);
        int blocked = t == r->thread ? 0 : native == 0 ? UNKNOWN : state_of(r, native);
        r->states[r->state_count++] = (struct roots_state){t, native, blocked};
    }
    return true;
}

const char *roots_open(struct roots *r, bool states) {
    *r = (struct roots){.thread = symbols.thread_state(), .modules = PyImport_GetModuleDict()};
    r->interpreter = pointer_at(r->thread, layout.thread_interpreter);
    if (states && !note_states(r))
        return "out of memory in the target";
    return NULL;
}

const char *roots_open_at(struct roots *r, const void *runtime) {
    *r = (struct roots){.interpreter = pointer_at(runtime, layout.runtime_main)};
    if (!is_readable(at(r->interpreter, layout.interpreter_modules), 8))
        return "there is no interpreter";
    r->modules = object_at(r->interpreter, layout.interpreter_modules);
    if (!is_exactly(r->modules, symbols.dict_type))
        return "there is no dict of modules";
    layout_interpreters_at(r->interpreter, pointer_at(runtime, layout.runtime_interpreters));
    return NULL;
}

void roots_close(struct roots *r) {
    pages_unmap(r->states, ROOTS_STATES * sizeof *r->states);
    *r = (struct roots){0};
}

/* -- a pass over them --------------------------------------------------------------------------------------- */

struct pass {
    const struct roots *roots;
    const struct marks *marks;
    roots_visit visit;
    void *context;
    enum root_class class;
    bool other; /* of another interpreter: that is the class of all */
    struct root root;
};

static void report(struct pass *p, enum root_part part, PyObject *o) {
    p->root.part = part;
    p->root.object = o;
    if (o != NULL && o != symbols.none)
        p->visit(p->context, p->other ? ROOT_INTERPRETER : p->class, &p->root);
}

static void report_what(struct pass *p, const char *what, PyObject *o) {
    p->root.what = what;
    report(p, PART_WHAT, o);
    p->root.what = NULL;
}

static void report_members(struct pass *p, const char *what, const void *base, int32_t offset, int count) {
    for (int i = 0; i < count; i++)
        report_what(p, what, object_at(base, offset + 8 * i));
}

/* -- modules ------------------------------------------------------------------------------------------------ */

static void visit_modules(struct pass *p, PyObject *modules) {
    if (modules == NULL || Py_TYPE(modules) != symbols.dict_type)
        return;
    struct keys_view keys = keys_open(pointer_at(modules, layout.dict_keys));
    PyObject **values = dict_values(modules);
    for (int64_t i = 0; i < keys.count; i++) {
        PyObject **entry = keys_entry(&keys, i);
        PyObject *module = keys_value(&keys, values, i);
        if (module == NULL)
            continue;
        p->root.name = Py_TYPE(entry[0]) == symbols.str_type ? entry[0] : NULL;
        report(p, PART_MODULE, module);
    }
    p->root.name = NULL;
}

/* -- frames ------------------------------------------------------------------------------------------------- */

static uint32_t length_of(PyObject *tuple) {
    return tuple != NULL && Py_TYPE(tuple) == symbols.tuple_type ? (uint32_t)size_field(tuple) : 0;
}

uint32_t roots_locals(PyObject *code) {
    if (layout.code_slots != 0)
        return uint32_at(code, layout.code_slots);
    return uint32_at(code, layout.code_locals) + length_of(object_at(code, layout.code_cellvars)) +
           length_of(object_at(code, layout.code_freevars));
}

static PyObject *name_in(PyObject *tuple, uint32_t i) {
    PyObject *name = i < length_of(tuple) ? object_at(tuple, layout.tuple_items + 8 * (int32_t)i) : NULL;
    return name != NULL && Py_TYPE(name) == symbols.str_type ? name : NULL;
}

PyObject *roots_local_name(PyObject *code, uint32_t slot) {
    if (layout.code_slots != 0)
        return name_in(object_at(code, layout.code_locals_names), slot);
    uint32_t locals = uint32_at(code, layout.code_locals), cells = length_of(object_at(code, layout.code_cellvars));
    if (slot < locals)
        return name_in(object_at(code, layout.code_varnames), slot);
    slot -= locals;
    return slot < cells ? name_in(object_at(code, layout.code_cellvars), slot)
                        : name_in(object_at(code, layout.code_freevars), slot - cells);
}

/* The slot behind the top of the stack, or UNKNOWN. */
static int64_t top_of(const void *frame, PyObject *code) {
    const char *items = at(frame, layout.frame_items);
    int64_t locals = roots_locals(code), most = locals + uint32_at(code, layout.code_stack_size), top;
    if (layout.frame_top_is_count)
        top = *(int32_t *)at(frame, layout.frame_top) + (layout.frame_stack != 0 ? locals : 0);
    else
        top = ((char *)pointer_at(frame, layout.frame_top) - items) / 8;
    return top >= locals && top <= most ? top : UNKNOWN;
}

static void visit_item(struct pass *p, const void *frame, PyObject *code, uint32_t slot, bool local) {
    bool counted;
    PyObject *o = roots_item(frame, slot, &counted);
    p->root.slot = slot;
    p->root.counted = counted;
    p->root.name = local ? roots_local_name(code, slot) : NULL;
    report(p, local ? PART_LOCAL : PART_STACK, o);
    p->root.counted = true;
    p->root.name = NULL;
}

static void visit_locals(struct pass *p, const void *frame, PyObject *code) {
    uint32_t locals = roots_locals(code);
    for (uint32_t slot = 0; slot < locals && slot < MOST_SLOTS; slot++)
        visit_item(p, frame, code, slot, true);
}

/* ``top``: of what is surely in use; UNKNOWN: all there is room for may be. */
static void visit_stack(struct pass *p, const void *frame, PyObject *code, int64_t top) {
    uint32_t locals = roots_locals(code), most = locals + uint32_at(code, layout.code_stack_size);
    p->root.maybe = top == UNKNOWN;
    for (uint32_t slot = locals; slot < (top == UNKNOWN ? most : (uint32_t)top) && slot < MOST_SLOTS; slot++) {
        bool counted;
        const void *word = roots_item(frame, slot, &counted);
        if (!p->root.maybe || (p->marks != NULL && (uintptr_t)word % 8 == 0 && marks_has(p->marks, word)))
            visit_item(p, frame, code, slot, false);
    }
    p->root.maybe = false;
}

static void visit_flagged(struct pass *p, enum root_part part, const void *frame, int32_t offset) {
    bool counted;
    PyObject *o = frame_reference(frame, offset, &counted);
    p->root.counted = counted;
    report(p, part, o);
    p->root.counted = true;
}

/* All but locals and stack. */
static void visit_members(struct pass *p, const void *frame) {
    visit_flagged(p, PART_CODE, frame, layout.frame_code);
    if (frames_are_structures())
        visit_flagged(p, PART_FUNCTION, frame, layout.frame_function);
    report(p, PART_NAMESPACE, object_at(frame, layout.frame_namespace));
    p->root.counted = !frames_are_structures();
    report(p, PART_GLOBALS, object_at(frame, layout.frame_globals));
    report(p, PART_BUILTINS, object_at(frame, layout.frame_builtins));
    p->root.counted = true;
    if (layout.frame_object != 0)
        report(p, PART_FRAME, object_at(frame, layout.frame_object));
    if (layout.frame_trace != 0)
        report(p, PART_TRACE, object_at(frame, layout.frame_trace));
}

/* The code of a frame of Python's; else NULL. */
static PyObject *code_of(const char *frame) {
    uintptr_t code = (uintptr_t)pointer_at(frame, layout.frame_code) & ~(uintptr_t)layout.frame_code_flags;
    if (frames_are_structures() && uint8_at(frame, layout.frame_owner) >= FRAME_OF_C)
        return NULL;
    return code != 0 && Py_TYPE((PyObject *)code) == symbols.code_type ? (PyObject *)code : NULL;
}

/* What the walk has as an object in place of the frame, or NULL. */
static PyObject *object_of(const struct pass *p, const char *frame) {
    if (frames_are_structures())
        return uint8_at(frame, layout.frame_owner) == FRAME_OF_GENERATOR ? at(frame, -layout.generator_frame) : NULL;
    return p->marks != NULL && marks_has(p->marks, frame) ? (PyObject *)frame : NULL;
}

/* An object in its place tells all that a collection sees: locals, and where frames are structures the stack where
   its top is known, which is what it looks at. */
static void visit_frame(struct pass *p, const char *frame, struct roots_frame *reported) {
    int64_t top = top_of(frame, reported->code);
    if (reported->object == NULL) {
        visit_members(p, frame);
    } else {
        p->root.counted = !frames_are_structures(); /* who called a generator refers to it */
        report(p, PART_ITSELF, reported->object);
        p->root.counted = true;
        if (top != UNKNOWN)
            return;
    }
    if (reported->object == NULL || frames_are_structures())
        visit_locals(p, frame, reported->code);
    visit_stack(p, frame, reported->code, top);
}

static void visit_frames(struct pass *p, const void *thread) {
    if (layout.thread_cframe != 0 && !is_readable(pointer_at(thread, layout.thread_cframe), (size_t)layout.cframe_frame + 8))
        return;
    struct roots_frame reported = {0};
    p->root.frame = &reported;
    for (const char *frame = thread_innermost(thread); frame != NULL; frame = pointer_at(frame, layout.frame_back)) {
        reported.code = code_of(frame);
        if (reported.code == NULL)
            continue;
        reported.address = frame;
        reported.object = object_of(p, frame);
        visit_frame(p, frame, &reported);
        reported.depth++;
    }
    p->root.frame = NULL;
}

/* -- threads ------------------------------------------------------------------------------------------------ */

static void describe(const struct roots *r, const void *state, struct roots_thread *thread) {
    *thread = (struct roots_thread){state, uint64_at(state, layout.thread_id), 0, UNKNOWN, state == r->thread};
    if (layout.thread_native_id != 0)
        thread->native = uint64_at(state, layout.thread_native_id);
    for (uint32_t i = 0; i < r->state_count; i++)
        if (r->states[i].thread == state) {
            thread->blocked = r->states[i].blocked;
            thread->native = r->states[i].native;
        }
}

/* One that has just begun or is about to end has no frames, and less and less of the rest. */
static void visit_thread(struct pass *p, const void *state) {
    bool one_raised = symbols.thread_state_is_shared == false, one_handled = frames_are_structures();
    p->class = ROOT_RUNTIME;
    report_members(p, "thread's storage", state, layout.thread_dict, 1);
    report_members(p, "thread's context", state, layout.thread_context, 1);
    report_members(p, "profile function", state, layout.thread_profile, 1);
    report_members(p, "trace function", state, layout.thread_trace, 1);
    report_members(p, "hook for asynchronous generators", state, layout.thread_generators, 2);
    p->class = ROOT_FRAME;
    report_members(p, "exception raised", state, layout.thread_raised, one_raised ? 1 : 3);
    report_members(p, "exception handled", state, layout.thread_handled, one_handled ? 1 : 3);
    report_members(p, "exception to be raised", state, layout.thread_async, 1);
    visit_frames(p, state);
}

static bool visit_threads(struct pass *p, const void *interpreter) {
    struct roots_thread thread;
    bool whole;
    int left = ROOTS_THREADS;
    p->root.thread = &thread;
    for (const void *t = first_thread(interpreter, &whole); t != NULL; t = next_thread(interpreter, t, &whole)) {
        describe(p->roots, t, &thread);
        visit_thread(p, t);
        if (--left == 0) {
            whole = false;
            break;
        }
    }
    p->root.thread = NULL;
    return whole;
}

/* -- greenlets ---------------------------------------------------------------------------------------------- */

bool roots_is_greenlet(PyTypeObject *type) {
    for (; type != NULL; type = type_base(type)) {
        const char *name = pointer_at(type, layout.type_name);
        if (name != NULL && strcmp(name, "greenlet.greenlet") == 0)
            return true;
    }
    return false;
}

/* Whether there is a frame of Python's, at what may be any address: its code is an object of the heap, and it is at an
   instruction of that. */
static bool is_frame(const struct pass *p, const char *frame) {
    if (!is_readable(frame, (size_t)layout.frame_items) || uint8_at(frame, layout.frame_owner) >= FRAME_OF_C)
        return false;
    uintptr_t code = (uintptr_t)pointer_at(frame, layout.frame_code) & ~(uintptr_t)layout.frame_code_flags;
    if (code == 0 || !marks_has(p->marks, (void *)code) || Py_TYPE((PyObject *)code) != symbols.code_type)
        return false;
    uint64_t begin = code + (uint64_t)layout.code_adaptive, at = (uint64_t)pointer_at(frame, layout.frame_instruction);
    return at + 2 - begin <= 2 + 2 * (uint64_t)size_field((PyObject *)code);
}

/* greenlet 2.0 and later (greenlet.hpp): the instance points to a C++ object, which points back, and to the object of its
   innermost frame while it is suspended. NULL when there is none. */
static const char *frame_of_greenlet(const struct pass *p, const char *greenlet) {
    enum { INSIDE = 32, BACK = 8, FIRST = 16, LAST = 160 };
    if (uint32_at(Py_TYPE((PyObject *)greenlet), layout.type_basicsize) < head_size() + INSIDE - sizeof(PyObject) + 8)
        return NULL;
    const char *inside = pointer_at(body_of(greenlet), INSIDE);
    if (!is_readable(inside, LAST + 8) || pointer_at(inside, BACK) != greenlet)
        return NULL;
    for (int32_t offset = FIRST; offset <= LAST; offset += 8) {
        const char *word = pointer_at(inside, offset);
        if (is_exactly((PyObject *)word, symbols.frame_type) && is_frame(p, pointer_at(word, layout.frame_object_frame)))
            return pointer_at(word, layout.frame_object_frame);
    }
    return NULL;
}

void roots_of_greenlet(const struct roots *r, const struct marks *marks, PyObject *greenlet, roots_visit visit, void *context) {
    struct pass pass = {r, marks, visit, context, ROOT_FRAME, false, {.counted = true}};
    struct roots_frame reported = {0};
    if (!frames_are_structures())
        return;
    pass.root.frame = &reported;
    for (const char *frame = frame_of_greenlet(&pass, (char *)greenlet); frame != NULL && is_frame(&pass, frame);
         frame = pointer_at(frame, layout.frame_back)) {
        reported.code = code_of(frame);
        reported.address = frame;
        reported.object = object_of(&pass, frame);
        visit_frame(&pass, frame, &reported);
        reported.depth++;
    }
}

/* -- the interpreter ---------------------------------------------------------------------------------------- */

/* Check each offset before using it: a later patch release may have moved the field. */
static void visit_codecs(struct pass *p) {
    const char *place = at(p->roots->interpreter, layout.interpreter_codecs);
    if (layout.interpreter_codecs == 0 || !is_readable(place, 24) || !is_exactly(object_at(place, 0), symbols.list_type) ||
        !is_exactly(object_at(place, 8), symbols.dict_type) || !is_exactly(object_at(place, 16), symbols.dict_type))
        return;
    report_what(p, "codec search functions", object_at(place, 0));
    report_what(p, "codec registry", object_at(place, 8));
    report_what(p, "codec error handlers", object_at(place, 16));
}

struct callback { /* pycore_atexit.h, atexit_py_callback */
    PyObject *function, *arguments, *keywords;
};

static bool is_callback(const struct callback *c) {
    return is_readable(c, sizeof *c) && is_readable(c->function, head_size()) && c->arguments != NULL &&
           is_exactly(c->arguments, symbols.tuple_type) && (c->keywords == NULL || is_exactly(c->keywords, symbols.dict_type));
}

/* Where the interpreter has none, they are the module's, and reached through it. */
static void visit_atexit(struct pass *p) {
    const char *place = at(p->roots->interpreter, layout.interpreter_atexit);
    if (layout.interpreter_atexit == 0 || !is_readable(place, 16))
        return;
    PyObject *list = object_at(place, 0);
    if (layout.atexit_is_list) {
        if (is_exactly(list, symbols.list_type))
            report_what(p, "atexit", list);
        return;
    }
    const struct callback *const *callbacks = pointer_at(place, 0);
    int32_t count = *(int32_t *)(place + 8), room = *(int32_t *)(place + 12);
    for (int32_t i = 0; i < count && count <= room && room <= MOST_CALLBACKS && is_readable(callbacks + i, 8); i++) {
        if (callbacks[i] == NULL) /* taken back */
            continue;
        if (!is_callback(callbacks[i]))
            break;
        report_what(p, "atexit", callbacks[i]->function);
        report_what(p, "atexit", callbacks[i]->arguments);
        report_what(p, "atexit", callbacks[i]->keywords);
    }
}

static bool visit_other(struct pass *p, const void *interpreter) {
    const void *own = at(p->roots->interpreter, layout.interpreter_modules);
    const void *place = at(interpreter, layout.interpreter_modules);
    p->other = true;
    if (layout.interpreter_modules != 0 && is_readable(own, 8) && object_at(own, 0) == p->roots->modules &&
        is_readable(place, 8) && is_exactly(object_at(place, 0), symbols.dict_type))
        visit_modules(p, object_at(place, 0));
    return visit_threads(p, interpreter);
}

bool roots_each(const struct roots *r, const struct marks *marks, roots_visit visit, void *context) {
    struct pass pass = {r, marks, visit, context, ROOT_MODULE, false, {.counted = true}};
    visit_modules(&pass, r->modules);
    bool whole = visit_threads(&pass, r->interpreter);
    pass.class = ROOT_RUNTIME;
    report_what(&pass, "sys.modules", r->modules);
    visit_codecs(&pass);
    visit_atexit(&pass);
    for (uint32_t i = 0; i < interpreters.count; i++)
        whole = visit_other(&pass, interpreters.others[i]) && whole;
    return whole;
}
