/* tree: made from the last object reached to the first. The drawing is in the header. */
#include "graph/tree.h"

#include "pages.h"

static size_t bytes(const struct tree *t) { return (t->rows + 1ul) * sizeof(uint32_t); }

bool tree_open(struct tree *t, const struct retain *r, const uint64_t *wanted, struct progress *progress) {
    *t = (struct tree){.rows = r->rows->count};
    t->child = pages_map(bytes(t));
    t->sibling = pages_map(bytes(t));
    if (t->child == NULL || t->sibling == NULL)
        return false;
    progress_begin(progress, r->reached);
    for (uint32_t i = r->reached; i-- > 0;) {
        uint32_t number = r->order[i];
        if (!progress_on(progress))
            return false;
        if (wanted != NULL && (wanted[number / 64] >> (number % 64) & 1) == 0)
            continue;
        uint32_t above = tree_above(r, number);
        t->sibling[number] = t->child[above];
        t->child[above] = number + 1;
    }
    return true;
}

bool tree_want(const struct retain *r, const uint64_t *bits, uint32_t count, uint64_t *wanted, struct progress *progress) {
    progress_begin(progress, count);
    for (uint32_t i = 0; i <= count / 64; i++)
        for (uint64_t left = bits[i]; left != 0; left &= left - 1) {
            if (!progress_on(progress))
                return false;
            uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(left);
            for (; at < r->rows->count && !(wanted[at / 64] >> (at % 64) & 1); at = r->dominator[at])
                wanted[at / 64] |= 1ull << (at % 64);
        }
    return true;
}

void tree_close(struct tree *t) {
    pages_unmap(t->child, bytes(t));
    pages_unmap(t->sibling, bytes(t));
    *t = (struct tree){0};
}
