/* layout: choosing the column, and finding symbols and list heads. */
#include "layout.h"

#include "lookup.h"
#include "raw.h"

#include <string.h>

struct layout layout;
struct symbols symbols;
gc_head *gc_lists[LISTS];
struct interpreters interpreters;
static uint32_t opened_version; /* the sys.hexversion of the column in use */

static const int32_t table[][LAYOUT_COLUMNS] = {
#define LAYOUT_ROW(name, ...) {__VA_ARGS__},
    LAYOUT_TABLE(LAYOUT_ROW)
#undef LAYOUT_ROW
};

static const char *const facts[] = {
#define LAYOUT_NAME(name, ...) #name,
    LAYOUT_TABLE(LAYOUT_NAME)
#undef LAYOUT_NAME
};

enum { FACTS = sizeof facts / sizeof *facts };
_Static_assert(sizeof(struct layout) == FACTS * sizeof(int32_t), "the structure is the table's column");

static int32_t *fact_at(int position) { return (int32_t *)&layout + position; }

const char *layout_fact(int position, int32_t *value) {
    if (position < 0 || position >= FACTS)
        return NULL;
    *value = *fact_at(position);
    return facts[position];
}

int layout_set(const char *name, int32_t value) {
    for (int i = 0; i < FACTS; i++)
        if (strcmp(facts[i], name) == 0) {
            *fact_at(i) = value;
            return 0;
        }
    return -1;
}

/* NULL, or why a version is refused before anything of it is read. */
static const char *refused_version(uint32_t version) {
    unsigned major = version >> 24, minor = version >> 16 & 0xff, micro = version >> 8 & 0xff;
    if (major != 3 || minor < LAYOUT_FIRST_MINOR || minor >= LAYOUT_FIRST_MINOR + LAYOUT_MINORS)
        return "this version of Python is not in the native core's table";
    if (minor == 14 && micro < 5)
        return "Python 3.14.0 to 3.14.4 have the incremental collector, which the native core does not read";
    return NULL;
}

/* NULL, or why a build of such a version is refused. */
static const char *refused_build(void) {
    PyObject *flags = PySys_GetObject("abiflags");
    if (flags == NULL || !PyUnicode_Check(flags))
        return "sys.abiflags is missing";
    /* Up to 3.9 a debug build may keep every object in a list of its own, which moves all fields. */
    PyObject *text = PyUnicode_AsASCIIString(flags);
    if (text == NULL) {
        PyErr_Clear();
        return "sys.abiflags is not text";
    }
    bool threaded = strchr(PyBytes_AsString(text), 't') != NULL, debug = strchr(PyBytes_AsString(text), 'd') != NULL;
    Py_DecRef(text);
    if (threaded)
        return "this is a free-threaded build, which the native core does not read";
    return debug ? "this is a debug build, which the native core does not read" : NULL;
}

const char *layout_symbol(int position, void ***place) {
    static const char *const names[] = {
#define LAYOUT_SYMBOL(type, name, symbol) symbol,
        LAYOUT_SYMBOLS(LAYOUT_SYMBOL)
#undef LAYOUT_SYMBOL
    };
    if (position < 0 || (size_t)position >= sizeof names / sizeof *names)
        return NULL;
    *place = (void **)&symbols + position; /* they come first */
    return names[position];
}

void layout_look_up(uint32_t version) {
    void **place;
    const char *name;
    for (int i = 0; (name = layout_symbol(i, &place)) != NULL; i++)
        *place = lookup_symbol(name);
    *(void **)&symbols.set_allocator = lookup_symbol("PyMem_SetAllocator");
    *(void **)&symbols.get_allocator = lookup_symbol("PyMem_GetAllocator");
    *(void **)&symbols.interpreter = lookup_symbol("PyInterpreterState_Get");
    if (symbols.interpreter == NULL)
        *(void **)&symbols.interpreter = lookup_symbol("_PyInterpreterState_Get"); /* its old name */
    *(void **)&symbols.first_interpreter = lookup_symbol("PyInterpreterState_Head");
    *(void **)&symbols.main_interpreter = lookup_symbol("PyInterpreterState_Main");
    *(void **)&symbols.next_interpreter = lookup_symbol("PyInterpreterState_Next");
    *(void **)&symbols.first_thread = lookup_symbol("PyInterpreterState_ThreadHead");
    symbols.runtime = lookup_symbol("_PyRuntime");
    *(void **)&symbols.interpreter_id = lookup_symbol("PyInterpreterState_GetID");
    *(void **)&symbols.code_line = lookup_symbol("PyCode_Addr2Line");
    *(void **)&symbols.thread_state =
        lookup_symbol(version >= 0x030D0000 ? "PyThreadState_GetUnchecked" : "_PyThreadState_UncheckedGet");
    *(void **)&symbols.is_finalizing = lookup_symbol(version >= 0x030D0000 ? "Py_IsFinalizing" : "_Py_IsFinalizing");
    *(void **)&symbols.enter_tracing = lookup_symbol("PyThreadState_EnterTracing");
    *(void **)&symbols.type_get_dict = version >= 0x030C0000 ? lookup_symbol("PyType_GetDict") : NULL;
}

/* NULL, or what was not found. */
static const char *take_symbols(uint32_t version) {
    void **place;
    for (int i = 0; layout_symbol(i, &place) != NULL; i++)
        if (*place == NULL)
            return "a type of the interpreter is missing";
    symbols.tracer_is_notified = version >= 0x030E0000;
    if (!symbols.set_allocator || !symbols.get_allocator || !symbols.code_line || !symbols.thread_state ||
        (version >= 0x030C0000 && !symbols.type_get_dict))
        return "a symbol of the interpreter is missing";
    symbols.type_is_gc = (inquiry)pointer_at(symbols.type_type, layout.type_is_gc);
    symbols.dict_traverse = type_traverse(symbols.dict_type);
    if (symbols.sizeof_name == NULL)
        symbols.sizeof_name = PyUnicode_InternFromString("__sizeof__");
    if (symbols.sizeof_name == NULL) {
        PyErr_Clear();
        return "out of memory in the target";
    }
    return NULL;
}

static const void *lock_of(const void *interpreter) {
    const void *place = at(interpreter, layout.interpreter_lock);
    return raw_readable((uint64_t)place) ? pointer_at(place, 0) : NULL;
}

/* Whether an interpreter runs only while the calling one does not. */
static bool shares_lock(const void *own, const void *other) {
    if (layout.gc_bits != 0)
        return false;
    return symbols.thread_state_is_shared || (layout.interpreter_lock != 0 && lock_of(other) == lock_of(own));
}

static bool is_closed(gc_head *head) {
    return raw_readable((uint64_t)head) && raw_readable((uint64_t)&head->prev) && raw_readable((uint64_t)gc_next(head)) &&
           raw_readable((uint64_t)gc_prev(head)) && gc_prev(gc_next(head)) == head && gc_next(gc_prev(head)) == head;
}

/* The lists of another interpreter, which are as far from its state as the caller's are from its own. From 3.9 on; before,
   the lists stand in _PyRuntime, and are everybody's. */
static bool find_lists_of(const void *own, const void *other, gc_head *lists[LISTS]) {
    enum { LARGEST_STATE = 1 << 20 };
    int64_t distance = (const char *)gc_lists[0] - (const char *)own;
    bool apart = distance > 0 && distance < LARGEST_STATE;
    for (int i = 0; i < LISTS; i++) {
        lists[i] = apart ? (gc_head *)((const char *)other + ((const char *)gc_lists[i] - (const char *)own)) : NULL;
        if (apart && !is_closed(lists[i]))
            return false;
    }
    return true;
}

/* _PyGC_Fini took the head out of its ring: the interpreter has ended, and is about to be freed. */
static bool is_unlinked(gc_head *head) {
    return head != NULL && raw_readable((uint64_t)head) && raw_readable((uint64_t)&head->prev) &&
           raw_readable((uint64_t)&gc_next(head)->prev) && raw_readable((uint64_t)gc_prev(head)) &&
           gc_prev(gc_next(head)) == gc_prev(head) && gc_next(gc_prev(head)) == gc_next(head);
}

/* Whether an interpreter has no objects: it is being made and has no lock yet, or it has ended. */
static bool is_empty(const void *other, gc_head *const lists[LISTS]) {
    if (!symbols.thread_state_is_shared && layout.interpreter_lock != 0 && lock_of(other) == NULL)
        return true;
    for (int i = 0; i < LISTS; i++)
        if (is_unlinked(lists[i]))
            return true;
    return false;
}

static int64_t id_of(const void *interpreter) {
    return symbols.without_code || symbols.interpreter_id == NULL ? -1 : symbols.interpreter_id(interpreter);
}

/* Debian's 3.13 aligns a list's head to 4 bytes, so the generations may begin 4 bytes before their usual place. What stands
   behind them begins at a multiple of 8. */
static void *behind_generations(const gc_head *generation0, int32_t distance) {
    return at(generation0, distance + (int32_t)((uintptr_t)generation0 & 4));
}

static int *collecting(const gc_head *generation0) { return behind_generations(generation0, layout.gc_collecting); }

static bool is_collecting(const gc_head *generation0) { return *collecting(generation0) != 0; }

static void note_interpreter(const void *own, const void *other) {
    gc_head *lists[LISTS] = {0};
    if (other == own)
        return;
    if (interpreters.count < MOST_INTERPRETERS && shares_lock(own, other) && find_lists_of(own, other, lists) &&
        (lists[0] == NULL || !is_collecting(lists[0]))) {
        memcpy(interpreters.lists[interpreters.count], lists, sizeof lists);
        interpreters.ids[interpreters.count] = id_of(other);
        interpreters.others[interpreters.count++] = other;
    } else if (!is_empty(other, lists)) {
        interpreters.left_out++;
    }
}

void layout_interpreters_at(const void *own, const void *first) {
    enum { MOST = 1 << 16 };
    interpreters = (struct interpreters){.own = own, .own_id = id_of(own), .first = first};
    for (int i = 0; i < MOST && raw_readable((uint64_t)at(first, layout.interpreter_next)); i++) {
        note_interpreter(own, first);
        first = pointer_at(first, layout.interpreter_next);
    }
    interpreters.left_out += first != NULL;
}

void layout_find_others(void) {
    if (interpreters.count == 0 && interpreters.left_out != 0)
        layout_interpreters_at(interpreters.own, interpreters.first);
}

/* The caller's, and the first of all. False where a symbol is missing. */
static bool find_ends(const void **own, const void **first) {
    if (symbols.interpreter == NULL || symbols.first_interpreter == NULL)
        return false;
    *own = symbols.interpreter();
    *first = symbols.first_interpreter();
    return true;
}

static bool is_alone(const void *own, const void *first) {
    return first == own && pointer_at(own, layout.interpreter_next) == NULL;
}

bool layout_has_others(void) {
    const void *own, *first;
    return !find_ends(&own, &first) || !is_alone(own, first);
}

static const char *find_interpreters(void) {
    const void *own, *first;
    if (!find_ends(&own, &first))
        return "a symbol of the interpreter is missing";
    interpreters = (struct interpreters){.own = own, .own_id = id_of(own), .first = first};
    interpreters.left_out = !is_alone(own, first);
    if (symbols.thread_state_is_shared)
        layout_find_others();
    return NULL;
}

const char *layout_find_lists(void) {
    PyObject *fresh = PyList_New(0); /* the newest tracked object is the last of generation 0 */
    if (fresh == NULL) {
        PyErr_Clear();
        return "out of memory in the target";
    }
    gc_head *head = gc_next(gc_of(fresh));
    bool linked = head != NULL && gc_prev(head) == gc_of(fresh);
    Py_DecRef(fresh);
    const char *refusal = linked ? layout_lists_at(head) : "a new list is not the last of generation 0";
    return refusal != NULL ? refusal : find_interpreters();
}

const char *layout_lists_at(gc_head *first) {
    gc_lists[0] = first; /* where facts of the collector are counted from */
    if (layout.gc_bits != 0)
        return NULL;
    for (int i = 0; i < LISTS; i++) {
        gc_lists[i] = i == PERMANENT ? behind_generations(first, layout.gc_permanent) : at(first, i * layout.gc_generation);
        if (!is_closed(gc_lists[i]))
            return "a list of the collector does not stand where it should";
    }
    return NULL;
}

int layout_minor(void) { return (int)(opened_version >> 16 & 0xff); }

/* The place of a version's column; -1: there is none. */
static int column_of(uint32_t version, bool free_threaded) {
    enum { FREE_THREADED_MINOR = 13 };
    int minor = (int)(version >> 16 & 0xff);
    if (free_threaded)
        return minor == FREE_THREADED_MINOR ? LAYOUT_MINORS : -1;
    return minor - LAYOUT_FIRST_MINOR;
}

const char *layout_choose(uint32_t version, bool free_threaded) {
    const char *refusal = refused_version(version);
    int column = refusal == NULL ? column_of(version, free_threaded) : -1;
    if (column < 0)
        return refusal != NULL ? refusal : "free-threaded builds of this version are not in the native core's table";
    for (int i = 0; i < FACTS; i++)
        *fact_at(i) = table[i][column];
    opened_version = version;
    symbols.thread_state_is_shared = version < 0x030C0000;
    return NULL;
}

const char *layout_open(uint32_t version) {
    const char *refusal = refused_build();
    if (refusal == NULL)
        refusal = layout_choose(version, false);
    if (refusal == NULL)
        refusal = take_symbols(version);
    return refusal != NULL ? refusal : layout_find_lists();
}

/* -- what the interpreter publishes ------------------------------------------------------------------------- */

enum { PUBLISHED_VERSION = 1, PUBLISHED_MINOR = 13, PUBLISHED = 3 };
_Static_assert(PUBLISHED_MINOR + PUBLISHED == LAYOUT_FIRST_MINOR + LAYOUT_MINORS, "a column for each version from 3.13 on");
/* pycore_debug_offsets.h (3.13: pycore_runtime.h): places in _Py_DebugOffsets, in words; 0: not published. */
static const struct {
    const char *fact;
    uint8_t word[PUBLISHED]; /* 3.13, 3.14, 3.15 */
} published[] = {
    {"code_filename", {35, 40, 48}},     {"code_name", {36, 41, 49}},         {"code_qualname", {37, 42, 50}},
    {"code_lines", {38, 43, 51}},        {"code_locals_names", {41, 46, 54}}, {"code_locals_kinds", {42, 47, 55}},
    {"type_name", {47, 53, 61}},         {"type_flags", {49, 55, 63}},        {"heap_cached_keys", {0, 0, 67}},
    {"tuple_items", {51, 57, 69}},       {"list_items", {54, 60, 72}},        {"set_table", {0, 64, 76}},
    {"set_mask", {0, 65, 77}},           {"dict_keys", {57, 67, 79}},         {"dict_values", {58, 68, 80}},
    {"str_size", {67, 77, 89}},          {"str_state", {68, 78, 90}},         {"str_length", {69, 79, 91}},
    {"str_ascii_size", {70, 80, 92}},    {"code_adaptive", {43, 48, 56}},     {"thread_interpreter", {22, 25, 25}},
    {"thread_frame", {23, 26, 26}},      {"frame_back", {29, 32, 40}},        {"frame_code", {30, 33, 41}},
    {"frame_instruction", {31, 34, 42}}, {"frame_owner", {33, 36, 44}},       {"interpreter_threads", {9, 9, 9}},
    {"interpreter_next", {8, 8, 8}},     {"runtime_interpreters", {5, 5, 5}},
};
static const uint8_t published_gc[PUBLISHED] = {10, 11, 11}, published_collecting[PUBLISHED] = {72, 82, 95};

static int32_t fact_named(const char *name) {
    int i = 0;
    while (strcmp(facts[i], name) != 0)
        i++;
    return *fact_at(i);
}

const char *layout_published(void) {
    return layout_published_at(symbols.runtime, symbols.interpreter == NULL ? NULL : symbols.interpreter());
}

const char *layout_published_at(const void *runtime, const void *interpreter) {
    const uint64_t *words = runtime;
    int column = (int)(opened_version >> 16 & 0xff) - PUBLISHED_MINOR;
    if (column < 0)
        return NULL;
    if (words == NULL || interpreter == NULL || memcmp(words, "xdebugpy", 8) != 0 || words[PUBLISHED_VERSION] != opened_version)
        return "_Py_DebugOffsets";
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        int word = published[i].word[column];
        if (word != 0 && words[word] != (uint64_t)fact_named(published[i].fact))
            return published[i].fact;
    }
    char *state = (char *)interpreter + words[published_gc[column]];
    return state + words[published_collecting[column]] == (char *)collecting(gc_lists[0]) ? NULL : "gc_collecting";
}

/* -- the collector ------------------------------------------------------------------------------------------ */

bool layout_collecting(void) { return is_collecting(gc_lists[0]); }

void layout_block_collector(bool block) { *collecting(gc_lists[0]) = block; }
