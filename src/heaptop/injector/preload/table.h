/* table: what the preloaded library writes and heaptop reads: one shared mapping of fixed size.

     records   a sampled block each: address, size, site.  Free ones are chained
     sites     (caller in a library, Python stack)         nodes    (parent, frame): a stack is its innermost node
     texts     names of files, functions and libraries     frames   (file, function, line)

   heaptop makes the memfd, seals its size and allocates all its pages before the program starts: so neither a truncated
   file nor a lack of memory can raise SIGBUS here. It survives the program, which need not end in order.
   All but records only ever grow, and each is whole before it is counted. A record has a version, odd while it is
   written. injector/malloc_table.py has the same layout, and trusts none of it. */
#ifndef HEAPTOP_PRELOAD_TABLE_H
#define HEAPTOP_PRELOAD_TABLE_H

#include <stdint.h>

#define TABLE_MAGIC 0x31434c414d505448u /* "HTPMALC1" */

enum { RECORDS = 1 << 16, SITES = 1 << 14, NODES = 1 << 16, FRAMES = 1 << 14, TEXTS = 1 << 21 };

enum table_state {
    WAITING,     /* for the interpreter to be started by who stands in for it (env, a script) */
    SAMPLING,
    OTHER_MALLOC, /* the program has a malloc of its own, which is found before ours */
    OLD_KERNEL,  /* no MADV_WIPEONFORK (Linux 4.14) */
    NO_MEMORY,
};

/* Of stacks that there are none of. */
enum { NO_STACK, TOO_EARLY /* before the native core was there */, NO_ROOM, FIRST_NODE };

enum kind { MALLOC, MAPPING };

struct record {
    uint64_t address; /* 0: free */
    uint64_t size;    /* when it was sampled */
    uint64_t left;    /* what munmap has left of it; more than size where mremap made it larger */
    uint32_t version;
    uint32_t site;
    uint32_t next; /* among the free: position + 1 */
    uint8_t interval; /* its logarithm to base 2 */
    uint8_t kind, unused[2];
};

struct site {
    uint64_t offset; /* of the return address in the library */
    uint32_t library, node;
};

struct node {
    uint32_t parent, frame;
};

struct frame {
    uint32_t file, function, line;
};

struct table {
    uint64_t magic;
    uint32_t state;
    int32_t pid; /* of the program; what it starts is not sampled */
    uint64_t dropped; /* samples there was no room for, or that a busy lock kept out */
    uint64_t missed;  /* frees that were not seen: figures may be too high */
    uint64_t sampled; /* blocks */
    uint8_t base, interval, finest, coarsest; /* logarithms: asked for; in force; of those that were */
    uint32_t record_count, site_count, node_count, frame_count, text_size;
    uint8_t own_new; /* the allocator has an operator new of its own, which does not come by here */
    uint8_t unused[4031];
    struct record records[RECORDS];
    struct site sites[SITES];
    struct node nodes[NODES];
    struct frame frames[FRAMES];
    char texts[TEXTS]; /* each ends with a NUL; 0 is the empty one */
};

_Static_assert(sizeof(struct record) == 40 && sizeof(struct site) == 16 && sizeof(struct frame) == 12, "as in Python");
_Static_assert(__builtin_offsetof(struct table, records) == 4096, "as in Python");

#endif
