/* malloc_stacks: one walk, with the names of what it finds. */
#include "sampler/malloc_stacks.h"

#include "heap/names.h"
#include "lookup.h"
#include "malloc_stack.h"
#include "sampler/stack.h"

enum { DEEPEST = 64 };

static void *interpreter; /* whose GIL it takes to read here */
static malloc_set_reader *set_reader;

static struct malloc_text text_of(PyObject *name, struct name_text *room) {
    if (!names_read_str(name, room))
        return (struct malloc_text){"?", 1};
    return (struct malloc_text){room->bytes, room->size};
}

/* The library calls it under its lock, one thread at a time. */
static void read_stack(uint32_t depth, bool is_first, malloc_take_frame *take) {
    static struct stack_frame frames[DEEPEST];
    static struct name_text file, function;
    uint32_t count = stack_walk_own(interpreter, is_first, frames, depth < DEEPEST ? depth : DEEPEST);
    for (uint32_t i = 0; i < count; i++) {
        PyObject *code = frames[i].code;
        PyObject *name = object_at(code, layout.code_qualname != 0 ? layout.code_qualname : layout.code_name);
        int line = symbols.code_line(code, frames[i].instruction);
        take(text_of(object_at(code, layout.code_filename), &file), text_of(name, &function), line < 0 ? 0 : (uint32_t)line);
    }
}

void malloc_stacks_look_up(void) { *(void **)&set_reader = lookup_symbol(MALLOC_STACK_NAME); }

bool malloc_stacks_offer(void) {
    if (set_reader == NULL)
        return false;
    interpreter = pointer_at(symbols.thread_state(), layout.thread_interpreter);
    set_reader(read_stack);
    return true;
}
