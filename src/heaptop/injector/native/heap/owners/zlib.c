/* zlib: the state behind the z_stream of a (de)compressor, with its tables (zlib's deflate.h and inflate.h, 1.2.9 and later).
   What replaces zlib (zlib-ng) has other structures: nothing fits there. */
#include "heap/owners.h"

#include <string.h>

struct deflate { /* struct internal_state of deflate.h, as far as it says sizes */
    const void *stream;
    int32_t status;
    const void *pending;
    uint64_t pending_size;
    const void *pending_out;
    uint64_t pending_count;
    int32_t wrap;
    const void *header;
    uint64_t header_at;
    uint8_t method;
    int32_t last_flush;
    uint32_t window_size, window_bits, window_mask;
    const void *window;
    uint64_t twice;
    const void *previous, *head;
    uint32_t hash, hash_size, hash_bits, hash_mask;
};

struct inflate { /* struct inflate_state of inflate.h, likewise */
    const void *stream;
    int32_t mode, last, wrap, has_dictionary, flags;
    uint32_t distance;
    uint64_t check, total;
    const void *header;
    uint32_t window_bits, window_size, have, next;
    const void *window;
};

/* Bytes of the structures in 1.2.9 to 1.2.11; later ones have some words more. */
enum { DEFLATE_BYTES = 5928, INFLATE_BYTES = 7152, MOST_BITS = 15, LEAST_BITS = 8 };

enum { DEFLATED = 8, FIRST_MODE = 16180, LAST_MODE = 16211 };

static bool is_deflate(const struct deflate *s, const void *stream) {
    static const int32_t statuses[] = {42, 57, 69, 73, 91, 103, 113, 666};
    bool known = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        known |= s->status == statuses[i];
    return s->stream == stream && known && s->method == DEFLATED && s->window_bits >= LEAST_BITS &&
           s->window_bits <= MOST_BITS && s->window_size == 1u << s->window_bits && s->window_mask == s->window_size - 1 &&
           s->hash_bits > 0 && s->hash_bits <= MOST_BITS + 1 && s->hash_size == 1u << s->hash_bits &&
           s->hash_mask == s->hash_size - 1 && s->pending_size >= 1u << 9 && s->pending_size <= 1u << 20;
}

static struct owned measure_deflate(const struct deflate *s) {
    uint64_t window = 2ul * s->window_size, previous = 2ul * s->window_size, head = 2ul * s->hash_size;
    bool fits = owners_has(s->window, window) && owners_has(s->previous, previous) && owners_has(s->head, head) &&
                owners_has(s->pending, s->pending_size);
    return fits ? (struct owned){DEFLATE_BYTES + window + previous + head + s->pending_size, false} : OWNED_UNKNOWN;
}

static bool is_inflate(const struct inflate *s, const void *stream) {
    bool sized = s->window_bits == 0 || (s->window_bits >= LEAST_BITS && s->window_bits <= MOST_BITS);
    return s->stream == stream && s->mode >= FIRST_MODE && s->mode <= LAST_MODE && sized;
}

static struct owned measure_inflate(const struct inflate *s) {
    uint64_t window = s->window == NULL ? 0 : 1ul << s->window_bits; /* made when it is needed first */
    bool fits = s->window == NULL || owners_has(s->window, window);
    return fits ? (struct owned){INFLATE_BYTES + window, false} : OWNED_UNKNOWN;
}

enum { STATE = 56 }; /* zlib.h, z_stream */

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)seen;
    const void *stream = at(o, layout.zlib_stream), *state = pointer_at(stream, STATE);
    if (state == NULL) /* it has ended */
        return (struct owned){0, false};
    if (owners_has(state, DEFLATE_BYTES) && is_deflate(state, stream))
        return measure_deflate(state);
    if (owners_has(state, INFLATE_BYTES) && is_inflate(state, stream))
        return measure_inflate(state);
    return OWNED_UNKNOWN;
}

static const char *const types[] = {"zlib.Compress", "zlib.Decompress", "zlib._ZlibDecompressor", NULL};

const struct owner owner_zlib = {types, 168, measure, .maps = false};
