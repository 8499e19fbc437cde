/* answering: the beginning and the fields of a message. */
#include "query/answering.h"

void answering_begin(struct answering *a, const char *kind, uint32_t fields) {
    pack_array(a->out, 2);
    pack_words(a->out, kind);
    pack_map(a->out, fields + 1);
    pack_words(a->out, "id");
    pack_uint(a->out, a->query->id);
}

void answering_field(struct answering *a, const char *name) { pack_words(a->out, name); }

void answering_field_uint(struct answering *a, const char *name, uint64_t value) {
    answering_field(a, name);
    pack_uint(a->out, value);
}

void answering_field_complete(struct answering *a, bool complete) {
    answering_field(a, "complete");
    pack_bool(a->out, complete && !a->progress->stopped);
}

const char *answering_refusal(const struct answering *a) { return a->progress->stopped ? query_cancelled : query_no_memory; }
