/* bz2: the state behind the bz_stream of a (de)compressor, with its tables (bzlib_private.h of bzip2 1.0). */
#include "heap/owners.h"

struct compressing { /* EState, as far as it says sizes */
    const void *stream;
    int32_t mode, state;
    uint32_t expected;
    const char *first, *second, *frequencies;
    int32_t origin;
    const char *pointers, *block, *values, *bits;
    int32_t factor;
    uint32_t last;
    int32_t run, random[2], count, most;
};

struct decompressing { /* DState, likewise */
    const void *stream;
    int32_t state;
    uint8_t last;
    int32_t run;
    uint8_t randomised;
    int32_t random[2];
    uint32_t bits;
    int32_t live, hundreds;
    uint8_t small;
};

enum {
    COMPRESS_BYTES = 55768,   /* of EState */
    DECOMPRESS_BYTES = 64144, /* of DState */
    TABLE = 3152,             /* in DState: the block's table */
    FREQUENCIES = 65537 * 4,
    STEP = 100000, /* a block is a number of these */
    MOST_STEPS = 9,
    SPARE = 19,     /* bytes of a block that are never filled */
    OVERSHOOT = 34, /* bytes behind a block */
};

static bool is_compressing(const struct compressing *s, const void *stream) {
    uint64_t size = (uint64_t)s->most + SPARE;
    return s->stream == stream && s->mode >= 1 && s->mode <= 4 && s->state >= 1 && s->state <= 2 && s->most > 0 &&
           size % STEP == 0 && size <= MOST_STEPS * STEP && s->block == s->second && s->pointers == s->first;
}

static struct owned measure_compressing(const struct compressing *s) {
    uint64_t size = (uint64_t)s->most + SPARE, first = 4 * size, second = 4 * (size + OVERSHOOT);
    bool fits = owners_has(s->first, first) && owners_has(s->second, second) && owners_has(s->frequencies, FREQUENCIES);
    return fits ? (struct owned){COMPRESS_BYTES + first + second + FREQUENCIES, false} : OWNED_UNKNOWN;
}

static bool is_decompressing(const struct decompressing *s, const void *stream) {
    return s->stream == stream && s->state >= 1 && s->state <= 50 && s->small <= 1;
}

static struct owned measure_decompressing(const struct decompressing *s) {
    const void *table = pointer_at(s, TABLE);
    if (table == NULL) /* made when a block begins */
        return (struct owned){DECOMPRESS_BYTES, false};
    uint64_t size = 4ul * STEP * (uint64_t)s->hundreds;
    bool fits = s->hundreds >= 1 && s->hundreds <= MOST_STEPS && s->small == 0 && owners_has(table, size);
    return fits ? (struct owned){DECOMPRESS_BYTES + size, false} : OWNED_UNKNOWN;
}

enum { STATE = 48 }; /* bzlib.h, bz_stream */

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)seen;
    const void *stream = at(o, layout.bz2_stream), *state = pointer_at(stream, STATE);
    if (state == NULL) /* it has ended */
        return (struct owned){0, false};
    if (owners_has(state, COMPRESS_BYTES) && is_compressing(state, stream))
        return measure_compressing(state);
    if (owners_has(state, DECOMPRESS_BYTES) && is_decompressing(state, stream))
        return measure_decompressing(state);
    return OWNED_UNKNOWN;
}

static const char *const types[] = {"_bz2.BZ2Compressor", "_bz2.BZ2Decompressor", NULL};

const struct owner owner_bz2 = {types, 104, measure, .maps = false};
