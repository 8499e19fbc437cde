/* malloc_stack: how the preloaded library (injector/preload) asks the native core for a Python stack.

   The library comes first and knows nothing of Python. The core finds MALLOC_STACK_NAME in it by dlsym, once the
   self-check has passed, and gives it a function. So no frame is read by a table that does not fit. */
#ifndef HEAPTOP_MALLOC_STACK_H
#define HEAPTOP_MALLOC_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MALLOC_STACK_NAME "heaptop_malloc_stacks_2" /* another number where the function below changes */

struct malloc_text {
    const char *bytes; /* UTF-8 */
    size_t size;
};

/* Takes one frame, the innermost first. */
typedef void malloc_take_frame(struct malloc_text file, struct malloc_text function, uint32_t line);

/* Calls ``take`` for at most ``depth`` Python frames of the calling thread. Of a thread without the GIL it reads none, but
   of the process's first one (``is_first``), and none of one in another interpreter. It never takes the GIL, a lock or a
   reference, allocates nothing, and makes no system call. */
typedef void malloc_read_stack(uint32_t depth, bool is_first, malloc_take_frame *take);

/* The symbol's type: read stacks by this from now on, and sample nothing of the calling thread, which is the agent's. */
typedef void malloc_set_reader(malloc_read_stack *reader);

#endif
