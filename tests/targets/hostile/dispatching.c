/* Sleeps with every system call but its own dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH, Linux 5.11). */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SET_DISPATCH 59

static volatile char selector; /* 1: dispatch */
int dispatched;                /* calls that came to the handler */

extern char gate_start[], gate_end[];
long gate(long number, const void *first, void *second);
__asm__(".globl gate_start, gate_end\n"
        "gate_start:\n"
        "gate: mov rax, rdi\n\t"
        "mov rdi, rsi\n\t"
        "mov rsi, rdx\n\t"
        "syscall\n\t"
        "ret\n"
        "restore_from_dispatch: mov eax, 15\n\t"
        "syscall\n\t"
        "nop\n" /* it is the next instruction that must be inside */
        "gate_end:");
void restore_from_dispatch(void);

static struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
} handling;

static void handle(int number) {
    (void)number;
    dispatched++;
}

int begin(void) {
    handling.handler = handle;
    handling.flags = 0x04000000; /* SA_RESTORER */
    handling.restorer = restore_from_dispatch;
    if (syscall(SYS_rt_sigaction, SIGSYS, &handling, NULL, 8))
        return -1;
    return prctl(SET_DISPATCH, 1, gate_start, gate_end - gate_start, &selector);
}

/* Sleep, and then have one call dispatched. */
void rest(void) {
    struct timespec pause = {0, 300000000};
    sigset_t before, all;
    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    sigprocmask(SIG_SETMASK, &all, &before); /* the way back from any other handler would be dispatched as well */
    selector = 1;
    gate(SYS_nanosleep, &pause, NULL);
    (void)syscall(SYS_getppid);
    selector = 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
