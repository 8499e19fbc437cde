/* pack: a msgpack writer into memory that the caller owns. Never allocates, never writes past the end. */
#ifndef HEAPTOP_PACK_H
#define HEAPTOP_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*  base             at                 end
     |  written       |  room            |
    Once something does not fit, ``full`` is set, and nothing more is written.                           */
struct pack {
    unsigned char *base, *at, *end;
    bool full;
};

void pack_open(struct pack *p, void *base, size_t size);
static inline size_t pack_size(const struct pack *p) { return (size_t)(p->at - p->base); }
static inline size_t pack_room(const struct pack *p) { return (size_t)(p->end - p->base); }

/* What was written is at ``base`` now, where there is room for ``size`` bytes in all. */
void pack_move(struct pack *p, void *base, size_t size);

void pack_uint(struct pack *p, uint64_t value);
void pack_int(struct pack *p, int64_t value);
void pack_nil(struct pack *p);
void pack_bool(struct pack *p, bool value);
void pack_array(struct pack *p, uint32_t count);
void pack_map(struct pack *p, uint32_t count);

/* ``size`` bytes of UTF-8. */
void pack_str(struct pack *p, const char *text, uint32_t size);

/* A str of C's, ASCII. */
void pack_words(struct pack *p, const char *text);

/* The head of so many bytes, which follow by pack_bytes. */
void pack_bin(struct pack *p, uint32_t size);

/* Bytes as they are: no msgpack. */
void pack_bytes(struct pack *p, const void *bytes, size_t size);

/* An array whose length is known later: the place to hand to pack_array_close. */
size_t pack_array_open(struct pack *p);
void pack_array_close(struct pack *p, size_t place, uint32_t count);

#endif
