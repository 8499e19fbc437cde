/* census: from the counters of a walk to the bytes of a result. */
#include "module/census.h"

#include "packs.h"
#include "pages.h"
#include "clone/child_memory.h"
#include "heap/edges.h"
#include "heap/size.h"
#include "heap/walk.h"
#include "sampler/sample.h"

/* -- packing ------------------------------------------------------------------------------------------------ */

struct packing {
    const struct census_request *request;
    struct pack types, rows, keys, kinds, typed; /* each in pages that grow; the last three: no msgpack, bounded alike */
    uint32_t new_types, row_count, kind_count, typed_count;
};

enum { PACKS = 5 };

enum { FIRST_ROOM = 1 << 16, LONGEST_HEAD = 5, LONGEST_NUMBER = 9, LONGEST_ROW = 1 + 7 * LONGEST_NUMBER };

static bool packing_open(struct packing *p, const struct census_request *request) {
    struct pack *const packs[PACKS] = {&p->types, &p->rows, &p->keys, &p->kinds, &p->typed};
    *p = (struct packing){.request = request};
    for (int i = 0; i < PACKS; i++) {
        if (!packs_open(packs[i], FIRST_ROOM))
            return false;
    }
    return true;
}

static void packing_close(struct packing *p) {
    struct pack *const packs[PACKS] = {&p->types, &p->rows, &p->keys, &p->kinds, &p->typed};
    for (int i = 0; i < PACKS; i++)
        packs_close(packs[i]);
}

/* Types that have a number in this session; as in Python mode, those of a full table share the one behind. */
static uint32_t type_count(const struct packing *p) { return p->request->first_number + p->new_types; }

static struct name *add(struct packing *p, const struct name_text *module, const struct name_text *qualname) {
    struct name_key key = names_key(module, qualname);
    if (!packs_make_room(&p->types, 3 * LONGEST_HEAD + module->size + qualname->size) || !packs_make_room(&p->keys, sizeof key))
        return NULL;
    struct name *name = names_add(p->request->names, key, type_count(p));
    if (name == NULL)
        return NULL;
    p->new_types++;
    pack_array(&p->types, 2);
    pack_str(&p->types, module->bytes, module->size);
    pack_str(&p->types, qualname->bytes, qualname->size);
    pack_bytes(&p->keys, &key, sizeof key);
    return name;
}

/* The entry of a name, made when it is new. NULL when there is no memory. */
static struct name *entry_of(struct packing *p, const struct name_text *module, const struct name_text *qualname) {
    static const struct name_text others[2] = {{8, "builtins"}, {13, "(other types)"}};
    struct name *name = names_find(p->request->names, names_key(module, qualname));
    if (name == NULL && type_count(p) >= MAX_NAMES) {
        module = &others[0];
        qualname = &others[1];
        name = names_find(p->request->names, names_key(module, qualname));
    }
    return name != NULL ? name : add(p, module, qualname);
}

/* Give a type its number. False when there is no memory. */
static bool name_kind(struct packing *p, struct kind *kind) {
    struct names *names = p->request->names;
    struct name_text module, qualname;
    names_read(kind->type, &module, &qualname);
    struct name *name = entry_of(p, &module, &qualname);
    if (name == NULL)
        return false;
    if (name->census != names->census) {
        name->census = names->census;
        name->first = kind;
    }
    kind->number = name->number;
    kind->named = name->first;
    return true;
}

/* Have types of one name share the counters of the first. */
static void merge(struct kind *kind) {
    for (int row = 0; row < ROWS; row++)
        kind->guessed[row] = kind->size == SIZE_GUESS ? kind->count[row] : kind->guessed[row];
    struct kind *first = kind->named;
    if (first == kind)
        return;
    for (int row = 0; row < ROWS; row++) {
        first->count[row] += kind->count[row];
        first->bytes[row] += kind->bytes[row];
        first->hidden[row] += kind->hidden[row];
        first->guessed[row] += kind->guessed[row];
    }
    kind_clear(kind);
}

/* ``interpreter``: NULL where the row has none. */
static bool pack_rows(struct packing *p, const struct kind *kind, const int64_t *interpreter) {
    if (!packs_make_room(&p->rows, ROWS * LONGEST_ROW))
        return false;
    for (int row = 0; row < ROWS; row++) {
        if (kind->count[row] == 0)
            continue;
        p->row_count++;
        pack_array(&p->rows, interpreter == NULL ? 6 : 7);
        pack_uint(&p->rows, kind->number);
        pack_int(&p->rows, row == UNTRACKED ? -1 : row);
        pack_uint(&p->rows, kind->count[row]);
        pack_uint(&p->rows, kind->bytes[row]);
        pack_uint(&p->rows, kind->hidden[row]);
        pack_uint(&p->rows, kind->guessed[row]);
        if (interpreter != NULL)
            pack_int(&p->rows, *interpreter);
    }
    return true;
}

/* The rows of what w->kinds have counted. */
static bool pack_kinds_rows(struct walk *w, struct packing *p, const int64_t *interpreter) {
    for (uint32_t i = 0; i < w->kinds.count; i++)
        merge(kinds_at(&w->kinds, i));
    for (uint32_t i = 0; i < w->kinds.count; i++)
        if (!pack_rows(p, kinds_at(&w->kinds, i), interpreter))
            return false;
    return true;
}

static void put_back(struct walk *w, const struct walk_part *part) {
    struct kind *kind = kinds_at(&w->kinds, part->kind);
    for (int row = 0; row < ROWS; row++) {
        kind->count[row] += part->count[row];
        kind->bytes[row] += part->bytes[row];
        kind->hidden[row] += part->hidden[row];
        kind->guessed[row] += part->guessed[row];
    }
}

/* The rows of each interpreter, which are next to each other. */
static bool pack_parts(struct walk *w, struct packing *p) {
    for (size_t i = 0; i < w->part_count;) {
        int64_t interpreter = w->parts[i].interpreter;
        for (uint32_t kind = 0; kind < w->kinds.count; kind++)
            kind_clear(kinds_at(&w->kinds, kind));
        for (; i < w->part_count && w->parts[i].interpreter == interpreter; i++)
            put_back(w, &w->parts[i]);
        if (!pack_kinds_rows(w, p, &interpreter))
            return false;
    }
    return true;
}

/* More rows than a message may have (protocol/codec.py) are packed without their interpreters. */
static bool pack_all_rows(struct walk *w, struct packing *p) {
    enum { MOST_ROWS = 1 << 18 };
    if (interpreters.count == 0 && interpreters.left_out == 0) /* there is none but the caller's */
        return pack_kinds_rows(w, p, &interpreters.own_id);
    if (w->part_count * ROWS <= MOST_ROWS && w->parts != NULL)
        return pack_parts(w, p);
    for (size_t i = 0; i < w->part_count; i++)
        put_back(w, &w->parts[i]);
    return pack_kinds_rows(w, p, NULL);
}

static int pack_census(struct walk *w, struct packing *p) {
    struct names *names = p->request->names;
    names->census++;
    size_t types = pack_array_open(&p->types), rows = pack_array_open(&p->rows);
    for (uint32_t i = 0; i < w->kinds.count; i++)
        if (!name_kind(p, kinds_at(&w->kinds, i)))
            return CENSUS_NO_MEMORY;
    if (!pack_all_rows(w, p))
        return CENSUS_NO_MEMORY;
    pack_array_close(&p->types, types, p->new_types);
    pack_array_close(&p->rows, rows, p->row_count);
    return p->types.full || p->rows.full || p->keys.full ? CENSUS_TOO_LONG : 0;
}

/* -- what samples are --------------------------------------------------------------------------------------- */

/* The record of a type that the walk has met, or NULL. */
static const struct kind *kind_met(const struct kinds *k, const PyTypeObject *type) {
    for (uint32_t i = kinds_hash(type);; i++) {
        const struct kind_slot *slot = &k->slots[i & (k->size - 1)];
        if (slot->type == type || slot->type == NULL)
            return slot->type == NULL ? NULL : slot->kind;
    }
}

/* The type's record of the object that a block was asked for; NULL where none that the walk has met begins there. */
static const struct kind *kind_of_block(const struct walk *w, const char *block, uint64_t size) {
    for (int32_t before = 0; before <= 32; before += 16) {
        PyObject *o = at(block, before);
        if (size < (uint64_t)before + sizeof(PyObject) || !marks_has(&w->marks, o))
            continue;
        const struct kind *kind = size_before(Py_TYPE(o)) == before ? kind_met(&w->kinds, Py_TYPE(o)) : NULL;
        if (kind != NULL)
            return kind;
    }
    return NULL;
}

static bool pack_known(struct packing *p, PyTypeObject *type, uint32_t number) {
    struct sample_known known = {
        .type = type,
        .number = number,
        .before = (uint8_t)size_before(type),
        .is_on_heap = type_flags(type) & FLAG_HEAP_TYPE,
    };
    if (!packs_make_room(&p->kinds, sizeof known))
        return false;
    pack_bytes(&p->kinds, &known, sizeof known);
    p->kind_count++;
    return true;
}

/* Whether a type that was known is there still, though there is no object of it: not another one at its address. */
static bool is_there(const struct walk *w, const struct names *names, const struct sample_known *known) {
    PyTypeObject *type = (PyTypeObject *)known->type;
    struct name_text module, qualname;
    if (!known->is_on_heap)
        return true;
    if (!marks_has(&w->marks, (PyObject *)type) || !(type_flags(Py_TYPE(type)) & FLAG_TYPE_SUBCLASS))
        return false;
    names_read(type, &module, &qualname);
    const struct name *name = names_find((struct names *)names, names_key(&module, &qualname));
    return name != NULL && name->number == known->number;
}

static bool pack_kinds(const struct walk *w, struct packing *p) {
    for (uint32_t i = 0; i < w->kinds.count; i++) {
        const struct kind *kind = kinds_at(&w->kinds, i);
        if (!pack_known(p, (PyTypeObject *)kind->type, kind->number))
            return false;
    }
    struct sample_known known;
    for (uint32_t position = 0; sample_next_known(&position, &known);)
        if (kind_met(&w->kinds, known.type) == NULL && is_there(w, p->request->names, &known))
            if (!pack_known(p, (PyTypeObject *)known.type, known.number))
                return false;
    return true;
}

static bool pack_typed(const struct walk *w, struct packing *p) {
    struct sample_found found;
    for (uint32_t position = 0; sample_next(&position, &found);) {
        if (found.type != 0 || found.domain != SAMPLE_OBJECT)
            continue;
        const struct kind *kind = kind_of_block(w, found.block, found.size);
        struct census_typed typed = {found.id, found.birth, kind == NULL ? 0 : kind->number};
        if (kind == NULL)
            continue;
        if (!packs_make_room(&p->typed, sizeof typed))
            return false;
        pack_bytes(&p->typed, &typed, sizeof typed);
        p->typed_count++;
    }
    return true;
}

static int pack_samples(const struct walk *w, struct packing *p) {
    bool is_image = p->request->in_child;
    if (!sample_freeze(is_image))
        return 0;
    bool done = pack_kinds(w, p) && pack_typed(w, p);
    sample_thaw(is_image);
    return !done ? CENSUS_NO_MEMORY : p->kinds.full || p->typed.full ? CENSUS_TOO_LONG : 0;
}

/* -- the result --------------------------------------------------------------------------------------------- */

static int write_out(struct result *out, struct census_head *head, const struct packing *p) {
    head->cut = type_count(p) > MAX_NAMES;
    head->new_types = p->new_types;
    head->types_size = pack_size(&p->types);
    head->rows_size = pack_size(&p->rows);
    head->kinds = p->kind_count;
    head->typed = p->typed_count;
    bool whole = result_append(out, head, sizeof *head) == 0 && result_append(out, p->keys.base, pack_size(&p->keys)) == 0 &&
                 result_append(out, p->types.base, head->types_size) == 0 &&
                 result_append(out, p->rows.base, head->rows_size) == 0 &&
                 result_append(out, p->kinds.base, pack_size(&p->kinds)) == 0 &&
                 result_append(out, p->typed.base, pack_size(&p->typed)) == 0;
    return whole ? 0 : CENSUS_TOO_LONG;
}

static uint64_t bytes_used(const struct walk *w, const struct packing *p) {
    const struct names *names = p->request->names;
    uint64_t packed = pack_size(&p->types) + pack_size(&p->rows) + pack_size(&p->keys);
    packed += pack_size(&p->kinds) + pack_size(&p->typed);
    packed *= 2; /* in the result, too */
    return walk_bytes(w) + names->size * sizeof *names->slots + packed + child_memory_bytes();
}

/* A walk_status; walk_close is right after any. */
static int walk_from(struct walk *w, const struct census_request *request, uint64_t middle) {
    if (walk_open(w, request->in_child) < 0)
        return WALK_NO_MEMORY;
    w->middle = (gc_head *)middle;
    w->limit = request->limit;
    w->by_interpreter = true;
    for (size_t i = 0; i < request->excluded_count; i++)
        walk_exclude(w, (PyObject *)request->excluded[i]);
    return walk_run(w);
}

/* Whether a clone would call a __sizeof__ that was not called here. */
static bool guesses(const struct walk *w) {
    for (uint32_t i = 0; i < w->kinds.count; i++) {
        struct kind kind = *kinds_at(&w->kinds, i);
        if (kind.size != SIZE_GUESS)
            continue;
        size_decide(&kind, true);
        if (kind.size != SIZE_GUESS)
            return true;
    }
    return false;
}

static int status_of_walk(int status) {
    switch (status) {
    case WALK_OK:
        return 0;
    case WALK_NO_MEMORY:
        return CENSUS_NO_MEMORY;
    case WALK_TIMED_OUT:
        return CENSUS_TIMED_OUT;
    default:
        return CENSUS_BROKEN_LIST;
    }
}

/* Pack what was walked. */
static int pack(struct walk *w, const struct census_request *request, uint64_t begin, struct result *out) {
    if (child_memory_failed())
        return CENSUS_NO_MEMORY; /* and so some sizes are not what they should be */
    struct packing p;
    int status = packing_open(&p, request) ? pack_census(w, &p) : CENSUS_NO_MEMORY;
    if (status == 0)
        status = pack_samples(w, &p);
    struct census_head head = {.objects = w->objects,
                               .guessed = w->guessed,
                               .owned = w->owned,
                               .mapped = w->mapped,
                               .at_least = w->at_least,
                               .duration_ns = raw_clock() - begin,
                               .bytes = bytes_used(w, &p),
                               .left_out = interpreters.left_out,
                               .changing = w->changing,
                               .unfollowed = w->unfollowed,
                               .middle = (uint64_t)w->middle};
    if (status == 0)
        status = write_out(out, &head, &p);
    packing_close(&p);
    return status;
}

int census_run(void *context, struct result *out) {
    const struct census_request *request = context;
    if (request->in_child) {
        child_memory_use();
        layout_find_others();
    }
    uint64_t begin = raw_clock();
    struct walk w;
    int walked = walk_from(&w, request, request->in_child ? request->middle : 0);
    if (walked == WALK_ASTRAY) {
        walk_close(&w);
        walked = walk_from(&w, request, 0);
    }
    int status = status_of_walk(walked);
    if (status == 0 && request->as_clone && (w.unfollowed != 0 || guesses(&w)))
        status = CENSUS_GUESSES;
    if (status == 0)
        status = pack(&w, request, begin, out);
    walk_close(&w);
    return status;
}

const char *census_reason(int status) {
    switch (status) {
    case CENSUS_NO_MEMORY:
        return "there was no memory for the count";
    case CENSUS_BROKEN_LIST:
        return "a list of the collector was not whole";
    case CENSUS_TOO_LONG:
        return "the census was longer than its room";
    case CENSUS_TIMED_OUT:
        return "the count took longer than was expected";
    case CENSUS_GUESSES:
        return "some objects are only known in a clone";
    }
    return "the count failed";
}
