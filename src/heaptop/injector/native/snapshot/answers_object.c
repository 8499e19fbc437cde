/* answers to OBJECT: one object, who refers to it and to what it refers. */
#include "snapshot/answers.h"

#include "query/paths.h"
#include "query/places.h"
#include "snapshot/preview.h"

enum { MOST_LINKS = 1000 };

struct link {
    uint32_t from, place, to;
};

static void pack_link(struct answering *a, const struct link *link, uint32_t other) {
    char text[LABEL_BYTES];
    struct heap *h = a->heap;
    struct label room, label = heap_reference(h, link->from, link->place, paths_before(h, link->from, &room));
    uint32_t size = paths_write_label(&label, a->query->values, text);
    bool is_frame = heap_is_frame(h, other);
    pack_array(a->out, 6);
    pack_str(a->out, text, size);
    pack_uint(a->out, is_frame ? 0 : (uint64_t)graph_object(&h->graph, other));
    pack_uint(a->out, types_of(a->types, h, other));
    pack_uint(a->out, answering_bytes_of(a, other));
    pack_uint(a->out, h->retain.retained[other]);
    places_pack(a, &label, link->from, true);
}

static uint32_t page_of(const struct answering *a, uint32_t count) {
    uint32_t limit = a->query->limit < MOST_LINKS ? a->query->limit : MOST_LINKS;
    uint32_t begin = a->query->offset < count ? a->query->offset : count;
    return count - begin < limit ? count - begin : limit;
}

/* Every reference to it, found by looking at all there are: nothing is kept for that. */
static uint32_t count_referrers(struct answering *a, uint32_t number, struct link *links, uint32_t room) {
    const struct csr *rows = &a->heap->graph.rows;
    uint32_t count = 0, kept = 0;
    progress_begin(a->progress, rows->count);
    for (uint32_t from = 0; from < rows->count && progress_on(a->progress); from++)
        for (uint32_t e = rows->first[from]; e < rows->first[from + 1]; e++)
            if (rows->edges[e] == number && count++ >= a->query->offset && kept < room)
                links[kept++] = (struct link){from, e - rows->first[from], number};
    return count;
}

static void pack_referents(struct answering *a, uint32_t number) {
    const struct csr *rows = &a->heap->graph.rows;
    uint32_t begin = rows->first[number], count = rows->first[number + 1] - begin, shown = page_of(a, count);
    answering_field(a, "referents");
    pack_array(a->out, shown);
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t place = a->query->offset + i;
        struct link link = {number, place, rows->edges[begin + place]};
        pack_link(a, &link, link.to);
    }
    answering_field_uint(a, "referent_count", count);
}

static void pack_referrers(struct answering *a, uint32_t count, const struct link *links) {
    uint32_t shown = page_of(a, count);
    answering_field(a, "referrers");
    pack_array(a->out, shown);
    for (uint32_t i = 0; i < shown; i++)
        pack_link(a, &links[i], links[i].from);
    answering_field_uint(a, "referrer_count", count);
}

/* The address of the nearest object without which it would go. */
static uint64_t dominator_of(const struct answering *a, uint32_t number) {
    uint32_t dominator = a->heap->retain.dominator[number];
    return dominator < a->heap->graph.objects ? (uint64_t)graph_object(&a->heap->graph, dominator) : 0;
}

static uint64_t surplus_of(const struct answering *a, uint32_t number, uint32_t references) {
    if (a->heap->stored != NULL) {
        const struct stored_note *note = stored_note(a->heap->stored, number, NOTE_SURPLUS, NULL);
        return note == NULL ? 0 : note->value;
    }
    int64_t counted = reference_count(graph_object(&a->heap->graph, number));
    if (counted == INT64_MAX)
        return 0;
    int64_t known = references + graph_correction(&a->heap->graph, number);
    return counted < known ? 0 : (uint64_t)(counted - known);
}

const char *answers_object(struct answering *a) {
    char text[PREVIEW_BYTES];
    uint32_t number = 0;
    while (number < a->selection.objects && !is_selected(&a->selection, number))
        number++;
    if (a->selection.count != 1)
        return a->selection.count == 0 ? "there is no such object in the image" : "more than one object is meant";
    struct link *links = pages_map(MOST_LINKS * sizeof *links);
    if (links == NULL)
        return query_no_memory;
    uint32_t referrers = count_referrers(a, number, links, MOST_LINKS);
    if (a->progress->stopped) {
        pages_unmap(links, MOST_LINKS * sizeof *links);
        return query_cancelled;
    }
    answering_begin(a, "object", 9);
    answering_field(a, "row");
    answers_pack_row(a, number);
    answering_field(a, "preview");
    pack_str(a->out, text, preview_write(a->heap, number, a->query->values, text));
    answering_field(a, "path");
    bool done = paths_pack(a, number, NULL, true);
    answering_field_uint(a, "dominator", dominator_of(a, number));
    pack_referrers(a, referrers, links);
    pack_referents(a, number);
    answering_field_uint(a, "surplus", surplus_of(a, number, referrers));
    pages_unmap(links, MOST_LINKS * sizeof *links);
    return done ? NULL : answering_refusal(a);
}
