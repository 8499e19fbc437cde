/* stored: finding the notes of an object. */
#include "graph/stored.h"

static uint64_t first_note(const struct stored *s, uint32_t number) {
    const struct stored_note *notes = s->notes.items;
    uint64_t low = 0, high = s->notes.count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (notes[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct stored_note *stored_note(const struct stored *s, uint32_t number, enum stored_what what,
                                      const struct stored_note *last) {
    const struct stored_note *notes = s->notes.items, *end = notes + s->notes.count;
    const struct stored_note *at = last == NULL ? notes + first_note(s, number) : last + 1;
    while (at < end && at->number == number && at->what != (uint32_t)what)
        at++;
    return at < end && at->number == number ? at : NULL;
}
