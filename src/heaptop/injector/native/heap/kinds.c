/* kinds: deciding, once for a type, how its instances are measured and expanded.

   Nothing here calls the interpreter but PyType_GetDict, which only looks. ``__sizeof__`` is looked up along the mro
   as _PyType_Lookup would, but without its cache, which that would change. */
#include "heap/kinds.h"

#include "pages.h"
#include "heap/edges.h"
#include "heap/owners.h"
#include "heap/without_code/rules.h"
#include "heap/size.h"

#include <string.h>

enum { FIRST_SLOTS = 1 << 10 };

int kinds_open(struct kinds *k, bool call_methods) {
    *k = (struct kinds){.size = FIRST_SLOTS, .call_methods = call_methods};
    k->slots = pages_map(FIRST_SLOTS * sizeof *k->slots);
    k->chunks = pages_map(KIND_CHUNKS * sizeof *k->chunks);
    return k->slots == NULL || k->chunks == NULL ? -1 : 0;
}

void kinds_close(struct kinds *k) {
    for (uint32_t i = 0; k->chunks != NULL && i < KIND_CHUNKS && k->chunks[i] != NULL; i++)
        pages_unmap(k->chunks[i], KINDS_PER_CHUNK * sizeof(struct kind));
    pages_unmap(k->chunks, KIND_CHUNKS * sizeof *k->chunks);
    pages_unmap(k->slots, k->size * sizeof *k->slots);
    *k = (struct kinds){0};
}

static void insert(struct kinds *k, struct kind *kind) {
    uint32_t i = kinds_hash(kind->type);
    while (k->slots[i & (k->size - 1)].type != NULL)
        i++;
    k->slots[i & (k->size - 1)] = (struct kind_slot){kind->type, kind};
}

static bool make_chunk(struct kinds *k) {
    uint32_t chunk = k->count / KINDS_PER_CHUNK;
    if (chunk >= KIND_CHUNKS)
        return false;
    if (k->chunks[chunk] == NULL)
        k->chunks[chunk] = pages_map(KINDS_PER_CHUNK * sizeof(struct kind));
    return k->chunks[chunk] != NULL;
}

static bool make_room(struct kinds *k) {
    if (2 * (k->count + 1) > k->size) {
        struct kind_slot *old = k->slots, *slots = pages_map(2 * k->size * sizeof *slots);
        if (slots == NULL)
            return false;
        k->slots = slots;
        k->size *= 2;
        for (uint32_t i = 0; i < k->count; i++)
            insert(k, kinds_at(k, i));
        pages_unmap(old, k->size / 2 * sizeof *old);
    }
    return make_chunk(k);
}

static enum collector_rule collector_rule(PyTypeObject *type) {
    if (!(type_flags(type) & FLAG_HAVE_GC))
        return COLLECTED_NEVER;
    inquiry is_gc = (inquiry)pointer_at(type, layout.type_is_gc);
    if (is_gc == NULL)
        return COLLECTED_ALWAYS;
    bool has_types = type_flags(type) & (unsigned long)FLAG_TYPE_SUBCLASS;
    return is_gc == symbols.type_is_gc || (symbols.without_code && has_types) ? COLLECTED_HEAP_TYPES : COLLECTED_ASK;
}

static enum values_rule values_rule(PyTypeObject *type) {
    if (layout.flags_inline_values != 0)
        return type_flags(type) & (unsigned long)layout.flags_inline_values ? VALUES_INLINE : VALUES_NONE;
    bool managed = layout.object_values != 0 && type_flags(type) & FLAG_MANAGED_DICT;
    return managed ? VALUES_POINTER : VALUES_NONE;
}

static bool decide_container(PyTypeObject *type) {
    static const char *const containers[] = {
        "dict",        "list",         "set",
        "bytearray",   "array.array",  "collections.deque",
        "_io.BytesIO", "_io.StringIO", "functools._lru_cache_wrapper",
    };
    for (; type != NULL; type = type_base(type))
        for (size_t i = 0; i < sizeof containers / sizeof *containers; i++)
            if (type_is_of_c(type, containers[i]))
                return true;
    return false;
}

struct kind *kinds_add_unread(struct kinds *k, PyTypeObject *type) {
    if (!make_chunk(k))
        return NULL;
    struct kind *kind = kinds_at(k, k->count);
    kind->position = k->count++;
    kind->type = type;
    return kind;
}

struct kind *kinds_add(struct kinds *k, PyTypeObject *type) {
    struct kind *kind = &k->nobody;
    if (make_room(k)) {
        kind = kinds_at(k, k->count);
        kind->position = k->count++;
    } else {
        kind->position = UINT32_MAX;
        k->failed = true;
    }
    unsigned long flags = type_flags(type);
    kind->type = type;
    kind->basic = uint32_at(type, layout.type_basicsize);
    kind->item = uint32_at(type, layout.type_itemsize);
    kind->before = (uint32_t)size_before(type);
    kind->traverse = flags & FLAG_HAVE_GC ? type_traverse(type) : NULL;
    kind->collected = collector_rule(type);
    kind->values = values_rule(type);
    size_decide(kind, k->call_methods);
    kind->edges = edges_decide(type);
    kind->owner = owners_find(type);
    if (kind->owner != NULL && kind->owner->far && !k->call_methods) /* in the process itself */
        kind->owner = &owner_opaque;
    kind->is_container = decide_container(type);
    kind->holds_type = flags & FLAG_HEAP_TYPE && !(flags & FLAG_HAVE_GC);
    kind->uneven = edges_decide_uneven(type);
    kind->type_visits = flags & FLAG_HEAP_TYPE && flags & FLAG_HAVE_GC && !symbols.without_code ? 0 : KIND_ASKED;
    if (symbols.without_code && kind->traverse != NULL)
        rules_decide(kind);
    if (kind != &k->nobody)
        insert(k, kind);
    return kind;
}
