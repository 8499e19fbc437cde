/* largest: a heap. */
#include "query/largest.h"

static size_t bytes(const struct largest *l) { return (l->room + 1ul) * sizeof *l->numbers; }

bool largest_open(struct largest *l, uint32_t room, bool (*is_before)(const void *, uint32_t, uint32_t), const void *context) {
    *l = (struct largest){.room = room, .is_before = is_before, .context = context};
    l->numbers = pages_map(bytes(l));
    return l->numbers != NULL;
}

void largest_close(struct largest *l) {
    pages_unmap(l->numbers, bytes(l));
    *l = (struct largest){.numbers = NULL};
}

static void swap(struct largest *l, uint32_t one, uint32_t other) {
    uint32_t swapped = l->numbers[one];
    l->numbers[one] = l->numbers[other];
    l->numbers[other] = swapped;
}

/* Down to where none of those below is behind it. */
static void sink(struct largest *l, uint32_t at, uint32_t count) {
    for (uint64_t child; (child = 2ull * at + 1) < count; at = (uint32_t)child) {
        if (child + 1 < count && l->is_before(l->context, l->numbers[child], l->numbers[child + 1]))
            child++;
        if (!l->is_before(l->context, l->numbers[at], l->numbers[child]))
            return;
        swap(l, at, (uint32_t)child);
    }
}

static void make_heap(struct largest *l) {
    for (uint32_t i = l->count / 2; i-- > 0;)
        sink(l, i, l->count);
}

void largest_offer(struct largest *l, uint32_t number) {
    if (l->count < l->room) {
        l->numbers[l->count++] = number;
        if (l->count == l->room)
            make_heap(l);
    } else if (l->room > 0 && l->is_before(l->context, number, l->numbers[0])) {
        l->numbers[0] = number;
        sink(l, 0, l->count);
    }
}

bool largest_sort(struct largest *l, struct progress *progress) {
    if (l->count < l->room)
        make_heap(l);
    progress_begin(progress, l->count);
    uint32_t left = l->count;
    while (left > 1 && progress_on(progress)) {
        swap(l, 0, --left);
        sink(l, 0, left);
    }
    return left <= 1;
}
