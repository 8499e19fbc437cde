/* A library that has a function of jemalloc's name and is not the program's malloc: it must not be called. */
#include <stdlib.h>

int mallctl(void);

int mallctl(void) { abort(); }
