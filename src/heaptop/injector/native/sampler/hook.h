/* hook: our place in the chain of the interpreter's allocators (PyMem_SetAllocator, domains MEM and OBJ; never RAW,
   from which the other two get their large blocks).

     PyObject_Malloc ─► [ another's hook ] ─► ours ─► what was there when we came

   The allocator we set has the context of the one below, and functions that differ by domain and by place: so the
   interpreter's five words, which it stores one by one, are right together in every mixture of old and new.
   What a place forwards to is written once and never changed, because somebody may still hold its functions; a place is
   used again only over the same allocator.

   Somebody who came before us and leaves puts back what was there before him, and so drops us without a word; somebody
   who came later covers us, and we continue being called. Which it is tells a block asked for: either we see it or not.
   All here needs the GIL. */
#ifndef HEAPTOP_HOOK_H
#define HEAPTOP_HOOK_H

#include <stdbool.h>

enum hook_state {
    HOOK_OUT,     /* nothing of ours is called */
    HOOK_ON_TOP,  /* both domains begin with us */
    HOOK_COVERED, /* somebody is above us, and we are called */
    HOOK_DROPPED, /* we were in, and are called no more in at least one domain */
    HOOK_TWICE,   /* a tool that forwards to an older place of ours is below a newer one: all would be counted twice */
};

/* Put our functions in where they are not. NULL, or a sentence why not: then all is as before. */
const char *hook_install(void);

/* How it is now. Allocates and frees two blocks of each domain. */
enum hook_state hook_state(void);

/* Take our functions out. False when somebody above us has them: they stay as forwarders, and it may be tried again. */
bool hook_remove(void);

#endif
