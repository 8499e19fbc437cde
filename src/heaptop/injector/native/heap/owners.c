/* owners: the registry. */
#include "heap/owners.h"

#include "raw.h"

#include <string.h>

static const struct owner *const owners[] = {&owner_bz2, &owner_ctypes, &owner_mmap, &owner_opaque, &owner_zlib};

static bool is_of(const struct owner *owner, const char *name) {
    const char *const *type = owner->types;
    while (*type != NULL && strcmp(*type, name) != 0)
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
    return size >= word && size < 1ull << 47 && raw_readable(begin) && raw_readable(begin + size - word);
}
