/* arrays: finding the slots, changing them, and what is in them. The drawing and the rules are in the header. */
#define _GNU_SOURCE
#include "sampler/arrays.h"

#include "loaded.h"
#include "lookup.h"
#include "raw.h"
#include "sampler/sample.h"

#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    MAX_SLOTS = 64,        /* two a library that says of memory; there are one or two such libraries */
    KNOWN = 4096,          /* libraries; what finds no room is searched at each scan */
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
    bool has_scanned, is_settled; /* whether ``adds`` and ``subs`` say that there is nothing to do */
    unsigned long long adds, subs;
    int count;
    struct slot slots[MAX_SLOTS];
    struct library known[KNOWN]; /* looked through, to the end; open addressing */
    int known_count;
} arrays;

/* -- what is in the slots ------------------------------------------------------------------------------- */

/* Perhaps without the GIL: NumPy clears large buffers without it. */
static int track(unsigned int domain, uintptr_t block, size_t size) {
    int status = arrays.track(domain, block, size);
    if (domain == DOMAIN_NUMPY && block != 0 && status != NO_MEMORY && __atomic_load_n(&arrays.active, __ATOMIC_RELAXED)) {
        sample_untrack((void *)block);
        if (size <= SAMPLE_LARGEST) /* anybody may say anything */
            sample_new((void *)block, size, SAMPLE_ARRAY);
    }
    return status;
}

static int untrack(unsigned int domain, uintptr_t block) {
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

/* Whether the linker makes this page read-only when the library is ready; rounded as it does. */
static bool is_relro(const struct dl_phdr_info *info, uintptr_t address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr, end = begin + header->p_memsz;
        if (header->p_type == PT_GNU_RELRO && address >= (begin & -(uintptr_t)PAGE) && address < (end & -(uintptr_t)PAGE))
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

/* -- pages -------------------------------------------------------------------------------------------------- */

struct maps { /* lines of /proc/self/maps, without the C library */
    int fd;
    size_t at, end;
    char buffer[4096];
};

static int maps_next(struct maps *m) {
    if (m->at == m->end) {
        long got = raw_call(SYS_read, m->fd, (long)m->buffer, sizeof m->buffer, 0, 0);
        m->at = 0;
        m->end = got > 0 ? (size_t)got : 0;
        if (got <= 0)
            return -1;
    }
    return (unsigned char)m->buffer[m->at++];
}

/* Up to a character that is no digit, which is returned. */
static int maps_number(struct maps *m, uintptr_t *number) {
    int c;
    *number = 0;
    while (((c = maps_next(m)) >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))
        *number = *number << 4 | (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    return c;
}

/* PROT_… of a private page, or -1 where that is unknown. */
static int protection_of(uintptr_t address) {
    struct maps m = {.at = 0, .end = 0};
    uintptr_t begin, end;
    int protection = -1, c = 0;
    m.fd = (int)raw_call(SYS_openat, -100 /* AT_FDCWD */, (long)"/proc/self/maps", 02000000 /* O_CLOEXEC */, 0, 0);
    if (m.fd < 0)
        return -1;
    while (c != -1 && maps_number(&m, &begin) == '-' && maps_number(&m, &end) == ' ') {
        if (address >= begin && address < end) {
            int read = maps_next(&m), write = maps_next(&m), execute = maps_next(&m);
            if (maps_next(&m) == 'p')
                protection = (read == 'r' ? PROT_READ : 0) | (write == 'w' ? PROT_WRITE : 0) | (execute == 'x' ? PROT_EXEC : 0);
            break;
        }
        while ((c = maps_next(&m)) != '\n' && c != -1)
            ;
    }
    raw_call(SYS_close, m.fd, 0, 0, 0, 0);
    return protection;
}

/* Put ``value`` into a slot, its page being as the rules want it. False, and nothing has changed, where it is not. */
static bool store(const struct dl_phdr_info *info, void **place, void *value) {
    uintptr_t page = (uintptr_t)place & -(uintptr_t)PAGE;
    int protection = protection_of(page), wanted = is_relro(info, (uintptr_t)place) ? PROT_READ : PROT_READ | PROT_WRITE;
    if (protection != wanted)
        return false;
    if (protection == PROT_READ && raw_failed(raw_call(SYS_mprotect, (long)page, PAGE, PROT_READ | PROT_WRITE, 0, 0)))
        return false;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    if (protection == PROT_READ)
        raw_call(SYS_mprotect, (long)page, PAGE, PROT_READ, 0, 0);
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
        type == R_X86_64_JUMP_SLOT && !is_relro(info, (uintptr_t)place) && loaded_has(info, (uintptr_t)found, 1, PF_X);
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
            if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) && symbol->st_name < r.strings_size &&
                find_pair(r.strings + symbol->st_name, &pair) && place % sizeof(void *) == 0 &&
                loaded_has(info, place, sizeof(void *), PF_W))
                settled = settle(info, (void **)place, type, &pair) && settled;
        }
    }
    return settled;
}

/* -- the scan ----------------------------------------------------------------------------------------------- */

static struct library *known_place(struct library library) {
    uint32_t i = (uint32_t)((library.base ^ (uintptr_t)library.headers) * 0x9E3779B97F4A7C15u >> 40);
    struct library *place;
    do {
        place = &arrays.known[i++ % KNOWN];
    } while (place->headers != NULL && !is_same(*place, library));
    return place;
}

static void forget_known(void) {
    memset(arrays.known, 0, sizeof arrays.known);
    arrays.known_count = 0;
}

struct scan {
    bool begun, settled;
    unsigned long long adds, subs;
};

static bool has_counters(size_t size) { return size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(unsigned long long); }

static void mark_seen(struct library library) {
    for (int i = 0; i < arrays.count; i++)
        arrays.slots[i].seen = arrays.slots[i].seen || is_same(arrays.slots[i].library, library);
}

/* NumPy's own library: _multiarray_umath in every version that is sampled. */
static bool may_be_numpy(const char *path) {
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    return slash != NULL && strstr(slash, "multiarray") != NULL;
}

static bool is_left_out(const struct dl_phdr_info *info) {
    return !may_be_numpy(info->dlpi_name) || loaded_has(info, *(uintptr_t *)&arrays.track, 1, PF_X) ||
           loaded_has(info, (uintptr_t)address_of_track(), 1, PF_X);
}

/* The first call looks at the counters: 1 ends the iteration, when they are what they were. */
static int scan_library(struct dl_phdr_info *info, size_t size, void *context) {
    struct scan *scan = context;
    if (!has_counters(size))
        return 1;
    if (!scan->begun) {
        *scan = (struct scan){true, true, info->dlpi_adds, info->dlpi_subs};
        if (arrays.is_settled && scan->adds == arrays.adds && scan->subs == arrays.subs)
            return 1;
        if (!arrays.has_scanned || scan->subs != arrays.subs)
            forget_known(); /* another library may be where one was */
        for (int i = 0; i < arrays.count; i++)
            arrays.slots[i].seen = false;
        arrays.is_settled = false;
    }
    struct library library = library_of(info);
    struct library *place = known_place(library);
    if (place->headers != NULL) {
        mark_seen(library);
    } else if (is_left_out(info) || settle_all(info)) {
        if (2 * arrays.known_count < KNOWN) {
            *place = library;
            arrays.known_count++;
        }
    } else {
        scan->settled = false;
        mark_seen(library);
    }
    return 0;
}

static void drop_unseen(void) {
    int kept = 0;
    for (int i = 0; i < arrays.count; i++)
        if (arrays.slots[i].seen)
            arrays.slots[kept++] = arrays.slots[i];
    arrays.count = kept;
}

int arrays_scan(void) {
    struct scan scan = {false, false, 0, 0};
    if (!arrays.active)
        return 0;
    if (dl_iterate_phdr(scan_library, &scan) == 0 && scan.begun) {
        drop_unseen();
        arrays.has_scanned = true;
        arrays.is_settled = scan.settled;
        arrays.adds = scan.adds;
        arrays.subs = scan.subs;
    }
    return arrays.count;
}

const char *arrays_install(void) {
    if (arrays.track == NULL || arrays.untrack == NULL) {
        void *found_track = lookup_symbol("PyTraceMalloc_Track"), *found_untrack = lookup_symbol("PyTraceMalloc_Untrack");
        if (found_track == NULL || found_untrack == NULL)
            return "the interpreter has no PyTraceMalloc_Track";
        *(void **)&arrays.track = found_track;
        *(void **)&arrays.untrack = found_untrack;
    }
    arrays.has_scanned = arrays.is_settled = false;
    __atomic_store_n(&arrays.active, true, __ATOMIC_RELEASE);
    arrays_scan();
    return NULL;
}

/* -- the way back ------------------------------------------------------------------------------------------- */

static int restore_library(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    struct library library = library_of(info);
    for (int i = 0; i < arrays.count; i++) {
        struct slot *slot = &arrays.slots[i];
        if (!is_same(slot->library, library) || !loaded_has(info, (uintptr_t)slot->place, sizeof(void *), PF_W))
            continue;
        void *found = __atomic_load_n(slot->place, __ATOMIC_ACQUIRE);
        bool is_ours = found == address_of_track() || found == address_of_untrack();
        slot->seen = is_ours && !store(info, slot->place, slot->original); /* seen: ours still */
    }
    return 0;
}

void arrays_rest(void) { __atomic_store_n(&arrays.active, false, __ATOMIC_RELEASE); }

const char *arrays_remove(void) {
    arrays_rest();
    if (arrays.count == 0)
        return NULL;
    for (int i = 0; i < arrays.count; i++)
        arrays.slots[i].seen = false; /* of a library that is gone */
    dl_iterate_phdr(restore_library, NULL);
    drop_unseen();
    return arrays.count == 0 ? NULL : "a slot of a library could not be put back, and passes on what it is told";
}
