/* The sampler's pure parts as plain functions: its random numbers, and its hash of positions. */
#include "sampler/gaps.h"
#include "sampler/index.h"

double parts_log(double x);
double parts_scale(uint64_t interval);
void parts_draw(uint64_t seed, uint64_t interval, int64_t *out, int count);
int parts_index(const uint32_t *keys, const int32_t *steps, int count, uint32_t *left);

double parts_log(double x) { return gaps_log(x); }
double parts_scale(uint64_t interval) { return gaps_scale(interval); }

void parts_draw(uint64_t seed, uint64_t interval, int64_t *out, int count) {
    double scale = gaps_scale(interval);
    for (int i = 0; i < count; i++)
        out[i] = gaps_draw(&seed, scale);
}

static const uint32_t *hashes;
static uint32_t hash_of(uint32_t position) { return hashes[position]; }

/* Steps: a position to add, or -1 - position to remove. ``left``: what is found at the end, in any order; their number.
   -1: one to remove was not found. */
int parts_index(const uint32_t *keys, const int32_t *steps, int count, uint32_t *left) {
    struct budget budget = {.limit = 1 << 24};
    struct index index;
    hashes = keys;
    int found = index_open(&index, &budget, 8) ? 0 : -1;
    for (int i = 0; i < count && found == 0; i++) {
        if (steps[i] >= 0) {
            found = index_has_room(&index) || index_grow(&index, &budget, hash_of) ? 0 : -1;
            index_add(&index, keys[steps[i]], (uint32_t)steps[i]);
            continue;
        }
        uint32_t position = (uint32_t)(-1 - steps[i]), place = index_place(&index, keys[position]);
        while (index.slots[place] != 0 && index.slots[place] != position + 1)
            place = index_next(&index, place);
        if (index.slots[place] == 0)
            found = -1;
        else
            index_remove(&index, place, hash_of);
    }
    for (uint32_t place = 0; found >= 0 && place < index.size; place++)
        if (index.slots[place] != 0)
            left[found++] = index.slots[place] - 1;
    index_close(&index, &budget);
    return budget.used != 0 ? -1 : found;
}
