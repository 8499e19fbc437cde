/* places: file, line and thread of a frame. The drawing is in the header. */
#include "query/places.h"

#include "heap/writer.h"
#include "query/lines.h"

#include <string.h>

/* -- code and line -------------------------------------------------------------------------------------------- */

static bool is_code(const PyObject *o) { return o != NULL && Py_TYPE(o) == symbols.code_type; }

static PyObject *code_of_frame(const void *frame) {
    uintptr_t code = (uintptr_t)pointer_at(frame, layout.frame_code) & ~(uintptr_t)layout.frame_code_flags;
    return is_code((PyObject *)code) ? (PyObject *)code : NULL;
}

/* Bytes of a code's instructions. */
static int64_t bytes_of(PyObject *code) {
    if (layout.frame_instruction_unit == 0)
        return 2 * size_field(code);
    PyObject *bytes = object_at(code, layout.code_code);
    return bytes == NULL ? 0 : size_field(bytes);
}

/* The line that a frame is at; where its function begins, where that is unknown. */
static int line_of(PyObject *code, const void *frame) {
    int64_t offset = -1; /* of no instruction: the first line, in every version */
    if (frame != NULL && layout.frame_instruction_unit != 0)
        offset = (int64_t)*(int32_t *)at(frame, layout.frame_instruction) * layout.frame_instruction_unit;
    else if (frame != NULL)
        offset = (char *)pointer_at(frame, layout.frame_instruction) - (char *)at(code, layout.code_adaptive);
    bool is_inside = offset >= 0 && offset < bytes_of(code);
    int line = lines_at(code, is_inside ? (int)offset : -1);
    if (line <= 0)
        line = lines_at(code, -1);
    return line > 0 ? line : 0;
}

/* The frame of a suspended generator, coroutine or asynchronous generator; NULL when it has none any more. */
static const void *frame_of_generator(PyObject *generator) {
    return layout.frame_object_frame != 0 ? at(generator, layout.generator_frame)
                                          : pointer_at(generator, layout.generator_frame);
}

/* -- threads -------------------------------------------------------------------------------------------------- */

static bool reads(PyObject *o, const char *text) {
    return names_read_str(o, &writer_scratch) && writer_scratch.size == strlen(text) &&
           memcmp(writer_scratch.bytes, text, writer_scratch.size) == 0;
}

static bool is_thread(PyTypeObject *type) {
    struct name_text module, qualname;
    for (; type != NULL; type = type_base(type)) {
        names_read(type, &module, &qualname);
        if (module.size == 9 && memcmp(module.bytes, "threading", 9) == 0 && qualname.size == 6 &&
            memcmp(qualname.bytes, "Thread", 6) == 0)
            return true;
    }
    return false;
}

/* An object's attribute, or NULL: of its second, or of the dict of them that ``before`` leads to. */
static PyObject *attribute_of(struct heap *h, uint32_t from, const struct label *before, const char *name) {
    const struct csr *rows = &h->graph.rows;
    for (uint32_t place = 0; place < rows->first[from + 1] - rows->first[from]; place++) {
        uint32_t to = rows->edges[rows->first[from] + place];
        struct label label = heap_reference(h, from, place, before);
        if (label.kind == LABEL_ATTRIBUTE && label.name != NULL && reads(label.name, name))
            return graph_object(&h->graph, to);
        bool leads_on = before == NULL && label.kind == LABEL_COLLAPSED && label.role == ROLE_ATTRIBUTES;
        PyObject *found = leads_on ? attribute_of(h, to, &label, name) : NULL;
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* An attribute of an object that may have no number; NULL. */
static PyObject *attribute_called(struct heap *h, PyObject *o, const char *name) {
    uint32_t number = o == NULL ? CSR_NONE : graph_number(&h->graph, o);
    return number == CSR_NONE ? NULL : attribute_of(h, number, NULL, name);
}

/* ``self`` of a frame, where that is a Thread. */
static PyObject *thread_in(const struct heap_frame *f) {
    bool counted;
    if (roots_locals(f->frame.code) == 0 || !reads(roots_local_name(f->frame.code, 0), "self"))
        return NULL;
    PyObject *o = roots_item(f->frame.address, 0, &counted);
    return o != NULL && is_thread(Py_TYPE(o)) ? o : NULL;
}

/* The Thread that a thread runs: that of the outermost of its frames that has one. */
static PyObject *thread_run(const struct heap *h, uint32_t thread) {
    const struct heap_frame *frames = h->frames.items;
    PyObject *found = NULL;
    for (uint64_t i = 0; i < h->frames.count; i++) { /* from the innermost on */
        PyObject *o = frames[i].thread == thread ? thread_in(&frames[i]) : NULL;
        if (o != NULL)
            found = o;
    }
    return found;
}

static PyObject *module_called(const struct heap *h, const char *name) {
    const struct heap_item *items = h->items.items;
    for (uint64_t i = 0; i < h->items.count; i++)
        if (items[i].class == ROOT_MODULE && items[i].root.part == PART_MODULE && reads(items[i].root.name, name))
            return items[i].root.object;
    return NULL;
}

/* threading.main_thread(), where that is this one; NULL. */
static PyObject *main_thread(struct heap *h, const struct roots_thread *noted) {
    PyObject *main = attribute_called(h, module_called(h, "threading"), "_main_thread");
    PyObject *ident = attribute_called(h, main, "_ident");
    char first[32], second[32];
    struct writer one = {first, first + sizeof first}, other = {second, second + sizeof second};
    if (ident == NULL || Py_TYPE(ident) != symbols.int_type || !writer_value(&one, ident))
        return NULL;
    writer_int(&other, (int64_t)noted->id);
    return one.at - first == other.at - second && memcmp(first, second, (size_t)(one.at - first)) == 0 ? main : NULL;
}

static void put_thread(struct writer *w, struct heap *h, uint32_t thread) {
    const struct roots_thread *noted = (const struct roots_thread *)h->threads.items + thread;
    PyObject *object = thread_run(h, thread);
    PyObject *name = attribute_called(h, object != NULL ? object : main_thread(h, noted), "_name");
    if (names_read_str(name, &writer_scratch))
        writer_bytes(w, writer_scratch.bytes, writer_scratch.size);
    else if (noted->native != 0)
        writer_int(w, (int64_t)noted->native);
}

/* -- the place ------------------------------------------------------------------------------------------------ */

static bool is_of_frame(const struct label *label) {
    return label->kind == LABEL_LOCAL || label->kind == LABEL_STACK || label->kind == LABEL_FRAME;
}

static void pack_frame(struct answering *a, PyObject *code, const void *frame, uint32_t thread) {
    char text[PLACE_THREAD_BYTES];
    struct writer w = {text, text + sizeof text};
    if (thread != CSR_NONE)
        put_thread(&w, a->heap, thread);
    pack_array(a->out, 3);
    if (names_read_str(object_at(code, layout.code_filename), &writer_scratch))
        pack_str(a->out, writer_scratch.bytes, writer_scratch.size);
    else
        pack_words(a->out, "");
    pack_uint(a->out, (uint64_t)line_of(code, frame));
    pack_str(a->out, text, (uint32_t)(w.at - text));
}

static const struct heap_frame *noted_at(const struct heap *h, const void *address) {
    const struct heap_frame *frames = h->frames.items;
    for (uint64_t i = 0; i < h->frames.count; i++)
        if (frames[i].frame.address == address)
            return &frames[i];
    return NULL;
}

/* Of a frame object or of a generator; NULL. */
static const void *frame_of_object(struct heap *h, uint32_t number) {
    PyObject *o = graph_object(&h->graph, number);
    if (Py_TYPE(o) == symbols.frame_type)
        return layout.frame_object_frame != 0 ? pointer_at(o, layout.frame_object_frame) : o;
    return heap_sorts(h, number) & SORT_GENERATOR ? frame_of_generator(o) : NULL;
}

bool places_find(struct answering *a, uint32_t number, struct place *place) {
    struct heap *h = a->heap;
    bool is_frame = heap_is_frame(h, number);
    const struct heap_frame *noted = is_frame ? (const struct heap_frame *)h->frames.items + (number - h->graph.objects) : NULL;
    const void *frame = is_frame ? noted->frame.address : frame_of_object(h, number);
    place->code = frame == NULL ? NULL : code_of_frame(frame);
    if (place->code == NULL)
        return false;
    struct writer w = {place->thread, place->thread + PLACE_THREAD_BYTES - 1};
    noted = is_frame ? noted : noted_at(h, frame);
    if (noted != NULL && noted->thread != CSR_NONE)
        put_thread(&w, h, noted->thread);
    *w.at = 0;
    place->line = line_of(place->code, frame);
    place->first_line = line_of(place->code, NULL);
    return true;
}

/* The frame that a label is about: of a pseudo-object, a frame object, or a generator. NULL when it is not known. */
static const void *frame_of(struct heap *h, const struct label *label, uint32_t from) {
    if (from < h->graph.rows.count && heap_is_frame(h, from))
        return ((const struct heap_frame *)h->frames.items + (from - h->graph.objects))->frame.address;
    PyObject *o = from < h->graph.objects ? graph_object(&h->graph, from) : NULL;
    if (o != NULL && Py_TYPE(o) == symbols.frame_type)
        return frame_of_object(h, from);
    return label->owner == NULL || is_code(label->owner) ? NULL : frame_of_generator(label->owner);
}

/* Of a heap that was read from a file; NULL. */
static const struct stored_place *stored_place(const struct heap *h, uint32_t from) {
    uint64_t place = CSR_NONE;
    const struct stored_note *note = NULL;
    if (from < h->graph.objects)
        note = stored_note(h->stored, from, NOTE_PLACE, NULL);
    else if (from < h->graph.rows.count)
        place = table_number(&h->stored->frame_places, from - h->graph.objects);
    place = note == NULL ? place : note->value;
    return place == CSR_NONE ? NULL : (const struct stored_place *)h->stored->places.items + place;
}

static void pack_text(struct answering *a, const char *text) { pack_str(a->out, text, (uint32_t)strlen(text)); }

static void pack_stored(struct answering *a, const struct stored_place *place, bool is_one) {
    if (place == NULL) {
        pack_nil(a->out);
        return;
    }
    pack_array(a->out, 3);
    pack_text(a, stored_text(a->heap->stored, place->file));
    pack_uint(a->out, is_one ? place->line : place->first_line);
    pack_text(a, is_one ? stored_text(a->heap->stored, place->thread) : "");
}

void places_pack(struct answering *a, const struct label *label, uint32_t from, bool is_one) {
    if (a->heap->stored != NULL) {
        pack_stored(a, is_of_frame(label) ? stored_place(a->heap, from) : NULL, is_one);
        return;
    }
    const void *frame = is_of_frame(label) ? frame_of(a->heap, label, from) : NULL;
    PyObject *code = frame != NULL ? code_of_frame(frame) : is_of_frame(label) && is_code(label->owner) ? label->owner : NULL;
    const struct heap_frame *noted = frame != NULL && is_one ? noted_at(a->heap, frame) : NULL;
    if (code == NULL)
        pack_nil(a->out);
    else
        pack_frame(a, code, is_one ? frame : NULL, noted != NULL ? noted->thread : CSR_NONE);
}
