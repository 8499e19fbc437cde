/* A pthread_create that does what the process's seccomp filter forbids, for a profiler that calls it unfiltered.
   It stands in a file whose name is like libc's, mapped before the real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREAD_FLAGS 0x3d0f00
#define COMPAT_MKDIR 39

int tried;        /* how often it was called */
long result = 1;  /* what the kernel said to the last forbidden call */
char room[256 << 20]; /* so that no gap above libc takes the library: the first one found is the one taken */

static int (*honest)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static const char *way, *wanted;
static char *low; /* the name again, below 4 GiB */
static pthread_t maker;
static struct clone_args swapped __attribute__((aligned(64)));
static char spare[65536] __attribute__((aligned(64)));
static pid_t maker_tid;
static volatile int inside; /* whether the profiler calls pthread_create */
static volatile long handled;
static int flooded; /* the signal */
static volatile int flooding; /* whether its thread runs */
static struct sigaction_of_kernel {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
} handling;

static long raw(long number, long a, long b, long c, long d, long e) {
    long answer;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return answer;
}

static void forbidden(void) { result = raw(SYS_mkdir, (long)wanted, 0755, 0, 0, 0); }

static void *swap(void *unused) {
    for (;;) /* what is looked at is a thread; what the kernel reads may be a process */
        __atomic_store_n(&swapped.flags, swapped.flags == THREAD_FLAGS ? 0 : THREAD_FLAGS, __ATOMIC_SEQ_CST);
    return unused;
}

__asm__("restore: mov eax, 15\n\tsyscall");
void restore(void);

static void handle(int number) {
    (void)number;
    if (inside)
        forbidden();
    handled++;
}

static void *flood(void *unused) {
    struct timespec pause = {0, 1000000};
    flooding = 1;
    for (;;)
        if (inside) {
            raw(SYS_tgkill, getpid(), maker_tid, flooded, 0, 0);
            nanosleep(&pause, NULL);
        }
    return unused;
}

static void *stop(void *both) {
    while (!inside)
        ;
    raw(SYS_tgkill, getpid(), maker_tid, SIGSTOP, 0, 0);
    if (both)
        raw(SYS_kill, getpid(), SIGCONT, 0, 0, 0);
    return both;
}

static void flood_with(int number) {
    pthread_t other;
    flooded = number;
    maker_tid = (pid_t)raw(SYS_gettid, 0, 0, 0, 0, 0);
    handling.handler = handle;
    handling.flags = 0x04000000; /* SA_RESTORER */
    handling.restorer = restore;
    honest(&other, NULL, flood, NULL); /* first: with the first thread glibc takes 33 for itself */
    while (!flooding)
        ;
    raw(SYS_rt_sigaction, number, (long)&handling, 0, 8, 0);
}

void prepare(const char *which, const char *path) {
    pthread_t other;
    way = strdup(which);
    wanted = strdup(path);
    maker = pthread_self();
    honest = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(dlopen("libc.so.6", RTLD_NOW),
                                                                                            "pthread_create");
    if (!honest)
        honest = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            dlopen("libpthread.so.0", RTLD_NOW), "pthread_create");
    low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(low, path);
    if (!strncmp(way, "handler", 7))
        flood_with(atoi(way + 7));
    if (!strncmp(way, "stop", 4)) {
        maker_tid = (pid_t)raw(SYS_gettid, 0, 0, 0, 0, 0);
        honest(&other, NULL, stop, strcmp(way, "stop") ? &maker : NULL);
    }
    if (!strcmp(way, "clone3")) {
        swapped.exit_signal = 0;
        swapped.stack = (uint64_t)spare;
        swapped.stack_size = sizeof(spare);
        honest(&other, NULL, swap, NULL);
    }
}

static void clone_swapped(void) {
    for (int i = 0; i < 200 && result != 0; i++) {
        long answer;
        /* A child has nothing to do but to end: what counts is that the kernel made one. */
        __asm__ volatile("syscall\n\t"
                         "test rax, rax\n\t"
                         "jne 1f\n\t"
                         "mov eax, 60\n\t"
                         "xor edi, edi\n\t"
                         "syscall\n"
                         "1:"
                         : "=a"(answer)
                         : "a"((long)SYS_clone3), "D"(&swapped), "S"((long)sizeof(swapped))
                         : "rcx", "r11", "memory");
        result = answer > 0 ? 0 : answer;
    }
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    if (!way)
        return EAGAIN;
    if (!pthread_equal(pthread_self(), maker))
        return honest(thread, attributes, work, argument);
    if (!strcmp(way, "direct"))
        forbidden();
    else if (!strcmp(way, "int80"))
        __asm__ volatile("int 0x80"
                         : "=a"(result)
                         : "a"((long)COMPAT_MKDIR), "b"(low), "c"(0755L)
                         : "r8", "r9", "r10", "r11", "memory");
    else if (!strcmp(way, "clone3"))
        clone_swapped();
    else if (!strcmp(way, "executable"))
        result = raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    else if (!strncmp(way, "stop", 4)) {
        inside = 1;
        for (long i = 0; i < 100000000; i++) /* the signals come meanwhile */
            __asm__ volatile("");
    } else if (flooded) {
        inside = 1;
        while (handled < 5)
            __builtin_ia32_pause();
        inside = 0;
    }
    tried++;
    return honest(thread, attributes, work, argument);
}
