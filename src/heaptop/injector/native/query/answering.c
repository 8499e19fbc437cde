/* answering: the beginning and the fields of a message. */
#include "query/answering.h"

void message_begin(struct pack *out, const char *kind, uint64_t id, uint32_t fields) {
    pack_array(out, 2);
    pack_words(out, kind);
    pack_map(out, fields + 1);
    message_field(out, "id", id);
}

void message_field(struct pack *out, const char *name, uint64_t value) {
    pack_words(out, name);
    pack_uint(out, value);
}

void answering_begin(struct answering *a, const char *kind, uint32_t fields) {
    message_begin(a->out, kind, a->query->id, fields);
}

void answering_field(struct answering *a, const char *name) { pack_words(a->out, name); }

void answering_field_uint(struct answering *a, const char *name, uint64_t value) { message_field(a->out, name, value); }

void answering_field_complete(struct answering *a, bool complete) {
    answering_field(a, "complete");
    pack_bool(a->out, complete && !a->progress->stopped);
}

const char *answering_refusal(const struct answering *a) { return a->progress->stopped ? query_cancelled : query_no_memory; }
