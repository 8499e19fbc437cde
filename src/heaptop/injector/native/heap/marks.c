/* marks: mapping the regions. The drawing and the hot paths are in the header. */
#include "heap/marks.h"

enum { DIRECTORY_BYTES = REGIONS * sizeof(struct region *) };

int marks_open(struct marks *m) {
    *m = (struct marks){.lowest = REGIONS};
    for (int plane = 0; plane < PLANES; plane++)
        if ((m->regions[plane] = pages_map_sparse(DIRECTORY_BYTES)) == NULL)
            return -1;
#ifdef HEAPTOP_DEBUG
    if (address_set_open(&m->tracked) < 0 || address_set_open(&m->reached) < 0)
        return -1;
#endif
    return 0;
}

void marks_close(struct marks *m) {
    for (int plane = 0; plane < PLANES; plane++) {
        if (m->regions[plane] == NULL)
            continue;
        for (uint32_t i = m->lowest; i < REGIONS && i <= m->highest; i++)
            pages_unmap_sparse(m->regions[plane][i], sizeof(struct region));
        pages_unmap_sparse(m->regions[plane], DIRECTORY_BYTES);
    }
#ifdef HEAPTOP_DEBUG
    address_set_close(&m->tracked);
    address_set_close(&m->reached);
#endif
    *m = (struct marks){.lowest = REGIONS};
}

uint64_t marks_bytes(const struct marks *m) {
    uint64_t bytes = 0;
    for (const struct region *region = m->mapped; region != NULL; region = region->next) {
        bytes += sizeof region->used + sizeof region->next_used;
        for (int page = 0; page < REGION_PAGES; page++) {
            bytes += region->used[page] != 0 ? PAGE_CELLS * sizeof(struct cell) : 0;
            bytes += region->used[page] & USED_AGES ? PAGE_CELLS * sizeof(struct ages) : 0;
        }
    }
    return bytes;
}

struct region *marks_add_region(struct marks *m, uint64_t address) {
    uint64_t i = address >> REGION_BITS;
    struct region *region = i < REGIONS ? pages_map_sparse(sizeof *region) : NULL;
    if (region == NULL) {
        m->failed = true;
        return NULL;
    }
    m->regions[address >> 3 & 1][i] = region;
    region->next = m->mapped;
    m->mapped = region;
    if (i < m->lowest)
        m->lowest = (uint32_t)i;
    if (i > m->highest)
        m->highest = (uint32_t)i;
    return region;
}
