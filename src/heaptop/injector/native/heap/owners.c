/* owners: the registry. */
#include "heap/owners.h"

#include "pages.h"

#include <string.h>

static const struct owner *const owners[] = {&owner_arrow,  &owner_bz2,    &owner_cffi,     &owner_ctypes, &owner_mmap,
                                             &owner_opaque, &owner_pillow, &owner_stringio, &owner_torch,  &owner_zlib};

static bool is_of(const struct owner *owner, const char *name) {
    const char *const *type = owner->types;
    while (*type != NULL && ((*type)[0] != name[0] || strcmp(*type, name) != 0)) /* each type met is asked about */
        type++;
    return *type != NULL;
}

const struct owner *owners_find(PyTypeObject *type) {
    for (; type != NULL; type = type_base(type)) {
        const char *name = pointer_at(type, layout.type_name);
        for (size_t i = 0; name != NULL && i < sizeof owners / sizeof *owners; i++)
            if (is_of(owners[i], name) && uint32_at(type, layout.type_basicsize) >= owners[i]->least)
                return owners[i];
    }
    return NULL;
}

bool owners_has(const void *at, uint64_t size) {
    const uint64_t word = sizeof(uint64_t), begin = (uint64_t)at;
    return size >= word && size < MACHINE_HIGHEST && raw_readable(begin) && raw_readable(begin + size - word);
}

bool owners_is(const void *object, const char *name) {
    if (!owners_has(object, sizeof(void *)))
        return false;
    const char *functions = pointer_at(object, 0);
    if (!owners_has(functions - sizeof(void *), sizeof(void *)))
        return false;
    const char *information = pointer_at(functions, -(int32_t)sizeof(void *));
    const char *found = owners_has(information, 2 * sizeof(void *)) ? pointer_at(information, sizeof(void *)) : NULL;
    uint64_t size = strlen(name) < sizeof(void *) ? sizeof(void *) : strlen(name);
    return owners_has(found, size) && strncmp(found, name, strlen(name)) == 0;
}

/* -- what was counted ----------------------------------------------------------------------------------------------- */

enum { FIRST_SEEN = 1 << 9 };

static uint64_t *slot_of(const struct owners_seen *seen, uint64_t address) {
    uint64_t i = (address >> 3) * 0x9E3779B97F4A7C15u >> 16;
    while (seen->slots[i & (seen->size - 1)] != 0 && seen->slots[i & (seen->size - 1)] != address)
        i++;
    return &seen->slots[i & (seen->size - 1)];
}

static bool make_room(struct owners_seen *seen) {
    if (2 * seen->count < seen->size)
        return true;
    struct owners_seen larger = {NULL, seen->size == 0 ? FIRST_SEEN : 2 * seen->size, seen->count, false};
    larger.slots = pages_map(larger.size * sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (uint64_t i = 0; i < seen->size; i++)
        if (seen->slots[i] != 0)
            *slot_of(&larger, seen->slots[i]) = seen->slots[i];
    owners_forget(seen);
    *seen = larger;
    return true;
}

bool owners_first(struct owners_seen *seen, const void *what) {
    if (!make_room(seen)) {
        seen->failed = true;
        return false;
    }
    uint64_t *slot = slot_of(seen, (uint64_t)what);
    bool first = *slot == 0;
    seen->count += first;
    *slot = (uint64_t)what;
    return first;
}

void owners_forget(struct owners_seen *seen) {
    pages_unmap(seen->slots, seen->size * sizeof *seen->slots);
    *seen = (struct owners_seen){0};
}
