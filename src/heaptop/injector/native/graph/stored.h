/* stored: what is known of a heap whose memory is not there, because it was read from a file (dump/reading.h).

   The graph stands as it did in the clone: numbers, rows, roots. What a clone reads from an object's memory when it is asked is
   here, as the clone has read it when the file was written:

       kinds        [kinds]      what instances of a type are for those who name them
       labels       [..]         of references and roots, each once ─► texts
       edge_labels  [edges]      label of each reference
       notes        [..]         facts that few objects have, by object: ascending
       lengths      [objects]    items of a container, characters of a text

   Addresses tell objects apart and are never followed. */
#ifndef HEAPTOP_STORED_H
#define HEAPTOP_STORED_H

#include "graph/table.h"

#include <stdint.h>

enum stored_sort { SORT_MODULE = 1, SORT_TYPE = 2, SORT_GENERATOR = 4, SORT_DICT = 8, SORTS = 16 };
enum stored_noun { NOUN_NONE, NOUN_ITEM, NOUN_CHARACTER, NOUN_BYTE, NOUNS };

struct stored_kind {
    uint32_t type; /* its number */
    uint8_t sorts, noun, before; /* stored_sort; stored_noun; bytes of a block before its object */
};

struct stored_label {
    uint32_t text; /* where it begins in the texts */
    uint32_t alike; /* a number that labels have in common which are alike (labels_hash) */
    uint8_t kind, role; /* label_kind, label_role */
    bool is_frame; /* of a frame itself, and not of something in it */
};

struct stored_place {
    uint32_t file, thread;     /* texts */
    uint32_t line, first_line; /* that it is at; where its function begins */
};

enum stored_what {
    NOTE_BOUND,
    NOTE_CHANGES,
    NOTE_SURPLUS,       /* references that are counted and nobody has */
    NOTE_OWN_BLOCK,     /* its own, where it does not follow from its type and size: bytes before the object, size */
    NOTE_BLOCK,         /* elsewhere: address, size */
    NOTE_SAMPLE,        /* of its own block: stack, size */
    NOTE_SAMPLED_BLOCK, /* of a block elsewhere, likewise */
    NOTE_PLACE,         /* of a frame object or a generator: position of a stored_place */
    NOTE_PREVIEW,       /* a text */
    NOTES,
};

struct stored_note {
    uint32_t number, what;
    uint64_t value, other;
};

enum { LENGTH_NONE = UINT32_MAX };

struct stored {
    struct table kinds;       /* struct stored_kind */
    struct table labels;      /* struct stored_label */
    struct table places;      /* struct stored_place */
    struct table texts;       /* char: each ends with a NUL, the first is empty */
    struct table notes;       /* struct stored_note */
    struct table lengths;     /* uint32_t; LENGTH_NONE */
    struct table generations; /* int8_t */
    struct table edge_labels; /* uint32_t, by edge */
    struct table root_labels; /* uint32_t, by place of a root */
    struct table frame_labels, frame_places; /* uint32_t, by pseudo-object; a place may be CSR_NONE */
};

/* The first note of that sort of an object, or the next one after ``last``; NULL behind the last. */
const struct stored_note *stored_note(const struct stored *s, uint32_t number, enum stored_what what,
                                      const struct stored_note *last);

static inline const char *stored_text(const struct stored *s, uint64_t at) { return (const char *)s->texts.items + at; }

static inline const struct stored_kind *stored_kind(const struct stored *s, uint32_t position) {
    return (const struct stored_kind *)s->kinds.items + position;
}

#endif
