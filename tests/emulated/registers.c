/* For target.py: fills every register of a 64-bit ARM processor, spins or sleeps, and compares. What a tracer did not put
 * back is found. As tests/targets/registers.c on x86-64. */
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

enum { FLAGS = 31, VECTORS = 32, WORDS = VECTORS + 2 * 32, LONGEST = 256 };

static volatile uint64_t registers_wanted[WORDS], registers_seen[WORDS]; /* x0 to x30, nzcv, v0 to v31 */
static volatile long registers_kind;
__attribute__((used)) static struct timespec registers_nap = {0, 20000000};

#define ALL "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30"
#define ADDRESS(name) "adrp x0, " name "\n add x0, x0, :lo12:" name "\n"

__asm__(
    ".type registers_hold, %function\n"
    "registers_hold:\n"
    " stp x29, x30, [sp, -160]!\n stp d8, d9, [sp, 96]\n stp d10, d11, [sp, 112]\n stp d12, d13, [sp, 128]\n"
    " stp d14, d15, [sp, 144]\n stp x19, x20, [sp, 16]\n stp x21, x22, [sp, 32]\n stp x23, x24, [sp, 48]\n"
    " stp x25, x26, [sp, 64]\n stp x27, x28, [sp, 80]\n"
    " " ADDRESS(
        "registers_wanted") " .irp v," ALL ",31\n ldr q\\v, [x0, 256 + 16 * \\v]\n .endr\n"
                            " ldr x1, [x0, 8 * 31]\n msr nzcv, x1\n"
                            " .irp r," ALL "\n .if \\r\n ldr x\\r, [x0, 8 * \\r]\n .endif\n .endr\n"
                            " " ADDRESS(
                                "registers_kind") " ldr x0, [x0]\n cbnz x0, 1f\n"
                                                  " mov x0, 0x400000\n"
                                                  "0: sub x0, x0, 1\n cbnz x0, 0b\n b 2f\n"
                                                  "1: " ADDRESS(
                                                      "registers_nap") " mov x1, 0\n mov x8, 101\n svc 0\n"
                                                                       "2: str x0, [sp, -16]!\n"
                                                                       " " ADDRESS(
                                                                           "registers_seen") " .irp r," ALL
                                                                                             "\n .if \\r\n str x\\r, [x0, 8 * \\r]\n .endif\n .endr\n"
                                                                                             " mrs x1, nzcv\n str x1, [x0, 8 * 31]\n"
                                                                                             " .irp v," ALL
                                                                                             ",31\n str q\\v, [x0, 256 + 16 * \\v]\n .endr\n"
                                                                                             " ldr x1, [sp], 16\n str x1, [x0]\n"
                                                                                             " ldp x19, x20, [sp, 16]\n ldp x21, x22, [sp, 32]\n ldp x23, x24, [sp, 48]\n"
                                                                                             " ldp x25, x26, [sp, 64]\n ldp x27, x28, [sp, 80]\n ldp d8, d9, [sp, 96]\n ldp d10, d11, [sp, 112]\n"
                                                                                             " ldp d12, d13, [sp, 128]\n ldp d14, d15, [sp, 144]\n ldp x29, x30, [sp], 160\n ret\n");
extern void registers_hold(void) __asm__("registers_hold");

/* 0: all came back; else the number of a word that did not, from 1 on. */
int hold(long kind) {
    registers_kind = kind;
    for (uint64_t at = 0; at < WORDS; at++)
        registers_wanted[at] = 0x9E3779B97F4A7C15u * (at + 1);
    registers_wanted[FLAGS] = 0xA0000000;
    registers_hold();
    for (int at = 1; at < WORDS; at++)
        if (registers_seen[at] != registers_wanted[at] && !(kind != 0 && (at == 1 || at == 8)))
            return at;
    if (kind != 0 && registers_seen[0] != 0 && (int64_t)registers_seen[0] != -4)
        return WORDS;
    return 0;
}

static uint8_t vectors_wanted[32 * LONGEST], vectors_seen[32 * LONGEST];
static uint8_t predicates_wanted[16 * LONGEST / 8], predicates_seen[16 * LONGEST / 8];
#define PREDICATES "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"

__asm__(".arch armv8-a+sve\n"
        ".type vectors_hold, %function\n"
        "vectors_hold:\n" /* wanted, its predicates, seen, its predicates */
        " stp d8, d9, [sp, -64]!\n stp d10, d11, [sp, 16]\n stp d12, d13, [sp, 32]\n stp d14, d15, [sp, 48]\n"
        " .irp v," ALL ",31\n ldr z\\v, [x0, \\v, mul vl]\n .endr\n"
        " .irp p," PREDICATES "\n ldr p\\p, [x1, \\p, mul vl]\n .endr\n"
        " mov x4, 0x400000\n"
        "0: sub x4, x4, 1\n cbnz x4, 0b\n"
        " .irp v," ALL ",31\n str z\\v, [x2, \\v, mul vl]\n .endr\n"
        " .irp p," PREDICATES "\n str p\\p, [x3, \\p, mul vl]\n .endr\n"
        " ldp d10, d11, [sp, 16]\n ldp d12, d13, [sp, 32]\n ldp d14, d15, [sp, 48]\n ldp d8, d9, [sp], 64\n ret\n");
extern void vectors_hold(const void *, const void *, void *, void *) __asm__("vectors_hold");

/* Likewise, of the vectors of SVE; -1 where the processor has none. */
int hold_vectors(void) {
    if (!(getauxval(AT_HWCAP) & HWCAP_SVE))
        return -1;
    for (unsigned at = 0; at < sizeof vectors_wanted; at++)
        vectors_wanted[at] = (uint8_t)(at * 37 + at / 251 + 1);
    for (unsigned at = 0; at < sizeof predicates_wanted; at++)
        predicates_wanted[at] = (uint8_t)(at * 73 + 5);
    memcpy(vectors_seen, vectors_wanted, sizeof vectors_seen); /* what is behind the processor's own length */
    memcpy(predicates_seen, predicates_wanted, sizeof predicates_seen);
    vectors_hold(vectors_wanted, predicates_wanted, vectors_seen, predicates_seen);
    for (unsigned at = 0; at < sizeof vectors_wanted; at++)
        if (vectors_seen[at] != vectors_wanted[at])
            return 1 + (int)at;
    return memcmp(predicates_seen, predicates_wanted, sizeof predicates_seen) == 0 ? 0 : 1 + (int)sizeof vectors_wanted;
}
