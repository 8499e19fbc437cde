/* blocks: where a free-threaded build has the objects that its collector looks after. It has no lists: they are what is in the
   pages of some heaps of mimalloc, and marked (gc_free_threading.c, gc_visit_heaps).

       interpreter ─► threads ─► heaps of each: objects │ objects with words in front ─► queues ─► pages ─► blocks
                   └► segments that ended threads have left ─────────────────────────────► slices ─┘

   Nothing is called, and nothing waited for: threads may be in the middle of anything. A block that is free, or whose object is
   not made yet, is passed by. */
#ifndef HEAPTOP_BLOCKS_H
#define HEAPTOP_BLOCKS_H

#include "layout.h"

/* Whether to go on. ``frozen``: by gc.freeze. */
typedef bool (*blocks_visit)(void *context, PyObject *o, bool frozen);

enum blocks_status { BLOCKS_WHOLE, BLOCKS_BROKEN, BLOCKS_ENDED };

/* Visit each tracked object of an interpreter: more than once, where a thread was handing a page to another. ENDED: by the
   visitor. */
enum blocks_status blocks_each(const void *interpreter, blocks_visit visit, void *context);

#endif
