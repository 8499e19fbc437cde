/* pillow: the pixels of an image (libImaging/Imaging.h; ImagingCore of _imaging.c). Pixels that are borrowed, of a file or a
   buffer, are others'. */
#include "heap/owners.h"

struct places { /* of fields in ImagingMemoryInstance */
    int32_t bands, width, height, rows, pixel_size;
};

/* Up to 11 the mode is a text of 8 bytes, from 12 on a number of 4. */
static const struct places versions[] = {{16, 20, 24, 40, 80}, {12, 16, 20, 32, 72}};

/* From ``rows`` on. */
struct rows {
    const void *of_bytes, *of_words, *lines, *block;
    const struct block {
        const char *at;
        int32_t size;
    } *blocks; /* the last has no memory */
};

/* Whether an image is of that version: what is said twice is the same. */
static bool fits(const void *image, const struct places *p) {
    const struct rows *rows = at(image, p->rows);
    int32_t bands = (int32_t)uint32_at(image, p->bands), pixel = (int32_t)uint32_at(image, p->pixel_size);
    int32_t width = (int32_t)uint32_at(image, p->width), height = (int32_t)uint32_at(image, p->height);
    int32_t line = (int32_t)uint32_at(image, p->pixel_size + 4);
    bool of_words = pixel == 4, one = of_words ? rows->of_bytes == NULL : rows->of_words == NULL;
    return bands >= 1 && bands <= 4 && (pixel == 1 || pixel == 2 || pixel == 4) && width >= 0 && height >= 0 && one &&
           line == (int64_t)width * pixel && rows->lines != NULL &&
           rows->lines == (of_words ? rows->of_words : rows->of_bytes) && (rows->block == NULL || rows->blocks == NULL);
}

static struct owned sum_blocks(const struct block *block, uint64_t most) {
    struct owned owned = {0, false};
    for (uint64_t i = 0; i <= most; i++, block++) {
        if (!owners_has(block, sizeof *block))
            return OWNED_UNKNOWN;
        if (block->at == NULL)
            return owned;
        uint64_t size = (uint64_t)(uint32_t)block->size;
        if (size >= 8 && !owners_has(block->at, size))
            return OWNED_UNKNOWN;
        owned.bytes += size;
    }
    return OWNED_UNKNOWN; /* no end */
}

static struct owned measure_pixels(const void *image, const struct places *p) {
    const struct rows *rows = at(image, p->rows);
    uint64_t height = uint32_at(image, p->height), size = height * uint32_at(image, p->pixel_size + 4);
    if (rows->blocks != NULL)
        return sum_blocks(rows->blocks, height);
    if (rows->block == NULL || size < 8)
        return (struct owned){0, false};
    return owners_has(rows->block, size) ? (struct owned){size, false} : OWNED_UNKNOWN;
}

enum { IMAGE = 16, IMAGE_BYTES = 96 };

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)seen;
    const void *image = pointer_at(body_of(o), IMAGE);
    if (image == NULL)
        return (struct owned){0, false};
    for (size_t i = 0; i < sizeof versions / sizeof *versions && owners_has(image, IMAGE_BYTES); i++)
        if (fits(image, &versions[i])) {
            struct owned owned = measure_pixels(image, &versions[i]);
            owned.bytes += owned.unknown ? 0 : sizeof(void *) * uint32_at(image, versions[i].height);
            return owned;
        }
    return OWNED_UNKNOWN;
}

static const char *const types[] = {"ImagingCore", "PIL._imaging.ImagingCore", NULL};

const struct owner owner_pillow = {types, 32, measure, .maps = false};
