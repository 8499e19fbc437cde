/* loaded: the libraries of the process, as dl_iterate_phdr shows them. It takes a lock that the dynamic linker has only while
   it changes its list, and not the one of lookup.h: with the GIL it may be waited for. Include with _GNU_SOURCE. */
#ifndef HEAPTOP_LOADED_H
#define HEAPTOP_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether memory is in a segment of a library that has all of these flags (PF_…). */
static inline bool loaded_has(const struct dl_phdr_info *info, uintptr_t address, size_t size, unsigned flags) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && (header->p_flags & flags) == flags && address >= begin &&
            address - begin <= header->p_memsz && header->p_memsz - (address - begin) >= size)
            return true;
    }
    return false;
}

#endif
