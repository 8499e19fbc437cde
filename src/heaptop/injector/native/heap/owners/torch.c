/* torch: storages of tensors in memory of the CPU (c10/core/TensorImpl.h, StorageImpl.h, Allocator.h; autograd/variable.h; the
   same in 1.13 and 2.13 but for the sizes named below). Each is counted with the first object that has it, so views of a
   tensor are.

       Tensor, Parameter ─► TensorImpl ─► StorageImpl ─► data
                              └► AutogradMeta ─► gradient: TensorImpl
       UntypedStorage ────────────────────► StorageImpl

   Memory that torch did not allocate (of an array of NumPy, a file in memory) is not counted, and nobody need count it: there
   may be more. So there may be where a tensor keeps the graph of its gradient, whose tensors have no objects. */
#include "heap/owners.h"

enum { EARLY = 16, LATE = 24 }; /* where fields begin, of objects of Python and of C++ */

struct data { /* DataPtr, and what follows it in a StorageImpl */
    const void *at, *release, *context;
    int8_t device, number, rest[6];
    int64_t size;
};

static const char STORAGE[] = "N3c1011StorageImplE", TENSOR[] = "N3c1010TensorImplE",
                  NO_TENSOR[] = "N3c1019UndefinedTensorImplE", META[] = "N5torch8autograd12AutogradMetaE",
                  META_OF_VIEW[] = "N5torch8autograd22DifferentiableViewMetaE";

/* Where the fields of an object of C++ begin: one word counts its references from 2.10 on, two before, of which the second is
   small and never 0. */
static int32_t fields_of(const void *object) { return uint64_at(object, EARLY) - 1 < UINT16_MAX ? LATE : EARLY; }

enum { CPU = 0 };

static void add_storage(struct owned *owned, const void *storage, struct owners_seen *seen) {
    bool is_storage = owners_is(storage, STORAGE) && owners_has(storage, LATE + sizeof(struct data));
    const struct data *data = is_storage ? at(storage, fields_of(storage)) : NULL;
    if (is_storage && (data->device != CPU || (data->at == NULL && data->size == 0)))
        return; /* of another device, or empty */
    bool is_of_torch = is_storage && data->at != NULL && data->context == data->at && data->size > 0;
    uint64_t size = is_of_torch ? (uint64_t)data->size : 0, word = sizeof(uint64_t);
    if (!is_of_torch || !owners_has(data->at, size < word ? word : size))
        owned->unknown = true;
    else if (owners_first(seen, storage))
        owned->bytes += size;
    owned->unknown = owned->unknown || seen->failed;
}

/* What an AutogradMeta holds behind a text of C++, whose size depends on the ABI: the gradient, then the graph. */
static void add_gradient(struct owned *owned, const void *meta, struct owners_seen *seen) {
    static const int32_t places[] = {16, 40};
    bool fits = owners_is(meta, META) || owners_is(meta, META_OF_VIEW);
    for (size_t i = 0; fits && i < sizeof places / sizeof *places && owners_has(meta, (uint64_t)places[i] + 16); i++) {
        const void *gradient = pointer_at(meta, places[i]), *graph = pointer_at(meta, places[i] + (int32_t)sizeof(void *));
        bool is_tensor = owners_is(gradient, TENSOR);
        if (!is_tensor && !owners_is(gradient, NO_TENSOR))
            continue;
        if (is_tensor)
            add_storage(owned, pointer_at(gradient, fields_of(gradient)), seen);
        owned->unknown = owned->unknown || graph != NULL;
        return;
    }
    owned->unknown = true;
}

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    struct owned owned = {0, false};
    /* behind a flag before 2.10 */
    const void *body = body_of(o), *object = pointer_at(body, uint64_at(body, EARLY) <= 1 ? LATE : EARLY);
    if (owners_is(object, TENSOR) && owners_has(object, LATE + 2 * sizeof(void *))) {
        int32_t fields = fields_of(object);
        const void *meta = pointer_at(object, fields + (int32_t)sizeof(void *));
        add_storage(&owned, pointer_at(object, fields), seen);
        if (meta != NULL)
            add_gradient(&owned, meta, seen);
    } else {
        add_storage(&owned, object, seen);
    }
    return owned;
}

static const char *const types[] = {"torch._C.StorageBase", "torch._C.TensorBase", "torch._C._TensorBase", NULL};

const struct owner owner_torch = {types, 24, measure, .far = true, .maps = false};
