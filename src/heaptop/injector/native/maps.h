/* maps: the lines of /proc/self/maps, without the C library and without a lock of it. Which libraries there are, the dynamic
   linker knows as well; but who has its lock may be waiting for the GIL. */
#ifndef HEAPTOP_MAPS_H
#define HEAPTOP_MAPS_H

#include "raw.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

struct maps {
    int fd;
    size_t at, end;
    char buffer[4096];
};

static inline bool maps_open(struct maps *m) {
    m->at = m->end = 0;
    m->fd = (int)raw_open("/proc/self/maps", 0 /* O_RDONLY */);
    return m->fd >= 0;
}

static inline void maps_close(struct maps *m) { raw_call(SYS_close, m->fd, 0, 0, 0, 0); }

static inline int maps_next(struct maps *m) {
    if (m->at == m->end) {
        long got = raw_call(SYS_read, m->fd, (long)m->buffer, sizeof m->buffer, 0, 0);
        m->at = 0;
        m->end = got > 0 ? (size_t)got : 0;
        if (got <= 0)
            return -1;
    }
    return (unsigned char)m->buffer[m->at++];
}

/* Up to a character that is no digit, which is returned. */
static inline int maps_number(struct maps *m, uintptr_t *number) {
    int c;
    *number = 0;
    while (((c = maps_next(m)) >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))
        *number = *number << 4 | (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    return c;
}

struct mapping {
    uintptr_t begin, end, offset, inode; /* the last one's digits, as it says the same of the same file */
    int protection;                      /* PROT_… */
    bool is_private;
    char path[256]; /* the end of a longer one */
};

/* The next line. False behind the last one. */
static inline bool maps_line(struct maps *m, struct mapping *found) {
    uintptr_t device;
    int c = 0;
    *found = (struct mapping){0};
    if (maps_number(m, &found->begin) != '-' || maps_number(m, &found->end) != ' ')
        return false;
    while ((c = maps_next(m)) != ' ' && c != -1) {
        found->protection |= c == 'r' ? PROT_READ : c == 'w' ? PROT_WRITE : c == 'x' ? PROT_EXEC : 0;
        found->is_private = c == 'p';
    }
    if (maps_number(m, &found->offset) != ' ' || maps_number(m, &device) != ':' || maps_number(m, &device) != ' ')
        return false;
    size_t size = 0;
    for (c = maps_number(m, &found->inode); c != '\n' && c != -1; c = maps_next(m)) {
        if (size == sizeof found->path - 1)
            memmove(found->path, found->path + 1, --size);
        if (c != ' ' || size > 0)
            found->path[size++] = (char)c;
    }
    return true;
}

#endif
