/* A pthread_create during which the process becomes another one, ends, or changes its filters.
   It stands in a file whose name is like libc's, mapped before the real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int (*honest)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static const char *way, *program;
static pthread_t maker;
static volatile int inside; /* whether the profiler calls pthread_create */
static volatile int done;
char room[256 << 20]; /* so that no gap above libc takes the library: the first one found is the one taken */

static void execute(void) {
    char *const arguments[] = {"other", "1000", NULL};
    execve(program, arguments, NULL);
}

static void filter_all_threads(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1), /* so that a pthread_create needs the suspension */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof(code) / sizeof(code[0]), code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all);
}

static void *act(void *unused) {
    while (!inside)
        ;
    if (!strncmp(way, "another executes", 16))
        execute();
    else if (!strncmp(way, "another ends all", 16))
        syscall(SYS_exit_group, 7);
    else if (!strncmp(way, "another filters", 15))
        filter_all_threads();
    done = 1;
    return unused;
}

void keep_the_gil(void) { pause(); /* to the signal that ends the process */ }

void prepare(const char *which, const char *path) {
    pthread_t other;
    way = strdup(which);
    program = strdup(path);
    maker = pthread_self();
    honest = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(dlopen("libc.so.6", RTLD_NOW),
                                                                                            "pthread_create");
    honest(&other, NULL, act, NULL);
    if (strstr(way, ", filtered"))
        filter_all_threads();
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    if (!way)
        return EAGAIN;
    if (!pthread_equal(pthread_self(), maker) || inside)
        return honest(thread, attributes, work, argument);
    inside = 1;
    if (!strncmp(way, "executes", 8) || !strncmp(way, "a worker executes", 17))
        execute();
    else if (!strncmp(way, "ends", 4))
        syscall(SYS_exit, 0);
    else
        while (!done)
            __builtin_ia32_pause();
    return honest(thread, attributes, work, argument);
}
