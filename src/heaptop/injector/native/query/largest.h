/* largest: the first of many in some order, without putting all of them in order: a heap whose last is at the top. */
#ifndef HEAPTOP_LARGEST_H
#define HEAPTOP_LARGEST_H

#include "pages.h"
#include "progress.h"

struct largest {
    uint32_t *numbers; /* after largest_sort the first is the first */
    uint32_t count, room;
    bool (*is_before)(const void *context, uint32_t one, uint32_t other); /* a strict order */
    const void *context;
};

/* For ``room`` of them. Whether there was memory; largest_close is right after either. */
bool largest_open(struct largest *l, uint32_t room, bool (*is_before)(const void *, uint32_t, uint32_t), const void *context);
void largest_close(struct largest *l);

void largest_offer(struct largest *l, uint32_t number);

/* False when it was stopped: they are in no order. */
bool largest_sort(struct largest *l, struct progress *progress);

#endif
