/* gaps: the random numbers of the sampler. No libm: its log has a newer version than old systems know. */
#ifndef HEAPTOP_GAPS_H
#define HEAPTOP_GAPS_H

#include <stdint.h>
#include <string.h>

/* 2 atanh(t) for |t| < 0.172; relative error below 2e-10. Written out: this is in the sampler's slow path. */
static inline double gaps_series(double t) {
    double s = t * t;
    return 2 * t * (1 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s * (1.0 / 11))))));
}

/* Natural logarithm of a normal number above 0; relative error below 1e-9 but close to 1, where the absolute one is. */
static inline double gaps_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u;
    memcpy(&x, &bits, sizeof x);
    if (x > 1.4142135623730951) {
        x *= 0.5;
        exponent++;
    }
    return gaps_series((x - 1) / (x + 1)) + exponent * 0.6931471805599453;
}

/* What gaps_draw wants to know of an interval: 1 / log(1 - 1/interval), or 0 for an interval of 1. */
static inline double gaps_scale(uint64_t interval) {
    if (interval <= 1)
        return 0;
    double x = 1.0 / (double)interval;
    return 1 / (interval < 8 ? gaps_log(1 - x) : -gaps_series(x / (2 - x)));
}

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
static inline uint64_t gaps_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Bytes before the next marked one: k with probability (1 - 1/interval)^k / interval. At most 37 intervals. */
static inline int64_t gaps_draw(uint64_t *state, double scale) {
    double uniform = (double)((gaps_random(state) >> 11) + 1) * 0x1p-53; /* 2^-53 … 1 */
    return (int64_t)(gaps_log(uniform) * scale);
}

#endif
