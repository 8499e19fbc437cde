/* Says of memory to tracemalloc, as numpy does, through slots in pages that are read-only when the library is ready. */
#include <stddef.h>
#include <stdint.h>

int PyTraceMalloc_Track(unsigned int domain, uintptr_t block, size_t size);
int PyTraceMalloc_Untrack(unsigned int domain, uintptr_t block);

int say(unsigned int domain, uintptr_t block, size_t size) { return PyTraceMalloc_Track(domain, block, size); }
int unsay(unsigned int domain, uintptr_t block) { return PyTraceMalloc_Untrack(domain, block); }

/* For somebody else to put into a slot. */
int another(unsigned int domain, uintptr_t block, size_t size) { return domain + block + size == 0; }
