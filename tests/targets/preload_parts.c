/* The tables of heaptop's preloaded library without its functions: addresses are made up, and none is followed. For builds
   with the compiler's sanitizers, which have a malloc of their own. */
#define _GNU_SOURCE
#include "preload/samples.h"
#include "preload/sites.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct table table = {.magic = TABLE_MAGIC};
static uint32_t line;

enum { LARGE = 1 << 30 }; /* such a block is sampled */

static void *block(uint64_t number) { return (void *)(number << 16); }

static void stack(uint32_t depth, bool is_first, malloc_take_frame *take) {
    assert(is_first);
    char file[2000];
    memset(file, 'f', sizeof file);
    for (uint32_t i = 0; i < depth; i++)
        take((struct malloc_text){file, i % 1500}, (struct malloc_text){"function", 8}, line + i);
}

static uint32_t living(void) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < table.record_count; i++)
        found += table.records[i].address != 0;
    return found;
}

int main(void) {
    samples_open(&table, 10);
    assert(table.state == SAMPLING);
    for (uint64_t i = 1; i <= RECORDS + 100; i++)
        samples_born(block(i), LARGE, MALLOC, main);
    assert(living() == RECORDS && table.dropped == 100 && table.sampled == RECORDS + 100);
    for (uint64_t i = 1; i <= RECORDS + 100; i++) {
        struct record lifted = samples_lift(block(i));
        assert((lifted.address != 0) == (i <= RECORDS));
        if (i % 2 == 0)
            samples_put_back(&lifted);
    }
    assert(living() == RECORDS / 2);
    samples_born(block(2), LARGE, MALLOC, main); /* its free was not seen */
    assert(living() == RECORDS / 2);
    for (uint64_t i = 1; i <= RECORDS; i++)
        samples_lift(block(i));
    assert(living() == 0);

    samples_thread.left = -1; /* as where the lock was not got */
    samples_born(block(1), 0, MALLOC, main);
    assert(living() == 0 && samples_thread.left == -1);

    samples_born(block(1), LARGE, MAPPING, main);
    samples_unmap(block(0), 1 << 17); /* the head */
    samples_unmap((char *)block(1) + LARGE - (1 << 16), 1 << 20);
    samples_unmap(block(100), 1 << 16); /* a hole */
    assert(living() == 1 && samples_lift(block(1)).address == 0);
    struct record left = samples_lift(block(2));
    assert(left.left == LARGE - 3 * (1 << 16) && left.size == LARGE);
    samples_born(block(2), LARGE, MAPPING, main); /* whose end was not seen */
    samples_born(block(1), 2 * (size_t)LARGE, MAPPING, main);
    samples_unmap(block(1), 1 << 16); /* now both begin at one address */
    samples_unmap(block(2), LARGE);
    assert(living() == 1 && samples_lift((char *)block(2) + LARGE).left == LARGE - (1 << 16));

    for (uint64_t i = 1; i <= 5000; i++)
        samples_born(block(i), LARGE, MAPPING, main);
    samples_unmap(0, (size_t)1 << 40);
    assert(living() == 0);

    sites_read_stacks(stack);
    for (line = 0; line < 2 * FRAMES; line += 7) {
        samples_born(block(1), LARGE, MALLOC, main);
        samples_lift(block(1));
    }
    assert(table.frame_count <= FRAMES && table.node_count <= NODES && table.text_size <= TEXTS && table.site_count <= SITES);
    samples_born(block(1), LARGE, MALLOC, main);
    assert(living() == 1);
    printf("%u %u\n", table.node_count > NODES - 100 || table.frame_count == FRAMES,
           table.sites[table.site_count - 1].node == NO_ROOM);
    puts("done");
    return 0;
}
