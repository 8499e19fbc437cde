/* types: names read once, when the graph stands. */
#include "query/types.h"

bool types_open(struct types *t, struct heap *h) {
    const struct kinds *kinds = &h->graph.walk.kinds;
    struct name_text module, qualname;
    *t = (struct types){.kinds = kinds->count};
    t->numbers = pages_map((t->kinds + 1ul) * sizeof *t->numbers);
    t->firsts = pages_map((t->kinds + 1ul) * sizeof *t->firsts);
    if (t->numbers == NULL || t->firsts == NULL)
        return false;
    for (uint32_t i = 0; i < t->kinds; i++) {
        names_read(kinds_at(kinds, i)->type, &module, &qualname);
        struct name_key key = names_key(&module, &qualname);
        struct name *name = names_find(&t->names, key);
        if (name == NULL) {
            name = names_add(&t->names, key, t->count);
            if (name == NULL)
                return false;
            t->firsts[t->count++] = i;
        }
        t->numbers[i] = name->number;
    }
    return true;
}

void types_close(struct types *t) {
    pages_unmap(t->numbers, (t->kinds + 1ul) * sizeof *t->numbers);
    pages_unmap(t->firsts, (t->kinds + 1ul) * sizeof *t->firsts);
    names_clear(&t->names);
    *t = (struct types){0};
}
