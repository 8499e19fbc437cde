/* writer: text put together in a buffer that the caller owns, as UTF-8. What is too long is cut, never within a character. */
#ifndef HEAPTOP_WRITER_H
#define HEAPTOP_WRITER_H

#include "heap/names.h"

struct writer {
    char *at, *end; /* room for a NUL stays behind ``end`` */
};

/* The agent's thread alone writes, in the process and in a clone. */
extern struct name_text writer_scratch;

void writer_bytes(struct writer *w, const char *bytes, size_t size);
void writer_text(struct writer *w, const char *text);
void writer_int(struct writer *w, int64_t number);

/* "?" for what is not exactly a str. */
void writer_str(struct writer *w, PyObject *o);

/* A value of an exact built-in type as Python writes it: None, True, False, a str of up to 64 characters, an int of up to 60
   bits. False, and nothing, for any other. */
bool writer_value(struct writer *w, PyObject *o);

#endif
