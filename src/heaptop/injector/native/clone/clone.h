/* The snapshot child: a frozen copy-on-write image of the process, in which a function runs and reports.
 *
 *     agent's thread, GIL held                    the child: one thread, everybody's memory as it was
 *     snapshot_begin ── clone ──────────────────► hygiene, then work(context, out)
 *       pause_ns: that long the GIL was held          │ appends to the result, which is shared
 *     snapshot_poll now and then,                     ▼
 *     or s->fd in poll()  ◄── its end ─────────── exit_group
 *     snapshot_end: reaped, status, s->result
 *     snapshot_release
 *
 * The application does not notice the child: no SIGCHLD, not in waitpid(-1), no atfork handler, no descriptor held
 * open. The child never touches libc's heap, stdio, the interpreter's functions, or memory that the target shares
 * with others (MAP_SHARED is not copy-on-write): `work` only reads what is the target's, gets memory by mmap, and
 * reports by result_append. It must not trust what it reads to be free of other threads' half-finished work, except
 * where the GIL guards it; it is on the agent thread's stack, so it does not recurse. Link with -z now: a symbol
 * resolved in the child would meet the dynamic linker in whatever state another thread had it.
 *
 * All calls on one snapshot come from the thread that began it, one at a time; with that thread's end the child ends.
 * One struct snapshot of zeros is a snapshot at rest; it may live in static memory.
 *
 *     NONE ── begin ──► RUNNING ── poll, end, abort ──► any other status ── release ──► NONE
 *
 * A child that stays to answer questions needs nothing else here: a `work` that waits on words in the result.
 */
#ifndef HEAPTOP_CLONE_H
#define HEAPTOP_CLONE_H

#include <stddef.h>
#include <stdint.h>

/* -- the result ----------------------------------------------------------------------------------------------
 *
 *     ◄──────────── reserved address space; memory only where it was written ──────────────►
 *     ┌────────────────┬────────────────────────────────┬──────────────────────────────────┐
 *     │ result_head    │ data: `used` bytes             │ never touched                    │
 *     │ (64 bytes)     │ appended                       │                                  │
 *     └────────────────┴────────────────────────────────┴──────────────────────────────────┘
 *
 * Shared between the parent and the child, and with nobody else: children that the application forks do not get it.
 * It serves a count in the process itself just as well.
 */
struct result_head {
    uint64_t used;     /* bytes of data */
    uint64_t address;  /* that a crash was about */
    uint32_t state;    /* how far the child got: private to clone.c */
    int32_t detail;    /* what work returned, or the signal of a crash */
    uint32_t overflow; /* 1: something did not fit, so the data is not whole */
    uint32_t stop;     /* 1: the parent wants the child to end */
    uint32_t guards;   /* SNAPSHOT_OWN_TABLE and its like */
    uint32_t reserved[7];
};

struct result {
    struct result_head *head; /* NULL: there is none */
    unsigned char *data;
    size_t capacity; /* bytes of data at most */
};

/* The usual capacity. It is address space and no memory, but where that is limited (RLIMIT_AS) the target has it less
 * for as long as the count takes. A census of 50,000 types, none of them known, takes some 10 MB. */
enum { RESULT_BYTES = 32 << 20 };

/* Maps room for at least `capacity` bytes of data. 0, or -errno and nothing is mapped. */
int result_open(struct result *out, size_t capacity);

/* Copies bytes to the end of the data. 0, or -ENOSPC: nothing was copied, and head->overflow is set for good. */
int result_append(struct result *out, const void *bytes, size_t size);

/* Unmaps it; no effect when there is none. */
void result_close(struct result *out);

/* -- the child ----------------------------------------------------------------------------------------------- */

enum snapshot_status {
    SNAPSHOT_NONE = 0, /* at rest: there is no child, and no result */
    SNAPSHOT_RUNNING, /* it lives */
    SNAPSHOT_OK,      /* work returned 0: the result is whole */
    SNAPSHOT_FAILED,  /* work returned something else: `detail` */
    SNAPSHOT_CRASHED, /* by a fault of its own: `detail` is the signal, head->address what it was about */
    SNAPSHOT_KILLED,  /* by somebody else, the kernel short of memory for one: `detail` is the signal */
    SNAPSHOT_HUNG,    /* the time was over */
    SNAPSHOT_ABORTED, /* we ended it */
    SNAPSHOT_LOST,    /* it ended, and nobody knows how: another thread of the application reaped it */
};

enum snapshot_guards {
    SNAPSHOT_OWN_TABLE = 1, /* its table of descriptors is its own, and empty */
    SNAPSHOT_OOM_FIRST = 2, /* the kernel, short of memory, kills it before the target */
};

struct snapshot_limits {       /* a 0 represents the default */
    uint64_t wall_ns;          /* time for work: 30 s */
    size_t result_bytes;       /* room for the result: RESULT_BYTES */
    int nice;                  /* how much less of a processor than the target, when both want one: 5; -1 for 0 */
    int descriptor;            /* 1: a pidfd in s->fd, which takes a number in the target's table: none */
    int files;                 /* 1: `work` reads files that are open, and calls snapshot_leave_files after that */
};

/* In the child: leave the table of descriptors that it shares with the process. */
void snapshot_leave_files(void);

struct snapshot {
    int pid;               /* the child's; 0 when there is none */
    int fd;                /* a pidfd, if one was asked for: readable when the child has ended; or -1 */
    int status;            /* enum snapshot_status */
    int detail;            /* see the statuses */
    uint64_t pause_ns;     /* how long snapshot_begin took, under the GIL */
    uint64_t cpu_ns;       /* processor time of the child; known when it has ended */
    uint64_t wall_ns;      /* from begin until its end was seen */
    struct result result;  /* to be read when status is SNAPSHOT_OK */

    /* private */
    int owner, owner_thread; /* the process that began it: a fork has a copy of this struct, but no child */
    uint64_t begin_ns, deadline_ns;
    uint64_t fd_device, fd_inode;
    int verdict;           /* the status when SIGKILL is what it dies of */
};

/* Clones the process and lets `work` run in the child. Call it with the GIL held and no lock of libc.
 *
 * 0, or -errno with the process as it was: -EAGAIN (limit of processes), -ENOMEM (no promise of memory), -EPERM or
 * -ENOSYS (a seccomp filter), -EBUSY (this snapshot's last child lives); with a descriptor also -EMFILE (none is left)
 * and -ENOSYS (a kernel before 5.3). snapshot_refusal says each in words.
 */
int snapshot_begin(struct snapshot *s, int (*work)(void *context, struct result *out), void *context,
                   const struct snapshot_limits *limits);

/* Never waits. Kills the child when its time is over (and a moment more, for its own watchdog). Returns the status. */
int snapshot_poll(struct snapshot *s);

/* Waits for the child's end, its time at most. Release the GIL around it. Returns the
 * status; SNAPSHOT_RUNNING only if a killed child would not die in 2 s (asleep in the kernel): ask again later. */
int snapshot_end(struct snapshot *s);

/* Kills the child and waits for its end, 2 s at most. Returns the status, as snapshot_end: SNAPSHOT_OK is possible
 * (it had finished). Takes a moment for a large heap: release the GIL. */
int snapshot_abort(struct snapshot *s);

/* Unmaps the result and closes s->fd, if that still is what it was; the figures stay. No effect while the child lives.
 * In a forked child of the application it forgets the parent's snapshot: call it there. */
void snapshot_release(struct snapshot *s);

/* How it ended, in words for the screen, without a full stop; `room` bytes at most, NUL included. Not for the child. */
void snapshot_reason(const struct snapshot *s, char *text, size_t room);

/* Why snapshot_begin returned `error` (negative), likewise; NULL when only the number says it. */
const char *snapshot_refusal(int error);

#endif
