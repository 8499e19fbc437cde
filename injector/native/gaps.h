/* gaps: the random numbers of the sampler. No libm: its log has a newer version than old systems know. */
#ifndef HEAPTOP_GAPS_H
#define HEAPTOP_GAPS_H

#include <stdint.h>
#include <string.h>

/* Natural logarithm of a normal number above 0; relative error below 1e-14 but close to 1, where the absolute one is. */
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
    double t = (x - 1) / (x + 1), square = t * t, series = 0; /* log x = 2 atanh t, |t| < 0.172 */
    for (int n = 19; n > 0; n -= 2)
        series = series * square + 1.0 / n;
    return 2 * t * series + exponent * 0.6931471805599453;
}

/* log(1 - 1/interval), for interval > 1. */
static inline double gaps_log_miss(uint64_t interval) {
    if (interval < 8)
        return gaps_log(1 - 1.0 / (double)interval);
    double x = 1.0 / (double)interval, t = x / (2 - x), square = t * t, series = 0;
    for (int n = 19; n > 0; n -= 2)
        series = series * square + 1.0 / n;
    return -2 * t * series;
}

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
static inline uint64_t gaps_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Bytes before the next marked one: k with probability (1 - 1/interval)^k / interval. At most 37 intervals. */
static inline int64_t gaps_draw(uint64_t *state, uint64_t interval) {
    if (interval <= 1)
        return 0;
    double uniform = (double)((gaps_random(state) >> 11) + 1) * 0x1p-53; /* 2^-53 … 1 */
    return (int64_t)(gaps_log(uniform) / gaps_log_miss(interval));
}

#endif
