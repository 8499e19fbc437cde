/* holding: the figure Private_Dirty of /proc/self/smaps_rollup. */
#include "clone/holding.h"

#include "raw.h"

#include <fcntl.h>

enum { ROOM = 4096 }; /* the file has some 700 bytes */

static uint64_t kilobytes_after(const char *text, const char *name) {
    for (; *text != '\0'; text++) {
        const char *at = text, *want = name;
        while (*want != '\0' && *at == *want)
            at++, want++;
        if (*want != '\0')
            continue;
        while (*at == ' ')
            at++;
        uint64_t number = 0;
        for (; *at >= '0' && *at <= '9'; at++)
            number = 10 * number + (uint64_t)(*at - '0');
        return number;
    }
    return 0;
}

uint64_t holding_bytes(void) {
    static char text[ROOM]; /* the stack is small */
    long fd = raw_open("/proc/self/smaps_rollup", O_RDONLY);
    if (raw_failed(fd))
        return 0;
    long size = 0, got;
    while ((got = raw_call(SYS_read, fd, (long)(text + size), ROOM - 1 - size, 0, 0)) > 0)
        size += got;
    raw_call(SYS_close, fd, 0, 0, 0, 0);
    text[size] = '\0';
    return kilobytes_after(text, "\nPrivate_Dirty:") << 10;
}
