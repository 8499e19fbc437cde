/* retainers: the sets and the queue. The drawing is in the header. */
#include "graph/retainers.h"

#include "pages.h"

#define PREFETCH(address) __builtin_prefetch((const void *)(address))

enum { FIRST_SETS = 1 << 10, AHEAD = 8 };

static size_t object_bytes(const struct retainers *s) { return (s->rows->count + 1ul) * sizeof(uint32_t); }

int retainers_open(struct retainers *s, const struct csr *rows, const uint32_t *units, uint32_t limit) {
    *s = (struct retainers){.rows = rows, .units = units, .limit = limit};
    s->count = RETAINERS_MANY + 1;
    s->room = FIRST_SETS;
    s->slot_count = 2 * FIRST_SETS;
    s->set = pages_map(object_bytes(s));
    s->wanted = pages_map(object_bytes(s));
    s->queue = pages_map(object_bytes(s));
    s->members = pages_map(s->room * limit * sizeof *s->members);
    s->slots = pages_map(s->slot_count * sizeof *s->slots);
    s->unions = pages_map(UNIONS * sizeof *s->unions);
    if (!s->set || !s->wanted || !s->queue || !s->members || !s->slots || !s->unions)
        return RETAINERS_NO_MEMORY;
    __builtin_memset(s->members, 0xff, s->count * limit * sizeof *s->members); /* CSR_NONE */
    return RETAINERS_OK;
}

static void close_search(struct retainers *s) {
    pages_unmap(s->wanted, object_bytes(s));
    pages_unmap(s->queue, object_bytes(s));
    pages_unmap(s->unions, UNIONS * sizeof *s->unions);
    s->wanted = s->queue = NULL;
    s->unions = NULL;
}

void retainers_close(struct retainers *s) {
    if (s->rows == NULL)
        return;
    close_search(s);
    pages_unmap(s->set, object_bytes(s));
    pages_unmap(s->members, s->room * s->limit * sizeof *s->members);
    pages_unmap(s->totals, s->count * sizeof *s->totals);
    pages_unmap(s->slots, s->slot_count * sizeof *s->slots);
    *s = (struct retainers){0};
}

/* -- sets --------------------------------------------------------------------------------------------------- */

static uint32_t *members_of(const struct retainers *s, uint64_t set) { return s->members + set * s->limit; }

static uint64_t hash_of(const struct retainers *s, const uint32_t *members) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < s->limit && members[i] != CSR_NONE; i++)
        hash = (hash ^ members[i]) * 0x9E3779B97F4A7C15u;
    return hash >> 20;
}

static bool same(const struct retainers *s, const uint32_t *one, const uint32_t *other) {
    for (uint32_t i = 0; i < s->limit; i++)
        if (one[i] != other[i])
            return false;
    return true;
}

static void insert(struct retainers *s, uint32_t set) {
    uint64_t place = hash_of(s, members_of(s, set));
    while (s->slots[place & (s->slot_count - 1)] != 0)
        place++;
    s->slots[place & (s->slot_count - 1)] = set;
}

static bool grow_members(struct retainers *s) {
    size_t size = s->room * s->limit * sizeof *s->members;
    uint32_t *larger = s->room > CSR_MOST / 2 ? NULL : pages_grow(s->members, size, 2 * size);
    if (larger == NULL)
        return false;
    s->members = larger;
    s->room *= 2;
    return true;
}

static bool grow_slots(struct retainers *s) {
    uint32_t *old = s->slots, *slots = pages_map(2 * s->slot_count * sizeof *slots);
    if (slots == NULL)
        return false;
    pages_unmap(old, s->slot_count * sizeof *old);
    s->slots = slots;
    s->slot_count *= 2;
    for (uint32_t set = RETAINERS_MANY + 1; set < s->count; set++)
        insert(s, set);
    return true;
}

/* The number of a set, new or known. RETAINERS_MANY, with s->failed set, when there is no memory. */
static uint32_t set_of(struct retainers *s, const uint32_t *members) {
    for (uint64_t place = hash_of(s, members);; place++) {
        uint32_t set = s->slots[place & (s->slot_count - 1)];
        if (set == 0)
            break;
        if (same(s, members_of(s, set), members))
            return set;
    }
    if ((s->count == s->room && !grow_members(s)) || (2 * (s->count + 1) > s->slot_count && !grow_slots(s))) {
        s->failed = true;
        return RETAINERS_MANY;
    }
    __builtin_memcpy(members_of(s, s->count), members, s->limit * sizeof *members);
    insert(s, (uint32_t)s->count);
    return (uint32_t)s->count++;
}

static uint32_t set_of_one(struct retainers *s, uint32_t unit) {
    uint32_t members[RETAINERS_LIMIT];
    __builtin_memset(members, 0xff, sizeof members); /* CSR_NONE */
    members[0] = unit;
    return set_of(s, members);
}

static uint32_t merge(struct retainers *s, uint32_t one, uint32_t other) {
    uint32_t members[RETAINERS_LIMIT], count = 0, limit = s->limit, i = 0, j = 0;
    const uint32_t *a = members_of(s, one), *b = members_of(s, other);
    __builtin_memset(members, 0xff, sizeof members);
    for (;;) {
        uint32_t first = i < limit ? a[i] : CSR_NONE, second = j < limit ? b[j] : CSR_NONE;
        uint32_t next = first < second ? first : second;
        if (next == CSR_NONE)
            return set_of(s, members);
        if (count == limit)
            return RETAINERS_MANY;
        members[count++] = next;
        i += first == next;
        j += second == next;
    }
}

static inline uint32_t both(struct retainers *s, uint32_t one, uint32_t other) {
    if (one == other || other == RETAINERS_NONE || one == RETAINERS_MANY)
        return one;
    if (one == RETAINERS_NONE || other == RETAINERS_MANY)
        return other;
    struct retainers_union *known = &s->unions[(one * 31 + other) % UNIONS];
    if (known->one != one || known->other != other)
        *known = (struct retainers_union){one, other, merge(s, one, other)};
    return known->both;
}

uint32_t retainers_members(const struct retainers *s, uint32_t set, const uint32_t **members) {
    uint32_t count = 0;
    *members = members_of(s, set);
    while (count < s->limit && (*members)[count] != CSR_NONE)
        count++;
    return count;
}

/* -- requests ----------------------------------------------------------------------------------------------- */

static inline void ask(struct retainers *s, uint32_t object, uint32_t set) {
    uint32_t joined = both(s, s->set[object], set), wanted = s->wanted[object];
    if (joined == s->set[object])
        return;
    s->wanted[object] = both(s, wanted, set);
    if (wanted != RETAINERS_NONE)
        return; /* it waits already */
    uint64_t end = s->head + (uint64_t)s->waiting++, room = s->rows->count;
    s->queue[end < room ? end : end - room] = object;
}

/* Fetch what its turn needs for one that waits. */
static inline void look_ahead(const struct retainers *s) {
    uint64_t next = s->head + (uint64_t)2 * AHEAD, room = s->rows->count;
    if (s->waiting > 2 * AHEAD && next < room) {
        PREFETCH(&s->rows->first[s->queue[next]]);
        PREFETCH(&s->wanted[s->queue[next]]);
        PREFETCH(&s->rows->edges[s->rows->first[s->queue[next - AHEAD]]]);
    }
}

static uint32_t next_waiting(struct retainers *s) {
    look_ahead(s);
    uint32_t object = s->queue[s->head];
    s->head = s->head + 1 == s->rows->count ? 0 : s->head + 1;
    s->waiting--;
    return object;
}

static void grant(struct retainers *s, uint32_t object) {
    uint32_t before = s->set[object], after = both(s, before, s->wanted[object]), unit = s->units[object];
    s->wanted[object] = RETAINERS_NONE;
    s->set[object] = after;
    if (unit != CSR_NONE && before != RETAINERS_NONE)
        return; /* what it passes on is passed on */
    uint32_t begin = s->rows->first[object], end = s->rows->first[object + 1];
    if (begin == end)
        return;
    uint32_t passed = unit != CSR_NONE ? set_of_one(s, unit) : after;
    s->steps += end - begin;
    for (uint32_t e = begin; e < end && progress_on(s->progress); e++) {
        if (e + AHEAD < end)
            PREFETCH(&s->set[s->rows->edges[e + AHEAD]]);
        ask(s, s->rows->edges[e], passed);
    }
}

static bool add_up(struct retainers *s) {
    s->totals = pages_map(s->count * sizeof *s->totals);
    for (uint32_t object = 0; s->totals != NULL && object < s->rows->count; object++) {
        struct retainers_total *total = &s->totals[s->set[object]];
        total->objects++;
        total->bytes += csr_size(s->rows, object);
    }
    return s->totals != NULL;
}

int retainers_find(struct retainers *s, const struct retainers_root *roots, uint64_t count) {
    progress_begin(s->progress, s->rows->first[s->rows->count]);
    for (uint64_t i = 0; i < count; i++)
        ask(s, roots[i].object, set_of_one(s, roots[i].unit));
    while (s->waiting > 0 && !s->failed && !(s->progress != NULL && s->progress->stopped))
        grant(s, next_waiting(s));
    close_search(s);
    return !s->failed && add_up(s) ? RETAINERS_OK : RETAINERS_NO_MEMORY;
}

uint64_t retainers_bytes(const struct retainers *s) {
    uint64_t sets = s->count * (s->limit * sizeof *s->members + sizeof *s->totals) + s->slot_count * sizeof *s->slots;
    return 3 * object_bytes(s) + UNIONS * sizeof *s->unions + sets;
}
