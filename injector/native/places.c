/* places: file, line and thread of a frame. The drawing is in the header. */
#include "places.h"

#include "raw.h"
#include "writer.h"

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

/* The line that a frame is at; where its function begins, where that cannot be said. */
static int line_of(PyObject *code, const void *frame) {
    int64_t offset = -1; /* of no instruction: the first line, in every version */
    if (frame != NULL && layout.frame_instruction_unit != 0)
        offset = (int64_t) * (int32_t *)at(frame, layout.frame_instruction) * layout.frame_instruction_unit;
    else if (frame != NULL)
        offset = (char *)pointer_at(frame, layout.frame_instruction) - (char *)at(code, layout.code_adaptive);
    bool is_inside = offset >= 0 && offset < bytes_of(code);
    int line = symbols.code_line(code, is_inside ? (int)offset : -1);
    if (line <= 0)
        line = symbols.code_line(code, -1);
    return line > 0 ? line : 0;
}

/* The frame of a suspended generator, coroutine or asynchronous generator; NULL when it has none any more. */
static const void *frame_of_generator(PyObject *generator) {
    return layout.frame_object_frame != 0 ? at(generator, layout.generator_frame)
                                          : pointer_at(generator, layout.generator_frame);
}

/* -- threads -------------------------------------------------------------------------------------------------- */

enum { THREAD_BYTES = 128 };

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

/* The Thread that a thread runs: ``self`` of the outermost of its frames that has one. */
static PyObject *thread_object(const struct heap *h, uint32_t thread) {
    PyObject *found = NULL;
    for (uint64_t i = 0; i < h->items.count; i++) {
        const struct heap_item *item = (const struct heap_item *)h->items.items + i;
        if (item->thread == thread && item->root.part == PART_LOCAL && item->root.slot == 0 &&
            reads(item->root.name, "self") && is_thread(Py_TYPE(item->root.object)))
            found = item->root.object; /* frames come from the innermost on */
    }
    return found;
}

/* An object's attribute, or NULL: of its own, or of the dict of them that ``before`` leads to. */
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

static bool put_name(struct writer *w, struct heap *h, PyObject *thread) {
    uint32_t number = graph_number(&h->graph, thread);
    PyObject *name = number == CSR_NONE ? NULL : attribute_of(h, number, NULL, "_name");
    if (!names_read_str(name, &writer_scratch))
        return false;
    writer_bytes(w, writer_scratch.bytes, writer_scratch.size);
    return true;
}

/* The process is the child's parent, and its main thread has its number. */
static bool is_main(const struct roots_thread *thread) {
    return thread->native != 0 && (long)thread->native == raw_call(SYS_getppid, 0, 0, 0, 0, 0);
}

static void put_thread(struct writer *w, struct heap *h, uint32_t thread) {
    const struct roots_thread *noted = (const struct roots_thread *)h->threads.items + thread;
    PyObject *object = thread_object(h, thread);
    if (object != NULL && put_name(w, h, object))
        return;
    if (is_main(noted))
        writer_text(w, "MainThread");
    else if (noted->native != 0)
        writer_int(w, (int64_t)noted->native);
}

/* -- the place ------------------------------------------------------------------------------------------------ */

static bool is_of_frame(const struct label *label) {
    return label->kind == LABEL_LOCAL || label->kind == LABEL_STACK || label->kind == LABEL_FRAME;
}

static void pack_frame(struct answering *a, PyObject *code, const void *frame, uint32_t thread) {
    char text[THREAD_BYTES];
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

void places_pack(struct answering *a, const struct label *label, uint32_t frame, bool is_one) {
    const struct heap *h = a->heap;
    const void *place = NULL;
    PyObject *code = NULL;
    uint32_t thread = CSR_NONE;
    if (is_of_frame(label) && frame != CSR_NONE && heap_is_frame(h, frame)) {
        const struct heap_frame *noted = (const struct heap_frame *)h->frames.items + (frame - h->graph.objects);
        code = noted->frame.code;
        place = noted->frame.address;
        thread = noted->thread;
    } else if (is_of_frame(label) && is_code(label->owner)) {
        code = label->owner;
    } else if (is_of_frame(label) && label->owner != NULL) {
        place = frame_of_generator(label->owner);
        code = place == NULL ? NULL : code_of_frame(place);
    }
    if (code == NULL)
        pack_nil(a->out);
    else
        pack_frame(a, code, is_one ? place : NULL, is_one ? thread : CSR_NONE);
}
