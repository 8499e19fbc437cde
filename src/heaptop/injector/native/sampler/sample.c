/* sample: the countdown, the records and their chain. */
#include "sampler/sample.h"

#include "lookup.h"
#include "sampler/gaps.h"
#include "sampler/index.h"
#include "sampler/stack.h"

enum state { FREE, NEW, LIVE, DEAD, BORN_DEAD };

struct record {
    union {
        uint64_t block; /* of the living */
        uint64_t died;  /* of the dead: the clock */
    };
    uint64_t born, size; /* born: the clock */
    uint32_t stack, type /* number + 1 */, birth;
    uint32_t next; /* in the chain, or among the free: position + 1 */
    uint8_t domain, interval, state;
    bool fresh; /* no object has begun in it yet */
    uint16_t turn, lives; /* of objects that a free list gave the block to, in that turn */
};

/* Of what is not used nothing is touched. The index is large at once: to grow it is to look at every block again. */
enum { FIRST_RECORDS = 1 << 17, FIRST_INDEX = 1 << 20, LEAST_KNOWN = 1024 };
enum { REST = 1 << 16 };        /* bytes after which a thread looks again whether sampling is on */
#define LONGEST ((int64_t)1 << 17) /* countdown: so that a change of the rate is met soon, and the clock is never far off */
#define HUGE (INT64_MAX / 2)    /* never */
#define AGENTS UINT64_MAX       /* ``interval`` of the agent's thread */
#define LONGEST_INTERVAL ((uint64_t)1 << 40)

__thread struct sample_thread sample_thread __attribute__((tls_model(SAMPLE_TLS)));
uint8_t sample_granules[SAMPLE_GRANULES] __attribute__((aligned(MACHINE_PAGE_MOST)));

/* Pauses that a lock is waited for: 60 to 200 ms. On a busy machine a thread that is in the tables, without the GIL or
   with that of another interpreter, may well not run for 10. */
enum { PATIENCE = 1 << 22 };

/* Guarded by ``lock``, but for the first line. ``is_open``: there are tables. In a fork's child they stay until somebody
   opens or closes. */
static struct {
    uint64_t lock; /* who has it (this_thread), or 0 */
    uint32_t patience;
    uint64_t dropped;
    bool on, missed; /* missed: somebody did not get the lock, and something is not as the tables say */
    bool is_open;
    int64_t process; /* that opened them */
    struct budget budget;
    uint64_t interval, random;
    double scale; /* gaps_scale of the interval */
    uint32_t quota, limit, taken; /* limit: until the interval is doubled; taken: of these. With a quota */
    uint32_t depth, opened, session, epoch, births; /* opened: how often; session: how often records began anew */
    uint64_t intervals[SAMPLE_INTERVALS];
    uint32_t interval_count;
    uint64_t granted; /* the clock, and the excess of each thread that takes part. Unsigned: a size may be anything */
    uint64_t latest;  /* of all that was said of the clock */
    struct record *records;
    uint32_t record_count, record_room, living;
    uint32_t first_free, chain_first, chain_last; /* position + 1; 0: none */
    struct index blocks;
    struct sample_known *known; /* open addressing; NULL before the first census */
    uint32_t known_size;
} sampler = {.patience = PATIENCE};

_Static_assert(SAMPLE_RANGES == 3 + STACK_RANGES, "sample_ranges");

static uint64_t this_thread(void) { return (uint64_t)&sample_thread; }

static bool try_lock(void) {
    uint64_t nobody = 0;
    return __atomic_compare_exchange_n(&sampler.lock, &nobody, this_thread(), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Who has the lock may not be running: then nobody waits for long, and until it is free again each next one hardly. */
static __attribute__((noinline)) bool wait_and_lock(void) {
    for (uint32_t left = __atomic_load_n(&sampler.patience, __ATOMIC_RELAXED); left > 0; left--) {
        machine_pause();
        if (try_lock()) {
            __atomic_store_n(&sampler.patience, PATIENCE, __ATOMIC_RELAXED);
            return true;
        }
    }
    __atomic_store_n(&sampler.patience, 1, __ATOMIC_RELAXED);
    return false;
}

#define ALWAYS_INLINE inline __attribute__((always_inline)) /* each sample goes through it */

static ALWAYS_INLINE bool lock(void) { return __builtin_expect(try_lock(), 1) || wait_and_lock(); }

static void unlock(void) { __atomic_store_n(&sampler.lock, 0, __ATOMIC_RELEASE); }

/* Where sampling is on, with the lock; else false, without. */
static ALWAYS_INLINE bool enter(void) {
    if (!lock())
        return false;
    if (__builtin_expect(sampler.on, 1))
        return true;
    unlock();
    return false;
}

/* As enter, for what has to be said: who does not get in leaves all samples void. */
static ALWAYS_INLINE bool enter_or_miss(void) {
    if (enter())
        return true;
    if (__atomic_load_n(&sampler.on, __ATOMIC_RELAXED))
        __atomic_store_n(&sampler.missed, true, __ATOMIC_RELAXED);
    return false;
}

static void drop(void) { __atomic_fetch_add(&sampler.dropped, 1, __ATOMIC_RELAXED); }

/* -- the countdown ------------------------------------------------------------------------------------------ */

/* ``session`` is 0 in the agent's thread, and in one that has drawn nothing. */
static bool takes_part(const struct sample_thread *t) { return t->session == sampler.opened; }

/* How much further the thread's next mark is expected to be than on the average: 0, over all threads. The mean of what
   is left of a gap is the interval, at any time; where only the countdown's end is known to come before the mark, it is
   that of the countdown and another interval. */
static uint64_t excess(const struct sample_thread *t) {
    return (uint64_t)t->left - (t->is_cut ? 0 : t->interval) - (uint64_t)t->uncounted;
}

static double scale_of(uint64_t interval) { return interval == sampler.interval ? sampler.scale : gaps_scale(interval); }

static ALWAYS_INLINE void draw_gap(struct sample_thread *t) {
    int64_t gap = gaps_draw(&sampler.random, sampler.scale);
    bool is_cut = gap >= LONGEST;
    *t = (struct sample_thread){is_cut ? LONGEST : gap, sampler.interval, sampler.opened, is_cut, 0};
}

/* The thread takes part from this block on. */
static __attribute__((noinline)) void begin(struct sample_thread *thread, size_t size) {
    draw_gap(thread);
    sampler.granted += excess(thread);
    thread->left -= (int64_t)size;
}

/* Without the lock: look again later. A thread that takes part continues in that, and no mark is met up to there. */
static __attribute__((noinline)) void draw_later(struct sample_thread *t) {
    bool on = __atomic_load_n(&sampler.on, __ATOMIC_RELAXED);
    if (on)
        drop(); /* as far as known */
    if (on && t->interval != 0)
        *t = (struct sample_thread){REST, t->interval, t->session, true, (int64_t)(REST - excess(t))};
    else
        *t = (struct sample_thread){.left = REST};
}

static void put_in_force(uint64_t interval) {
    sampler.interval = interval;
    sampler.scale = gaps_scale(interval);
    sampler.taken = 0;
}

static void set_quota(uint32_t quota) { sampler.quota = sampler.limit = quota; }

/* A block was hit. The more often the interval was doubled, the sooner it is again: down to an eighth of the quota. */
static ALWAYS_INLINE void count_hit(void) {
    if (sampler.quota == 0 || ++sampler.taken < sampler.limit || sampler.interval >= SAMPLE_COARSEST)
        return;
    put_in_force(2 * sampler.interval);
    if (sampler.limit > sampler.quota / 8)
        sampler.limit = (sampler.limit + 1) / 2;
}

uint64_t sample_draw(size_t size) {
    struct sample_thread *thread = &sample_thread;
    if (thread->interval == AGENTS) {
        thread->left = HUGE;
        return 0;
    }
    if (size > SAMPLE_LARGEST) {
        thread->left += (int64_t)size;
        return 0;
    }
    if (!enter()) {
        draw_later(thread);
        return 0;
    }
    if (thread->interval == 0)
        begin(thread, size);
    uint64_t interval = 0;
    if (thread->left < 0) {
        uint64_t before = excess(thread);
        if (thread->is_cut) /* there was no mark up to here; the rest of the block is as the beginning of it */
            thread->left += gaps_draw(&sampler.random, scale_of(thread->interval));
        if (thread->left < 0) {
            interval = thread->interval;
            count_hit();
        }
        draw_gap(thread);
        sampler.granted += excess(thread) - before;
    }
    unlock();
    return interval;
}

void sample_undo(size_t size) {
    struct sample_thread *thread = &sample_thread;
    if (size > SAMPLE_LARGEST || thread->interval == AGENTS || thread->interval == 0)
        return;
    if (enter()) {
        sampler.granted -= size;
        unlock();
    } else if (__atomic_load_n(&sampler.on, __ATOMIC_RELAXED)) {
        thread->uncounted -= (int64_t)size;
    }
}

/* The clock for the calling thread. */
static ALWAYS_INLINE uint64_t clock_now(void) {
    const struct sample_thread *thread = &sample_thread;
    int64_t now = (int64_t)(sampler.granted - (takes_part(thread) ? excess(thread) : 0));
    uint64_t said = now < 0 ? 0 : (uint64_t)now;
    if (said > sampler.latest)
        sampler.latest = said;
    return said;
}

/* -- records ------------------------------------------------------------------------------------------------ */

static uint32_t hash_of_block(uint64_t block) {
    uint64_t x = (block >> 4) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(x >> 32);
}

static uint32_t hash_of_record(uint32_t id) { return hash_of_block(sampler.records[id].block); }

static void count_granule(uint64_t block, int change) {
    uint8_t *granule = sample_granule((void *)block);
    if (*granule != UINT8_MAX)
        __atomic_store_n(granule, *granule + change, __ATOMIC_RELAXED);
}

/* The block's place in the index; the index's size when it has none. */
static uint32_t place_of(uint64_t block) {
    const struct index *index = &sampler.blocks;
    uint32_t place = index_place(index, hash_of_block(block));
    for (; index->slots[place] != 0; place = index_next(index, place))
        if (sampler.records[index->slots[place] - 1].block == block)
            return place;
    return index->size;
}

/* Have nobody find the record any more. Its id. */
static uint32_t take_out(uint32_t place) {
    uint32_t id = sampler.blocks.slots[place] - 1;
    count_granule(sampler.records[id].block, -1);
    index_remove(&sampler.blocks, place, hash_of_record);
    return id;
}

/* There is room. */
static void put_in(uint32_t id) {
    index_add(&sampler.blocks, hash_of_record(id), id);
    count_granule(sampler.records[id].block, 1);
}

static bool has_room(void) {
    return index_has_room(&sampler.blocks) && (sampler.first_free != 0 || sampler.record_count < sampler.record_room);
}

static uint32_t free_id(void) {
    if (sampler.first_free == 0)
        return sampler.record_count++;
    uint32_t id = sampler.first_free - 1;
    sampler.first_free = sampler.records[id].next;
    return id;
}

static void chain(uint32_t id) {
    sampler.records[id].next = 0;
    if (sampler.chain_last == 0)
        sampler.chain_first = id + 1;
    else
        sampler.records[sampler.chain_last - 1].next = id + 1;
    sampler.chain_last = id + 1;
}

/* The place of a type in a table, or the free one where it would be. */
static struct sample_known *place_of_type(struct sample_known *table, uint32_t size, const void *type) {
    uint32_t place = hash_of_block((uint64_t)type) & (size - 1);
    while (table[place].type != NULL && table[place].type != type)
        place = (place + 1) & (size - 1);
    return &table[place];
}

/* While the block is still there. */
static void learn_type(struct record *r) {
    enum { TYPE_AT = 8, STEP = 16, MOST_BEFORE = 32 }; /* the collector's head, and what an instance keeps there */
    if (r->domain != SAMPLE_OBJECT || sampler.known == NULL)
        return;
    for (uint32_t before = 0; before <= MOST_BEFORE && r->size >= before + TYPE_AT + sizeof(void *); before += STEP) {
        const void *type = *(void **)(r->block + before + TYPE_AT);
        const struct sample_known *known = place_of_type(sampler.known, sampler.known_size, type);
        if (type != NULL && known->type == type && known->before == before) {
            r->type = known->number + 1;
            return;
        }
    }
}

static void die(uint32_t id) {
    struct record *r = &sampler.records[id];
    uint64_t now = clock_now();
    r->died = now < r->born ? r->born : now; /* another thread's clock may be behind */
    sampler.living--;
    if (r->state == NEW) {
        r->state = BORN_DEAD;
    } else {
        r->state = DEAD;
        chain(id);
    }
}

static void die_found(uint32_t place) {
    learn_type(&sampler.records[sampler.blocks.slots[place] - 1]);
    die(take_out(place));
}

/* The position of an interval in the session's list; -1 when that is full. */
static int position_of(uint64_t interval) {
    for (uint32_t i = 0; i < sampler.interval_count; i++)
        if (sampler.intervals[i] == interval)
            return (int)i;
    if (sampler.interval_count == SAMPLE_INTERVALS)
        return -1;
    sampler.intervals[sampler.interval_count] = interval;
    return (int)sampler.interval_count++;
}

static void be_born(struct record born, bool has_gil) {
    born.stack = stack_take(sampler.depth, has_gil);
    if (born.stack == STACK_OWN)
        return; /* no allocation of the program's */
    if (born.stack == STACK_FULL || !has_room()) {
        drop();
        return;
    }
    uint32_t id = free_id();
    born.born = clock_now();
    born.birth = sampler.births++;
    born.state = NEW;
    sampler.records[id] = born;
    sampler.living++;
    put_in(id);
    chain(id);
}

void sample_follow(void *block, size_t size, int domain, uint64_t interval) {
    if (!enter_or_miss()) /* another may be followed there */
        return;
    uint32_t place = place_of((uint64_t)block);
    if (place != sampler.blocks.size)
        die(take_out(place)); /* what is there now is not what died */
    int position = position_of(interval);
    if (position < 0)
        drop();
    else
        be_born((struct record){.block = (uint64_t)block,
                                .size = size,
                                .domain = (uint8_t)domain,
                                .interval = (uint8_t)position,
                                .fresh = true},
                domain != SAMPLE_ARRAY);
    unlock();
}

void sample_track(void *block, size_t size, int domain) {
    uint64_t interval = sample_draw(size);
    if (interval != 0)
        sample_follow(block, size, domain, interval);
}

void sample_forget(void *block) {
    if (!enter_or_miss())
        return;
    uint32_t place = place_of((uint64_t)block);
    if (place != sampler.blocks.size)
        die_found(place);
    unlock();
}

/* What is lifted is told by its id, and the session that it belongs to. */
static uint64_t lifted_of(uint32_t id) { return (uint64_t)sampler.session << 32 | (id + 1); }

uint64_t sample_lift(void *block) {
    if (!enter_or_miss())
        return 0;
    uint64_t lifted = 0;
    uint32_t place = place_of((uint64_t)block);
    if (place != sampler.blocks.size) {
        learn_type(&sampler.records[sampler.blocks.slots[place] - 1]);
        lifted = lifted_of(take_out(place));
    }
    unlock();
    return lifted;
}

void sample_drop(uint64_t lifted) {
    if (lifted == 0 || !enter_or_miss())
        return;
    if (lifted >> 32 == sampler.session)
        die((uint32_t)lifted - 1);
    unlock();
}

void sample_put_back(void *block, uint64_t lifted) {
    if (lifted == 0 || !enter_or_miss())
        return;
    uint32_t id = (uint32_t)lifted - 1;
    if (lifted >> 32 == sampler.session) {
        sampler.records[id].block = (uint64_t)block;
        if (index_has_room(&sampler.blocks))
            put_in(id);
        else
            die(id); /* others took the room; it cannot be followed */
    }
    unlock();
}

bool sample_reborn(void *block, uint16_t turn, bool follow) {
    if (!enter_or_miss())
        return false;
    uint32_t place = place_of((uint64_t)block);
    struct record *r = place == sampler.blocks.size ? NULL : &sampler.records[sampler.blocks.slots[place] - 1];
    bool again = r != NULL && !r->fresh;
    if (again) {
        struct record next = {.block = r->block, .size = r->size, .domain = r->domain, .interval = r->interval, .turn = turn};
        next.lives = r->turn == turn ? r->lives + 1 : 1;
        die(take_out(place)); /* the type in the block is the new object's already */
        if (follow && next.lives <= SAMPLE_LIVES)
            be_born(next, true);
        else
            drop();
    } else if (r != NULL) {
        r->fresh = false;
    }
    unlock();
    return again;
}

/* -- types -------------------------------------------------------------------------------------------------- */

static void fill_known(struct sample_known *table, uint32_t size, const char *packed, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct sample_known one;
        memcpy(&one, packed + i * sizeof one, sizeof one);
        *place_of_type(table, size, one.type) = one;
    }
}

int sample_know_types(const void *packed, uint32_t count) {
    uint32_t size = LEAST_KNOWN, old_size = sampler.known_size;
    while (size < 2 * count && size < UINT32_MAX / 4)
        size *= 2;
    struct sample_known *table = budget_map(&sampler.budget, size * sizeof *table), *old = table;
    if (table == NULL)
        return -1;
    fill_known(table, size, packed, count);
    bool done = enter();
    if (done) {
        old = sampler.known;
        sampler.known = table;
        sampler.known_size = size;
        unlock();
    }
    budget_unmap(&sampler.budget, old, (done ? old_size : size) * sizeof *old);
    return done ? 0 : -1;
}

bool sample_next_known(uint32_t *position, struct sample_known *found) {
    uint32_t end = sampler.known == NULL ? 0 : sampler.known_size;
    while (*position < end) {
        *found = sampler.known[(*position)++];
        if (found->type != NULL)
            return true;
    }
    return false;
}

bool sample_freeze(bool is_image) { return is_image ? sampler.on && sampler.lock == 0 : enter(); }

void sample_thaw(bool is_image) {
    if (!is_image)
        unlock();
}

static struct sample_found found_at(uint32_t id) {
    const struct record *r = &sampler.records[id];
    return (struct sample_found){.block = (const char *)r->block,
                                 .size = r->size,
                                 .id = id,
                                 .birth = r->birth,
                                 .type = r->type,
                                 .stack = r->stack,
                                 .domain = r->domain};
}

bool sample_next(uint32_t *position, struct sample_found *found) {
    for (uint32_t id = *position; id < sampler.record_count; id++) {
        const struct record *r = &sampler.records[id];
        if (r->state != NEW && r->state != LIVE)
            continue;
        *found = found_at(id);
        *position = id + 1;
        return true;
    }
    *position = sampler.record_count;
    return false;
}

bool sample_find(const void *block, struct sample_found *found) {
    uint32_t place = place_of((uint64_t)block);
    if (place == sampler.blocks.size)
        return false;
    *found = found_at(sampler.blocks.slots[place] - 1);
    return true;
}

bool sample_set_type(uint32_t id, uint32_t birth, uint32_t number) {
    if (!enter())
        return false;
    struct record *r = id < sampler.record_count ? &sampler.records[id] : NULL;
    bool lives = r != NULL && (r->state == NEW || r->state == LIVE) && r->birth == birth;
    if (lives)
        r->type = number + 1;
    unlock();
    return lives;
}

/* -- reading ------------------------------------------------------------------------------------------------ */

static unsigned char *put(unsigned char *out, const void *value, size_t size) {
    memcpy(out, value, size);
    return out + size;
}

static void write_birth(unsigned char *out, uint32_t id, const struct record *r) {
    const uint8_t last[4] = {r->domain, r->interval, 0, 0};
    out = put(out, &id, 4);
    out = put(out, &r->stack, 4);
    out = put(out, &r->born, 8);
    out = put(out, &r->size, 8);
    out = put(out, &r->type, 4);
    put(out, last, 4);
}

static void write_death(unsigned char *out, uint32_t id, const struct record *r) {
    out = put(out, &id, 4);
    out = put(out, &r->type, 4);
    put(out, &r->died, 8);
}

void sample_drain(uint32_t limit, uint32_t stack_end, unsigned char *births, uint32_t *birth_count, unsigned char *deaths,
                  uint32_t *death_count) {
    *birth_count = *death_count = 0;
    if (!enter())
        return;
    for (uint32_t i = 0; i < limit && sampler.chain_first != 0; i++) {
        uint32_t id = sampler.chain_first - 1;
        struct record *r = &sampler.records[id];
        if (r->stack >= stack_end)
            break;
        sampler.chain_first = r->next;
        if (r->state != DEAD)
            write_birth(births + SAMPLE_BIRTH_BYTES * (*birth_count)++, id, r);
        if (r->state == NEW) {
            r->state = LIVE;
            continue;
        }
        write_death(deaths + SAMPLE_DEATH_BYTES * (*death_count)++, id, r);
        r->state = FREE;
        r->next = sampler.first_free;
        sampler.first_free = id + 1;
    }
    if (sampler.chain_first == 0)
        sampler.chain_last = 0;
    unlock();
}

void sample_stats(struct sample_stats *stats) {
    bool is_still = lock();
    *stats = (struct sample_stats){.on = sampler.on,
                                   .dropped = sampler.dropped,
                                   .epoch = sampler.epoch,
                                   .bytes = sampler.budget.used,
                                   .interval_count = sampler.interval_count};
    memcpy(stats->intervals, sampler.intervals, sizeof stats->intervals);
    if (sampler.on) {
        if (is_still)
            clock_now();
        stats->interval = sampler.interval;
        stats->depth = sampler.depth;
        stats->live = sampler.living;
        stats->more = sampler.chain_first != 0;
    }
    stats->clock = sampler.latest;
    if (is_still)
        unlock();
}

void sample_ranges(struct pages_range found[SAMPLE_RANGES]) {
    found[0] = (struct pages_range){sampler.records, sampler.record_room * sizeof *sampler.records};
    found[1] = (struct pages_range){sampler.known, sampler.known_size * sizeof *sampler.known};
    found[2] = (struct pages_range){sampler.blocks.slots, sampler.blocks.size * sizeof *sampler.blocks.slots};
    stack_ranges(found + 3);
}

uint64_t sample_clock(void) {
    if (!enter())
        return sampler.latest;
    uint64_t now = clock_now();
    unlock();
    return now;
}

/* -- room --------------------------------------------------------------------------------------------------- */

/* Twice the records, where half of them are taken. False when that cannot be. */
static bool grow_records(void) {
    uint32_t room = sampler.record_room;
    if (2 * sampler.record_count < room)
        return true;
    void *larger = NULL;
    if (room <= UINT32_MAX / 4)
        larger =
            budget_grow(&sampler.budget, sampler.records, room * sizeof *sampler.records, 2 * room * sizeof *sampler.records);
    if (larger == NULL)
        return false;
    sampler.records = larger;
    sampler.record_room = 2 * room;
    return true;
}

bool sample_make_room(void) {
    if (!enter())
        return true;
    __atomic_store_n(&sampler.patience, PATIENCE, __ATOMIC_RELAXED); /* whoever had the lock has given it back */
    bool done = grow_records();
    if (4 * sampler.blocks.count >= sampler.blocks.size)
        done = index_grow(&sampler.blocks, &sampler.budget, hash_of_record) && done;
    done = stack_make_room() && done;
    unlock();
    return done;
}

void sample_release(uint32_t nodes, uint32_t codes) {
    static PyObject *objects[STACK_SWEPT]; /* for the agent's thread alone */
    if (!enter())
        return;
    uint32_t count = stack_release(nodes, codes, objects);
    unlock();
    for (uint32_t i = 0; i < count; i++)
        Py_DecRef(objects[i]);
}

/* -- coming and going --------------------------------------------------------------------------------------- */

/* Whole pages. Those that are locked (mlock) are not given back. */
static void clear_pages(void *pages, size_t size) {
    if (raw_failed(raw_call(SYS_madvise, (long)pages, (long)size, MADV_DONTNEED, 0, 0)))
        memset(pages, 0, size);
}

static void clear_granules(void) {
    raw_call(SYS_madvise, (long)sample_granules, sizeof sample_granules, MADV_NOHUGEPAGE, 0, 0); /* as pages_map */
    clear_pages(sample_granules, sizeof sample_granules);
}

/* In a fork's child: the other threads are gone, one of them perhaps with the lock. */
static void begin_in_child(void) {
    sampler.on = false;
    if (sampler.lock != 0) { /* somebody was changing the tables: where they are is not known, so they are left there */
        sampler.is_open = false;
        sampler.records = NULL;
        sampler.known = NULL;
        sampler.blocks = (struct index){0};
        stack_forget();
    }
    sampler.lock = 0;
    sampler.patience = PATIENCE;
    sample_thread = (struct sample_thread){0};
}

/* After a fork, in the child. Where a signal handler made it in the middle of a sample, the thread returns there, and needs
   its copy of the tables and the lock to come to its end. */
static void in_child(void) {
    if (sampler.lock == this_thread())
        sampler.on = false;
    else
        begin_in_child();
}

static int (*at_fork)(void (*)(void), void (*)(void), void (*)(void), const void *);
static int (*at_fork_of_musl)(void (*)(void), void (*)(void), void (*)(void));

void sample_look_up(void) {
    *(void **)&at_fork = lookup_symbol("__register_atfork"); /* what glibc's pthread_atfork calls, in no shared library */
    *(void **)&at_fork_of_musl = lookup_symbol("pthread_atfork");
}

static bool watch_forks(void) {
    static bool watched;
    static const char ours; /* tells the C library which handlers go when a library is unloaded: never, here */
    if (watched)
        return true;
    if (at_fork != NULL)
        watched = at_fork(NULL, NULL, in_child, &ours) == 0;
    else if (at_fork_of_musl != NULL)
        watched = at_fork_of_musl(NULL, NULL, in_child) == 0;
    return watched;
}

static bool watches_end; /* of the interpreter that is there now */

/* The interpreter has ended (Py_Finalize): nobody reads any more, and a next one may begin. */
static void at_end(void) {
    watches_end = false;
    bool is_still = lock();
    sampler.on = false;
    stack_disown();
    if (is_still)
        unlock();
}

static bool watch_end(void) {
    if (!watches_end)
        watches_end = Py_AtExit(at_end) == 0;
    return watches_end;
}

/* Records, index and chain as they are at first. Granules: cleared first, so that no counter goes below 0. */
static void clear_records(void) {
    clear_granules();
    if (sampler.blocks.count != 0) /* fresh ones are not touched */
        clear_pages(sampler.blocks.slots, sampler.blocks.size * sizeof *sampler.blocks.slots);
    sampler.blocks.count = 0;
    sampler.record_count = sampler.living = 0;
    sampler.first_free = sampler.chain_first = sampler.chain_last = 0;
    sampler.session++;
}

bool sample_void(void) {
    if (!enter())
        return false;
    clear_records();
    sampler.epoch++;
    sampler.missed = false;
    unlock();
    return true;
}

bool sample_missed(void) { return __atomic_load_n(&sampler.missed, __ATOMIC_RELAXED); }

static bool open_tables(void) {
    struct budget *budget = &sampler.budget;
    sampler.record_room = FIRST_RECORDS;
    sampler.records = budget_map(budget, FIRST_RECORDS * sizeof *sampler.records);
    bool done = index_open(&sampler.blocks, budget, FIRST_INDEX);
    return done && stack_open(budget) && sampler.records != NULL;
}

static const char *bad_rate(uint64_t interval, uint32_t depth) {
    if (interval < 1 || interval > LONGEST_INTERVAL)
        return "the interval is not between 1 byte and 1 TiB";
    return depth < 1 || depth > STACK_MAX_DEPTH ? "the depth is not between 1 and 1024 frames" : NULL;
}

/* The agent's thread may sleep, so that who has the lock can run. */
static bool wait_for_lock(void) {
    enum { TIMES = 50 };
    static const struct timespec rest = {0, 1000000};
    static const uint64_t no_signal;
    for (int i = 0; i < TIMES; i++) {
        if (lock())
            return true;
        raw_call(SYS_rt_sigtimedwait, (long)&no_signal, 0, (long)&rest, sizeof no_signal, 0); /* as the agent rests */
    }
    if (!sampler.is_open || sampler.process == raw_call(SYS_getpid, 0, 0, 0, 0, 0))
        return false;
    begin_in_child(); /* of which the C library did not tell; who had the lock is not here */
    return lock();
}

/* All but the granules, which are read only where hooks are. */
static bool close_tables(void) {
    sampler.on = false;
    if (!wait_for_lock())
        return false;
    bool was_open = sampler.is_open;
    struct record *records = sampler.records;
    struct sample_known *known = sampler.known;
    struct index blocks = sampler.blocks;
    sampler.is_open = false;
    sampler.records = NULL;
    sampler.known = NULL;
    sampler.blocks = (struct index){0};
    stack_detach();
    unlock();
    if (sample_thread.interval == AGENTS)
        sample_thread = (struct sample_thread){0};
    if (!was_open)
        return true;
    budget_unmap(&sampler.budget, records, sampler.record_room * sizeof *records);
    budget_unmap(&sampler.budget, known, sampler.known_size * sizeof *known);
    index_close(&blocks, &sampler.budget);
    stack_close(&sampler.budget);
    return true;
}

bool sample_close(void) {
    bool was_open = sampler.is_open, done = close_tables();
    if (was_open && done)
        clear_granules();
    return done;
}

void sample_leave(void) { close_tables(); }

const char *sample_open(const struct sample_options *options) {
    const char *refusal = bad_rate(options->interval, options->depth);
    if (refusal != NULL)
        return refusal;
    if (!watch_forks())
        return "this C library does not tell of forks";
    if (!watch_end())
        return "Py_AtExit has no free slot: heaptop cannot see when Python is finalized";
    if (!sample_close())
        return "a thread has not come out of the tables of samples";
    uint64_t seed = options->seed;
    if (seed == 0)
        raw_call(SYS_getrandom, (long)&seed, sizeof seed, 0, 0, 0);
    if (!wait_for_lock())
        return "a thread has not come out of the tables of samples";
    sampler.budget = (struct budget){.limit = options->bytes == 0 ? SAMPLE_BYTES : options->bytes};
    sampler.is_open = true;
    sampler.process = raw_call(SYS_getpid, 0, 0, 0, 0, 0);
    if (!open_tables()) {
        unlock();
        sample_close();
        return sampler.budget.was_short ? "half of the memory left is too little for the tables of samples"
                                        : "there is no memory for the tables of samples";
    }
    clear_records();
    stack_set_own(options->own);
    put_in_force(options->interval);
    set_quota(options->quota);
    sampler.depth = options->depth;
    sampler.random = seed != 0 ? seed : (uint64_t)raw_clock();
    sampler.epoch = sampler.interval_count = 0; /* births continue: an image may tell of an earlier session's */
    sampler.opened++;
    sampler.granted = 0;
    sampler.latest = sampler.dropped = 0;
    sampler.missed = false;
    position_of(options->interval);
    sample_thread = (struct sample_thread){.left = HUGE, .interval = AGENTS};
    sampler.on = true;
    unlock();
    return NULL;
}

bool sample_is_on(void) { return sampler.on; }

const char *sample_set(uint64_t interval, uint32_t depth, uint32_t quota) {
    const char *refusal = bad_rate(interval, depth);
    if (refusal != NULL)
        return refusal;
    if (!enter())
        return "sampling is off";
    bool known = position_of(interval) >= 0;
    if (known) {
        put_in_force(interval);
        set_quota(quota);
        sampler.depth = depth;
    }
    unlock();
    return known ? NULL : "the interval was changed too often";
}
