/* answers to WASTE: what the selected objects take and could do without, by what is wrong with them, type and holder.

   Each sort of waste is a claim of so many bytes of an object. A row adds up the claims of its objects; what several rows claim
   of one object counts in full in each, and once in the whole: as the largest of them.

       object ─► claims ─► rows { bytes: all claims;  retained: what no claim before had }
                    └► claimed [objects]  the largest claim so far

   Equal contents are found by a keyed hash of 128 bits, the key being of this question alone; of equal objects the one of the
   lowest address stays, and the others are claimed. No content leaves the clone. */
#include "graph/labels.h"
#include "heap/edges.h"
#include "heap/containers.h"
#include "heap/size.h"
#include "query/grouping.h"
#include "query/paths.h"
#include "snapshot/answers.h"
#include "snapshot/siphash.h"

#include <sys/auxv.h>

enum { MOST_ROWS = 2000, FIRST_CONTENTS = 1 << 12, HOLDER_STEPS = 64, HASHED_AT_ONCE = 1 << 20 };
enum { LIST_LEAST = 16 /* numbers in a list that an array is worth it for */, MOST_KEYS = 32, SPARE_SHARE = 4 };

enum waste { DUPLICATE, EQUAL, EMPTY, SPARE, SPARSE, SLOTS, INTS, FLOATS, INTERNED, WASTES }; /* WASTES of protocol/images.py */

enum interned_state { INTERNED_NONE_CAN_BE, INTERNED_COUNTED, INTERNED_NOT_FOUND };

/* -- contents ---------------------------------------------------------------------------------------------------- */

struct content {
    struct siphash_result hash;
    uint32_t first, count; /* the object met first, and how many were met */
};

struct contents {
    struct table table; /* struct content */
    uint32_t *slots; /* open addressing, at most half full: position + 1 */
    uint64_t slot_count;
};

static bool contents_open(struct contents *c) {
    *c = (struct contents){.slot_count = 2 * FIRST_CONTENTS};
    c->slots = pages_map(c->slot_count * sizeof *c->slots);
    return table_open(&c->table, sizeof(struct content), FIRST_CONTENTS) && c->slots != NULL;
}

static void contents_close(struct contents *c) {
    table_close(&c->table);
    pages_unmap(c->slots, c->slot_count * sizeof *c->slots);
}

static struct content *content_at(const struct contents *c, uint64_t position) {
    return (struct content *)c->table.items + position;
}

static uint32_t *content_slot(const struct contents *c, struct siphash_result hash) {
    for (uint64_t i = hash.low;; i++) {
        uint32_t *slot = &c->slots[i & (c->slot_count - 1)];
        if (*slot == 0)
            return slot;
        const struct content *found = content_at(c, *slot - 1);
        if (found->hash.low == hash.low && found->hash.high == hash.high)
            return slot;
    }
}

static bool grow_contents(struct contents *c) {
    uint32_t *larger = pages_map(2 * c->slot_count * sizeof *larger);
    if (larger == NULL)
        return false;
    pages_unmap(c->slots, c->slot_count * sizeof *c->slots);
    c->slots = larger;
    c->slot_count *= 2;
    for (uint32_t i = 0; i < c->table.count; i++)
        *content_slot(c, content_at(c, i)->hash) = i + 1;
    return true;
}

/* What is known of this content, counted once more; NULL when there is no memory. */
static struct content *note_content(struct contents *c, struct siphash_result hash, uint32_t number) {
    if (2 * (c->table.count + 1) > c->slot_count && !grow_contents(c))
        return NULL;
    uint32_t *slot = content_slot(c, hash);
    struct content *found = *slot != 0 ? content_at(c, *slot - 1) : table_add(&c->table);
    if (found == NULL)
        return NULL;
    if (*slot == 0) {
        *found = (struct content){hash, number, 0};
        *slot = (uint32_t)c->table.count;
    }
    found->count++;
    return found;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/*  key of a row:  sort 4 │ type 26 │ what the holder is 2 │ holder 32   */
enum holder_class { HELD_BY_ROOT /* a kind */, HELD_BY_TYPE, HELD_BY_ONE /* a module, or a frame */, HELD_NOT /* a key set */ };
enum { HOLDER_SHIFT = 32, TYPE_SHIFT = 34, SORT_SHIFT = 60, TYPE_BITS = 26 };

struct wasting {
    struct answering *a;
    uint64_t key[2];
    struct contents contents;
    struct grouping rows;
    struct table details; /* uint64_t for each row: what its advice needs */
    uint32_t *claimed; /* [objects] bytes; UINT32_MAX: all of it */
    uint64_t *own; /* bits: a dict of attributes */
    uint64_t kept[WASTES]; /* contents that there is more than one of; of objects that stay */
    enum interned_state interned;
    traverseproc python_traverse; /* of classes written in Python */
};

static size_t claimed_bytes(const struct answering *a) { return (a->selection.objects + 1ul) * sizeof(uint32_t); }

static struct {
    unsigned char bytes[16];
    bool noted;
} seed;

void answers_note_seed(void) {
    const void *random = seed.noted ? NULL : (const void *)getauxval(AT_RANDOM);
    if (random != NULL)
        memcpy(seed.bytes, random, sizeof seed.bytes);
    seed.noted = true;
}

/* The key, without a system call, which a filter of the target's may forbid: the kernel's 16 bytes for this process, and now. */
static void make_key(struct wasting *w) {
    const uint64_t zeros[2] = {0, 0};
    const uint64_t more[] = {raw_clock(), w->a->query->id, (uint64_t)w, (uint64_t)&seed};
    struct siphash s = siphash_begin(zeros);
    answers_note_seed();
    siphash_add(&s, seed.bytes, sizeof seed.bytes);
    siphash_add(&s, more, sizeof more);
    struct siphash_result made = siphash_end(&s);
    w->key[0] = made.low;
    w->key[1] = made.high;
}

static bool wasting_open(struct wasting *w, struct answering *a) {
    *w = (struct wasting){.a = a};
    make_key(w);
    bool contents = contents_open(&w->contents), rows = grouping_begin(&w->rows, GROUPING_BY_BYTES);
    bool details = table_open(&w->details, sizeof(uint64_t), FIRST_CONTENTS);
    w->claimed = pages_map(claimed_bytes(a));
    w->own = pages_map(query_bits_bytes(a->selection.objects));
    return contents && rows && details && w->claimed != NULL && w->own != NULL;
}

static void wasting_close(struct wasting *w) {
    contents_close(&w->contents);
    grouping_close(&w->rows);
    table_close(&w->details);
    pages_unmap(w->claimed, claimed_bytes(w->a));
    pages_unmap(w->own, query_bits_bytes(w->a->selection.objects));
}

/* The nearest module, frame, or instance of a heap type that is no type itself, on the path to an object. */
static uint64_t holder_of(struct wasting *w, uint32_t number) {
    struct heap *h = w->a->heap;
    uint64_t root = (uint64_t)HELD_BY_ROOT << HOLDER_SHIFT | answering_kind_of(w->a, number);
    uint32_t at = number;
    for (int i = 0; i < HOLDER_STEPS; i++) {
        uint32_t above = h->retain.parent[at];
        if (above >= h->graph.rows.count) /* it is a root itself, or was not reached */
            return root;
        if (heap_is_frame(h, above))
            return (uint64_t)HELD_BY_ONE << HOLDER_SHIFT | above;
        PyTypeObject *type = Py_TYPE(graph_object(&h->graph, above));
        if (type == symbols.module_type)
            return (uint64_t)HELD_BY_ONE << HOLDER_SHIFT | above;
        if (type_flags(type) & FLAG_HEAP_TYPE && !(type_flags(type) & FLAG_TYPE_SUBCLASS))
            return (uint64_t)HELD_BY_TYPE << HOLDER_SHIFT | types_of(w->a->types, h, above);
        at = above;
    }
    return root;
}

/* The row of a sort, type and holder; NULL when there is no memory. */
static struct group *row_of(struct wasting *w, enum waste sort, uint32_t type, uint64_t holder, uint32_t number) {
    uint64_t key = (uint64_t)sort << SORT_SHIFT | (uint64_t)(type & ((1u << TYPE_BITS) - 1)) << TYPE_SHIFT | holder;
    struct group *row = grouping_of(&w->rows, key, number);
    if (row != NULL && w->details.count < w->rows.groups.count && table_add(&w->details) == NULL)
        return NULL;
    return row;
}

static struct group *row_by_holder(struct wasting *w, enum waste sort, uint32_t number) {
    return row_of(w, sort, types_of(w->a->types, w->a->heap, number), holder_of(w, number), number);
}

static uint64_t *detail_of(const struct wasting *w, const struct group *row) {
    return (uint64_t *)w->details.items + (row - (const struct group *)w->rows.groups.items);
}

/* So many bytes of an object; never more than it has. */
static void claim(struct wasting *w, struct group *row, uint32_t number, uint64_t bytes) {
    uint64_t size = answering_bytes_of(w->a, number), before = w->claimed[number];
    before = before == UINT32_MAX ? size : before;
    bytes = bytes < size ? bytes : size;
    row->bytes += bytes;
    if (bytes <= before)
        return;
    row->retained += bytes - before;
    w->claimed[number] = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* One object of a sort, and what it could do without. False when there is no memory. */
static bool claim_one(struct wasting *w, enum waste sort, uint32_t number, uint64_t bytes, uint64_t detail) {
    struct group *row = bytes == 0 ? NULL : row_by_holder(w, sort, number);
    if (row == NULL)
        return bytes == 0;
    row->count++;
    *detail_of(w, row) += detail;
    claim(w, row, number, bytes);
    return true;
}

/* -- equal contents ------------------------------------------------------------------------------------------------ */

/* False when it was stopped meanwhile. */
static bool hash_bytes(struct wasting *w, struct siphash *s, const char *data, uint64_t size) {
    for (; size > HASHED_AT_ONCE; data += HASHED_AT_ONCE, size -= HASHED_AT_ONCE) {
        siphash_add(s, data, HASHED_AT_ONCE);
        if (!progress_look(w->a->progress))
            return false;
    }
    siphash_add(s, data, size);
    return true;
}

enum content_class { CONTENT_STR, CONTENT_BYTES, CONTENT_INT, CONTENT_FLOAT, CONTENT_KEYS };

static struct siphash begin_content(const struct wasting *w, enum content_class class, uint64_t more, uint64_t length) {
    const uint64_t head[] = {class, more, length};
    struct siphash s = siphash_begin(w->key);
    siphash_add(&s, head, sizeof head);
    return s;
}

/* longintrepr.h: the sign, and how many digits of 30 bits */
static uint64_t int_digits(PyObject *o, int *sign) {
    int64_t size = size_field(o);
    if (layout.int_shift == 0) {
        *sign = size < 0 ? -1 : size > 0;
        return (uint64_t)(size < 0 ? -size : size);
    }
    *sign = 1 - (int)(size & 3); /* the lowest two bits: 0 positive, 1 zero, 2 negative */
    return (uint64_t)size >> layout.int_shift;
}

/* False when there was no memory, or when it was stopped. */
static bool note_equal(struct wasting *w, enum waste sort, uint32_t number, struct siphash *s) {
    struct content *content = note_content(&w->contents, siphash_end(s), number);
    if (content == NULL)
        return false;
    if (content->count == 1)
        return true;
    w->kept[sort] += content->count == 2;
    return claim_one(w, sort, number, answering_bytes_of(w->a, number), 0);
}

static bool waste_str(struct wasting *w, uint32_t number, PyObject *o) {
    struct name_data text;
    if (!names_data(o, &text))
        return true;
    struct siphash s = begin_content(w, CONTENT_STR, text.width, (uint64_t)text.length);
    return hash_bytes(w, &s, text.data, (uint64_t)text.length * text.width) && note_equal(w, DUPLICATE, number, &s);
}

static bool waste_bytes(struct wasting *w, uint32_t number, PyObject *o) {
    enum { DATA = 32 /* cpython/bytesobject.h: ob_sval */ };
    uint64_t length = (uint64_t)size_field(o);
    struct siphash s = begin_content(w, CONTENT_BYTES, 1, length);
    return hash_bytes(w, &s, at(body_of(o), DATA), length) && note_equal(w, DUPLICATE, number, &s);
}

static bool waste_int(struct wasting *w, uint32_t number, PyObject *o) {
    int sign;
    uint64_t digits = int_digits(o, &sign);
    struct siphash s = begin_content(w, CONTENT_INT, (uint64_t)(sign + 1), digits);
    return hash_bytes(w, &s, at(o, layout.int_digits), 4 * digits) && note_equal(w, EQUAL, number, &s);
}

static bool waste_float(struct wasting *w, uint32_t number, PyObject *o) {
    struct siphash s = begin_content(w, CONTENT_FLOAT, 0, 8);
    siphash_add(&s, at(o, (int32_t)head_size()), 8);
    return note_equal(w, EQUAL, number, &s);
}

/* -- containers ---------------------------------------------------------------------------------------------------- */

static bool is_number(PyObject *o, PyTypeObject *type) {
    enum { DIGITS = 2 /* of 60 bits together: what an item of an array surely holds */ };
    int sign;
    return Py_TYPE(o) == type && (type == symbols.float_type || int_digits(o, &sign) <= DIGITS);
}

/* A list of nothing but small enough ints, or of floats: its items that nobody else has, and the room that it does not use. */
static bool waste_numbers(struct wasting *w, uint32_t number, PyObject **items, int64_t count, uint64_t spare) {
    const struct graph *g = &w->a->heap->graph;
    PyTypeObject *type = items[0] == NULL ? NULL : Py_TYPE(items[0]);
    uint64_t boxes = spare;
    if (type != symbols.int_type && type != symbols.float_type)
        return true;
    for (int64_t i = 0; i < count; i++)
        if (items[i] == NULL || !is_number(items[i], type))
            return true;
    for (int64_t i = 0; i < count; i++)
        if (reference_count(items[i]) == 1)
            boxes++;
    if (boxes == 0)
        return true;
    struct group *row = row_by_holder(w, type == symbols.int_type ? INTS : FLOATS, number);
    if (row == NULL)
        return false;
    row->count++;
    *detail_of(w, row) += (uint64_t)count;
    claim(w, row, number, spare);
    for (int64_t i = 0; i < count; i++) {
        uint32_t item = reference_count(items[i]) == 1 ? graph_number(g, items[i]) : CSR_NONE;
        if (item < w->a->selection.objects)
            claim(w, row, item, answering_bytes_of(w->a, item));
    }
    return true;
}

static bool waste_list(struct wasting *w, uint32_t number, PyObject *o) {
    int64_t count = size_field(o), room = int64_at(o, layout.list_allocated);
    PyObject **items = pointer_at(o, layout.list_items);
    uint64_t spare = room > count ? 8 * (uint64_t)(room - count) : 0;
    if (count == 0)
        return claim_one(w, EMPTY, number, answering_bytes_of(w->a, number), 0);
    if (count >= LIST_LEAST && items != NULL && !waste_numbers(w, number, items, count, spare))
        return false;
    return SPARE_SHARE * count > room || claim_one(w, SPARE, number, spare, (uint64_t)count);
}

static bool waste_set(struct wasting *w, uint32_t number, PyObject *o) {
    uint64_t used = uint64_at(o, layout.set_used), room = uint64_at(o, layout.set_mask) + 1;
    if (used == 0)
        return claim_one(w, EMPTY, number, answering_bytes_of(w->a, number), 0);
    return SPARE_SHARE * used > room || claim_one(w, SPARE, number, 16 * (room - used), used);
}

/* Of the table that a dict made from another one has, at most: with few entries it is 8 or 16, by version. */
static uint64_t least_slots(uint64_t entries) {
    uint64_t slots = 16;
    while ((slots << 1) / 3 < entries)
        slots *= 2;
    return slots;
}

static bool waste_dict(struct wasting *w, uint32_t number, PyObject *o) {
    const void *keys = pointer_at(o, layout.dict_keys);
    uint64_t used = uint64_at(o, layout.dict_used), slots = keys_size(keys), entries = uint64_at(keys, layout.keys_entries);
    bool alone = int64_at(keys, 0) == 1 && pointer_at(o, layout.dict_values) == NULL, unhashed = keys_unhashed(keys);
    if (w->own[number / 64] >> (number % 64) & 1)
        return true;
    if (alone && entries > used && entries - used >= used) {
        uint64_t least = least_slots(used), now = keys_bytes_of(slots, unhashed);
        uint64_t saved = used == 0 ? now : least < slots ? now - keys_bytes_of(least, unhashed) : 0;
        return claim_one(w, SPARSE, number, saved, entries - used);
    }
    if (used == 0)
        return claim_one(w, EMPTY, number, answering_bytes_of(w->a, number), 0);
    uint64_t room = (slots << 1) / 3;
    if (!alone || entries != used || SPARE_SHARE * used > room)
        return true;
    return claim_one(w, SPARE, number, (room - used) * (unhashed ? 16 : 24), used);
}

/* -- attributes ---------------------------------------------------------------------------------------------------- */

enum { MANAGED = 1 << 4 /* cpython/object.h, Py_TPFLAGS_MANAGED_DICT, where layout.object_dict is one */ };

static bool has_dict(PyTypeObject *type) {
    return (layout.object_dict != 0 && type_flags(type) & MANAGED) || int64_at(type, layout.type_dict_offset) != 0;
}

/* typeobject.c, subtype_traverse: what classes that were written in Python have in common. Types of C may share names of
   attributes too, but are few: it is what most of these have (Boyer and Moore's majority). */
static traverseproc find_python_traverse(const struct kinds *kinds) {
    traverseproc found = NULL;
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < kinds->count; i++) {
        PyTypeObject *type = kinds_at(kinds, i)->type;
        if (!(type_flags(type) & FLAG_HEAP_TYPE) || pointer_at(type, layout.heap_cached_keys) == NULL)
            continue;
        if (ahead == 0)
            found = type_traverse(type);
        ahead += type_traverse(type) == found ? 1 : -1u;
    }
    return found;
}

/* Whether a class may have __slots__ in place of a dict: it was written in Python, and nothing of C in it has a dict. */
static bool is_plain_class(const struct wasting *w, PyTypeObject *type) {
    if (!(type_flags(type) & FLAG_HEAP_TYPE) || !has_dict(type) || type_traverse(type) != w->python_traverse)
        return false;
    PyTypeObject *base = type;
    for (; base != NULL && type_flags(base) & FLAG_HEAP_TYPE; base = type_base(base))
        if (has_dict(base) && type_traverse(base) != w->python_traverse)
            return false;
    return base != NULL && !has_dict(base) && uint32_at(base, layout.type_itemsize) == 0;
}

struct attributes {
    uint32_t dict; /* its number, or CSR_NONE */
    uint32_t count;
    struct siphash_result names; /* of all of them, in any order */
};

static bool add_name(struct wasting *w, struct attributes *found, PyObject *name) {
    struct name_data text;
    if (++found->count > MOST_KEYS || !names_data(name, &text))
        return false;
    struct siphash s = begin_content(w, CONTENT_KEYS, text.width, (uint64_t)text.length);
    siphash_add(&s, text.data, (size_t)text.length * text.width);
    struct siphash_result one = siphash_end(&s);
    found->names.low += one.low;
    found->names.high += one.high;
    return true;
}

/* The names of an instance's attributes. False where they are too many, are no str, or it has none. */
static bool read_attributes(struct wasting *w, PyObject *o, const struct kind *kind, struct attributes *found) {
    struct attribute_table table;
    *found = (struct attributes){.dict = CSR_NONE};
    if (!labels_attributes_of(o, kind, &table))
        return false;
    if (table.dict != NULL) {
        found->dict = graph_number(&w->a->heap->graph, table.dict);
        if (found->dict == CSR_NONE)
            return false;
    }
    for (int64_t i = 0; i < table.count; i++) {
        PyObject **entry = keys_entry(&table.keys, i), *value = keys_value(&table.keys, table.values, i);
        if (entry[0] != NULL && value != NULL && !add_name(w, found, entry[0]))
            return false;
    }
    return found->count != 0;
}

/* What an instance would take less, and its dict: a slot is a word for each attribute. References to it stay possible. */
static void claim_instance(struct wasting *w, struct group *row, uint32_t number, const struct attributes *found) {
    struct graph *g = &w->a->heap->graph;
    const struct kind *kind = graph_kind(g, number);
    unsigned long before = type_flags(kind->type) & (unsigned long)layout.flags_pre_header;
    bool managed = layout.object_dict != 0 && type_flags(kind->type) & MANAGED;
    uint64_t places = !managed ? 8 : before == MANAGED ? 16 : 0; /* of the dict, in it or before it */
    uint64_t less = places + size_hidden(graph_object(g, number), kind), more = 8ul * found->count;
    uint64_t dict = found->dict == CSR_NONE ? 0 : answering_bytes_of(w->a, found->dict);
    row->count++;
    if (less + dict <= more)
        return;
    claim(w, row, number, less > more ? less - more : 0);
    if (dict != 0)
        claim(w, row, found->dict, less < more ? dict - (more - less) : dict);
}

static struct siphash_result keys_content(struct wasting *w, uint32_t kind, const struct attributes *found) {
    struct siphash s = begin_content(w, CONTENT_KEYS, kind, found->count);
    siphash_add(&s, &found->names, sizeof found->names);
    return siphash_end(&s);
}

static bool waste_instance(struct wasting *w, uint32_t number, PyObject *o, const struct kind *kind) {
    struct attributes found, first;
    if (!is_plain_class(w, kind->type) || !read_attributes(w, o, kind, &found))
        return true;
    struct content *content = note_content(&w->contents, keys_content(w, kind->position, &found), number);
    if (content == NULL)
        return false;
    uint32_t before = content->first, count = content->count;
    if (count == 1)
        return true;
    uint64_t set = (uint64_t)HELD_NOT << HOLDER_SHIFT | (uint64_t)(content - content_at(&w->contents, 0));
    struct group *row = row_of(w, SLOTS, types_of(w->a->types, w->a->heap, number), set, before);
    if (row == NULL)
        return false;
    *detail_of(w, row) = found.count;
    if (count == 2 && read_attributes(w, graph_object(&w->a->heap->graph, before), kind, &first))
        claim_instance(w, row, before, &first);
    claim_instance(w, row, number, &found);
    return true;
}

/* -- all objects --------------------------------------------------------------------------------------------------- */

static void find_own_dicts(struct wasting *w) {
    struct graph *g = &w->a->heap->graph;
    progress_begin(w->a->progress, g->objects);
    for (uint32_t number = 0; number < g->objects && progress_on(w->a->progress); number++) {
        const struct kind *kind = graph_kind(g, number);
        PyObject *dict = has_dict(kind->type) ? instance_dict(graph_object(g, number), kind) : NULL;
        uint32_t own = dict == NULL ? CSR_NONE : graph_number(g, dict);
        if (own < g->objects)
            w->own[own / 64] |= 1ull << own % 64;
    }
}

static bool waste_one(struct wasting *w, uint32_t number) {
    struct graph *g = &w->a->heap->graph;
    PyObject *o = graph_object(g, number);
    const struct kind *kind = graph_kind(g, number);
    if (kind->type == symbols.str_type)
        return waste_str(w, number, o);
    if (kind->type == symbols.bytes_type)
        return waste_bytes(w, number, o);
    if (kind->type == symbols.int_type)
        return waste_int(w, number, o);
    if (kind->type == symbols.float_type)
        return waste_float(w, number, o);
    if (kind->type == symbols.list_type)
        return waste_list(w, number, o);
    if (kind->type == symbols.set_type)
        return waste_set(w, number, o);
    if (kind->type == symbols.dict_type)
        return waste_dict(w, number, o);
    return waste_instance(w, number, o, kind);
}

static bool waste_all(struct wasting *w) {
    struct answering *a = w->a;
    w->python_traverse = find_python_traverse(&a->heap->graph.walk.kinds);
    find_own_dicts(w);
    progress_begin(a->progress, a->selection.objects);
    for (uint32_t number = 0; number < a->selection.objects && progress_on(a->progress); number++)
        if (is_selected(&a->selection, number) && !waste_one(w, number))
            return false;
    return !a->progress->stopped;
}

/* -- interned strings ---------------------------------------------------------------------------------------------- */

static bool is_readable(uint64_t at) { return at % 8 == 0 && raw_readable(at); }

/* Whether a dict that may be a freed one has a table of its own in which so many entries can be. */
static bool has_table(PyObject *dict, uint64_t used) {
    uint64_t keys = uint64_at(dict, layout.dict_keys);
    if (!is_readable(keys) || !is_readable(keys + (uint64_t)layout.keys_entries) || keys_size((void *)keys) > UINT32_MAX)
        return false;
    struct keys_view view = keys_open((void *)keys);
    uint64_t count = (uint64_t)view.count, end = (uint64_t)(view.entries + count * (uint64_t)view.stride) - 8;
    return count >= used && count <= (keys_size((void *)keys) << 1) / 3 && is_readable((uint64_t)view.entries) &&
           is_readable(end);
}

/* Whether an address that may be anything is a dict of many strings, each its own value: the table of interned ones. */
static bool is_interned_table(uint64_t address) {
    enum { LEAST = 64 };
    PyObject *dict = (PyObject *)address;
    if (!is_readable(address) || !is_readable(address + 8) || Py_TYPE(dict) != symbols.dict_type ||
        !is_readable(address + (uint64_t)layout.dict_values) || pointer_at(dict, layout.dict_values) != NULL)
        return false;
    if (uint64_at(dict, layout.dict_used) < LEAST || !has_table(dict, uint64_at(dict, layout.dict_used)))
        return false;
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    int64_t met = 0;
    for (int64_t i = 0; i < keys.count && met < LEAST; i++) {
        PyObject **entry = keys_entry(&keys, i), *key = entry[0];
        if (key == NULL)
            continue;
        if (key != entry[1] || !is_readable((uint64_t)key + 8) || Py_TYPE(key) != symbols.str_type ||
            !(uint32_at(key, layout.str_state) & 3))
            return false;
        met++;
    }
    return met == LEAST;
}

/* The interpreter's state has it at a place that patch releases move; its contents prove it. */
static PyObject *find_interned(const struct wasting *w) {
    enum { STATE_BYTES = 1 << 19, PAGE = 4096 };
    uint64_t begin = (uint64_t)w->a->interpreter;
    for (uint64_t at = begin; at < begin + STATE_BYTES; at += 8) {
        if ((at == begin || at % PAGE == 0) && (!raw_readable(at) || !progress_look(w->a->progress)))
            return NULL;
        if (is_interned_table(*(uint64_t *)at))
            return *(PyObject **)at;
    }
    return NULL;
}

/* Interned strings that live for ever and that nothing met refers to. One that is counted goes with its last reference: of
   these none can be unused, and where none live forever, none can be at all. */
static bool waste_interned(struct wasting *w) {
    struct heap *h = w->a->heap;
    struct kind *kind = kinds_get(&h->graph.walk.kinds, symbols.str_type);
    PyObject *dict = NULL;
    if (layout.refcount_bits == 64)
        w->interned = INTERNED_NONE_CAN_BE;
    else
        w->interned = (dict = find_interned(w)) == NULL ? INTERNED_NOT_FOUND : INTERNED_COUNTED;
    if (dict == NULL || w->a->selection.count != w->a->selection.objects || kind->position >= w->a->types->kinds)
        return true;
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    struct group *row = NULL;
    for (int64_t i = 0; i < keys.count && progress_on(w->a->progress); i++) {
        PyObject *o = keys_entry(&keys, i)[0];
        if (o == NULL || reference_count(o) != INT64_MAX || graph_number(&h->graph, o) != CSR_NONE)
            continue;
        if (row == NULL)
            row = row_of(w, INTERNED, w->a->types->numbers[kind->position], (uint64_t)HELD_NOT << HOLDER_SHIFT, CSR_NONE);
        if (row == NULL)
            return false;
        row->count++;
        row->bytes += size_of(o, kind);
        row->retained = row->bytes;
    }
    return true;
}

/* -- telling it ---------------------------------------------------------------------------------------------------- */

static enum waste sort_of(const struct group *row) { return (enum waste)(row->key >> SORT_SHIFT); }

static void pack_totals(struct wasting *w) {
    struct answering *a = w->a;
    uint64_t totals[WASTES][3] = {{0}};
    for (uint64_t i = 0; i < w->rows.groups.count; i++) {
        const struct group *row = (const struct group *)w->rows.groups.items + i;
        totals[sort_of(row)][0] += row->count;
        totals[sort_of(row)][1] += row->bytes;
        totals[sort_of(row)][2] += row->retained;
    }
    answering_field(a, "totals");
    pack_array(a->out, WASTES);
    for (uint32_t sort = 0; sort < WASTES; sort++) {
        pack_array(a->out, 5);
        pack_uint(a->out, sort);
        for (int i = 0; i < 3; i++)
            pack_uint(a->out, totals[sort][i]);
        pack_uint(a->out, w->kept[sort]);
    }
}

static bool pack_row(struct wasting *w, const struct group *row) {
    struct answering *a = w->a;
    bool of_type = (row->key >> HOLDER_SHIFT & 3) == HELD_BY_TYPE, is_object = row->example != CSR_NONE;
    pack_array(a->out, 9);
    pack_uint(a->out, sort_of(row));
    pack_uint(a->out, row->key >> TYPE_SHIFT & ((1u << TYPE_BITS) - 1));
    pack_uint(a->out, row->count);
    pack_uint(a->out, row->bytes);
    pack_uint(a->out, row->retained);
    pack_uint(a->out, *detail_of(w, row));
    pack_uint(a->out, of_type ? row->key & UINT32_MAX : CSR_NONE);
    pack_uint(a->out, is_object ? (uint64_t)graph_object(&a->heap->graph, row->example) : 0);
    if (is_object)
        return paths_pack(a, row->example, NULL, true);
    pack_array(a->out, 0);
    return true;
}

static bool pack_waste(struct wasting *w) {
    struct answering *a = w->a;
    const struct grouping *g = &w->rows;
    bool done = true;
    answering_begin(a, "waste", 5);
    pack_totals(w);
    answering_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count && done; i++)
        done = pack_row(w, grouping_at(g, i));
    answering_field_uint(a, "other_rows", g->groups.count - g->largest.count);
    answering_field_uint(a, "interned", w->interned);
    answering_field_complete(a, true);
    return done;
}

const char *answers_waste(struct answering *a) {
    struct wasting w;
    uint32_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    bool done = wasting_open(&w, a) && waste_all(&w) && waste_interned(&w) && grouping_sort(&w.rows, limit, a->progress) &&
                pack_waste(&w);
    wasting_close(&w);
    return done ? NULL : answering_refusal(a);
}
