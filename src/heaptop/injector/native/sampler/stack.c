/* stack: walking, and the tree. */
#include "sampler/stack.h"

#include "heap/names.h"
#include "sampler/index.h"

#include <string.h>

struct node {
    uint32_t parent, code;
    int32_t instruction;
};

struct cached {
    uint64_t hash;
    uint32_t node;
};

struct code {
    uint64_t print;
    PyObject *object; /* the held one of them that was met last; NULL: none is held, and nothing is left to say */
};

struct held {
    PyObject *object; /* NULL: free */
    uint32_t code;
    uint32_t next_free; /* position + 1 */
};

enum { FIRST_NODES = 1 << 18, FIRST_CODES = 1 << 13, CACHED = 4096 }; /* of what is not used nothing is touched */
enum { ELSEWHERE = 1, FIRST_OWN_NODE = 2 };

struct tables {
    struct budget *budget;
    void *interpreter;
    struct node *nodes;
    uint32_t node_count, node_room;
    struct index node_index;
    struct code *codes;
    uint32_t code_count, code_room;
    struct index code_index; /* by print */
    struct held *held;
    uint32_t held_count, held_room, first_free /* position + 1; 0: none */, swept;
    struct index held_index; /* by address */
    struct cached *cache;
};

static struct tables tables, detached;
static const void *own_codes[STACK_OWNS];
static struct stack_frame taken[STACK_MAX_DEPTH]; /* under the lock; too large for the stack of a small thread */

/* -- walking ------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

enum what { SHOWN, NOT_BEGUN, NOT_PYTHONS };

/* What sys._getframe makes of a frame; ``found`` where it shows it. */
static enum what read_frame(const char *frame, struct stack_frame *found) {
    uintptr_t code = (uintptr_t)pointer_at(frame, layout.frame_code) & ~(uintptr_t)layout.frame_code_flags;
    bool has_owner = layout.frame_instruction_unit == 0;
    uint8_t owner = has_owner ? uint8_at(frame, layout.frame_owner) : 0;
    found->code = (PyObject *)code;
    if (owner >= FRAME_OF_C)
        return NOT_PYTHONS;
    if (code == 0 || Py_TYPE(found->code) != symbols.code_type)
        return NOT_BEGUN;
    if (!has_owner) {
        found->instruction = *(int32_t *)at(frame, layout.frame_instruction) * layout.frame_instruction_unit;
        return SHOWN;
    }
    intptr_t offset = (char *)pointer_at(frame, layout.frame_instruction) - (char *)at(found->code, layout.code_adaptive);
    found->instruction = (int32_t)offset;
    bool begun = offset >= 2 * (intptr_t)*(int32_t *)at(found->code, layout.code_traceable);
    return owner == FRAME_OF_GENERATOR || begun ? SHOWN : NOT_BEGUN;
}

enum { MOST_PASSED = 4 * STACK_MAX_DEPTH }; /* of which most are Python's */

/* How many frames of the chain a hash goes over. */
static uint32_t hashed_frames(uint32_t depth) { return 2 * depth; }

/* Frames from the innermost on. ``plain``: that the chain's hash tells it from any other, as long as the code objects of
   what was found live: nothing else is in it but what belongs to the interpreter, and the hash goes over all of it. */
static uint32_t walk(const char *frame, struct stack_frame *frames, uint32_t depth, bool *plain) {
    uint32_t count = 0, passed = 0;
    *plain = true;
    for (; frame != NULL && count < depth && passed < MOST_PASSED; frame = pointer_at(frame, layout.frame_back), passed++) {
        enum what what = read_frame(frame, &frames[count]);
        count += what == SHOWN;
        *plain = *plain && what != NOT_BEGUN;
    }
    *plain = *plain && passed <= hashed_frames(depth);
    return count;
}

/* Of the words that say where each frame of the chain is: code and instruction, or a pointer into the code.
   Most samples cost no more than this: it is as short as it can be. */
static uint64_t hash_of_chain(const char *frame, uint32_t depth) {
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    const intptr_t back = layout.frame_back, instruction = layout.frame_instruction, code = layout.frame_code;
    uint32_t left = hashed_frames(depth);
    uint64_t hash = depth;
    if (layout.frame_instruction_unit == 0)
        for (; frame != NULL && left > 0; frame = *(char **)(frame + back), left--)
            hash = (hash + *(uint64_t *)(frame + instruction)) * factor;
    else
        for (; frame != NULL && left > 0; frame = *(char **)(frame + back), left--)
            hash = (hash + *(uint64_t *)(frame + code) + ((uint64_t)*(uint32_t *)(frame + instruction) << 44)) * factor;
    return mix(hash ^ left);
}

uint32_t stack_walk(struct stack_frame *frames, uint32_t depth) {
    const void *thread = symbols.thread_state();
    bool plain;
    return thread == NULL ? 0 : walk(thread_innermost(thread), frames, depth, &plain);
}

/* -- the tree ----------------------------------------------------------------------------------------------- */

static uint32_t hash_of_code(uint32_t code) { return (uint32_t)tables.codes[code].print; }

static uint32_t hash_of_object(const PyObject *object) { return (uint32_t)mix((uintptr_t)object); }

static uint32_t hash_of_held(uint32_t held) { return hash_of_object(tables.held[held].object); }

static uint32_t hash_of_parts(struct node n) {
    return (uint32_t)mix(mix((uint64_t)n.parent << 32 | n.code) ^ (uint32_t)n.instruction);
}

static uint32_t hash_of_node(uint32_t node) { return hash_of_parts(tables.nodes[node]); }

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t size) {
    const char *bytes = data;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = mix(hash ^ word);
    }
    return mix(hash ^ size);
}

static uint64_t mix_text(uint64_t hash, PyObject *text) {
    struct name_data found;
    if (!names_data(text, &found))
        return mix(hash ^ (uintptr_t)text);
    return mix_bytes(hash, found.data, (size_t)found.length * found.width);
}

/* The same for code objects that cannot be distinguished by what is said of them: file, name, and lines. */
static uint64_t print_of(PyObject *code) {
    uint64_t hash = mix((uint64_t)symbols.code_line(code, -1)); /* of no instruction: the first line, in every version */
    hash = mix_text(hash, object_at(code, layout.code_filename));
    hash = mix_text(hash, object_at(code, layout.code_qualname != 0 ? layout.code_qualname : layout.code_name));
    PyObject *lines = object_at(code, layout.code_lines);
    if (lines == NULL || Py_TYPE(lines) != &PyBytes_Type)
        return mix(hash ^ (uintptr_t)lines);
    return mix_bytes(hash, PyBytes_AsString(lines), (size_t)size_field(lines));
}

static bool has_room_for_node(void) { return tables.node_count < tables.node_room && index_has_room(&tables.node_index); }

/* STACK_FULL when there is no room for it, or for its first node: a code is said with that, and released thereafter. */
static uint32_t code_of_print(uint64_t print) {
    struct index *index = &tables.code_index;
    for (uint32_t place = index_place(index, (uint32_t)print); index->slots[place] != 0; place = index_next(index, place))
        if (tables.codes[index->slots[place] - 1].print == print)
            return index->slots[place] - 1;
    if (tables.code_count == tables.code_room || !index_has_room(index) || !has_room_for_node())
        return STACK_FULL;
    tables.codes[tables.code_count] = (struct code){print, NULL};
    index_add(index, (uint32_t)print, tables.code_count);
    return tables.code_count++;
}

/* The place of a held object in its index; of a free slot where it is not held. */
static uint32_t place_of_held(const PyObject *object) {
    const struct index *index = &tables.held_index;
    uint32_t place = index_place(index, hash_of_object(object));
    while (index->slots[place] != 0 && tables.held[index->slots[place] - 1].object != object)
        place = index_next(index, place);
    return place;
}

/* Hold an object. STACK_FULL, and it is not held, when there is no room. */
static uint32_t hold(PyObject *object) {
    bool has_room = tables.first_free != 0 || tables.held_count < tables.held_room;
    if (!has_room || !index_has_room(&tables.held_index))
        return STACK_FULL;
    uint32_t code = code_of_print(print_of(object));
    if (code == STACK_FULL)
        return STACK_FULL;
    uint32_t held = tables.first_free != 0 ? tables.first_free - 1 : tables.held_count++;
    if (tables.first_free != 0)
        tables.first_free = tables.held[held].next_free;
    Py_IncRef(object);
    tables.held[held] = (struct held){object, code, 0};
    index_add(&tables.held_index, hash_of_object(object), held);
    return code;
}

/* A code object's number, and it is held; STACK_FULL when there is no room. */
static uint32_t number_of(PyObject *object) {
    uint32_t found = tables.held_index.slots[place_of_held(object)];
    uint32_t code = found != 0 ? tables.held[found - 1].code : hold(object);
    if (code != STACK_FULL)
        tables.codes[code].object = object;
    return code;
}

static uint32_t node_of(struct node wanted) {
    struct index *index = &tables.node_index;
    uint32_t hash = hash_of_parts(wanted);
    for (uint32_t place = index_place(index, hash); index->slots[place] != 0; place = index_next(index, place)) {
        const struct node *n = &tables.nodes[index->slots[place] - 1];
        if (n->parent == wanted.parent && n->code == wanted.code && n->instruction == wanted.instruction)
            return index->slots[place] - 1;
    }
    if (!has_room_for_node())
        return STACK_FULL;
    tables.nodes[tables.node_count] = wanted;
    index_add(index, hash, tables.node_count);
    return tables.node_count++;
}

/* Whether a code object is being freed: then its frame is about to go, and nobody may hold it any more. The low half of
   ob_refcnt is never 0 in one that lives, immortal or not. */
static bool is_dying(const PyObject *code) { return *(const uint32_t *)code == 0; }

/* The innermost node of what was taken. ``whole``: nothing was left out, so all its code objects are held. */
static uint32_t insert(uint32_t count, bool *whole) {
    uint32_t node = 0;
    *whole = true;
    for (uint32_t i = count; i-- > 0;) {
        if (is_dying(taken[i].code)) {
            *whole = false;
            continue;
        }
        uint32_t code = number_of(taken[i].code);
        node = code == STACK_FULL ? STACK_FULL : node_of((struct node){node, code, taken[i].instruction});
        if (node == STACK_FULL)
            break;
    }
    return node;
}

/* Whether a thread state is the calling thread's. It may be that of whoever has the GIL, and there are extensions
   that allocate without. There a thread that is in another interpreter for a while is not known by that one's state. */
static bool is_own(const void *thread) {
    return !symbols.thread_state_is_shared || thread == (void *)PyGILState_GetThisThreadState();
}

/* Of the thread without the GIL: its frames rest, but an interpreter that ends frees those of all threads. The process's
   first thread is the one that ends it. */
static const void *resting_thread(void) {
    return symbols.is_finalizing == NULL || symbols.is_finalizing() ? NULL : PyGILState_GetThisThreadState();
}

uint32_t stack_walk_own(const void *interpreter, bool may_rest, struct stack_frame *frames, uint32_t depth) {
    const void *thread = symbols.thread_state();
    if (thread == NULL || !is_own(thread))
        thread = may_rest ? resting_thread() : NULL;
    if (thread == NULL || pointer_at(thread, layout.thread_interpreter) != interpreter)
        return 0;
    bool plain;
    uint32_t found = walk(thread_innermost(thread), frames, depth, &plain), kept = 0;
    for (uint32_t i = 0; i < found; i++)
        if (!is_dying(frames[i].code))
            frames[kept++] = frames[i];
    return kept;
}

void stack_set_own(const void *const codes[STACK_OWNS]) { memcpy(own_codes, codes, sizeof own_codes); }

static bool is_own_code(const PyObject *code) {
    for (int i = 0; i < STACK_OWNS; i++)
        if (code == own_codes[i])
            return true;
    return false;
}

uint32_t stack_take(uint32_t depth, bool has_gil) {
    const void *thread = symbols.thread_state();
    if (thread == NULL)
        return 0;
    if (!is_own(thread)) /* and nothing is read of it: where it is somebody else's, he may end it meanwhile */
        return has_gil ? ELSEWHERE : 0;
    if (pointer_at(thread, layout.thread_interpreter) != tables.interpreter)
        return ELSEWHERE;
    const char *frame = thread_innermost(thread);
    uint64_t hash = hash_of_chain(frame, depth);
    struct cached *cached = &tables.cache[hash % CACHED];
    if (cached->node != 0 && cached->hash == hash)
        return cached->node;
    bool whole, plain;
    uint32_t count = walk(frame, taken, depth, &plain);
    if (count > 0 && is_own_code(taken[0].code))
        return STACK_OWN;
    uint32_t node = insert(count, &whole);
    if (whole && plain && node != 0 && node != STACK_FULL)
        *cached = (struct cached){hash, node};
    return node;
}

/* Twice as much room in an array that is half full. False when it cannot be. */
static bool grow(void **items, uint32_t count, uint32_t *room, size_t item) {
    if (2 * count < *room)
        return true;
    void *larger = NULL;
    if (*room <= UINT32_MAX / 4)
        larger = budget_grow(tables.budget, *items, *room * item, 2 * *room * item);
    if (larger == NULL)
        return false;
    *items = larger;
    *room *= 2;
    return true;
}

static bool grow_index(struct index *index, uint32_t (*hash_of)(uint32_t position)) {
    return 4 * index->count < index->size || index_grow(index, tables.budget, hash_of);
}

bool stack_make_room(void) {
    bool done = grow((void **)&tables.nodes, tables.node_count, &tables.node_room, sizeof *tables.nodes);
    done = grow((void **)&tables.codes, tables.code_count, &tables.code_room, sizeof *tables.codes) && done;
    done = grow((void **)&tables.held, tables.held_count, &tables.held_room, sizeof *tables.held) && done;
    done = grow_index(&tables.node_index, hash_of_node) && done;
    done = grow_index(&tables.code_index, hash_of_code) && done;
    return grow_index(&tables.held_index, hash_of_held) && done;
}

/* The low half of ob_refcnt, which is never 1 for an immortal object. */
static bool is_ours_alone(const PyObject *object) { return *(const uint32_t *)object == 1; }

static PyObject *release_object(uint32_t held) {
    struct held *h = &tables.held[held];
    PyObject *object = h->object;
    index_remove(&tables.held_index, place_of_held(object), hash_of_held);
    if (tables.codes[h->code].object == object)
        tables.codes[h->code].object = NULL;
    *h = (struct held){NULL, 0, tables.first_free};
    tables.first_free = held + 1;
    return object;
}

uint32_t stack_release(uint32_t nodes, uint32_t codes, PyObject *objects[STACK_SWEPT]) {
    uint32_t found = 0;
    if (tables.node_count != nodes)
        return 0; /* the line of one is not known yet */
    for (uint32_t i = 0; i < STACK_SWEPT && i < tables.held_count; i++) {
        uint32_t held = tables.swept++ % tables.held_count;
        const struct held *h = &tables.held[held];
        if (h->object != NULL && h->code < codes && is_ours_alone(h->object))
            objects[found++] = release_object(held);
    }
    if (found > 0)
        memset(tables.cache, 0, CACHED * sizeof *tables.cache); /* its claim is of objects that are held */
    return found;
}

/* -- reading ------------------------------------------------------------------------------------------------ */

uint32_t stack_nodes(void) { return tables.node_count; }

PyObject *stack_code(uint32_t code) { return tables.codes[code].object; }

void stack_node(uint32_t node, uint32_t *parent, uint32_t *code, int *line) {
    const struct node *n = &tables.nodes[node];
    *parent = n->parent;
    *code = n->code;
    PyObject *object = tables.codes[n->code].object;
    *line = object == NULL ? 0 : symbols.code_line(object, n->instruction);
    if (*line < 0)
        *line = 0;
}

static struct pages_range range_of(const struct index *i) { return (struct pages_range){i->slots, i->size * sizeof *i->slots}; }

void stack_ranges(struct pages_range found[STACK_RANGES]) {
    const struct tables *t = &tables;
    found[0] = (struct pages_range){t->nodes, t->node_room * sizeof *t->nodes};
    found[1] = (struct pages_range){t->codes, t->code_room * sizeof *t->codes};
    found[2] = (struct pages_range){t->held, t->held_room * sizeof *t->held};
    found[3] = (struct pages_range){t->cache, CACHED * sizeof *t->cache};
    found[4] = range_of(&t->node_index);
    found[5] = range_of(&t->code_index);
    found[6] = range_of(&t->held_index);
}

/* -- coming and going --------------------------------------------------------------------------------------- */

static void free_tables(struct tables *t, struct budget *budget) {
    for (uint32_t i = 0; i < t->held_count; i++)
        Py_DecRef(t->held[i].object);
    budget_unmap(budget, t->nodes, t->node_room * sizeof *t->nodes);
    budget_unmap(budget, t->codes, t->code_room * sizeof *t->codes);
    budget_unmap(budget, t->held, t->held_room * sizeof *t->held);
    budget_unmap(budget, t->cache, CACHED * sizeof *t->cache);
    index_close(&t->node_index, budget);
    index_close(&t->code_index, budget);
    index_close(&t->held_index, budget);
    *t = (struct tables){0};
}

bool stack_open(struct budget *budget) {
    void *thread = symbols.thread_state();
    struct tables fresh = {.budget = budget, .node_room = FIRST_NODES, .code_room = FIRST_CODES, .held_room = FIRST_CODES};
    fresh.node_count = FIRST_OWN_NODE; /* all zeros: node 1 has code 0 */
    fresh.code_count = 1;
    fresh.interpreter = pointer_at(thread, layout.thread_interpreter);
    fresh.nodes = budget_map(budget, FIRST_NODES * sizeof *fresh.nodes);
    fresh.codes = budget_map(budget, FIRST_CODES * sizeof *fresh.codes);
    fresh.held = budget_map(budget, FIRST_CODES * sizeof *fresh.held);
    fresh.cache = budget_map(budget, CACHED * sizeof *fresh.cache);
    bool done = fresh.nodes != NULL && fresh.codes != NULL && fresh.held != NULL && fresh.cache != NULL;
    done = index_open(&fresh.node_index, budget, 2 * FIRST_NODES) && done;
    done = index_open(&fresh.code_index, budget, 2 * FIRST_CODES) && done;
    done = index_open(&fresh.held_index, budget, 2 * FIRST_CODES) && done;
    if (done)
        tables = fresh;
    else
        free_tables(&fresh, budget);
    return done;
}

void stack_detach(void) {
    detached = tables;
    tables = (struct tables){0};
}

void stack_disown(void) { tables.held_count = 0; }

void stack_forget(void) { tables = detached = (struct tables){0}; }

void stack_close(struct budget *budget) { free_tables(&detached, budget); }
