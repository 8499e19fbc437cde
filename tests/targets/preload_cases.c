/* A program that allocates in one known way, to be run with heaptop's preloaded library. It is a Python as far as that can
   tell: by a symbol. What is allocated in leak() lives to the end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

int Py_IsInitialized(void) { return 0; }

#define APART static __attribute__((noinline)) /* a symbol of its own */

static volatile size_t huge = (size_t)1 << 60;
static char *volatile kept; /* so that no call is left out by the compiler */

__attribute__((noinline)) void *leak(size_t size) {
    char *block = malloc(size);
    kept = block;
    return block;
}

APART void small(void) {
    for (int i = 0; i < 20000; i++)
        leak(700);
}

APART void refused(void) {
    for (int i = 0; i < 200; i++) {
        if (malloc(huge) != NULL || calloc(huge, 4) != NULL || memalign(64, huge) != NULL)
            exit(1);
        leak(600);
    }
}

APART void freed(void) {
    void *blocks[64];
    for (int i = 0; i < 64000; i++) {
        if (i >= 64)
            free(blocks[i % 64]);
        blocks[i % 64] = leak(700);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
}

APART void kinds(void) {
    enum { EACH = 3 << 20 };
    void *block;
    kept = calloc(3, 1 << 20);
    kept = aligned_alloc(64, EACH);
    kept = memalign(4096, EACH);
    kept = valloc(EACH);
    kept = pvalloc(EACH);
    if (posix_memalign(&block, 128, EACH) == 0)
        kept = block;
    kept = reallocarray(NULL, 3, 1 << 20);
    kept = realloc(malloc(EACH), 2 * EACH);
    if (reallocarray(kept, huge, 16) != NULL)
        exit(1);
    kept = realloc(kept, EACH);
    char *refused = realloc(kept, huge); /* and the block stays */
    if (refused != NULL)
        exit(1);
}

APART void mappings(void) {
    enum { WHOLE = 8 << 20, PAGE = 4096 };
    char *all = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(all, PAGE);
    munmap(all + WHOLE - 2 * PAGE, 2 * PAGE);
    char *gone = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, WHOLE);
    char *moved = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    moved = mremap(moved, WHOLE, 2 * WHOLE, MREMAP_MAYMOVE);
    mmap(NULL, WHOLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* a reservation */
    kept = moved;
}

APART void unmapped(void) {
    enum { WHOLE = 8 << 20, PAGE = 4096 };
    char *all = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (munmap(all + 1, PAGE) == 0 || munmap(all, 0) == 0 || munmap(all, (size_t)-PAGE) == 0)
        exit(1);
    if (mmap(all, WHOLE, PROT_READ, MAP_PRIVATE | MAP_FIXED, -1, 0) != MAP_FAILED) /* no file */
        exit(1);
    munmap(all, 1); /* the whole page */
    mmap(all + PAGE, 1, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
    kept = all;
}

/* Small ones that grow: most of them are not sampled. */
APART void resized(void) {
    for (int i = 0; i < 40; i++) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        kept = mremap(page, 4096, 8 << 20, MREMAP_MAYMOVE);
    }
}

APART void replaced(void) {
    enum { WHOLE = 8 << 20 };
    char *from = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *onto = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kept = mremap(from, WHOLE, WHOLE / 2, MREMAP_MAYMOVE | MREMAP_FIXED, onto);
}

static void *thread(void *unused) {
    small();
    return unused;
}

APART void threads(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

APART void forks(void) {
    small();
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            for (int j = 0; j < 4; j++)
                small();
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

/* Forks beside threads that are in the tables all the time: no child waits for a lock. */
static void *churn(void *stop) {
    while (!*(volatile int *)stop)
        free(leak(1 << 16));
    return NULL;
}

APART void forks_in_threads(void) {
    pthread_t all[3];
    int stop = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, churn, &stop);
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 100; j++)
                free(leak(1 << 16));
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
}

/* What glibc's malloc does not allow, and some programs do: a handler maps memory in the middle of anything. */
static void handler(int number) {
    (void)number;
    void *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 1 << 20);
}

APART void signals(void) {
    struct itimerval often = {{0, 200}, {0, 200}};
    signal(SIGPROF, handler);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 400000; i++)
        free(leak(1 << 14));
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
}

/* So do programs that fork in a handler: the child returns into the middle as well. */
static volatile int forked, is_child;

static void fork_now(int number) {
    (void)number;
    is_child = fork() == 0;
    forked++;
}

APART void forks_in_handler(void) {
    int status;
    struct itimerval often = {{0, 2000}, {0, 2000}};
    signal(SIGPROF, fork_now);
    setitimer(ITIMER_PROF, &often, NULL);
    while (!is_child && forked < 200)
        free(leak(1 << 14));
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    for (int i = 0; is_child && i < 100; i++)
        free(leak(1 << 14));
    if (is_child)
        _exit(0);
    while (wait(&status) > 0)
        if (status != 0)
            exit(1);
}

static void execs(char *self) {
    small();
    if (fork() == 0) {
        execl(self, self, "environment", NULL);
        _exit(1);
    }
    wait(NULL);
}

/* -- blocks that libc takes for its caller, on stacks of all kinds; each place has a size of its own ------------------------- */

enum { PLACE = 1 << 20 };
static char text[PLACE + 16];
static ucontext_t outside, inside;

/* A string of so many bytes with its end. */
static const char *text_of(int size) {
    memset(text, 'x', sizeof text);
    text[size - 1] = '\0';
    return text;
}

APART void duplicate(int size) {
    kept = strdup(text_of(size));
    __asm__ volatile(""); /* and no tail call */
}

/* Its frame's address is not in sp, nor at one distance from bp. */
APART void duplicate_aligned(int size) {
    char before[size % 64 + 1];
    _Alignas(64) char aligned[64];
    __asm__ volatile("" : : "r"(aligned), "r"(before) : "memory");
    kept = strdup(text_of(size));
    __asm__ volatile("" : : "r"(aligned), "r"(before) : "memory");
}

static void in_handler(int number) {
    (void)number;
    duplicate(PLACE + 4);
}

static void in_context(void) { duplicate(PLACE + 3); }

static void *on_thread(void *size) {
    duplicate((int)(intptr_t)size);
    getcontext(&inside);
    inside.uc_stack =
        (stack_t){.ss_sp = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = 1 << 16};
    inside.uc_link = &outside;
    makecontext(&inside, in_context, 0);
    swapcontext(&outside, &inside);
    return NULL;
}

/* Code that no table knows: push rbp; mov rbp, -1; call *rdi's; pop rbp; ret. */
static void in_generated_code(void) {
    static const unsigned char code[] = {0x55, 0x48, 0xc7, 0xc5, 0xff, 0xff, 0xff, 0xff,
                                         0x48, 0x89, 0xf0, 0xff, 0xd0, 0x5d, 0xc3};
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *(*run)(const char *, char *(*)(const char *));
    memcpy(page, code, sizeof code);
    *(void **)&run = page;
    kept = run(text_of(PLACE + 5), strdup);
}

APART void places(void) {
    stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
    pthread_t thread;
    duplicate(PLACE + 1);
    pthread_create(&thread, NULL, on_thread, (void *)(PLACE + 2));
    pthread_join(thread, NULL);
    sigaltstack(&other, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    in_generated_code();
    duplicate_aligned(PLACE + 6);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "small") == 0)
        small();
    if (strcmp(what, "refused") == 0)
        refused();
    if (strcmp(what, "freed") == 0)
        freed();
    if (strcmp(what, "kinds") == 0)
        kinds();
    if (strcmp(what, "mappings") == 0)
        mappings();
    if (strcmp(what, "unmapped") == 0)
        unmapped();
    if (strcmp(what, "resized") == 0)
        resized();
    if (strcmp(what, "replaced") == 0)
        replaced();
    if (strcmp(what, "threads") == 0)
        threads();
    if (strcmp(what, "forks") == 0)
        forks();
    if (strcmp(what, "forks in threads") == 0)
        forks_in_threads();
    if (strcmp(what, "signals") == 0)
        signals();
    if (strcmp(what, "forks in handler") == 0)
        forks_in_handler();
    if (strcmp(what, "execs") == 0)
        execs(arguments[0]);
    if (strcmp(what, "replaces itself") == 0) {
        small();
        execlp("sleep", "sleep", "600", NULL);
    }
    if (strcmp(what, "places") == 0)
        places();
    if (strcmp(what, "environment") == 0) {
        char *preloaded = getenv("LD_PRELOAD"), *own = getenv("HEAPTOP_MALLOC");
        printf("%s %s\n", preloaded == NULL ? "-" : preloaded, own == NULL ? "-" : own);
    }
    fflush(stdout);
    _exit(7);
}
