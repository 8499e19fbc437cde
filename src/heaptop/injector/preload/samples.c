/* samples: the countdown, the lock, and records. */
#define _GNU_SOURCE
#include "preload/samples.h"

#include "preload/sites.h"
#include "sampler/gaps.h"
#include "sampler/index.h"

#include <pthread.h>
#include <time.h>

enum { PATIENCE = 1 << 22 }; /* pauses, 60 to 200 ms, as in sampler/sample.c */
enum { QUOTA = 256, COARSEST = 22, SLOWEST_NS = 2000000000, FASTEST_NS = 250000000, MOST_MAPPINGS = 4096 };
#define REST ((int64_t)1 << 62)

__thread struct samples_thread samples_thread __attribute__((tls_model("initial-exec")));
uint8_t samples_granules[GRANULES] __attribute__((aligned(MACHINE_PAGE_MOST)));

static struct table *table;
static uint32_t *alive; /* not 0 but in a fork's child */
static struct index blocks;
static struct budget budget = {.limit = 4 << 20};
static uint32_t first_free; /* position + 1 */
static uint32_t mappings[MOST_MAPPINGS], mapping_count; /* records of kind MAPPING */
static uint64_t random_state, quota_began;
static uint32_t lock_word, patience = PATIENCE, quota_used;

/* -- who may be in the tables ------------------------------------------------------------------------------- */

static bool is_on(void) {
    uint32_t *page = __atomic_load_n(&alive, __ATOMIC_ACQUIRE);
    return page != NULL && *page != 0;
}

static bool try_lock(void) { return !__atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE); }

/* Who has the lock may have no processor: then nobody waits for long, and until it is free again each next one hardly. */
static bool lock(void) {
    for (uint32_t left = __atomic_load_n(&patience, __ATOMIC_RELAXED); left > 0; left--) {
        if (try_lock()) {
            __atomic_store_n(&patience, PATIENCE, __ATOMIC_RELAXED);
            return true;
        }
        machine_pause();
    }
    __atomic_store_n(&patience, 1, __ATOMIC_RELAXED);
    return false;
}

/* With the lock; else false, and ``*lost`` counts it where something is lost by that. Busy before the look: the child of a
   fork from here on has zeros in the table's place. */
static bool enter(uint64_t *lost) {
    struct samples_thread *thread = &samples_thread;
    const bool was_busy = thread->busy;
    thread->busy = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const bool on = is_on();
    if (on && !was_busy && lock())
        return true;
    if (on)
        __atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = was_busy;
    return false;
}

static void leave(void) {
    __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    samples_thread.busy = false;
}

/* -- the countdown ------------------------------------------------------------------------------------------ */

static uint64_t now(void) { /* the kernel's page, no system call */
    struct timespec time = {0, 0};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void set_interval(uint8_t interval) {
    table->interval = interval;
    if (interval > table->coarsest)
        table->coarsest = interval;
}

/* Coarser where a quota of samples came too fast, finer again where it took long. Only samples before a block decide at
   which interval it is drawn, so its chance is known. */
static void follow_rate(void) {
    if (++quota_used < QUOTA)
        return;
    uint64_t time = now(), took = time - quota_began;
    quota_used = 0;
    quota_began = time;
    if (took < FASTEST_NS && table->interval < COARSEST)
        set_interval(table->interval + 1);
    else if (took > SLOWEST_NS && table->interval > table->base)
        set_interval(table->interval - 1);
}

static void draw_gap(struct samples_thread *thread) {
    thread->interval = table->interval;
    thread->left = gaps_draw(&random_state, gaps_scale((uint64_t)1 << thread->interval));
}

/* -- records ------------------------------------------------------------------------------------------------ */

static uint32_t hash_of(uint64_t address) { return (uint32_t)((address >> 4) * 0x9E3779B97F4A7C15u >> 32); }

static uint32_t hash_of_record(uint32_t id) { return hash_of(table->records[id].address); }

static void count_granule(uint64_t address, int change) {
    uint8_t *granule = samples_granule((void *)address);
    if (*granule != UINT8_MAX)
        __atomic_store_n(granule, (uint8_t)(*granule + change), __ATOMIC_RELAXED);
}

/* The block's place in the index; the index's size when it has none. */
static uint32_t place_of(uint64_t address) {
    for (uint32_t place = index_place(&blocks, hash_of(address)); blocks.slots[place] != 0; place = index_next(&blocks, place))
        if (table->records[blocks.slots[place] - 1].address == address)
            return place;
    return blocks.size;
}

static void write(uint32_t id, struct record content) {
    struct record *r = &table->records[id];
    uint32_t version = r->version;
    __atomic_store_n(&r->version, version + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    content.version = version + 1;
    *r = content;
    __atomic_store_n(&r->version, version + 2, __ATOMIC_RELEASE);
}

/* The same of a record that is there: where the end of a mapping was not seen, another may have its address. */
static uint32_t place_of_record(uint32_t id) {
    uint32_t place = index_place(&blocks, hash_of_record(id));
    for (; blocks.slots[place] != 0; place = index_next(&blocks, place))
        if (blocks.slots[place] == id + 1)
            return place;
    return blocks.size; /* the program wrote into the table */
}

static struct record take_out(uint32_t place) {
    uint32_t id = blocks.slots[place] - 1;
    struct record found = table->records[id];
    count_granule(found.address, -1);
    index_remove(&blocks, place, hash_of_record);
    for (uint32_t i = 0; found.kind == MAPPING && i < mapping_count; i++)
        if (mappings[i] == id) {
            mappings[i] = mappings[--mapping_count];
            break;
        }
    write(id, (struct record){.next = first_free});
    first_free = id + 1;
    return found;
}

static void put_in(struct record content) {
    bool has_room = (first_free != 0 || table->record_count < RECORDS) && index_has_room(&blocks);
    if (content.site == SITES_FULL || !has_room || (content.kind == MAPPING && mapping_count == MOST_MAPPINGS)) {
        table->dropped++;
        return;
    }
    uint32_t id = first_free != 0 ? first_free - 1 : table->record_count;
    if (first_free != 0)
        first_free = table->records[id].next;
    write(id, content);
    if (id == table->record_count)
        __atomic_store_n(&table->record_count, id + 1, __ATOMIC_RELEASE);
    index_add(&blocks, hash_of(content.address), id);
    count_granule(content.address, 1);
    if (content.kind == MAPPING)
        mappings[mapping_count++] = id;
}

void samples_hit(void *block, size_t size, enum kind kind, const void *caller) {
    struct samples_thread *thread = &samples_thread;
    if (!is_on() || thread->is_agent) {
        thread->left = REST; /* before the beginning it is set again there */
        return;
    }
    if (size == 0 || size > (size_t)INT64_MAX / 2 || !enter(&table->dropped))
        return; /* a block of no bytes has no mark, even where the countdown was not set again */
    if (thread->interval == 0) {
        draw_gap(thread);
        thread->left -= (int64_t)size;
    }
    if (thread->left < 0) {
        uint8_t interval = thread->interval;
        follow_rate();
        draw_gap(thread);
        uint32_t place = place_of((uint64_t)block);
        if (place != blocks.size)
            take_out(place); /* what is there now is not what was sampled */
        table->sampled++;
        put_in((struct record){.address = (uint64_t)block,
                               .size = size,
                               .left = size,
                               .site = sites_now(caller, kind, thread->is_first),
                               .interval = interval,
                               .kind = (uint8_t)kind});
    }
    leave();
}

struct record samples_lift(void *block) {
    struct record found = {0};
    if (is_on() && enter(&table->missed)) {
        uint32_t place = place_of((uint64_t)block);
        if (place != blocks.size)
            found = take_out(place);
        leave();
    }
    return found;
}

void samples_put_back(const struct record *lifted) {
    if (lifted->address != 0 && enter(&table->dropped)) {
        put_in(*lifted);
        leave();
    }
}

/* A mapping without [start, end). Of a hole in the middle only the length is kept. */
static void cut(struct record *r, uint64_t start, uint64_t end) {
    uint64_t first = r->address > start ? r->address : start, last = r->address + r->left;
    last = last < end ? last : end;
    if (first >= last)
        return;
    r->left -= last - first;
    if (first == r->address)
        r->address = last;
}

void samples_unmap(void *start, size_t size) {
    enum { PAGE = 4096 };
    const uint64_t end = ((uint64_t)start + size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (!is_on() || __atomic_load_n(&mapping_count, __ATOMIC_RELAXED) == 0 || !enter(&table->missed))
        return;
    for (uint32_t i = mapping_count; i-- > 0;) {
        const uint32_t id = mappings[i];
        struct record changed = table->records[id];
        const uint64_t before = changed.left;
        cut(&changed, (uint64_t)start, end);
        if (changed.left == before)
            continue;
        const uint32_t place = place_of_record(id);
        if (place == blocks.size)
            continue;
        take_out(place);
        if (changed.left != 0)
            put_in(changed);
    }
    leave();
}

/* -- beginning ---------------------------------------------------------------------------------------------- */

/* A page that a fork's child does not inherit. */
static uint32_t *page_of_this_process(void) {
    enum { WIPE_ON_FORK = 18 };
    void *page = pages_map(4096);
    if (page != NULL && raw_failed(raw_call(SYS_madvise, (long)page, 4096, WIPE_ON_FORK, 0, 0)))
        return NULL;
    if (page != NULL)
        *(uint32_t *)page = 1;
    return page;
}

/* The child of a fork that a signal handler made in the middle of a sample: it returns there, and has no table. What is
   left to do there changes zeros. */
static void in_child(void) {
    if (samples_thread.busy)
        raw_mmap(table, sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1);
}

void samples_open(struct table *opened, uint8_t interval) {
    table = opened;
    table->base = table->interval = table->finest = table->coarsest = interval;
    if (!sites_open(table) || !index_open(&blocks, &budget, 2 * RECORDS)) {
        table->state = NO_MEMORY;
        return;
    }
    uint32_t *page = page_of_this_process();
    if (page == NULL) {
        table->state = OLD_KERNEL;
        return;
    }
    pthread_atfork(NULL, NULL, in_child);
    quota_began = now();
    random_state = quota_began ^ (uint64_t)page ^ (uint64_t)table->pid << 32;
    samples_thread.left = samples_thread.interval = 0;
    samples_thread.is_first = true; /* the linker runs constructors on it */
    table->state = SAMPLING;
    __atomic_store_n(&alive, page, __ATOMIC_RELEASE);
}

static void read_stacks_by(malloc_read_stack *reader) {
    samples_thread.is_agent = true;
    sites_read_stacks(reader);
}

/* For the native core, which finds it by its name. */
extern malloc_set_reader heaptop_malloc_stacks_2 __attribute__((visibility("default"), alias("read_stacks_by")));
