/* measures: bytes of objects whose C type has a __sizeof__ of its own, for a walk without code (rules.h): each does what one of
   CPython's or numpy's does. A type that has another one is guessed at, as in size.h. */
#ifndef HEAPTOP_MEASURES_H
#define HEAPTOP_MEASURES_H

#include "heap/kind.h"

/* By the full name of the type whose __sizeof__ it is, or NULL. */
kind_measure measures_find(const char *name);

#endif
