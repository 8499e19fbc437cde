/* names: reading str objects as UTF-8 and looking names up, without allocating from the interpreter. */
#include "heap/names.h"

#include "pages.h"
#include "heap/containers.h"
#include "heap/size.h"

#include <string.h>

/* -- reading ----------------------------------------------------------------------------------------------- */

static void put_hex(struct name_text *text, uint32_t c) {
    static const char digits[] = "0123456789abcdef";
    text->bytes[text->size++] = '\\';
    text->bytes[text->size++] = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        text->bytes[text->size++] = digits[c >> shift & 15];
}

static void put(struct name_text *text, uint32_t c) {
    if (c == 0)
        c = '?';
    if (c >= 0xd800 && c < 0xe000) {
        put_hex(text, c);
    } else if (c < 0x80) {
        text->bytes[text->size++] = (char)c;
    } else {
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* heads 0xc0, 0xe0, 0xf0 */
        text->bytes[text->size++] = (char)(0xf00 >> (more + 1) | c >> 6 * more);
        while (more--)
            text->bytes[text->size++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
}

static void set_unknown(struct name_text *text) {
    text->size = 0;
    put(text, '?');
}

/* The next character, and ``*at`` behind it; -1 for what is not UTF-8 (RFC 3629, as strict as CPython's decoder). */
static int32_t next_character(const char **at, const char *end) {
    static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
    int32_t c = (uint8_t)*(*at)++;
    if (c < 0x80)
        return c;
    int more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    if (c < 0xc2 || c > 0xf4 || end - *at < more)
        return -1;
    c &= 0x3f >> more;
    for (int i = 0; i < more; i++) {
        uint8_t next = (uint8_t)*(*at)++;
        if ((next & 0xc0) != 0x80)
            return -1;
        c = c << 6 | (next & 0x3f);
    }
    return c < least[more] || c >= 0x110000 || (c >= 0xd800 && c < 0xe000) ? -1 : c;
}

/* False when the bytes are not UTF-8. */
static bool read_utf8(const char *at, size_t size, struct name_text *text) {
    const char *end = at + size;
    text->size = 0;
    for (int i = 0; at < end; i++) {
        int32_t c = next_character(&at, end);
        if (c < 0)
            return false;
        if (i < NAME_CHARACTERS)
            put(text, (uint32_t)c);
    }
    return true;
}

bool names_data(PyObject *o, struct name_data *found) {
    if (o == NULL || Py_TYPE(o) != symbols.str_type)
        return false;
    uint32_t state = uint32_at(o, layout.str_state), width = state >> layout.str_state_kind & 7;
    bool compact = state >> layout.str_state_compact & 1, ascii = compact && (state >> layout.str_state_ascii & 1);
    const void *data = ascii     ? at(o, layout.str_ascii_size)
                       : compact ? at(o, layout.str_compact_size)
                                 : pointer_at(o, layout.str_data);
    *found = (struct name_data){data, int64_at(o, layout.str_length), width};
    return data != NULL && (width == 1 || width == 2 || width == 4);
}

bool names_is(PyObject *key, const char *name) {
    struct name_data d;
    size_t size = strlen(name);
    return names_data(key, &d) && d.width == 1 && d.length == (int64_t)size && memcmp(d.data, name, size) == 0;
}

bool names_read_str(PyObject *o, struct name_text *text) {
    struct name_data d;
    if (!names_data(o, &d))
        return false;
    text->size = 0;
    for (int64_t i = 0; i < d.length && i < NAME_CHARACTERS; i++)
        put(text, d.width == 1   ? ((const uint8_t *)d.data)[i]
                  : d.width == 2 ? ((const uint16_t *)d.data)[i]
                                 : ((const uint32_t *)d.data)[i]);
    return true;
}

/* The value of "__module__" in a heap type's namespace. */
static PyObject *module_of(PyTypeObject *type) {
    PyObject *dict = kind_dict(type), *found = dict == NULL ? NULL : dict_find(dict, names_is, "__module__");
    kind_release_dict(type, dict);
    return found;
}

/* What is before the last dot of tp_name. False when there is none, or it is not UTF-8. */
static bool read_module(PyTypeObject *type, struct name_text *module) {
    const char *full = pointer_at(type, layout.type_name), *dot = full == NULL ? NULL : strrchr(full, '.');
    return dot != NULL && read_utf8(full, (size_t)(dot - full), module);
}

/* typeobject.c: type_module, type_qualname, and for a heap type whose "__module__" is no str, type_repr. Cython's functions
   are such: "__module__" in their type is the member that their instances have. */
void names_read(PyTypeObject *type, struct name_text *module, struct name_text *qualname) {
    if (type_flags(type) & FLAG_HEAP_TYPE) {
        if (!names_read_str(object_at(type, layout.heap_qualname), qualname))
            set_unknown(qualname);
        if (!names_read_str(module_of(type), module) && !read_module(type, module))
            set_unknown(module);
        return;
    }
    const char *full = pointer_at(type, layout.type_name), *dot = strrchr(full, '.');
    const char *first = dot == NULL ? "builtins" : full, *last = dot == NULL ? full : dot + 1;
    if (!read_utf8(first, dot == NULL ? strlen(first) : (size_t)(dot - full), module))
        set_unknown(module);
    if (!read_utf8(last, strlen(last), qualname))
        set_unknown(qualname);
}

/* -- the table --------------------------------------------------------------------------------------------- */

static void hash(struct name_key *key, const char *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        key->hash = (key->hash ^ (uint8_t)bytes[i]) * 0x100000001b3u; /* FNV-1a */
        key->other = (key->other + (uint8_t)bytes[i] + 1) * 0x9E3779B97F4A7C15u;
        key->other ^= key->other >> 29;
    }
}

struct name_key names_key(const struct name_text *module, const struct name_text *qualname) {
    struct name_key key = {0xcbf29ce484222325u, 1};
    hash(&key, module->bytes, module->size);
    hash(&key, "", 1); /* the NUL between: no name contains one */
    hash(&key, qualname->bytes, qualname->size);
    return key;
}

static struct name *slot_of(const struct names *n, struct name_key key) {
    uint64_t i = key.hash ^ key.hash >> 32;
    for (;; i++) {
        struct name *slot = &n->slots[i & (n->size - 1)];
        bool is_free = (slot->key.hash | slot->key.other) == 0;
        if (is_free || (slot->key.hash == key.hash && slot->key.other == key.other))
            return slot;
    }
}

struct name *names_find(struct names *n, struct name_key key) {
    struct name *slot = n->size == 0 ? NULL : slot_of(n, key);
    return slot == NULL || (slot->key.hash | slot->key.other) == 0 ? NULL : slot;
}

static bool make_room(struct names *n) {
    if (n->size != 0 && 2 * (n->count + 1) <= n->size)
        return true;
    struct names larger = *n;
    larger.size = n->size == 0 ? 1 << 10 : 2 * n->size;
    larger.slots = pages_map(larger.size * sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (uint32_t i = 0; i < n->size; i++)
        if ((n->slots[i].key.hash | n->slots[i].key.other) != 0)
            *slot_of(&larger, n->slots[i].key) = n->slots[i];
    pages_unmap(n->slots, n->size * sizeof *n->slots);
    *n = larger;
    return true;
}

struct name *names_add(struct names *n, struct name_key key, uint32_t number) {
    if (!make_room(n))
        return NULL;
    struct name *slot = slot_of(n, key);
    *slot = (struct name){.key = key, .number = number};
    n->count++;
    return slot;
}

void names_clear(struct names *n) {
    pages_unmap(n->slots, n->size * sizeof *n->slots);
    *n = (struct names){0};
}
