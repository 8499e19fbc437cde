/* lines: the three forms of the table. Objects/lnotab_notes.txt and Objects/locations.md (Python/assemble.c) have
   them. */
#include "query/lines.h"

enum { BYTES_DATA = 32 /* cpython/bytesobject.h, ob_sval */, NO_LINE = -1 };

struct table {
    const uint8_t *at, *end;
    int64_t behind; /* the first byte of code that no entry read so far is about */
    int line, computed; /* of the last entry; of the last that has one */
};

/* A number in 6 bits a byte, the lowest first; bit 6 is set where more follow. */
static uint32_t read_number(struct table *t) {
    uint32_t number = 0;
    for (unsigned shift = 0; t->at < t->end && shift < 32; shift += 6) {
        uint8_t byte = *t->at++;
        number |= (uint32_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return number;
}

/* As Objects/locations.md has it: a byte with the highest bit set, of a form and the length, and up to the next such byte what it has. */
static void read_location(struct table *t) {
    enum { FORM_ONE_LINE = 10, FORM_NO_COLUMN = 13, FORM_LONG = 14, FORM_NONE = 15 };
    uint8_t first = *t->at++;
    unsigned form = first >> 3 & 15;
    t->behind += 2 * ((first & 7) + 1);
    if (form == FORM_LONG || form == FORM_NO_COLUMN) {
        uint32_t delta = read_number(t);
        t->computed += delta & 1 ? -(int)(delta >> 1) : (int)(delta >> 1);
    } else if (form >= FORM_ONE_LINE && form < FORM_NO_COLUMN) {
        t->computed += (int)form - FORM_ONE_LINE;
    }
    t->line = form == FORM_NONE ? NO_LINE : t->computed;
    while (t->at < t->end && !(*t->at & 128))
        t->at++;
}

/* PEP 626: how many bytes of code, and how many lines on; -128: none. */
static void read_pair(struct table *t) {
    int delta = (int8_t)t->at[1];
    t->behind += t->at[0];
    t->computed += delta == -128 ? 0 : delta;
    t->line = delta == -128 ? NO_LINE : t->computed;
    t->at += 2;
}

/* Before PEP 626: how many bytes of code are before the line changes, and by how much. */
static int read_old(struct table *t, int64_t offset) {
    for (int64_t at = 0; t->end - t->at >= 2; t->at += 2) {
        at += t->at[0];
        if (at > offset)
            break;
        t->line += (int8_t)t->at[1];
    }
    return t->line;
}

int lines_at(PyObject *code, int offset) {
    int first = (int)uint32_at(code, layout.code_first_line);
    PyObject *bytes = object_at(code, layout.code_lines);
    if (offset < 0 || bytes == NULL)
        return first;
    const uint8_t *data = at(body_of(bytes), BYTES_DATA);
    struct table t = {data, data + size_field(bytes), 0, first, first};
    if (layout.frame_instruction_unit == 1)
        return read_old(&t, offset);
    while (t.behind <= offset) {
        if (t.end - t.at < (layout.frame_instruction_unit != 0 ? 2 : 1))
            return NO_LINE;
        if (layout.frame_instruction_unit != 0)
            read_pair(&t);
        else
            read_location(&t);
    }
    return t.line;
}
