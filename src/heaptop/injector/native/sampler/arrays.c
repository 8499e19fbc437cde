/* arrays: finding the slots, changing them, and what is in them. The drawing and the rules are in the header. */
#define _GNU_SOURCE
#include "sampler/arrays.h"

#include "lookup.h"
#include "maps.h"
#include "raw.h"
#include "sampler/sample.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MAX_SLOTS = 64,        /* two a library that says of memory; there are one or two such libraries */
    DOMAIN_NUMPY = 389047, /* numpy.lib.tracemalloc_domain, and NPY_TRACE_DOMAIN */
    NO_MEMORY = -1,        /* of PyTraceMalloc_Track: the caller gives the block back */
    NOT_TRACING = -2,      /* of both */
};

typedef int (*track_function)(unsigned int domain, uintptr_t block, size_t size);
typedef int (*untrack_function)(unsigned int domain, uintptr_t block);

struct library { /* as long as it is loaded, no other one has the same pair */
    uintptr_t base;
    const ElfW(Phdr) *headers;
};

struct slot {
    struct library library;
    void **place;
    void *original; /* what stood there */
    bool seen;      /* in this scan */
};

/* Guarded by the GIL, except what our functions read: the two of the interpreter, which do not change once they are
   set, and ``active``. */
static struct {
    track_function track;
    untrack_function untrack;
    bool active;
    bool is_settled; /* nothing is to be done as long as there are as many modules */
    long modules;
    int count;
    struct slot slots[MAX_SLOTS];
} arrays;

/* -- what is in the slots ------------------------------------------------------------------------------- */

/* ``due``: what sample_due said. */
static __attribute__((noinline)) int track_sampled(uintptr_t block, size_t size, bool due) {
    int status = arrays.track(DOMAIN_NUMPY, block, size);
    if (status != NO_MEMORY) {
        sample_untrack((void *)block);
        if (due)
            sample_track((void *)block, size, SAMPLE_ARRAY);
    } else if (due) {
        sample_draw(size);
        sample_undo(size);
    }
    return status;
}

/* Perhaps without the GIL: NumPy clears large buffers without it. The usual way ends in a
   jump; where there is no memory for the trace, the block that its caller frees then is in the clock. */
static SAMPLE_OWN_LINE int track(unsigned int domain, uintptr_t block, size_t size) {
    if (domain == DOMAIN_NUMPY && block != 0 && __atomic_load_n(&arrays.active, __ATOMIC_RELAXED)) {
        bool due = size <= SAMPLE_LARGEST && sample_due(size); /* anybody may say anything */
        if (due || sample_may_be((void *)block))
            return track_sampled(block, size, due);
    }
    return arrays.track(domain, block, size);
}

static SAMPLE_OWN_LINE int untrack(unsigned int domain, uintptr_t block) {
    bool ours = domain == DOMAIN_NUMPY && __atomic_load_n(&arrays.active, __ATOMIC_RELAXED);
    if (ours && block != 0)
        sample_untrack((void *)block);
    int status = arrays.untrack(domain, block);
    return ours && status == NOT_TRACING ? 0 : status; /* somebody is: then NumPy says what a resize made of it */
}

struct pair {
    const char *name;
    void *ours, *theirs;
};

static void *address_of_track(void) {
    track_function function = track;
    return *(void **)&function;
}

static void *address_of_untrack(void) {
    untrack_function function = untrack;
    return *(void **)&function;
}

static bool find_pair(const char *name, struct pair *pair) {
    if (strcmp(name, "PyTraceMalloc_Track") == 0)
        *pair = (struct pair){name, address_of_track(), *(void **)&arrays.track};
    else if (strcmp(name, "PyTraceMalloc_Untrack") == 0)
        *pair = (struct pair){name, address_of_untrack(), *(void **)&arrays.untrack};
    else
        return false;
    return true;
}

/* -- a library's parts -------------------------------------------------------------------------------------- */

/* Whether memory is in a segment of a library that has all of these flags (PF_…). */
static bool loaded_has(const struct dl_phdr_info *info, uintptr_t address, size_t size, unsigned flags) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && (header->p_flags & flags) == flags && address >= begin &&
            address - begin <= header->p_memsz && header->p_memsz - (address - begin) >= size)
            return true;
    }
    return false;
}

/* Whether the linker makes this page read-only when the library is ready; rounded as it does. */
static bool is_relro(const struct dl_phdr_info *info, uintptr_t address) {
    uintptr_t page = machine_page();
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr, end = begin + header->p_memsz;
        if (header->p_type == PT_GNU_RELRO && address >= (begin & -page) && address < (end & -page))
            return true;
    }
    return false;
}

struct relocations {
    const ElfW(Rela) *entries[2]; /* of the data, and of the functions */
    size_t sizes[2];              /* bytes */
    size_t relative;              /* entries of the first that come first and name no symbol */
    const ElfW(Sym) *symbols;
    const char *strings;
    size_t strings_size;
};

/* False where there are none, or what describes them is not whole: a library at the beginning of its loading. */
static bool read_relocations(const struct dl_phdr_info *info, struct relocations *r) {
    const ElfW(Dyn) *dynamic = NULL;
    *r = (struct relocations){{NULL}, {0}, 0, NULL, NULL, 0};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t value = dynamic->d_un.d_ptr; /* glibc has made it an address, other linkers leave it relative */
        uintptr_t address = value < info->dlpi_addr ? value + info->dlpi_addr : value;
        switch (dynamic->d_tag) {
        case DT_RELA:
            r->entries[0] = (const ElfW(Rela) *)address;
            break;
        case DT_RELASZ:
            r->sizes[0] = value;
            break;
        case DT_RELACOUNT:
            r->relative = value;
            break;
        case DT_JMPREL:
            r->entries[1] = (const ElfW(Rela) *)address;
            break;
        case DT_PLTRELSZ:
            r->sizes[1] = value;
            break;
        case DT_SYMTAB:
            r->symbols = (const ElfW(Sym) *)address;
            break;
        case DT_STRTAB:
            r->strings = (const char *)address;
            break;
        case DT_STRSZ:
            r->strings_size = value;
            break;
        }
    }
    for (int i = 0; i < 2; i++)
        if (r->entries[i] == NULL || !loaded_has(info, (uintptr_t)r->entries[i], r->sizes[i], PF_R))
            r->sizes[i] = 0;
    return r->symbols != NULL && r->strings != NULL && loaded_has(info, (uintptr_t)r->strings, r->strings_size, PF_R);
}

/* -- memory ------------------------------------------------------------------------------------------------- */

/* PROT_… of a private page, or -1 where that is unknown. */
static int protection_of(uintptr_t address) {
    struct maps m;
    struct mapping found;
    int protection = -1;
    if (!maps_open(&m))
        return -1;
    while (maps_line(&m, &found))
        if (address >= found.begin && address < found.end) {
            protection = found.is_private ? found.protection : -1;
            break;
        }
    maps_close(&m);
    return protection;
}

/* Put ``value`` into a slot, its page being as the rules want it. False, and nothing has changed, where it is not. */
static bool store(const struct dl_phdr_info *info, void **place, void *value) {
    uintptr_t size = machine_page(), page = (uintptr_t)place & -size;
    int protection = protection_of(page), wanted = is_relro(info, (uintptr_t)place) ? PROT_READ : PROT_READ | PROT_WRITE;
    if (protection != wanted)
        return false;
    if (protection == PROT_READ && raw_failed(raw_call(SYS_mprotect, (long)page, (long)size, PROT_READ | PROT_WRITE, 0, 0)))
        return false;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    if (protection == PROT_READ)
        raw_call(SYS_mprotect, (long)page, (long)size, PROT_READ, 0, 0);
    return true;
}

/* -- the slots ---------------------------------------------------------------------------------------------- */

static struct library library_of(const struct dl_phdr_info *info) { return (struct library){info->dlpi_addr, info->dlpi_phdr}; }

static bool is_same(struct library a, struct library b) { return a.base == b.base && a.headers == b.headers; }

static struct slot *slot_at(void **place) {
    for (int i = 0; i < arrays.count; i++)
        if (arrays.slots[i].place == place)
            return &arrays.slots[i];
    return NULL;
}

/* Whether this slot is as it is to be, for good. */
static bool settle(const struct dl_phdr_info *info, void **place, unsigned type, const struct pair *pair) {
    void *found = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    struct slot *slot = slot_at(place);
    if (found == pair->ours) {
        if (slot != NULL)
            slot->seen = true;
        return true;
    }
    bool is_lazy =
        type == MACHINE_JUMP_SLOT && !is_relro(info, (uintptr_t)place) && loaded_has(info, (uintptr_t)found, 1, PF_X);
    if (found != pair->theirs && !is_lazy)
        return false;
    if (slot == NULL && arrays.count == MAX_SLOTS)
        return false;
    if (slot == NULL)
        slot = &arrays.slots[arrays.count++];
    *slot = (struct slot){library_of(info), place, found, true};
    if (!store(info, place, pair->ours)) {
        *slot = arrays.slots[--arrays.count];
        return false;
    }
    return !is_lazy; /* a thread may be on its way to put in what it has just looked up: see next time */
}

static bool settle_all(const struct dl_phdr_info *info) {
    struct relocations r;
    bool settled = true;
    if (!read_relocations(info, &r))
        return true;
    for (int table = 0; table < 2; table++) {
        size_t count = r.sizes[table] / sizeof(ElfW(Rela));
        for (size_t i = table == 0 ? r.relative : 0; i < count; i++) {
            const ElfW(Rela) *entry = &r.entries[table][i];
            unsigned type = ELF64_R_TYPE(entry->r_info);
            const ElfW(Sym) *symbol = &r.symbols[ELF64_R_SYM(entry->r_info)];
            struct pair pair;
            uintptr_t place = info->dlpi_addr + entry->r_offset;
            if ((type == MACHINE_JUMP_SLOT || type == MACHINE_GLOB_DAT) && symbol->st_name < r.strings_size &&
                find_pair(r.strings + symbol->st_name, &pair) && place % sizeof(void *) == 0 &&
                loaded_has(info, place, sizeof(void *), PF_W))
                settled = settle(info, (void **)place, type, &pair) && settled;
        }
    }
    return settled;
}

/* -- the scan ----------------------------------------------------------------------------------------------- */

/* NumPy's own library: _multiarray_umath in every version that is sampled. */
static bool may_be_numpy(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL && strstr(slash, "multiarray") != NULL;
}

/* As dl_iterate_phdr shows a library. False where there is none at the beginning of a mapping. */
static bool read_head(const struct mapping *at, struct dl_phdr_info *info) {
    const ElfW(Ehdr) *head = (const void *)at->begin;
    uint64_t size = at->end - at->begin;
    if (size < sizeof *head || !raw_readable(at->begin) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_phentsize != sizeof(ElfW(Phdr)) || head->e_phoff > size ||
        head->e_phnum > (size - head->e_phoff) / sizeof(ElfW(Phdr)))
        return false;
    *info = (struct dl_phdr_info){.dlpi_addr = at->begin, .dlpi_phnum = head->e_phnum};
    info->dlpi_phdr = (const void *)((const char *)head + head->e_phoff);
    return true;
}

/* Look at each library that is NumPy's by its name, and has code here: a file that is only read has none. Not by
   dl_iterate_phdr, which takes a lock of the dynamic linker's: who has it may wait for the GIL, in a callback in Python
   (threadpoolctl, ctypes.util.dllist). False where memory is not shown. */
static bool each_numpy(void (*look)(const struct dl_phdr_info *, void *), void *context) {
    struct maps m;
    struct mapping found, head = {0};
    struct dl_phdr_info info;
    if (!maps_open(&m))
        return false;
    while (maps_line(&m, &found)) {
        if (found.offset == 0 && found.protection & PROT_READ && may_be_numpy(found.path)) {
            head = found;
        } else if (head.inode != 0 && found.inode == head.inode && found.protection & PROT_EXEC) {
            if (read_head(&head, &info))
                look(&info, context);
            head.inode = 0;
        }
    }
    maps_close(&m);
    return true;
}

static void scan_library(const struct dl_phdr_info *info, void *context) {
    bool *settled = context;
    if (settle_all(info))
        return;
    *settled = false;
    struct library library = library_of(info);
    for (int i = 0; i < arrays.count; i++)
        arrays.slots[i].seen = arrays.slots[i].seen || is_same(arrays.slots[i].library, library);
}

static void forget_seen(void) {
    for (int i = 0; i < arrays.count; i++)
        arrays.slots[i].seen = false;
}

static void drop_unseen(void) {
    int kept = 0;
    for (int i = 0; i < arrays.count; i++)
        if (arrays.slots[i].seen)
            arrays.slots[kept++] = arrays.slots[i];
    arrays.count = kept;
}

int arrays_scan(long modules) {
    bool settled = true;
    arrays.is_settled = arrays.is_settled && arrays.modules == modules;
    if (!arrays.active || modules == 0)
        return 0;
    if (arrays.is_settled)
        return arrays.count;
    forget_seen();
    if (each_numpy(scan_library, &settled)) {
        drop_unseen();
        arrays.is_settled = settled;
        arrays.modules = modules;
    }
    return arrays.count;
}

void arrays_look_up(void) {
    if (arrays.track == NULL || arrays.untrack == NULL) {
        *(void **)&arrays.track = lookup_symbol("PyTraceMalloc_Track");
        *(void **)&arrays.untrack = lookup_symbol("PyTraceMalloc_Untrack");
    }
}

const char *arrays_install(void) {
    if (arrays.track == NULL || arrays.untrack == NULL)
        return "the interpreter has no PyTraceMalloc_Track";
    arrays.is_settled = false;
    __atomic_store_n(&arrays.active, true, __ATOMIC_RELEASE);
    return NULL;
}

/* -- the way back ------------------------------------------------------------------------------------------- */

static void restore_library(const struct dl_phdr_info *info, void *context) {
    (void)context;
    struct library library = library_of(info);
    for (int i = 0; i < arrays.count; i++) {
        struct slot *slot = &arrays.slots[i];
        if (!is_same(slot->library, library) || !loaded_has(info, (uintptr_t)slot->place, sizeof(void *), PF_W))
            continue;
        void *found = __atomic_load_n(slot->place, __ATOMIC_ACQUIRE);
        bool is_ours = found == address_of_track() || found == address_of_untrack();
        slot->seen = is_ours && !store(info, slot->place, slot->original); /* seen: ours still */
    }
}

void arrays_rest(void) { __atomic_store_n(&arrays.active, false, __ATOMIC_RELEASE); }

const char *arrays_remove(void) {
    arrays_rest();
    if (arrays.count == 0)
        return NULL;
    forget_seen(); /* those of a library that is gone */
    if (each_numpy(restore_library, NULL))
        drop_unseen();
    return arrays.count == 0 ? NULL : "a slot of a library could not be put back, and passes on what it is told";
}
