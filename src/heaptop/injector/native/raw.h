/* System calls without the C library: no errno, no cancellation point, no lock, no symbol version.
 *
 * For code that may run in the snapshot child, where a lock of libc may be held by a thread that does not exist, and
 * in the target, where a library may have replaced libc's functions. It never retries and never interprets.
 */
#ifndef HEAPTOP_RAW_H
#define HEAPTOP_RAW_H

#include "machine.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

/* What the kernel returns: a result, or -errno (-4095 ... -1). */
static inline long raw_call(long number, long a, long b, long c, long d, long e) {
    return machine_call(number, a, b, c, d, e, 0);
}

/* mmap is the one with six arguments; the offset is always 0 here. */
static inline long raw_mmap(void *address, unsigned long size, int protection, int flags, int fd) {
    return machine_call(SYS_mmap, (long)address, (long)size, protection, flags, fd, 0);
}

/* Not SYS_open, which newer machines do not have. */
static inline long raw_open(const char *path, int flags) {
    return raw_call(SYS_openat, -100 /* AT_FDCWD */, (long)path, flags | 02000000 /* O_CLOEXEC */, 0, 0);
}

static inline int raw_failed(long result) { return (unsigned long)result >= (unsigned long)-4095; }

/* Whether eight bytes can be read at an address that may be anything: asked of the kernel, by a call that copies them in
 * and then fails. */
static inline int raw_readable(uint64_t address) {
    enum { LOWEST = 0x10000, INVALID = -22 /* EINVAL: the first argument */ };
    return address >= LOWEST && address < MACHINE_HIGHEST &&
           raw_call(SYS_rt_sigprocmask, -1, (long)address, 0, sizeof(uint64_t), 0) == INVALID;
}

static inline uint64_t raw_clock_of(long clock) {
    struct timespec now = {0, 0};
    raw_call(SYS_clock_gettime, clock, (long)&now, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Both in nanoseconds; their numbers are what a strict C11 hides. CLOCK_MONOTONIC: */
static inline uint64_t raw_clock(void) { return raw_clock_of(1); }

/* CLOCK_THREAD_CPUTIME_ID: */
static inline uint64_t raw_cpu_clock(void) { return raw_clock_of(3); }

#endif
