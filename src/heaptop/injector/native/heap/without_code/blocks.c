/* blocks: mimalloc's heaps, as its own mi_heap_visit_blocks and _mi_abandoned_pool_visit_blocks go through them. */
#include "heap/without_code/blocks.h"

#include "raw.h"

#include <string.h>

/* mimalloc/types.h, of CPython's copy; builds that are not for debugging encode nothing. */
struct page {            /* mi_page_t: a slice of its segment, and those behind it */
    uint32_t slices, at; /* 0 slices: inside another page */
    uint8_t flags, debug_offset;
    uint16_t capacity, reserved; /* blocks that are in use or were, and for which there is room */
    uint8_t more[2];
    const void *free; /* blocks, each with the address of the next */
    uint32_t used, block_size;
    const void *local_free;
    uint64_t thread_free, heap; /* freed by others; the lowest two bits are a state */
    const struct page *next, *previous;
    const void *waiting[2];
    uint64_t goal;
};
_Static_assert(sizeof(struct page) == 96, "mi_page_t");

enum { TAG_SHIFT = 3, TAG_MASK = 15, QUEUES = 75, DIRECT = 129, SLICES = 512, SLICE_BITS = 16, SEGMENT_BITS = 25 };

struct pages { /* mi_heap_t */
    const void *thread, *direct[DIRECT];
    struct {
        const struct page *first, *last;
        uint64_t block_size;
    } queues[QUEUES];
    const void *delayed;
    uint64_t owner, arena, cookie, keys[2], random[17], count; /* of pages */
    uint64_t retired[2];
    const void *next;
    uint8_t no_reclaim, tag, debug_offset, waits;
};
_Static_assert(sizeof(struct pages) == 3064, "mi_heap_t");

struct segment { /* mi_segment_t */
    uint64_t memory[22];
    const struct segment *abandoned_next, *next;
    uint64_t abandoned, visits, used, cookie, slice_count, own_slices, kind, entries, owner;
    struct page slices[SLICES + 1];
};
_Static_assert(sizeof(struct segment) == 49512, "mi_segment_t");

struct pool { /* mi_abandoned_pool_t, up to what is counted */
    const struct segment *visited;
    uint64_t elsewhere[7];
    uint64_t abandoned; /* the lowest bits count */
};

enum { OBJECTS = 2, OBJECTS_PRE = 3 }; /* pycore_mimalloc.h, _Py_mimalloc_heap_id */
enum { MOST_THREADS = 1 << 16, MOST_SEGMENTS = 1 << 20, MOST_PAGES = 1 << 24, TYPES_KNOWN = 256 };

struct pass {
    blocks_visit visit;
    void *context;
    uint32_t before; /* bytes that a debugging allocator has at the beginning of a block */
    enum blocks_status status;
    const PyTypeObject *known[TYPES_KNOWN];
    uint64_t is_free[(UINT16_MAX + 1) / 64]; /* of the blocks of a page */
};

static bool fail(struct pass *p) {
    p->status = BLOCKS_BROKEN;
    return false;
}

/* -- a page ------------------------------------------------------------------------------------------------- */

struct area { /* where the blocks of a page are */
    const char *start;
    uint64_t size; /* of one */
    uint32_t count;
};

static const struct segment *segment_of(const struct page *page) {
    return (const struct segment *)((uint64_t)page & -(1ull << SEGMENT_BITS));
}

/* segment.c, _mi_segment_page_start_from_slice. False where the numbers are not those of a page. */
static bool open_area(const struct page *page, struct area *area) {
    const struct segment *segment = segment_of(page);
    uint64_t place = (uint64_t)page - (uint64_t)segment->slices, number = place / sizeof *page, size = page->block_size;
    bool fits = place % sizeof *page == 0 && number > 0 && number < SLICES && page->slices > 0 && size >= 8 && size % 8 == 0 &&
                page->capacity <= page->reserved;
    uint64_t skipped = size <= 64 ? 3 * size : size <= 512 ? size : 0;
    *area = (struct area){(const char *)segment + (number << SLICE_BITS) + skipped, size, page->capacity};
    return fits && (area->count <= 1 || skipped + area->count * size <= (uint64_t)page->slices << SLICE_BITS);
}

/* Note the blocks of a list. One that is noted is in a list that is being put behind another, and so is what follows. */
static bool note_free(struct pass *p, const struct area *area, const void *block) {
    while (block != NULL) {
        uint64_t place = (uint64_t)block - (uint64_t)area->start, number = place / area->size;
        if (place % area->size != 0 || number >= area->count)
            return fail(p);
        uint64_t *word = &p->is_free[number / 64], bit = 1ull << number % 64;
        if (*word & bit)
            return true;
        *word |= bit;
        block = pointer_at(block, 0);
    }
    return true;
}

static bool is_readable(const void *address, uint64_t size) {
    return (uint64_t)address % 8 == 0 && raw_readable((uint64_t)address) && raw_readable((uint64_t)address + size - 8);
}

/* Whether there is a type: who has just got a block has not always made it an object yet. */
static bool is_type(struct pass *p, const PyTypeObject *type) {
    const PyTypeObject **known = &p->known[((uint64_t)type >> 4) % TYPES_KNOWN];
    if (*known == type && type != NULL)
        return true;
    if (!is_readable(type, (uint64_t)layout.type_size))
        return false;
    PyTypeObject *meta = type_at(type);
    if (!is_readable(meta, (uint64_t)layout.type_size) || !(type_flags(meta) & (unsigned long)FLAG_TYPE_SUBCLASS))
        return false;
    *known = type;
    return true;
}

static bool visit_page(struct pass *p, const struct page *page, uint32_t before) {
    enum { FROZEN = 8 };
    struct area area;
    if (page->used == 0)
        return true;
    if (!open_area(page, &area) || area.size < before + head_size())
        return fail(p);
    memset(p->is_free, 0, ((uint64_t)area.count + 63) / 64 * 8);
    if (!note_free(p, &area, page->free) || !note_free(p, &area, page->local_free) ||
        !note_free(p, &area, (void *)(page->thread_free & ~3ull)))
        return false;
    for (uint32_t i = 0; i < area.count; i++) {
        PyObject *o = (PyObject *)(area.start + i * area.size + before);
        if (p->is_free[i / 64] >> i % 64 & 1 || !is_tracked(o) || !is_type(p, type_at(o)))
            continue;
        if (!p->visit(p->context, o, uint8_at(o, layout.gc_bits) & FROZEN)) {
            p->status = BLOCKS_ENDED;
            return false;
        }
    }
    return true;
}

/* -- what has pages ----------------------------------------------------------------------------------------- */

/* What is before an object in a block of such pages. */
static uint32_t before_in(const struct pass *p, unsigned tag) { return p->before + (tag == OBJECTS_PRE ? 16 : 0); }

static bool visit_pages(struct pass *p, const struct pages *heap, unsigned tag) {
    if (heap->tag != tag)
        return fail(p);
    uint64_t left = MOST_PAGES;
    for (int i = 0; i < QUEUES; i++)
        for (const struct page *page = heap->queues[i].first; page != NULL; page = page->next)
            if (left-- == 0 || !is_readable(page, sizeof *page))
                return fail(p);
            else if (!visit_page(p, page, before_in(p, tag)))
                return false;
    return true;
}

static bool visit_segment(struct pass *p, const struct segment *segment) {
    if ((uint64_t)segment % (1ull << SEGMENT_BITS) != 0 || !is_readable(segment, sizeof *segment) || segment->entries > SLICES)
        return fail(p);
    uint64_t i = segment->slices[0].slices; /* its own */
    while (i < segment->entries) {
        const struct page *page = &segment->slices[i];
        unsigned tag = page->flags >> TAG_SHIFT & TAG_MASK;
        if (page->slices == 0)
            return fail(p);
        if (page->block_size != 0 && (tag == OBJECTS || tag == OBJECTS_PRE) && !visit_page(p, page, before_in(p, tag)))
            return false;
        i += page->slices;
    }
    return true;
}

static bool visit_segments(struct pass *p, const struct segment *segment) {
    for (uint64_t left = MOST_SEGMENTS; segment != NULL; segment = segment->abandoned_next)
        if (left-- == 0)
            return fail(p);
        else if (!visit_segment(p, segment))
            return false;
    return true;
}

static bool visit_thread(struct pass *p, const char *thread) {
    const struct pages *heaps = at(thread, layout.thread_heaps);
    if (uint32_at(thread, layout.thread_has_heaps) == 0) /* it begins, or ends */
        return true;
    return visit_pages(p, &heaps[OBJECTS], OBJECTS) && visit_pages(p, &heaps[OBJECTS_PRE], OBJECTS_PRE);
}

static bool visit_threads(struct pass *p, const void *interpreter) {
    const char *thread = pointer_at(interpreter, layout.interpreter_threads), *before = NULL;
    for (uint64_t left = MOST_THREADS; thread != NULL; before = thread, thread = pointer_at(thread, layout.thread_next))
        if (left-- == 0 || !is_readable(thread, (uint64_t)layout.thread_has_heaps + 8) ||
            pointer_at(thread, layout.thread_interpreter) != interpreter || pointer_at(thread, 0) != before)
            return fail(p);
        else if (!visit_thread(p, thread))
            return false;
    return true;
}

enum blocks_status blocks_each(const void *interpreter, blocks_visit visit, void *context) {
    enum { DEBUG_HEAD = 16 };
    static struct pass pass; /* a walk has one thread, and its stack is small */
    pass = (struct pass){.visit = visit, .context = context};
    pass.before = uint32_at(symbols.runtime, layout.runtime_debug) != 0 ? DEBUG_HEAD : 0;
    const struct pool *pool = at(interpreter, layout.interpreter_abandoned);
    if (visit_threads(&pass, interpreter) && visit_segments(&pass, pool->visited))
        visit_segments(&pass, (const struct segment *)(pool->abandoned & -(1ull << SEGMENT_BITS)));
    return pass.status;
}
