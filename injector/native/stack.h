/* stack: the frames of the calling thread, and every stack met so far, as one tree.

     walk      thread state ─► frame ─► frame ─► …   by the offsets of layout.h; skips what is no Python frame, as
               sys._getframe does
     cache     hash of a whole stack -> node: most samples end here
     nodes     (parent, code, instruction): a stack is its innermost node. 0 is no frame, 1 another interpreter's.
     codes     one reference to each code object, so that none is freed and its address used again

   Lines and names are looked up when they are read. Only code objects of the interpreter that opened it are held, by
   threads that have its GIL; nodes and codes are written with that GIL and under the sampler's lock, so that either is
   enough to read them.
   Never follows a pointer of an interpreter's that does not belong to the calling thread. */
#ifndef HEAPTOP_STACK_H
#define HEAPTOP_STACK_H

#include "layout.h"

enum { STACK_MAX_DEPTH = 1024, STACK_NONE = 0, STACK_ELSEWHERE = 1, STACK_FULL = UINT32_MAX };

struct stack_frame {
    PyObject *code;       /* borrowed from the frame */
    int32_t instruction;  /* what PyCode_Addr2Line takes */
};

/* What is given back by stack_close. */
struct stack_budget {
    uint64_t *bytes; /* in use by all tables of the sampler */
    uint64_t limit;
};

/* Empty tables for the calling thread's interpreter. NULL, or a sentence why not. */
const char *stack_open(struct stack_budget budget);

/* Frames of the calling thread, the innermost first, at most ``depth``; their number. Needs the GIL. */
uint32_t stack_walk(struct stack_frame *frames, uint32_t depth);

/* The node of the calling thread's stack; STACK_FULL when there is no room for it. ``has_gil``: known to, else it is
   found out. Under the sampler's lock. */
uint32_t stack_take(uint32_t depth, bool has_gil);

/* -- reading: the agent's thread, with the GIL -------------------------------------------------------------- */

/* Nodes and codes are numbered from 0; node 0 is never said. */
uint32_t stack_count(void);

/* How many codes the nodes below ``node_end`` need. */
uint32_t stack_codes_of(uint32_t first_code, uint32_t first_node, uint32_t node_end);

/* A node's parent, code and line. */
void stack_node(uint32_t node, uint32_t *parent, uint32_t *code, int *line);

/* A code's object; NULL for that of another interpreter. Borrowed. */
PyObject *stack_code(uint32_t code);

/* All tables at once, to be closed when nobody uses them any more. */
struct stack_tables;
/* Take the tables away: there are none from now on. Under the sampler's lock. */
void stack_detach(void);
/* Give back what stack_detach took: code objects may be freed, so not under the lock. */
void stack_close(void);

#endif
