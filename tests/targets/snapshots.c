/* One snapshot at a time, driven through ctypes: flat functions over injector/native/clone/clone.h, and things for the child
 * to do, good and bad. */
#define _GNU_SOURCE
#include "clone/clone.h"
#include "raw.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

enum work { FINISH, FAIL, CRASH, DIVIDE, OVERFLOW_STACK, HANG, WAIT, LEAVE, FILL, COMPARE, SEE_SIGNALS };

static struct snapshot one;
static struct result room;
static volatile long left, right; /* equal whenever nobody is in add_to_both */
static volatile int zero, five = 5;
static int what, described;

static void pause_for(long nanoseconds) {
    struct timespec span = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    raw_call(SYS_nanosleep, (long)&span, 0, 0, 0, 0);
}

__attribute__((noinline)) static int deeper(long times) {
    volatile char here[4096];
    here[0] = (char)times;
    return times == 0 ? 0 : deeper(times - 1) + here[0];
}

/* Which signals the child has handlers for, as a mask; libc's own two are asked for too. */
static int see_signals(struct result *out) {
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action;
    uint64_t handled = 0, blocked = 0;
    for (int number = 1; number <= 64; number++)
        if (raw_call(SYS_rt_sigaction, number, 0, (long)&action, 8, 0) == 0 && action.handler)
            handled |= 1ull << (number - 1);
    raw_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&blocked, 8, 0);
    return result_append(out, &handled, 8) | result_append(out, &blocked, 8);
}

static int work(void *context, struct result *out) {
    long argument = *(long *)context;
    switch ((enum work)what) {
    case FINISH:
        return result_append(out, "done", 4);
    case FAIL:
        return (int)argument;
    case CRASH:
        *(volatile int *)argument = 1;
        return 0;
    case DIVIDE:
        return five / zero;
    case OVERFLOW_STACK:
        return deeper(1l << 40);
    case HANG:
        for (;;)
            ;
    case WAIT: /* says that it is there, and stays for so many milliseconds */
        result_append(out, "here", 4);
        for (uint64_t end = raw_clock() + (uint64_t)argument * 1000000; raw_clock() < end;)
            pause_for(1000000);
        return 0;
    case LEAVE:
        raw_call(SYS_exit_group, argument, 0, 0, 0, 0);
        return 0;
    case FILL: /* until it is full */
        while (!out->head->overflow)
            result_append(out, "0123456789abcdef", 16);
        return 0;
    case COMPARE: {
        long both[2] = {left, right};
        return result_append(out, both, sizeof both);
    }
    case SEE_SIGNALS:
        return see_signals(out);
    }
    return -1;
}

int begin(int kind, long argument, long wall_ms, unsigned long bytes) {
    static long given;
    struct snapshot_limits limits = {.wall_ns = (uint64_t)wall_ms * 1000000, .result_bytes = bytes, .descriptor = described};
    what = kind;
    given = argument;
    return snapshot_begin(&one, work, &given, &limits);
}

/* Whether the snapshots to come have a descriptor. */
void describe(int wanted) { described = wanted; }
int poll_once(void) { return snapshot_poll(&one); }
int end(void) { return snapshot_end(&one); }
int abort_it(void) { return snapshot_abort(&one); }
void release(void) { snapshot_release(&one); }
int pid(void) { return one.pid; }
int fd(void) { return one.fd; }
int detail(void) { return one.detail; }
unsigned guards(void) { return one.result.head ? one.result.head->guards : 0; }
unsigned overflow(void) { return one.result.head ? one.result.head->overflow : 0; }
unsigned long address(void) { return one.result.head ? one.result.head->address : 0; }
unsigned long used(void) { return one.result.head ? one.result.head->used : 0; }
void *mapping(void) { return one.result.head; }
void *data(void) { return one.result.data; }
unsigned long capacity(void) { return one.result.capacity; }
unsigned long pause_ns(void) { return one.pause_ns; }
unsigned long cpu_ns(void) { return one.cpu_ns; }
const char *refusal(int error) { return snapshot_refusal(error); }

const char *reason(void) {
    static char text[200];
    snapshot_reason(&one, text, sizeof text);
    return text;
}

/* -- what the application sees, and what it is not allowed -- */

static int forks;

static void count_fork(void) { forks++; }

/* From now on forks_seen says how many there were, by libc's own handlers. */
int watch_forks(void) { return pthread_atfork(count_fork, NULL, NULL); }
int forks_seen(void) { return forks; }

static int filter(unsigned call, unsigned answer) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return errno;
    return 0;
}

/* For good, in this thread and those it makes: the call fails with `error`, or ends the process. 0, or errno. */
int refuse(unsigned call, unsigned error) { return filter(call, SECCOMP_RET_ERRNO | error); }
int forbid(unsigned call) { return filter(call, SECCOMP_RET_KILL_PROCESS); }

/* -- a pair that only the GIL keeps equal: to be called with it held (ctypes.PyDLL) -- */

void add_to_both(int times) {
    for (int i = 0; i < times; i++) {
        left++;
        right++;
    }
}

/* -- a result of its own, without a child -- */

int room_open(unsigned long bytes) { return result_open(&room, bytes); }
int room_append(const char *bytes, unsigned long size) { return result_append(&room, bytes, size); }
void room_close(void) { result_close(&room); }
void *room_data(void) { return room.data; }
unsigned long room_used(void) { return room.head->used; }
unsigned long room_capacity(void) { return room.capacity; }
unsigned room_overflow(void) { return room.head->overflow; }
