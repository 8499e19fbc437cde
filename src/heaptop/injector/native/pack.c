/* pack: msgpack, as in the format's specification (github.com/msgpack/msgpack, spec.md); shortest forms. */
#include "pack.h"

#include <string.h>

void pack_open(struct pack *p, void *base, size_t size) {
    p->base = p->at = base;
    p->end = p->base + size;
    p->full = false;
}

void pack_move(struct pack *p, void *base, size_t size) {
    size_t written = pack_size(p);
    p->base = base;
    p->at = p->base + written;
    p->end = p->base + size;
}

static bool fits(struct pack *p, size_t size) {
    if (p->full || (size_t)(p->end - p->at) < size)
        p->full = true;
    return !p->full;
}

/* A head byte and ``width`` bytes of a number, the highest first. */
static void put(struct pack *p, unsigned char head, uint64_t value, int width) {
    if (!fits(p, 1 + (size_t)width))
        return;
    *p->at++ = head;
    while (width--)
        *p->at++ = (unsigned char)(value >> 8 * width);
}

void pack_uint(struct pack *p, uint64_t value) {
    if (value < 128)
        put(p, (unsigned char)value, 0, 0);
    else if (value <= UINT8_MAX)
        put(p, 0xcc, value, 1);
    else if (value <= UINT16_MAX)
        put(p, 0xcd, value, 2);
    else if (value <= UINT32_MAX)
        put(p, 0xce, value, 4);
    else
        put(p, 0xcf, value, 8);
}

void pack_int(struct pack *p, int64_t value) {
    if (value >= 0)
        pack_uint(p, (uint64_t)value);
    else if (value >= -32)
        put(p, (unsigned char)value, 0, 0);
    else if (value >= INT8_MIN)
        put(p, 0xd0, (uint64_t)value, 1);
    else if (value >= INT16_MIN)
        put(p, 0xd1, (uint64_t)value, 2);
    else if (value >= INT32_MIN)
        put(p, 0xd2, (uint64_t)value, 4);
    else
        put(p, 0xd3, (uint64_t)value, 8);
}

void pack_array(struct pack *p, uint32_t count) {
    if (count < 16)
        put(p, 0x90 | (unsigned char)count, 0, 0);
    else if (count <= UINT16_MAX)
        put(p, 0xdc, count, 2);
    else
        put(p, 0xdd, count, 4);
}

void pack_nil(struct pack *p) { put(p, 0xc0, 0, 0); }

void pack_bool(struct pack *p, bool value) { put(p, value ? 0xc3 : 0xc2, 0, 0); }

void pack_map(struct pack *p, uint32_t count) {
    if (count < 16)
        put(p, 0x80 | (unsigned char)count, 0, 0);
    else
        put(p, 0xdf, count, 4);
}

void pack_bin(struct pack *p, uint32_t size) { put(p, 0xc6, size, 4); }

void pack_words(struct pack *p, const char *text) { pack_str(p, text, (uint32_t)strlen(text)); }

void pack_str(struct pack *p, const char *text, uint32_t size) {
    if (size < 32)
        put(p, 0xa0 | (unsigned char)size, 0, 0);
    else if (size <= UINT8_MAX)
        put(p, 0xd9, size, 1);
    else if (size <= UINT16_MAX)
        put(p, 0xda, size, 2);
    else
        put(p, 0xdb, size, 4);
    pack_bytes(p, text, size);
}

void pack_bytes(struct pack *p, const void *bytes, size_t size) {
    if (!fits(p, size))
        return;
    memcpy(p->at, bytes, size);
    p->at += size;
}

size_t pack_array_open(struct pack *p) {
    size_t place = pack_size(p);
    put(p, 0xdd, 0, 4);
    return place;
}

void pack_array_close(struct pack *p, size_t place, uint32_t count) {
    if (p->full)
        return;
    for (int i = 0; i < 4; i++)
        p->base[place + 1 + (size_t)i] = (unsigned char)(count >> (24 - 8 * i));
}
