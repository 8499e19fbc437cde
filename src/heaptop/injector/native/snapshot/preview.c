/* preview: lengths and names. */
#include "snapshot/preview.h"

#include "heap/containers.h"
#include "heap/size.h"
#include "heap/writer.h"

static struct name_text module_name, type_name;

static void write_type(struct writer *w, PyTypeObject *type) {
    names_read(type, &module_name, &type_name);
    if (module_name.size != 8 || __builtin_memcmp(module_name.bytes, "builtins", 8) != 0) {
        writer_bytes(w, module_name.bytes, module_name.size);
        writer_text(w, ".");
    }
    writer_bytes(w, type_name.bytes, type_name.size);
}

static void write_count(struct writer *w, int64_t count, const char *what) {
    writer_int(w, count);
    writer_text(w, what);
    if (count != 1)
        writer_text(w, "s");
}

/* "12 items", and of what type the first is. */
static void write_items(struct writer *w, int64_t count, PyObject *first) {
    write_count(w, count, " item");
    if (count <= 0 || first == NULL)
        return;
    writer_text(w, ", the first: ");
    write_type(w, Py_TYPE(first));
}

static void write_dict(struct writer *w, PyObject *dict) {
    struct keys_view keys = keys_open(pointer_at(dict, layout.dict_keys));
    PyObject **values = dict_values(dict);
    write_count(w, int64_at(dict, layout.dict_used), " item");
    for (int64_t i = 0; i < keys.count; i++) {
        PyObject **entry = keys_entry(&keys, i);
        PyObject *value = keys_value(&keys, values, i);
        if (entry[0] == NULL || value == NULL)
            continue;
        writer_text(w, ", the first: ");
        write_type(w, Py_TYPE(entry[0]));
        writer_text(w, " → ");
        write_type(w, Py_TYPE(value));
        return;
    }
}

static void write_function(struct writer *w, PyObject *function) {
    PyObject *module = object_at(function, layout.function_module);
    if (module != NULL && Py_TYPE(module) == symbols.str_type) {
        writer_str(w, module);
        writer_text(w, ".");
    }
    writer_str(w, object_at(function, layout.function_qualname));
    writer_text(w, "()");
}

static void write_words(struct writer *w, PyObject *o, const struct kind *kind) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject **items;
    switch (kind->size) {
    case SIZE_STR:
        write_count(w, int64_at(o, layout.str_length), " character");
        return;
    case SIZE_LIST:
        items = pointer_at(o, layout.list_items);
        write_items(w, size_field(o), items == NULL || size_field(o) == 0 ? NULL : items[0]);
        return;
    case SIZE_DICT:
        write_dict(w, o);
        return;
    case SIZE_SET:
        write_count(w, int64_at(o, layout.set_used), " item");
        return;
    default:
        break;
    }
    if (type == symbols.tuple_type)
        write_items(w, size_field(o), size_field(o) == 0 ? NULL : object_at(o, layout.tuple_items));
    else if (type == symbols.bytes_type || type == symbols.bytearray_type)
        write_count(w, size_field(o), " byte");
    else if (type_flags(type) & FLAG_TYPE_SUBCLASS)
        write_type(w, (PyTypeObject *)o);
    else if (type == symbols.function_type)
        write_function(w, o);
}

static void write_stored(struct writer *w, struct heap *h, uint32_t number) {
    static const char *const nouns[NOUNS] = {[NOUN_ITEM] = " item", [NOUN_CHARACTER] = " character", [NOUN_BYTE] = " byte"};
    const struct stored_note *note = stored_note(h->stored, number, NOTE_PREVIEW, NULL);
    uint32_t length = table_number(&h->stored->lengths, number);
    uint8_t noun = stored_kind(h->stored, graph_kind(&h->graph, number)->position)->noun;
    if (note != NULL)
        writer_text(w, stored_text(h->stored, note->value));
    else if (length != LENGTH_NONE && noun != NOUN_NONE)
        write_count(w, length, nouns[noun]);
}

enum stored_noun preview_noun(const struct kind *kind) {
    switch (kind->size) {
    case SIZE_STR:
        return NOUN_CHARACTER;
    case SIZE_LIST:
    case SIZE_DICT:
    case SIZE_SET:
        return NOUN_ITEM;
    default:
        break;
    }
    if (kind->type == symbols.tuple_type)
        return NOUN_ITEM;
    return kind->type == symbols.bytes_type || kind->type == symbols.bytearray_type ? NOUN_BYTE : NOUN_NONE;
}

uint32_t preview_write(struct heap *h, uint32_t number, bool values, char text[PREVIEW_BYTES]) {
    struct writer w = {text, text + PREVIEW_BYTES - 1};
    if (h->stored != NULL) {
        write_stored(&w, h, number);
        *w.at = 0;
        return (uint32_t)(w.at - text);
    }
    PyObject *o = graph_object(&h->graph, number);
    if (!values || !writer_value(&w, o))
        write_words(&w, o, graph_kind(&h->graph, number));
    *w.at = 0;
    return (uint32_t)(w.at - text);
}
