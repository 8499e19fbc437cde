/* stringio: the text of an io.StringIO (_io/stringio.c): its buffer, four bytes a character, and until it is first read the text
   of its writer (unicodeobject.h, _PyUnicodeWriter). Versions without a writer have that text in lists, which are objects. */
#include "heap/owners.h"

enum { WRITER_DATA = 8, WRITER_KIND = 16, WRITER_SIZE = 24, WRITER_READONLY = 53, MOST_HEADER = 72 };

static bool is_there(const void *at, uint64_t size) { return size < sizeof(uint64_t) || owners_has(at, size); }

/* A text of no object's but the writer's, with room for more. */
static struct owned measure_writer(const void *writer) {
    const void *text = pointer_at(writer, 0), *data = pointer_at(writer, WRITER_DATA);
    if (text == NULL || *((const uint8_t *)writer + WRITER_READONLY)) /* another one's text */
        return (struct owned){0, false};
    uint64_t header = (uint64_t)data - (uint64_t)text, size = uint64_at(writer, WRITER_SIZE);
    uint32_t kind = uint32_at(writer, WRITER_KIND);
    uint64_t bytes = header + (size + 1) * kind;
    bool fits = header <= MOST_HEADER && (kind == 1 || kind == 2 || kind == 4) && size < 1ull << 44 && owners_has(text, bytes);
    return fits ? (struct owned){bytes, false} : OWNED_UNKNOWN;
}

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)seen;
    const void *buffer = pointer_at(o, layout.stringio_buffer);
    uint64_t size = uint64_at(o, layout.stringio_size);
    if (buffer == NULL)
        return (struct owned){0, false};
    if (size >= 1ull << 44 || !is_there(buffer, 4 * size))
        return OWNED_UNKNOWN;
    struct owned written = {0, false};
    if (layout.stringio_writer != 0)
        written = measure_writer((const char *)o + layout.stringio_writer);
    else if (layout.stringio_writer_pointer != 0) {
        const void *writer = pointer_at(o, layout.stringio_writer_pointer);
        if (writer != NULL)
            written = owners_has(writer, WRITER_READONLY + 3) ? measure_writer(writer) : OWNED_UNKNOWN;
    }
    return (struct owned){4 * size + written.bytes, written.unknown};
}

static const char *const types[] = {"_io.StringIO", NULL};

const struct owner owner_stringio = {types, 112, measure, .maps = false};
