/* Computes in one restartable sequence after the other (rseq), as allocators with a cache for each processor do.
 *
 * Says ``ready BEGIN END ABORT`` (addresses), and ``.`` for each sequence that was aborted. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/rseq.h>
#include <unistd.h>

#define EXIT_CODE 7

static void on_term(int number) {
    (void)number;
    _exit(EXIT_CODE);
}

/* long attempt(struct rseq *): 0 when it came to its end, 1 when it was aborted. */
__asm__("        .pushsection .data\n"
        "        .balign 32\n"
        "section_of_it: .long 0, 0\n"
        "        .quad begin_of_it, end_of_it - begin_of_it, abort_of_it\n"
        "        .popsection\n"
        "        .globl attempt, begin_of_it, end_of_it, abort_of_it\n"
        "attempt:\n"
        "        lea  rax, [rip + section_of_it]\n"
        "        mov  [rdi + 8], rax\n"
        "begin_of_it:\n"
        "        mov  rcx, 200000000\n"
        "0:      dec  rcx\n"
        "        jne  0b\n"
        "end_of_it:\n"
        "        xor  eax, eax\n"
        "        ret\n"
        "        .long 0x53053053\n"
        "abort_of_it:\n"
        "        mov  eax, 1\n"
        "        ret\n");
long attempt(struct rseq *);
extern char begin_of_it, end_of_it, abort_of_it;

int main(void) {
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    signal(SIGTERM, on_term);
    if (__rseq_size == 0)
        return 3;
    printf("ready %p %p %p\n", (void *)&begin_of_it, (void *)&end_of_it, (void *)&abort_of_it);
    fflush(stdout);
    for (;;)
        if (attempt(area)) {
            putchar('.');
            fflush(stdout);
        }
}
