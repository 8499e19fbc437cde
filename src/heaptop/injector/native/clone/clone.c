/* Makes the snapshot child, keeps it harmless, and buries it. It knows nothing of Python.
 *
 * Why it is as it is:
 *
 * - clone with exit signal 0, never fork(): no SIGCHLD, and a wait without __WALL or __WCLONE does not see the child.
 *   No double fork either: the grandchild would be adopted by a process that may well wait for any child (a container's
 *   first process, often the application itself), and there it would be seen.
 * - Descriptors. A copied table would keep the target's sockets and pipes open: a peer would not see their end, an
 *   epoll set would continue reporting closed files, a flock would stay held, and closing the copies runs flush in file
 *   systems (NFS, FUSE). So the table is shared at first (CLONE_FILES), and the child's first act is to leave it for an
 *   empty one: close_range with CLOSE_RANGE_UNSHARE copies nothing that it would close (Linux 6.12; from 5.9 to 6.11
 *   the first 64 descriptors, for microseconds). Then an exec or exit of the target finds no second owner of its table,
 *   which would cost it its record locks, and the child may open a file without taking a number of the target's.
 *   Where that call is missing the table stays shared; then the child opens nothing, so it stays an equal victim when
 *   memory runs out.
 * - Signals. All are blocked across the clone and stay so in the child: what is sent to the process group (Ctrl-C) is
 *   not for it. Only its own faults and its timer get through, to handlers of ours; the application's are gone.
 * - Exit code 0, always: should the target end first, init or a supervisor reaps the child, and may read a meaning
 *   into a code (3 makes gunicorn's master give up). What happened is told in the shared result.
 * - Three watchdogs: the child's own timer, the parent's deadline, and the kernel's parent-death signal. The timer also
 *   looks whether the parent's thread is gone (an exec before the child could ask for that signal) or wants an end: a
 *   target that changed its user may not be allowed to kill.
 * - A pidfd only for who asks: it would take a number in the target's table for as long as the child lives, and a
 *   daemon that closes 0 and opens /dev/null expects to get 0.
 * - CLONE_UNTRACED: a tracer of the target would stop the child. CLONE_FS is not wanted: with a shared root and cwd the
 *   kernel withholds privileges at a set-user-id exec.
 */
#define _GNU_SOURCE
#include "clone/clone.h"

#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#define CALL_CLOSE_RANGE 436 /* SYS_close_range, in newer headers */
#define UNSHARE_TABLE 2      /* CLOSE_RANGE_UNSHARE */

enum {
    HEAD_ROOM = 64,
    LAST_SIGNAL = 64,
    DEFAULT_NICE = 5,
    TICK_US = 50 * 1000,   /* between two looks of the child's timer */
    LOOK_MS = 1,           /* between two looks whether the child has ended */
    LONG_LOOK_MS = 100,    /* the same with a pidfd, which tells; but the application may have closed it */
};

static const uint64_t MILLISECOND = 1000 * 1000;
static const uint64_t DEFAULT_WALL_NS = 30ull * 1000 * 1000 * 1000;
static const uint64_t GRACE_NS = 500ull * 1000 * 1000;        /* the parent's watchdog lets the child's go first */
static const uint64_t KILL_PATIENCE_NS = 2ull * 1000 * 1000 * 1000;

/* result_head.state */
enum state { NOT_RUN = 0, WORKING, DONE, REFUSED, CRASHED, TIMED_OUT, STOPPED };

_Static_assert(sizeof(struct result_head) == HEAD_ROOM, "the drawing in clone.h says 64 bytes");

/* -- the result ---------------------------------------------------------------------------------------------- */

int result_open(struct result *out, size_t capacity) {
    size_t size = (capacity + HEAD_ROOM + 4095) & ~(size_t)4095;
    if (size < capacity)
        return -ENOMEM;
    /* First without access: after mlockall(MCL_FUTURE) the kernel would fill what can be accessed at once. */
    long got = raw_mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (raw_failed(got))
        return (int)got;
    long access = raw_call(SYS_mprotect, got, (long)size, PROT_READ | PROT_WRITE, 0, 0);
    if (raw_failed(access)) {
        raw_call(SYS_munmap, got, (long)size, 0, 0, 0);
        return (int)access;
    }
    out->head = (struct result_head *)got; /* zeros: nothing used */
    out->data = (unsigned char *)got + HEAD_ROOM;
    out->capacity = size - HEAD_ROOM;
    return 0;
}

int result_append(struct result *out, const void *bytes, size_t size) {
    struct result_head *head = out->head;
    if (size > out->capacity - head->used) {
        head->overflow = 1;
        return -ENOSPC;
    }
    memcpy(out->data + head->used, bytes, size);
    head->used += size;
    return 0;
}

void result_close(struct result *out) {
    if (out->head != NULL)
        raw_call(SYS_munmap, (long)out->head, (long)(out->capacity + HEAD_ROOM), 0, 0, 0);
    memset(out, 0, sizeof *out);
}

/* -- in the child: system calls and its own memory only --------------------------------------------------------- */

/* As the kernel has it, which is not libc's struct sigaction. */
struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

enum { KERNEL_SA_RESTORER = 0x04000000 };

static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
enum { FAULT_COUNT = sizeof FAULTS / sizeof FAULTS[0] };

/* What the handlers need. Written in the child only, where it is a private copy. */
static struct {
    struct result_head *head;
    int parent, parent_thread;
    uint64_t deadline_ns;
} child;

static inline uint64_t signal_bit(int number) { return (uint64_t)1 << (number - 1); }

__attribute__((noreturn)) static void child_exit(enum state state) {
    __atomic_store_n(&child.head->state, state, __ATOMIC_RELEASE);
    for (;;)
        raw_call(SYS_exit_group, 0, 0, 0, 0, 0);
}

/* The end of a handler that returns: rt_sigreturn, as libc has it. */
extern void child_restore(void) __asm__("heaptop_child_restore") __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n\t.type heaptop_child_restore, %function\nheaptop_child_restore:\n\t" MACHINE_RETURN
        "\n\t.popsection");

static void child_fault(int number, siginfo_t *information, void *context) {
    (void)context;
    child.head->detail = number;
    child.head->address = (uint64_t)information->si_addr;
    child_exit(CRASHED);
}

/* An exec leaves the parent its pid, but not its thread. */
static int child_is_alone(void) {
    return raw_call(SYS_getppid, 0, 0, 0, 0, 0) != child.parent ||
           raw_call(SYS_tgkill, child.parent, child.parent_thread, 0, 0, 0) == -ESRCH;
}

static void child_tick(int number, siginfo_t *information, void *context) {
    (void)number, (void)information, (void)context;
    if (child_is_alone() || __atomic_load_n(&child.head->stop, __ATOMIC_ACQUIRE))
        child_exit(STOPPED);
    if (raw_clock() > child.deadline_ns)
        child_exit(TIMED_OUT);
}

static void child_signals(void) {
    struct kernel_action action = {0};
    for (int number = 1; number <= LAST_SIGNAL; number++)
        raw_call(SYS_rt_sigaction, number, (long)&action, 0, sizeof action.mask, 0);
    uint64_t open = signal_bit(SIGALRM);
    action.flags = SA_SIGINFO | KERNEL_SA_RESTORER;
    action.restorer = child_restore;
    action.mask = ~(uint64_t)0;
    action.handler = child_fault;
    for (int i = 0; i < FAULT_COUNT; i++) {
        open |= signal_bit(FAULTS[i]);
        raw_call(SYS_rt_sigaction, FAULTS[i], (long)&action, 0, sizeof action.mask, 0);
    }
    action.handler = child_tick;
    raw_call(SYS_rt_sigaction, SIGALRM, (long)&action, 0, sizeof action.mask, 0);
    raw_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&open, 0, sizeof open, 0);
}

/* Dies with the thread that made it, and by its own timer. */
static void child_watchdog(void) {
    struct itimerval every = {{0, TICK_US}, {0, TICK_US}};
    raw_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    raw_call(SYS_setitimer, ITIMER_REAL, (long)&every, 0, 0, 0);
    child_tick(0, NULL, NULL); /* the thread may be gone already: then nobody sends that signal any more */
}

/* Whether the child got a table of its own, which has nothing in it. */
static int child_leave_table(void) {
    if (raw_failed(raw_call(CALL_CLOSE_RANGE, 0, ~0u, UNSHARE_TABLE, 0, 0)))
        return 0;
    child.head->guards |= SNAPSHOT_OWN_TABLE;
    return 1;
}

/* To be done before the child becomes undumpable: from then on its /proc belongs to root. */
static void child_die_first(void) {
    static const char most[] = "1000";
    long fd = raw_open("/proc/self/oom_score_adj", O_WRONLY);
    if (raw_failed(fd))
        return;
    if (raw_call(SYS_write, fd, (long)most, sizeof most - 1, 0, 0) == sizeof most - 1)
        child.head->guards |= SNAPSHOT_OOM_FIRST;
    raw_call(SYS_close, fd, 0, 0, 0, 0);
}

/* No core file, also where one is piped to a program, which the limit does not prevent. */
static void child_leave_no_core(void) {
    struct rlimit none = {0, 0};
    raw_call(SYS_setrlimit, RLIMIT_CORE, (long)&none, 0, 0, 0);
    raw_call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* The target first, when both want the processor; and never at a real-time priority. */
static void child_step_back(int nice) {
    long policy = raw_call(SYS_sched_getscheduler, 0, 0, 0, 0, 0);
    struct sched_param ordinary = {0};
    if (policy == SCHED_FIFO || policy == SCHED_RR)
        raw_call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&ordinary, 0, 0);
    long now = 20 - raw_call(SYS_getpriority, PRIO_PROCESS, 0, 0, 0, 0); /* the kernel says 20 - nice */
    raw_call(SYS_setpriority, PRIO_PROCESS, 0, now + nice > 19 ? 19 : now + nice, 0, 0);
}

void snapshot_leave_files(void) {
    child_leave_table();
    child.head->guards &= ~(uint32_t)SNAPSHOT_OWN_TABLE; /* for it is to open nothing */
}

__attribute__((noreturn)) static void child_main(struct snapshot *s, int (*work)(void *, struct result *), void *context,
                                                 const struct snapshot_limits *limits) {
    int nice = limits->nice < 0 ? 0 : limits->nice != 0 ? limits->nice : DEFAULT_NICE;
    child.head = s->result.head;
    child.parent = s->owner;
    child.parent_thread = s->owner_thread;
    child.deadline_ns = s->deadline_ns - GRACE_NS;
    child.head->state = WORKING;
    int own_table = !limits->files && child_leave_table();
    child_signals();
    child_watchdog();
    raw_call(SYS_prctl, PR_SET_NAME, (long)"heaptop census", 0, 0, 0);
    child_step_back(nice);
    if (own_table)
        child_die_first();
    child_leave_no_core();
    child.head->detail = work(context, &s->result);
    child_exit(child.head->detail == 0 ? DONE : REFUSED);
}

/* -- in the parent ----------------------------------------------------------------------------------------------- */

static int own_pid(void) { return (int)raw_call(SYS_getpid, 0, 0, 0, 0, 0); }
static int own_thread(void) { return (int)raw_call(SYS_gettid, 0, 0, 0, 0, 0); }

static int fd_identity(int fd, uint64_t *device, uint64_t *inode) {
    struct stat status;
    if (raw_failed(raw_call(SYS_fstat, fd, (long)&status, 0, 0, 0)))
        return 0;
    *device = status.st_dev;
    *inode = status.st_ino;
    return 1;
}

/* A program may close every descriptor it does not know, and open others under the same numbers. From Linux 6.9 on
 * every pidfd has an inode of its own; before, it shares one with all that have no file, and this says less. */
static int fd_is_ours(const struct snapshot *s) {
    uint64_t device, inode;
    return s->fd >= 0 && fd_identity(s->fd, &device, &inode) && device == s->fd_device && inode == s->fd_inode;
}

/* SNAPSHOT_RUNNING means that SIGKILL was not from us. */
static int status_of_end(const struct snapshot *s, int how, int *detail) {
    const struct result_head *head = s->result.head;
    switch ((enum state)__atomic_load_n(&head->state, __ATOMIC_ACQUIRE)) {
    case DONE:
        return SNAPSHOT_OK;
    case REFUSED:
        *detail = head->detail;
        return SNAPSHOT_FAILED;
    case CRASHED:
        *detail = head->detail;
        return SNAPSHOT_CRASHED;
    case TIMED_OUT:
        return SNAPSHOT_HUNG;
    case STOPPED:
        return s->verdict == SNAPSHOT_RUNNING ? SNAPSHOT_ABORTED : s->verdict;
    case NOT_RUN:
    case WORKING:
        break;
    }
    if (!WIFSIGNALED(how)) /* not by our code: something made it exit in the middle */
        return SNAPSHOT_LOST;
    *detail = WTERMSIG(how);
    if (*detail == SIGKILL && s->verdict != SNAPSHOT_RUNNING)
        return s->verdict;
    for (int i = 0; i < FAULT_COUNT; i++)
        if (*detail == FAULTS[i])
            return SNAPSHOT_CRASHED; /* the handler had no stack left */
    return SNAPSHOT_KILLED;
}

/* Reaps the child if it has ended. Whether it has.
 *
 * The thread that made it looks at its own children only, which no child of the application's can be. Another thread
 * finds here what an agent left that could not see its child's end: that has become a child of one of the others.
 */
static int reap(struct snapshot *s) {
    struct rusage usage;
    int how = 0, own = own_thread() == s->owner_thread ? __WNOTHREAD : 0;
    memset(&usage, 0, sizeof usage);
    long got = raw_call(SYS_wait4, s->pid, (long)&how, __WALL | WNOHANG | own, (long)&usage, 0);
    if (got == 0 || got == -EINTR)
        return 0;
    s->wall_ns = raw_clock() - s->begin_ns;
    s->detail = 0;
    s->status = status_of_end(s, got == s->pid ? how : 0, &s->detail);
    s->cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 * MILLISECOND +
                (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
    s->pid = 0;
    return 1;
}

/* Only right after reap said no: until it is reaped, and this thread alone does that, the pid is the child's. */
static void kill_child(struct snapshot *s, int verdict) {
    if (s->verdict == SNAPSHOT_RUNNING)
        s->verdict = verdict;
    __atomic_store_n(&s->result.head->stop, 1, __ATOMIC_RELEASE);
    raw_call(SYS_kill, s->pid, SIGKILL, 0, 0, 0);
}

/* Until the child has ended or some milliseconds are over. */
static void rest(const struct snapshot *s, uint64_t nanoseconds) {
    int watched = fd_is_ours(s);
    uint64_t most = (uint64_t)(watched ? LONG_LOOK_MS : LOOK_MS) * MILLISECOND;
    if (nanoseconds > most)
        nanoseconds = most;
    struct pollfd one = {s->fd, POLLIN, 0};
    struct timespec span = {0, (long)nanoseconds};
    raw_call(SYS_ppoll, (long)&one, watched, (long)&span, 0, 0);
}

/* Waits until `deadline_ns`. Whether the child has ended. */
static int await_end(struct snapshot *s, uint64_t deadline_ns) {
    while (!reap(s)) {
        uint64_t now = raw_clock();
        if (now >= deadline_ns)
            return 0;
        rest(s, deadline_ns - now);
    }
    return 1;
}

static int is_running(const struct snapshot *s) {
    return s->status == SNAPSHOT_RUNNING && s->pid != 0 && s->owner == own_pid();
}

/* Clones. 0 and s->pid, s->fd set, or -errno. It returns in the parent only. */
static int clone_child(struct snapshot *s, int (*work)(void *, struct result *), void *context,
                       const struct snapshot_limits *limits) {
    int fd = -1;
    long flags = CLONE_FILES | CLONE_UNTRACED | (limits->descriptor ? CLONE_PIDFD : 0);
    uint64_t all = ~(uint64_t)0, before = 0;
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all, 0);
    long pid = raw_call(SYS_clone, flags, 0, (long)&fd, 0, 0);
    if (pid == 0)
        child_main(s, work, context, limits);
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0);
    if (raw_failed(pid))
        return (int)pid;
    s->pid = (int)pid;
    s->fd = fd;
    return 0;
}

int snapshot_begin(struct snapshot *s, int (*work)(void *context, struct result *out), void *context,
                   const struct snapshot_limits *limits) {
    uint64_t begin = raw_clock();
    if (is_running(s) && !reap(s))
        return -EBUSY;
    snapshot_release(s);
    memset(s, 0, sizeof *s);
    s->fd = -1;
    s->owner = own_pid();
    s->owner_thread = own_thread();
    s->verdict = SNAPSHOT_RUNNING;
    s->begin_ns = begin;
    s->deadline_ns = begin + (limits->wall_ns != 0 ? limits->wall_ns : DEFAULT_WALL_NS) + GRACE_NS;
    int error = result_open(&s->result, limits->result_bytes != 0 ? limits->result_bytes : RESULT_BYTES);
    if (error != 0)
        return error;
    error = clone_child(s, work, context, limits);
    if (error != 0) {
        result_close(&s->result);
        return error;
    }
    s->status = SNAPSHOT_RUNNING;
    /* A child that the application forks meanwhile shall not keep the result's memory. */
    raw_call(SYS_madvise, (long)s->result.head, (long)(s->result.capacity + HEAD_ROOM), MADV_DONTFORK, 0, 0);
    if (limits->descriptor && !fd_identity(s->fd, &s->fd_device, &s->fd_inode)) {
        s->fd = -1; /* a kernel that does not know pidfds takes no notice of the flag */
        snapshot_abort(s);
        snapshot_release(s);
        return -ENOSYS;
    }
    s->pause_ns = raw_clock() - begin;
    return 0;
}

int snapshot_poll(struct snapshot *s) {
    if (is_running(s) && !reap(s) && raw_clock() > s->deadline_ns)
        kill_child(s, SNAPSHOT_HUNG);
    return s->status;
}

int snapshot_end(struct snapshot *s) {
    if (is_running(s) && !await_end(s, s->deadline_ns)) {
        kill_child(s, SNAPSHOT_HUNG);
        await_end(s, raw_clock() + KILL_PATIENCE_NS);
    }
    return s->status;
}

int snapshot_abort(struct snapshot *s) {
    if (is_running(s) && !reap(s)) {
        kill_child(s, SNAPSHOT_ABORTED);
        await_end(s, raw_clock() + KILL_PATIENCE_NS);
    }
    return s->status;
}

void snapshot_release(struct snapshot *s) {
    if (is_running(s))
        return;
    if (s->owner == own_pid()) {
        result_close(&s->result);
    } else { /* a fork of the process that began it: the mapping did not come along */
        memset(&s->result, 0, sizeof s->result);
        s->pid = 0;
    }
    s->status = SNAPSHOT_NONE;
    if (s->owner != 0 && fd_is_ours(s))
        raw_call(SYS_close, s->fd, 0, 0, 0, 0);
    s->fd = -1;
}

/* -- in words ---------------------------------------------------------------------------------------------------- */

static const char *fault_name(int number) {
    switch (number) {
    case SIGSEGV:
        return "a memory access (SIGSEGV)";
    case SIGBUS:
        return "memory that could not be had (SIGBUS)";
    case SIGILL:
        return "an illegal instruction (SIGILL)";
    case SIGFPE:
        return "an arithmetic fault (SIGFPE)";
    case SIGTRAP:
        return "a breakpoint (SIGTRAP)";
    case SIGSYS:
        return "a seccomp filter (SIGSYS)";
    default:
        return "a fault of its own";
    }
}

void snapshot_reason(const struct snapshot *s, char *text, size_t room) {
    unsigned long address = s->result.head != NULL ? (unsigned long)s->result.head->address : 0;
    switch ((enum snapshot_status)s->status) {
    case SNAPSHOT_NONE:
        snprintf(text, room, "there is no snapshot process");
        return;
    case SNAPSHOT_OK:
        snprintf(text, room, "the snapshot process finished");
        return;
    case SNAPSHOT_RUNNING:
        snprintf(text, room, "the snapshot process %d is still there", s->pid);
        return;
    case SNAPSHOT_FAILED:
        snprintf(text, room, "the count in the snapshot process failed with code %d", s->detail);
        return;
    case SNAPSHOT_CRASHED:
        snprintf(text, room, "the snapshot process was ended by %s, address 0x%lx", fault_name(s->detail), address);
        return;
    case SNAPSHOT_KILLED:
        snprintf(text, room, "the snapshot process was killed by signal %d%s", s->detail,
                 s->detail == SIGKILL ? ": the kernel was short of memory, or somebody did it" : " from outside");
        return;
    case SNAPSHOT_HUNG:
        snprintf(text, room, "the snapshot process was not done after %.1f s and was ended",
                 (double)(s->deadline_ns - GRACE_NS - s->begin_ns) / 1e9);
        return;
    case SNAPSHOT_ABORTED:
        snprintf(text, room, "the snapshot process was ended before it was done");
        return;
    case SNAPSHOT_LOST:
        snprintf(text, room, "the snapshot process ended without a result");
        return;
    }
}

const char *snapshot_refusal(int error) {
    switch (error) {
    case -EAGAIN:
        return "no more processes may be made (RLIMIT_NPROC, or the limit of a pids cgroup)";
    case -ENOMEM:
        return "the kernel does not promise the memory for a snapshot (vm.overcommit_memory, RLIMIT_AS, or too little "
               "of it)";
    case -EMFILE:
    case -ENFILE:
        return "no file descriptor is left for a snapshot";
    case -EPERM:
    case -EACCES:
        return "a seccomp filter or a security module forbids clone";
    case -ENOSYS:
        return "clone is not there, or without pidfds (a seccomp filter, or a kernel before Linux 5.3)";
    case -EBUSY:
        return "the last snapshot process is still there";
    default:
        return NULL;
    }
}
