/* siphash: SipHash-2-4 with 128 bits of result (Aumasson and Bernstein 2012, and its reference code), in pieces. With a key
   that nobody knows, nobody can make two contents with the same hash. */
#ifndef HEAPTOP_SIPHASH_H
#define HEAPTOP_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct siphash_result {
    uint64_t low, high;
};

struct siphash {
    uint64_t v0, v1, v2, v3;
    uint64_t tail;  /* bytes that are no whole word yet */
    uint64_t bytes; /* so far */
};

static inline uint64_t siphash_turned(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline void siphash_rounds(struct siphash *s, int count) {
    while (count-- > 0) {
        s->v0 += s->v1, s->v1 = siphash_turned(s->v1, 13) ^ s->v0, s->v0 = siphash_turned(s->v0, 32);
        s->v2 += s->v3, s->v3 = siphash_turned(s->v3, 16) ^ s->v2;
        s->v0 += s->v3, s->v3 = siphash_turned(s->v3, 21) ^ s->v0;
        s->v2 += s->v1, s->v1 = siphash_turned(s->v1, 17) ^ s->v2, s->v2 = siphash_turned(s->v2, 32);
    }
}

static inline void siphash_word(struct siphash *s, uint64_t word) {
    s->v3 ^= word;
    siphash_rounds(s, 2);
    s->v0 ^= word;
}

static inline struct siphash siphash_begin(const uint64_t key[2]) {
    return (struct siphash){
        .v0 = 0x736f6d6570736575u ^ key[0],
        .v1 = 0x646f72616e646f6du ^ key[1] ^ 0xee,
        .v2 = 0x6c7967656e657261u ^ key[0],
        .v3 = 0x7465646279746573u ^ key[1],
    };
}

static inline void siphash_add(struct siphash *s, const void *data, size_t size) {
    const unsigned char *at = data, *end = at + size;
    for (; at < end && s->bytes % 8 != 0; at++) {
        s->tail |= (uint64_t)*at << s->bytes++ % 8 * 8;
        if (s->bytes % 8 == 0) {
            siphash_word(s, s->tail);
            s->tail = 0;
        }
    }
    for (uint64_t word; end - at >= 8; at += 8, s->bytes += 8) {
        memcpy(&word, at, sizeof word);
        siphash_word(s, word);
    }
    for (; at < end; at++)
        s->tail |= (uint64_t)*at << s->bytes++ % 8 * 8;
}

static inline struct siphash_result siphash_end(struct siphash *s) {
    struct siphash_result result;
    siphash_word(s, s->bytes << 56 | s->tail);
    s->v2 ^= 0xee;
    siphash_rounds(s, 4);
    result.low = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
    s->v1 ^= 0xdd;
    siphash_rounds(s, 4);
    result.high = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
    return result;
}

#endif
