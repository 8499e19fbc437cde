/* machine: what differs between the machines that the native core is built for. Nothing else here asks for one. */
#ifndef HEAPTOP_MACHINE_H
#define HEAPTOP_MACHINE_H

#include <stdint.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "heaptop's native core is for 64-bit Linux"
#endif

/* machine_call: a system call, with what the kernel returns. MACHINE_ADDRESS_BITS: of the addresses that a program has
   without asking for others. MACHINE_RETURN: rt_sigreturn, in assembly. machine_thread: the thread pointer.
   machine_page: bytes of a page. MACHINE_JUMP_SLOT and MACHINE_GLOB_DAT (of <elf.h>): relocations that put in the address
   of a function. */
#if defined(__x86_64__)

#define MACHINE_ADDRESS_BITS 47
#define MACHINE_PAGE_MOST 4096 /* bytes of the largest page that a kernel may have */
#define MACHINE_AUDIT_ARCH 0xC000003Eu
#define MACHINE_DLSYM "dlsym@GLIBC_2.2.5"
#define MACHINE_RETURN "mov $15, %eax\n\tsyscall"
#define MACHINE_JUMP_SLOT R_X86_64_JUMP_SLOT
#define MACHINE_GLOB_DAT R_X86_64_GLOB_DAT

static inline long machine_call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline void machine_pause(void) { __builtin_ia32_pause(); }

static inline uintptr_t machine_page(void) { return 4096; }

static inline uint64_t machine_thread(void) {
    uint64_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

#define MACHINE_ADDRESS_BITS 48
#define MACHINE_PAGE_MOST 65536
#define MACHINE_AUDIT_ARCH 0xC00000B7u
#define MACHINE_DLSYM "dlsym@GLIBC_2.17"
#define MACHINE_RETURN "mov x8, #139\n\tsvc #0"
#define MACHINE_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define MACHINE_GLOB_DAT R_AARCH64_GLOB_DAT

static inline long machine_call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static inline void machine_pause(void) { __asm__ volatile("yield"); }

static inline uintptr_t machine_page(void) { return getauxval(AT_PAGESZ); }

static inline uint64_t machine_thread(void) { return (uint64_t)__builtin_thread_pointer(); }

#else
#error "heaptop's native core is for x86-64 and aarch64"
#endif

#define MACHINE_HIGHEST ((uint64_t)1 << MACHINE_ADDRESS_BITS)

#endif
