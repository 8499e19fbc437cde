/* sites: interning texts, frames, stacks and places. */
#define _GNU_SOURCE
#include "preload/sites.h"

#include "preload/unwind.h"
#include "sampler/index.h"

#include <string.h>

enum { DEPTH = 64, LONGEST_TEXT = 1024 };

static malloc_read_stack *read_stack;
static struct table *table;
static struct index texts, frames, nodes, sites;
static struct budget budget = {.limit = 8 << 20};
static uint32_t taken[DEPTH], taken_count;

static uint64_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

/* An entry is whole before heaptop may see it. */
static uint32_t publish(uint32_t *count, uint32_t more) {
    uint32_t at = *count;
    __atomic_store_n(count, at + more, __ATOMIC_RELEASE);
    return at;
}

/* -- texts -------------------------------------------------------------------------------------------------- */

static uint32_t hash_of_bytes(const char *bytes, size_t size) {
    uint64_t hash = size;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = mix(hash ^ word);
    }
    return (uint32_t)hash;
}

static uint32_t text_of(const char *bytes, size_t size) {
    if (size > LONGEST_TEXT)
        size = LONGEST_TEXT;
    if (size == 0)
        return 0;
    uint32_t hash = hash_of_bytes(bytes, size), place = index_place(&texts, hash);
    for (; texts.slots[place] != 0; place = index_next(&texts, place)) {
        const char *known = table->texts + texts.slots[place] - 1;
        if (memcmp(known, bytes, size) == 0 && known[size] == '\0')
            return texts.slots[place] - 1;
    }
    if (table->text_size + size + 1 + LONGEST_TEXT > TEXTS || !index_has_room(&texts))
        return SITES_FULL;
    memcpy(table->texts + table->text_size, bytes, size);
    uint32_t at = publish(&table->text_size, (uint32_t)size + 1);
    index_add(&texts, hash, at);
    return at;
}

/* -- stacks ------------------------------------------------------------------------------------------------- */

static uint32_t frame_of(struct frame wanted) {
    uint32_t hash = (uint32_t)mix(mix((uint64_t)wanted.file << 32 | wanted.function) ^ wanted.line);
    for (uint32_t place = index_place(&frames, hash); frames.slots[place] != 0; place = index_next(&frames, place))
        if (memcmp(&table->frames[frames.slots[place] - 1], &wanted, sizeof wanted) == 0)
            return frames.slots[place] - 1;
    if (table->frame_count == FRAMES || !index_has_room(&frames))
        return SITES_FULL;
    table->frames[table->frame_count] = wanted;
    index_add(&frames, hash, table->frame_count);
    return publish(&table->frame_count, 1);
}

static uint32_t node_of(struct node wanted) {
    uint32_t hash = (uint32_t)mix((uint64_t)wanted.parent << 32 | wanted.frame);
    for (uint32_t place = index_place(&nodes, hash); nodes.slots[place] != 0; place = index_next(&nodes, place))
        if (memcmp(&table->nodes[nodes.slots[place] - 1], &wanted, sizeof wanted) == 0)
            return nodes.slots[place] - 1;
    if (table->node_count == NODES || !index_has_room(&nodes))
        return NO_ROOM;
    table->nodes[table->node_count] = wanted;
    index_add(&nodes, hash, table->node_count);
    return publish(&table->node_count, 1);
}

static void take_frame(struct malloc_text file, struct malloc_text function, uint32_t line) {
    if (taken_count == DEPTH)
        return;
    uint32_t first = text_of(file.bytes, file.size), second = text_of(function.bytes, function.size);
    bool full = first == SITES_FULL || second == SITES_FULL;
    taken[taken_count++] = full ? SITES_FULL : frame_of((struct frame){first, second, line});
}

static uint32_t stack_now(bool is_first) {
    malloc_read_stack *reader = __atomic_load_n(&read_stack, __ATOMIC_ACQUIRE);
    if (reader == NULL)
        return TOO_EARLY;
    taken_count = 0;
    reader(DEPTH, is_first, take_frame);
    uint32_t node = NO_STACK;
    for (uint32_t i = taken_count; i-- > 0 && node != NO_ROOM;)
        node = taken[i] == SITES_FULL ? NO_ROOM : node_of((struct node){node, taken[i]});
    return node;
}

void sites_read_stacks(malloc_read_stack *reader) { __atomic_store_n(&read_stack, reader, __ATOMIC_RELEASE); }

/* -- sites -------------------------------------------------------------------------------------------------- */

/* Text 0 is the program itself, as the linker has it; "?" is none that is known. */
static struct site place_of_caller(const void *caller) {
    struct found_object found;
    if (!unwind_find_object(caller, &found))
        return (struct site){0, text_of("?", 1), 0};
    uint64_t offset = (uint64_t)caller - found.map->l_addr;
    return (struct site){offset, text_of(found.map->l_name, strlen(found.map->l_name)), 0};
}

uint32_t sites_now(const void *caller, enum kind kind, bool is_first) {
    struct site wanted = place_of_caller(kind == MALLOC ? unwind_owner(caller, is_first) : caller);
    if (wanted.library == SITES_FULL)
        return SITES_FULL;
    wanted.node = stack_now(is_first);
    uint32_t hash = (uint32_t)mix(mix(wanted.offset ^ (uint64_t)wanted.library << 40) ^ wanted.node);
    for (uint32_t place = index_place(&sites, hash); sites.slots[place] != 0; place = index_next(&sites, place))
        if (memcmp(&table->sites[sites.slots[place] - 1], &wanted, sizeof wanted) == 0)
            return sites.slots[place] - 1;
    if (table->site_count == SITES || !index_has_room(&sites))
        return SITES_FULL;
    table->sites[table->site_count] = wanted;
    index_add(&sites, hash, table->site_count);
    return publish(&table->site_count, 1);
}

bool sites_open(struct table *opened) {
    table = opened;
    table->text_size = 1;
    table->node_count = FIRST_NODE;
    unwind_open();
    return index_open(&texts, &budget, 4 * FRAMES) && index_open(&frames, &budget, 2 * FRAMES) &&
           index_open(&nodes, &budget, 2 * NODES) && index_open(&sites, &budget, 2 * SITES);
}
