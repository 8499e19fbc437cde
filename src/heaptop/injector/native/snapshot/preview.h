/* preview: what an object is, in a few words, by reading its memory. No code of the target's runs. */
#ifndef HEAPTOP_PREVIEW_H
#define HEAPTOP_PREVIEW_H

#include "graph/heap.h"

enum { PREVIEW_BYTES = 512 };

/* A length, the types of the first key and value, the name of a function or a type; where ``values``, also the value of a str
   or an int. As UTF-8 with a NUL; its length. */
uint32_t preview_write(struct heap *h, uint32_t number, bool values, char text[PREVIEW_BYTES]);

/* What a length of instances counts, in the words of preview_write. */
enum stored_noun preview_noun(const struct kind *kind);

#endif
