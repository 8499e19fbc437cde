/* Says that its command line is 256 MiB of memory that nobody has touched (prctl PR_SET_MM_MAP, no privilege needed). */
#include <linux/prctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SIZE = 256 << 20 };

int main(void) {
    struct prctl_mm_map map;
    char stat[4096];
    unsigned long value[52] = {0};
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || fgets(stat, sizeof stat, file) == NULL)
        return 1;
    fclose(file);
    char *at = strrchr(stat, ')') + 2;
    for (int field = 3; field <= 52 && at != NULL; field++) {
        if (sscanf(at, "%lu", &value[field - 1]) != 1)
            value[field - 1] = 0;
        at = strchr(at, ' ');
        if (at != NULL)
            at++;
    }
    char *text = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (text == MAP_FAILED)
        return 2;
    strcpy(text, "python3.12");
    memset(&map, 0, sizeof map);
    map.start_code = value[25];
    map.end_code = value[26];
    map.start_data = value[44];
    map.end_data = value[45];
    map.start_brk = value[46];
    map.brk = (unsigned long)sbrk(0);
    map.start_stack = value[27];
    map.arg_start = (unsigned long)text;
    map.arg_end = (unsigned long)text + SIZE;
    map.env_start = value[49];
    map.env_end = value[50];
    map.exe_fd = (unsigned)-1;
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) != 0) {
        perror("PR_SET_MM_MAP");
        return 3;
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
