/* The sampler's tables without an interpreter; in the place of stacks: nothing. */
#define _GNU_SOURCE
#include "sampler/sample.c"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

bool stack_open(struct budget *budget) { return budget != NULL; }
uint32_t stack_take(uint32_t depth, bool has_gil) { return depth == 0 && has_gil; }
bool stack_make_room(void) { return true; }
void stack_detach(void) {}
void stack_disown(void) {}
void stack_set_own(const void *const codes[STACK_OWNS]) { (void)codes; }
void stack_forget(void) {}
void stack_close(struct budget *budget) { (void)budget; }
void stack_ranges(struct pages_range found[STACK_RANGES]) { memset(found, 0, STACK_RANGES * sizeof *found); }
uint32_t stack_release(uint32_t nodes, uint32_t codes, PyObject *objects[STACK_SWEPT]) {
    return nodes == codes && objects == NULL;
}

static char blocks[64][4096];

static const char *start_at(uint64_t interval, uint64_t seed) {
    struct sample_options options = {.interval = interval, .depth = 1, .seed = seed};
    sample_look_up();
    const char *refusal = sample_open(&options);
    sample_thread = (struct sample_thread){0}; /* this thread is the agent's and the target's in one */
    return refusal;
}

static const char *start(void) { return start_at(1, 1); }

static uint32_t living(void) {
    struct sample_stats stats;
    sample_stats(&stats);
    return stats.live;
}

/* -- a lock that somebody has and does not give back, who may be in another process ------------------------- */

/* What each of these becomes while the lock is taken: 1 where it is as it should be, bit by bit. */
int stuck_here(void);
int stuck_here(void) {
    if (start() != NULL)
        return 0;
    for (int i = 0; i < 32; i++)
        sample_new(blocks[i], 1000, SAMPLE_OBJECT);
    int good = living() == 32;

    sampler.lock = 1;
    sample_new(blocks[40], 1000, SAMPLE_OBJECT);
    sample_new(blocks[41], REST + 1, SAMPLE_OBJECT);
    struct sample_stats stats;
    sample_stats(&stats);
    good |= (stats.dropped == 2 && stats.live == 32 && !sample_missed()) << 1;
    good |= (sample_clock() == stats.clock && sample_set(2, 2, 0) != NULL) << 2;
    sample_untrack(blocks[50]); /* no sample, but the granule of none */
    good |= !sample_missed() << 3;
    sample_untrack(blocks[0]);
    good |= sample_missed() << 4;
    good |= (!sample_close() && sampler.is_open && !sample_is_on() && start() != NULL) << 5;
    sampler.on = true; /* as a reader finds it that comes before the end */
    good |= !sample_void() << 6;

    sampler.lock = 0;
    good |= (sample_void() && !sample_missed() && living() == 0) << 7;
    sample_new(blocks[42], 2 * REST, SAMPLE_OBJECT);
    good |= (living() == 1) << 8;
    good |= (sample_close() && !sampler.is_open) << 9;
    return good;
}

/* By how many bytes the clock is wrong of a thread that allocates while the lock is had by somebody, again and again, and
   meets marks meanwhile; without the lock it is asked once more whether an allocation failed. */
int64_t lost_in_wait(uint64_t interval, uint64_t other);
int64_t lost_in_wait(uint64_t interval, uint64_t other) {
    uint64_t allocated = 0, random = 1;
    if (start_at(interval, 1) != NULL)
        return INT64_MAX;
    for (int i = 0; i < 4000; i++) {
        uint64_t bytes = 1 + gaps_random(&random) % 20000;
        if (i == 2000)
            sample_set(other, 1, 0);
        sampler.lock = i % 16 > 8 && i > 100;
        if (sample_due(bytes))
            sample_draw(bytes);
        if (i % 64 == 60 && sampler.lock)
            sample_undo(bytes);
        else
            allocated += bytes;
        sampler.lock = 0;
    }
    int64_t wrong = (int64_t)(sample_clock() - allocated);
    sample_thread = (struct sample_thread){0};
    return sample_close() ? wrong : INT64_MAX;
}

/* A child that no handler of forks was told of, made while the lock was taken, samples anew. Its exit status; 0: well. */
int stuck_in_child(void);
int stuck_in_child(void) {
    if (start() != NULL)
        return -1;
    sampler.lock = 1;
    long child = raw_call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        sample_new(blocks[1], 1000, SAMPLE_OBJECT);
        const char *refusal = start();
        sample_new(blocks[1], 1000, SAMPLE_OBJECT);
        int status = refusal != NULL ? 1 : living() != 1 ? 2 : !sample_close() ? 3 : 0;
        raw_call(SYS_exit_group, status, 0, 0, 0, 0);
    }
    sampler.lock = 0;
    int status = -1;
    waitpid((pid_t)child, &status, 0);
    return sample_close() ? status : -2;
}

enum { TRAP_FLAG = 0x100 }; /* of the processor: SIGTRAP after each instruction */
static bool is_child;
static int forks, worst; /* exit status of a child */

static void fork_here(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        is_child = true;
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    waitpid(child, &status, 0);
    forks++;
    worst = status != 0 ? status : worst;
}

static void step_by_step(void) {
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
    sample_new(blocks[1], 1000, SAMPLE_OBJECT);
    sample_put_back(blocks[1], sample_lift(blocks[1]));
    sample_untrack(blocks[0]);
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(uint64_t)TRAP_FLAG);
}

static int go_on_as_child(void) {
    sample_untrack(blocks[1]);
    sample_new(blocks[2], 2 * REST, SAMPLE_OBJECT);
    if (sample_is_on() || sampler.lock != 0)
        return 1;
    if (start() != NULL)
        return 2;
    sample_new(blocks[3], 1000, SAMPLE_OBJECT);
    return living() != 1 ? 3 : sample_close() ? 0 : 4;
}

/* The children of forks that a signal handler makes at every instruction of some samples, and that return there. What one
   of them ended by that did not go on well; 0: none. */
int forked_in_samples(void);
int forked_in_samples(void) {
    struct sigaction action = {.sa_sigaction = fork_here, .sa_flags = SA_SIGINFO}, before;
    if (start() != NULL)
        return -1;
    sample_new(blocks[0], 1000, SAMPLE_OBJECT);
    sigaction(SIGTRAP, &action, &before);
    step_by_step();
    if (is_child)
        _exit(go_on_as_child());
    sigaction(SIGTRAP, &before, NULL);
    return living() != 1 ? -2 : forks < 100 ? -3 : sample_close() ? worst : -4;
}

/* -- sizes that nobody can have ----------------------------------------------------------------------------- */

enum counted { NOT_AT_ALL, UNTIL_IT_FAILED, WRONGLY };

static enum counted fail_with(uint64_t size) {
    uint64_t before = sample_clock();
    int64_t left = sample_thread.left;
    bool sampled = sample_due(size) && sample_draw(size) != 0;
    uint64_t during = sample_clock();
    sample_undo(size);
    if (sample_clock() != before)
        return WRONGLY;
    if (sampled)
        return during == before + size ? UNTIL_IT_FAILED : WRONGLY;
    return during == before && sample_thread.left == left ? NOT_AT_ALL : WRONGLY;
}

/* Whether those are not counted, not even for the time that they are asked for; and one that may be is. */
int enormous(void);
int enormous(void) {
    int good = 0;
    uint64_t largest = (uint64_t)1 << 47;
    if (start_at(4096, 1) != NULL)
        return good;
    good |= fail_with((uint64_t)1 << 62) == NOT_AT_ALL; /* by a thread that takes no part yet */
    for (int i = 0; i < 32; i++)
        sample_new(blocks[i], 1000, SAMPLE_OBJECT);
    good |= (fail_with(largest + 1) == NOT_AT_ALL) << 1;
    good |= (fail_with(INT64_MAX) == NOT_AT_ALL) << 2;
    struct sample_stats stats;
    sample_stats(&stats);
    good |= (stats.clock < 64000) << 3;
    good |= (fail_with(largest) == UNTIL_IT_FAILED) << 4;
    good |= sample_close() << 5;
    return good;
}

/* -- what an image knows, of a session that is over by the time it says so ----------------------------------- */

/* Whether the type of a block that lived in an earlier session is refused, and that of one in this session taken. */
int told_late(void);
int told_late(void) {
    struct sample_found earlier = {0}, now = {0};
    uint32_t first = 0, again = 0;
    if (start() != NULL)
        return 0;
    sample_new(blocks[1], 1000, SAMPLE_OBJECT);
    int good = sample_freeze(false) && sample_next(&first, &earlier);
    sample_thaw(false);
    if (!sample_close() || start() != NULL)
        return 0;
    sample_new(blocks[2], 1000, SAMPLE_OBJECT);
    good |= (sample_freeze(false) && sample_next(&again, &now) && now.id == earlier.id) << 1;
    sample_thaw(false);
    good |= !sample_set_type(earlier.id, earlier.birth, 7) << 2;
    good |= sample_set_type(now.id, now.birth, 8) << 3;
    good |= sample_close() << 4;
    return good;
}

/* -- the countdown ------------------------------------------------------------------------------------------ */

struct drawn {
    double allocated, estimate; /* bytes */
    double clock;               /* as the agent reads it */
    double own;                 /* the clock of one thread, where there was but one; else 0 */
    double first;               /* bytes allocated when a thread first took part, at most */
};

/* Threads one after the other, each of which allocates so many blocks, of 1 to 2 * size bytes. In the middle of each the
   rate is the other one. ``again``: all of that in a second session, after as much in one at ``again`` bytes. */
void draw(uint64_t seed, uint64_t interval, uint64_t other, uint64_t again, int threads, int count, uint64_t size,
          struct drawn *found);
void draw(uint64_t seed, uint64_t interval, uint64_t other, uint64_t again, int threads, int count, uint64_t size,
          struct drawn *found) {
    uint64_t random = seed;
    struct sample_stats stats;
    *found = (struct drawn){0};
    if (again != 0) {
        start_at(again, seed);
        for (int i = 0; i < count; i++) {
            uint64_t bytes = 1 + gaps_random(&random) % (2 * size);
            if (sample_due(bytes))
                sample_draw(bytes);
        }
        sample_close();
    }
    struct sample_thread kept = sample_thread;
    start_at(interval, seed);
    for (int thread = 0; thread < threads; thread++) {
        sample_thread = again != 0 ? kept : (struct sample_thread){0};
        double mine = 0;
        bool takes_part = false;
        for (int i = 0; i < count; i++) {
            if (other != 0 && (i == 0 || i == count / 2))
                sample_set(i == 0 ? interval : other, 1, 0);
            uint64_t bytes = 1 + gaps_random(&random) % (2 * size);
            mine += (double)bytes;
            uint64_t by = sample_due(bytes) ? sample_draw(bytes) : 0;
            if (by != 0)
                found->estimate += (double)bytes / -expm1((double)bytes * log1p(-1.0 / (double)by));
            takes_part = takes_part || sample_thread.session == sampler.opened;
            if (!takes_part && mine > found->first)
                found->first = mine;
        }
        found->allocated += mine;
        found->own = threads == 1 ? (double)sample_clock() : 0;
    }
    sample_thread = (struct sample_thread){0};
    sample_stats(&stats);
    found->clock = (double)(int64_t)sampler.granted;
    sample_close();
}

/* -- the quota ---------------------------------------------------------------------------------------------- */

struct paced {
    double allocated, estimate, own; /* bytes; own: the clock */
    double samples, interval;        /* interval: in force at the end */
};

/* One thread allocates so many blocks, of 1 to 2 * size bytes. */
void pace(uint64_t seed, uint64_t interval, uint32_t quota, int count, uint64_t size, struct paced *found);
void pace(uint64_t seed, uint64_t interval, uint32_t quota, int count, uint64_t size, struct paced *found) {
    uint64_t random = seed;
    *found = (struct paced){0};
    start_at(interval, seed);
    sample_set(interval, 1, quota);
    for (int i = 0; i < count; i++) {
        uint64_t bytes = 1 + gaps_random(&random) % (2 * size);
        found->allocated += (double)bytes;
        uint64_t by = sample_due(bytes) ? sample_draw(bytes) : 0;
        if (by != 0) {
            found->estimate += (double)bytes / -expm1((double)bytes * log1p(-1.0 / (double)by));
            found->samples++;
        }
    }
    found->own = (double)sample_clock();
    found->interval = (double)sampler.interval;
    sample_thread = (struct sample_thread){0};
    sample_close();
}
