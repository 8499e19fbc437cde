/* lookup: finding at run time what not every C library and every Python has.
   It takes the dynamic linker's lock, which glibc's dlopen holds while a library's own code runs, and such code may wait for
   the GIL. So never with the GIL, and never in a snapshot child. */
#ifndef HEAPTOP_LOOKUP_H
#define HEAPTOP_LOOKUP_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef HEAPTOP_MUSL
extern void *lookup_dlsym(void *handle, const char *name) __asm__("dlsym");
#else
/* dlsym moved from libdl to libc in glibc 2.34 under a new version; the old name loads everywhere. */
extern void *lookup_dlsym(void *handle, const char *name);
__asm__(".symver lookup_dlsym, " MACHINE_DLSYM);
#endif

/* The address of a symbol in any loaded object, or NULL. */
static inline void *lookup_symbol(const char *name) { return lookup_dlsym(NULL /* RTLD_DEFAULT */, name); }

struct lookup_object { /* Dl_info, dladdr(3) */
    const char *file;  /* lives as long as the object is loaded */
    void *base;
    const char *symbol;
    void *symbol_address;
};

/* The object that an address belongs to; false when that is unknown. */
static inline bool lookup_object(const void *address, struct lookup_object *object) {
    int (*dladdr)(const void *, struct lookup_object *);
    *(void **)&dladdr = lookup_symbol("dladdr");
    return address != NULL && dladdr != NULL && dladdr(address, object) != 0 && object->base != NULL;
}

#endif
