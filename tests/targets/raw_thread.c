/* A thread that the C library has not made: its thread pointer leads to zeros, or is its maker's. It waits for good. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 1 << 16, FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD };
static int waited_for;

/* Whether it runs. */
int start(int shares_pointer) {
    long flags = shares_pointer ? FLAGS : FLAGS | CLONE_SETTLS;
    char *memory = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    register long pointer __asm__("r8") = (long)memory;
    register long child __asm__("r10") = 0;
    long result;
    __asm__ volatile("syscall\n"
                     "test rax, rax\n"
                     "jne 2f\n"
                     "1: mov eax, %c[futex]\n"
                     "mov rdi, rbx\n"
                     "mov esi, %c[wait]\n"
                     "xor edx, edx\n"
                     "xor r10d, r10d\n"
                     "syscall\n"
                     "jmp 1b\n"
                     "2:"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(memory + STACK), "d"(0L), "b"(&waited_for), "r"(pointer),
                       "r"(child), [futex] "i"(SYS_futex), [wait] "i"(FUTEX_WAIT_PRIVATE)
                     : "rcx", "r11", "memory");
    return result > 0;
}
