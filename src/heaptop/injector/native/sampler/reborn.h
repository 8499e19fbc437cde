/* reborn: blocks that a free list hands on, which no allocator hears of. Where Python has reference tracers.

   Floats, tuples, lists, dicts and others leave their block in a list of the interpreter's when they die, and the next
   one takes it. A sampled block would go on with the stack of who had it first, and as one long life. The interpreter
   tells a PyRefTracer of each object that begins; where that is in a block that is sampled and had an object before,
   the old life ends, and a new one begins with the stack of now (sample_reborn).

   What that does to the figures. A block was sampled with probability p at its allocation, whoever took it over since:
   that does not depend on the sampling. So each life in it represents 1/p lives, as the first one does, and

     - live bytes and blocks of a site, type or size stay unbiased, and are those of who holds the block now;
     - deaths, and so lifetimes, are those of objects and no longer of blocks;
     - the clock does not move, for no byte was allocated. What a site "allocated" is then what its objects took, of
       fresh blocks or old ones. That is what its author wants to know, but it is more than the clock says;
     - lives in one block are not independent: of a site whose objects go through few blocks, the variance is larger
       than a confidence interval says.

   A block in the hand of a tight loop would be reborn millions of times a second. So from one reborn_poll to the next a
   block has SAMPLE_LIVES of them; then it is a sample no more: its life ends, there is no new one, and it counts as
   dropped. One block of a site is lost by that. Behind it stands a number for all blocks. Where that is met, blocks are
   lost that are not hot at all, and figures of every site are too low: sites are approximate again, to the session's end.

       interpreter ──► trace() ──► the tracer that was there before us, if any
                          │ granule counter 0, in all but one or two of a hundred: that is all
                          └► where does its block begin (type flags) ──► sample_reborn

   Cost: 14 to 19 instructions for an object from beginning to end, sampled or not. That is 1 % of building trees
   of tuples, 3 % of reading JSON, 4 % of making instances, 7 to 9 % of a loop that makes only tuples or floats: more
   than sampling itself may cost. So it is for who asks for it, and else such sites are said to be approximate.

   Chained: another tool's tracer that we find is called too, unless Python tells a tracer when it is replaced,
   and it may give back what it needs: there we stay out where there is one. We leave only when on top; below another
   one we stay and only pass on. */
#ifndef HEAPTOP_REBORN_H
#define HEAPTOP_REBORN_H

#include <stdbool.h>
#include <stdint.h>

enum { REBORN_LIMIT = 10000 }; /* rebirths from one poll to the next: 2 ms of them */

/* Agent's thread only, under the GIL. */

/* Begin. NULL, or a sentence (static storage) on why rebirths are not seen. */
const char *reborn_install(void);

/* Look up what that needs. Without the GIL: see lookup.h. */
void reborn_look_up(void);

/* Once a tick: another REBORN_LIMIT rebirths are followed; a tracer that was taken from the interpreter altogether is
   put in again. Returns whether all rebirths were seen, as far as known: a tracer above ours may not pass on. */
bool reborn_poll(void);

/* Whether there were more rebirths than are followed, since reborn_install. */
bool reborn_overrun(void);

/* End. NULL, or a sentence on what stays. Any time, also twice. */
const char *reborn_remove(void);

#endif
