/* mapped: letting go, mapping, and the filter. The drawing is in the header. */
#include "cores/mapped.h"

#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { MAPS_BYTES = 4 << 20, PAGE = 4096, MOST_KEPT = 64 };
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct span { /* a line of /proc/self/maps */
    uint64_t start, end;
    const char *path; /* up to the end of the line; "" of anonymous memory */
    size_t path_size;
};

/* -- what is kept --------------------------------------------------------------------------------------------- */

static size_t read_maps(char *text, size_t room) {
    size_t size = 0;
    long file = raw_open("/proc/self/maps", O_RDONLY);
    while (!raw_failed(file) && size < room) {
        long got = raw_call(SYS_read, file, (long)(text + size), (long)(room - size), 0, 0);
        if (raw_failed(got) || got == 0)
            break;
        size += (size_t)got;
    }
    raw_call(SYS_close, file, 0, 0, 0, 0);
    return size;
}

static uint64_t hexadecimal(const char **at) {
    uint64_t number = 0;
    for (;; ++*at) {
        unsigned digit = **at >= 'a' && **at <= 'f' ? (unsigned)(**at - 'a' + 10) : (unsigned)(**at - '0');
        if (digit > 15)
            return number;
        number = number << 4 | digit;
    }
}

/* The next line; false behind the last whole one. */
static bool next_span(const char **at, const char *end, struct span *span) {
    const char *line = *at, *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    if (stop == NULL)
        return false;
    span->start = hexadecimal(&line);
    line++;
    span->end = hexadecimal(&line);
    span->path = line;
    for (int fields = 0; fields < 5 && span->path < stop; span->path++) /* permissions, offset, device, inode */
        if (*span->path == ' ')
            for (fields++; span->path + 1 < stop && span->path[1] == ' ';)
                span->path++;
    span->path_size = (size_t)(stop - span->path);
    *at = stop + 1;
    return true;
}

static bool is_in(const struct span *span, const void *address) {
    return (uint64_t)address >= span->start && (uint64_t)address < span->end;
}

static bool same_path(const struct span *one, const struct span *other) {
    return one->path_size != 0 && one->path_size == other->path_size && memcmp(one->path, other->path, one->path_size) == 0;
}

/* The linker has variables that functions of libc read. */
static bool is_linker(const struct span *span) {
    const char *end = span->path + span->path_size, *name = end;
    while (name > span->path && name[-1] != '/')
        name--;
    return end - name > 3 && memcmp(name, "ld-", 3) == 0;
}

struct keeping {
    struct span code, libc; /* the file of this function, and that of memcpy */
    const void *kept[8];    /* addresses within others */
    size_t count;
    bool follows; /* what is next to a file is its zeros */
    uint64_t end; /* of the last one kept */
};

static bool keeps(struct keeping *k, const struct span *span) {
    bool file = same_path(span, &k->code) || same_path(span, &k->libc) || is_linker(span);
    bool kept = file || (k->follows && span->path_size == 0 && span->start == k->end);
    for (size_t i = 0; i < k->count && !kept; i++)
        kept = is_in(span, k->kept[i]);
    k->follows = file;
    k->end = span->end;
    return kept;
}

/* Unmap all that does not need to be there. */
static void let_go(const struct mapped_piece *pieces, const struct result *out, char *text, size_t size) {
    void *(*copy)(void *, const void *, size_t) = memcpy;
    struct keeping k = {.kept = {pieces, out->head, text, (void *)machine_thread(), &k, out}, .count = 6};
    const void *own = __builtin_return_address(0);
    struct span span;
    const char *at = text;
    while (next_span(&at, text + size, &span)) {
        if (is_in(&span, own))
            k.code = span;
        if (is_in(&span, *(void **)&copy))
            k.libc = span;
    }
    for (at = text; next_span(&at, text + size, &span);)
        if (!keeps(&k, &span))
            raw_call(SYS_munmap, (long)span.start, (long)(span.end - span.start), 0, 0, 0);
}

/* -- mapping ---------------------------------------------------------------------------------------------------- */

static long map_at(const struct mapped_piece *piece, int protection, int flags, long fd, uint64_t offset) {
    return machine_call(SYS_mmap, (long)piece->start, (long)(piece->end - piece->start), protection,
                        flags | MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, (long)offset);
}

/* gdb writes memory to any place of a file: it is copied, a part at a time. */
static int copy_at(const struct mapped_piece *piece) {
    size_t size = piece->end - piece->start;
    if (!pages_may(size))
        return MAPPED_NO_MEMORY;
    long result = map_at(piece, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0);
    if (result != (long)piece->start)
        return result == -ENOMEM ? MAPPED_NO_MEMORY : MAPPED_COLLIDES;
    pages_count(size, 0);
    for (size_t done = 0; done < size;) {
        long got =
            raw_call(SYS_pread64, piece->fd, (long)(piece->start + done), (long)(size - done), (long)(piece->offset + done), 0);
        if (raw_failed(got) || got == 0)
            return MAPPED_UNREADABLE;
        done += (size_t)got;
    }
    raw_call(SYS_mprotect, (long)piece->start, (long)size, PROT_READ, 0, 0);
    return MAPPED;
}

static int map_piece(const struct mapped_piece *piece) {
    if (piece->offset % PAGE != 0)
        return copy_at(piece);
    long result = map_at(piece, PROT_READ, 0, piece->fd, piece->offset);
    if (result == (long)piece->start)
        return MAPPED;
    return result == -EEXIST || !raw_failed(result) ? MAPPED_COLLIDES
           : result == -ENOMEM                      ? MAPPED_NO_MEMORY
                                                    : MAPPED_UNREADABLE;
}

/* -- the filter ------------------------------------------------------------------------------------------------- */

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARGUMENT(number) LOAD(args[number]) /* its low half */
#define IF_CALL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), ALLOW

/* Memory that nobody else has, the clock, a wait, and an end. */
static bool shut(void) {
    struct sock_filter rules[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE_AUDIT_ARCH, 1, 0),
        KILL,
        LOAD(nr),
        IF_CALL(SYS_exit_group),
        IF_CALL(SYS_exit),
        IF_CALL(SYS_clock_gettime),
        IF_CALL(SYS_futex),
        IF_CALL(SYS_munmap),
        IF_CALL(SYS_mremap),
        IF_CALL(SYS_madvise),
        IF_CALL(SYS_rt_sigreturn),
        IF_CALL(SYS_rt_sigprocmask),
        IF_CALL(SYS_getpid),
        IF_CALL(SYS_getppid),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4), /* whether its parent lives: no signal */
        LOAD_ARGUMENT(2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        ALLOW,
        KILL,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6),
        LOAD_ARGUMENT(2),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 3, 0),
        LOAD_ARGUMENT(3),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
        ALLOW,
        KILL,
        KILL,
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return !raw_failed(raw_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) &&
           !raw_failed(raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0));
}

int mapped_enter(const struct mapped_piece *pieces, uint64_t count, const struct result *out) {
    char *text = pages_map_sparse(MAPS_BYTES);
    if (text == NULL)
        return MAPPED_NO_MEMORY;
    let_go(pieces, out, text, read_maps(text, MAPS_BYTES));
    pages_unmap_sparse(text, MAPS_BYTES);
    for (uint64_t i = 0; i < count; i++) {
        int status = map_piece(&pieces[i]);
        if (status != MAPPED) {
            out->head->address = pieces[i].start;
            return status;
        }
    }
    snapshot_leave_files();
    return shut() ? MAPPED : MAPPED_OPEN;
}
