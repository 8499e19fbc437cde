/* writer: bytes, numbers and the values that may be shown. */
#include "heap/writer.h"

#include <string.h>

struct name_text writer_scratch;

static bool is_tail(char c) { return ((uint8_t)c & 0xc0) == 0x80; }

void writer_bytes(struct writer *w, const char *bytes, size_t size) {
    size_t room = (size_t)(w->end - w->at);
    if (size > room)
        for (size = room; size > 0 && is_tail(bytes[size]); size--) /* no half of a character */
            ;
    memcpy(w->at, bytes, size);
    w->at += size;
}

void writer_text(struct writer *w, const char *text) { writer_bytes(w, text, strlen(text)); }

void writer_str(struct writer *w, PyObject *o) {
    if (names_read_str(o, &writer_scratch))
        writer_bytes(w, writer_scratch.bytes, writer_scratch.size);
    else
        writer_text(w, "?");
}

void writer_int(struct writer *w, int64_t number) {
    char digits[24];
    int at = sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (number < 0)
        digits[--at] = '-';
    writer_bytes(w, digits + at, sizeof digits - (size_t)at);
}

static bool write_str(struct writer *w, PyObject *o) {
    enum { MOST_CHARACTERS = 64 };
    if (int64_at(o, layout.str_length) > MOST_CHARACTERS || !names_read_str(o, &writer_scratch))
        return false;
    writer_text(w, "'");
    for (uint32_t i = 0; i < writer_scratch.size; i++) {
        char c = writer_scratch.bytes[i];
        if (c == '\'' || c == '\\')
            writer_text(w, "\\");
        writer_bytes(w, (uint8_t)c < ' ' ? "?" : &c, 1);
    }
    writer_text(w, "'");
    return true;
}

bool writer_value(struct writer *w, PyObject *o) {
    if (o == symbols.none || o == symbols.yes || o == symbols.no) {
        writer_text(w, o == symbols.none ? "None" : o == symbols.yes ? "True" : "False");
        return true;
    }
    if (Py_TYPE(o) == symbols.str_type)
        return write_str(w, o);
    int64_t number;
    if (Py_TYPE(o) != symbols.int_type || !int_value(o, &number))
        return false;
    writer_int(w, number);
    return true;
}
