/* The sampler's tables with a lock that somebody has and does not give back, who may be in another process. In the
 * place of stacks: nothing. */
#include "sample.c"

#include <signal.h>
#include <sys/wait.h>

bool stack_open(struct budget *budget) { return budget != NULL; }
uint32_t stack_take(uint32_t depth, bool has_gil) { return depth == 0 && has_gil; }
void stack_make_room(void) {}
void stack_detach(void) {}
void stack_disown(void) {}
void stack_forget(void) {}
void stack_close(struct budget *budget) { (void)budget; }
uint32_t stack_let_go(uint32_t nodes, uint32_t codes, PyObject *objects[STACK_SWEPT]) {
    return nodes == codes && objects == NULL;
}

static char blocks[64][4096];

static const char *begin(void) {
    struct sample_options options = {.interval = 1, .depth = 1, .seed = 1};
    const char *refusal = sample_open(&options);
    sample_thread = (struct sample_thread){0}; /* this thread is the agent's and the target's in one */
    return refusal;
}

static uint32_t living(void) {
    struct sample_stats stats;
    sample_stats(&stats);
    return stats.live;
}

/* What each of these becomes while the lock is taken: 1 where it is as it should be, bit by bit. */
int stuck_here(void);
int stuck_here(void) {
    if (begin() != NULL)
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
    good |= (sample_clock() == stats.clock && sample_set(2, 2) != NULL) << 2;
    sample_untrack(blocks[50]); /* no sample, but the granule of none */
    good |= !sample_missed() << 3;
    sample_untrack(blocks[0]);
    good |= sample_missed() << 4;
    good |= (!sample_close() && sampler.is_open && !sample_is_on() && begin() != NULL) << 5;
    sampler.on = true; /* as a reader finds it that comes before the end */
    good |= !sample_void() << 6;

    sampler.lock = 0;
    good |= (sample_void() && !sample_missed() && living() == 0) << 7;
    sample_new(blocks[42], 2 * REST, SAMPLE_OBJECT);
    good |= (living() == 1) << 8;
    good |= (sample_close() && !sampler.is_open) << 9;
    return good;
}

/* A child that no handler of forks was told of, made while the lock was taken, samples anew. Its exit status; 0: well. */
int stuck_in_child(void);
int stuck_in_child(void) {
    if (begin() != NULL)
        return -1;
    sampler.lock = 1;
    long child = raw_call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        sample_new(blocks[1], 1000, SAMPLE_OBJECT);
        const char *refusal = begin();
        sample_new(blocks[1], 1000, SAMPLE_OBJECT);
        int status = refusal != NULL ? 1 : living() != 1 ? 2 : !sample_close() ? 3 : 0;
        raw_call(SYS_exit_group, status, 0, 0, 0, 0);
    }
    sampler.lock = 0;
    int status = -1;
    waitpid((pid_t)child, &status, 0);
    return sample_close() ? status : -2;
}
