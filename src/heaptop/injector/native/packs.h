/* packs: msgpack (pack.h) in pages that grow. */
#ifndef HEAPTOP_PACKS_H
#define HEAPTOP_PACKS_H

#include "pack.h"
#include "pages.h"

/* Whether there was memory; packs_close is right after either. */
static inline bool packs_open(struct pack *p, size_t room) {
    void *place = pages_map(room);
    pack_open(p, place, place == NULL ? 0 : room);
    return place != NULL;
}

static inline void packs_close(struct pack *p) { pages_unmap(p->base, pack_room(p)); }

/* Have room for ``wanted`` bytes more. False when there is no memory. */
static inline bool packs_make_room(struct pack *p, size_t wanted) {
    size_t room = pack_room(p), larger = room;
    while (larger - pack_size(p) < wanted)
        larger *= 2;
    void *place = larger == room ? p->base : pages_grow(p->base, room, larger);
    if (place != NULL)
        pack_move(p, place, larger);
    return place != NULL;
}

#endif
