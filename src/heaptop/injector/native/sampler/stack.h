/* stack: the frames of the calling thread, and every stack met so far, as one tree.

     walk      thread state ─► frame ─► frame ─► …   by the offsets of layout.h; skips what is no Python frame, as
               sys._getframe does
     cache     hash of a whole stack -> node: most samples end here
     nodes     (parent, code, instruction): a stack is its innermost node. 0 is no frame, 1 another interpreter's.
     codes     what is said of code objects (file, name, lines), each once: a program that makes the same function
               again and again has one code. Code 0 is that of node 1
     held      a reference to each code object in the tree, so that none is freed and its address used again. Those that
               nobody else holds any more are released at each read: a frame holds its code, so they do not run

   Lines and names are looked up when they are read. Only code objects of the interpreter that opened it are held, by
   threads that have its GIL; nodes and codes are written with that GIL and under the sampler's lock, so that either is
   enough to read them. */
#ifndef HEAPTOP_STACK_H
#define HEAPTOP_STACK_H

#include "sampler/budget.h"
#include "layout.h"

enum { STACK_MAX_DEPTH = 1024, STACK_OWNS = 4 /* SAMPLE_OWNS */, STACK_SWEPT = 4096 };
#define STACK_FULL UINT32_MAX
#define STACK_OWN (UINT32_MAX - 1)

struct stack_frame {
    PyObject *code;      /* borrowed from the frame */
    int32_t instruction; /* what PyCode_Addr2Line takes */
};

/* Empty tables, for the calling thread's interpreter. False, with none, when there is no memory. */
bool stack_open(struct budget *budget);

/* Frames of the calling thread, the innermost first, at most ``depth``; their number. Needs the GIL. */
uint32_t stack_walk(struct stack_frame *frames, uint32_t depth);

/* Likewise of a thread that may have no GIL: then there are none, unless it ``may_rest`` because nobody ends it meanwhile.
   Nor are there any in another interpreter than this. A code object that is being freed is left out. */
uint32_t stack_walk_own(const void *interpreter, bool may_rest, struct stack_frame *frames, uint32_t depth);

/* Code of the agent's that runs on the target's threads, by its address; the agent keeps it alive. NULL for none. Under
   the sampler's lock. */
void stack_set_own(const void *const codes[STACK_OWNS]);

/* The node of the calling thread's stack; STACK_FULL when there is no room for it, STACK_OWN in code of the agent's.
   ``has_gil``: it should, else it may; a thread that does not has no stack. Under the sampler's lock. */
uint32_t stack_take(uint32_t depth, bool has_gil);

/* -- the agent's thread, with the GIL ----------------------------------------------------------------------- */

/* Room for as much again, where tables are half full. False when there is none. Under the sampler's lock. */
bool stack_make_room(void);

/* Nodes there are, node 0 included. */
uint32_t stack_nodes(void);

/* A node's parent, code, and line (0: not known). */
void stack_node(uint32_t node, uint32_t *parent, uint32_t *code, int *line);

/* An object of a code that was not said before, borrowed; NULL for that of another interpreter. */
PyObject *stack_code(uint32_t code);

/* Of all nodes below ``nodes`` and codes below ``codes`` everything was said. Take objects that nobody else holds out of
   the next STACK_SWEPT held ones; their number. The caller has a reference to each then. Under the sampler's lock. */
uint32_t stack_release(uint32_t nodes, uint32_t codes, PyObject *objects[STACK_SWEPT]);

/* Where the tables lie. */
enum { STACK_RANGES = 7 };
void stack_ranges(struct pages_range found[STACK_RANGES]);

/* Take the tables away: there are none from now on. Under the sampler's lock. */
void stack_detach(void);

/* The interpreter has ended, and its objects with it: none of them is held any more. */
void stack_disown(void);

/* There are no tables any more, whatever they were; nothing is given back. In a fork's child. */
void stack_forget(void);

/* Give back what stack_detach took. Code objects may be freed, and other code run by that: not under the lock. */
void stack_close(struct budget *budget);

#endif
