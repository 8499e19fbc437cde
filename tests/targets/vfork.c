/* Keeps the caller in vfork: what a target calls through ctypes. */
#include <unistd.h>

/* Returns when a byte, or the end, could be read from `fd` by the child; 0, or -1 when vfork failed. */
int vfork_until(int fd) {
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        if (read(fd, &byte, 1) < 0)
            _exit(1);
        _exit(0);
    }
    return child < 0 ? -1 : 0;
}
