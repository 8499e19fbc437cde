/* unwind: finding a function's entry in .eh_frame, running it, one frame after the other. DWARF 5, 6.4, and the Linux Standard
   Base for what .eh_frame has otherwise. */
#include "preload/unwind.h"

#include "lookup.h"

#include <stdint.h>
#include <string.h>

enum { BP = 6, SP = 7, RETURN = 16 }; /* registers, by DWARF's numbers for x86-64 */
enum { DEEPEST = 64, MOST_REMEMBERED = 4, LARGEST_FRAME = 1 << 20, LARGEST_STACK = 64 << 20 };

struct registers {
    uint64_t pc, sp, bp;
};

struct stack_limits {
    uint64_t low, high;
};

/* Bytes of a table, which end where its object does. What is read beyond is 0, and makes ``bad``. */
struct bytes {
    const unsigned char *at, *end;
    bool bad;
};

enum where { UNCHANGED, BY_FRAME, BY_BP }; /* at the frame's address and ``offset``; at bp's value and ``offset`` */

struct rule {
    enum where where;
    int64_t offset;
};

/* How to leave a frame. The address of a frame is what sp was before the call. */
struct rules {
    uint64_t base; /* a register; or, ``is_indirect``, what lies at bp and ``offset`` */
    int64_t offset;
    bool is_indirect;
    struct rule bp, pc;
};

struct function {
    const char *start;
    struct bytes first, rest; /* the common instructions, and the function's own */
    uint64_t code_factor;
    int64_t data_factor;
};

static int (*find_object)(void *address, struct found_object *found);
static const char *evaluation;            /* the loop's first byte */
static struct link_map *interpreter, *library; /* NULL: not known */
static char *const *stack_end;                /* of the first thread */

/* -- reading ------------------------------------------------------------------------------------------------ */

static uint64_t number(struct bytes *from, size_t size) {
    uint64_t value = 0;
    if (from->bad || (size_t)(from->end - from->at) < size) {
        from->bad = true;
        return 0;
    }
    memcpy(&value, from->at, size);
    from->at += size;
    return value;
}

static uint64_t leb(struct bytes *from, bool is_signed) {
    uint64_t value = 0, byte = 0x80;
    unsigned shift = 0;
    for (; (byte & 0x80) && shift < 64; shift += 7) {
        byte = number(from, 1);
        value |= (byte & 0x7f) << shift;
    }
    from->bad = from->bad || (byte & 0x80);
    return is_signed && (byte & 0x40) && shift < 64 ? value | -((uint64_t)1 << shift) : value;
}

static uint64_t unsigned_at(struct bytes *from) { return leb(from, false); }
static int64_t signed_at(struct bytes *from) { return (int64_t)leb(from, true); }

static void skip(struct bytes *from, uint64_t size) {
    if (from->bad || size > (uint64_t)(from->end - from->at))
        from->bad = true;
    else
        from->at += size;
}

/* What is at an address of the object's, as far as it has one: with its length in front, which ends it. */
static struct bytes entry_at(const struct found_object *object, const unsigned char *at) {
    struct bytes found = {at, (const unsigned char *)object->end, at < (const unsigned char *)object->start};
    found.bad = found.bad || at >= found.end;
    const uint64_t length = number(&found, 4);
    if (found.bad || length > (uint64_t)(found.end - found.at)) /* 0xffffffff too: of 64 bits, which nobody has */
        found.bad = true;
    else
        found.end = found.at + length;
    return found;
}

/* -- a function's entry ------------------------------------------------------------------------------------- */

static size_t size_of(unsigned encoding) {
    static const unsigned char sizes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 0, 0, 2, 4, 8};
    return sizes[encoding & 15];
}

/* What functions have in common. ``*encoding``: of their addresses. */
static bool read_common(struct bytes from, struct function *into, unsigned *encoding) {
    bool is_known = number(&from, 4) == 0;
    const uint64_t version = number(&from, 1);
    is_known = is_known && (version == 1 || version == 3);
    const char *letters = (const char *)from.at;
    while (number(&from, 1) != 0)
        ;
    into->code_factor = unsigned_at(&from);
    into->data_factor = signed_at(&from);
    is_known = is_known && (version == 1 ? number(&from, 1) : unsigned_at(&from)) == RETURN;
    if (from.bad || !is_known || *letters != 'z')
        return false;
    struct bytes more = from;
    const uint64_t length = unsigned_at(&more);
    from = more;
    skip(&from, length);
    for (letters++; *letters != '\0' && !more.bad; letters++) {
        unsigned of_handler;
        switch (*letters) {
        case 'R':
            *encoding = (unsigned)number(&more, 1);
            break;
        case 'L':
            skip(&more, 1);
            break;
        case 'P':
            of_handler = (unsigned)number(&more, 1);
            skip(&more, size_of(of_handler));
            break;
        default: /* S: of a signal's frame */
            return false;
        }
    }
    into->first = from;
    return !from.bad && !more.bad;
}

/* The last entry of the sorted table that begins at ``pc`` or before; NULL where there is none. */
static const int32_t *search(const struct found_object *object, uint64_t pc) {
    enum { OF_FOUR_BYTES = 0x03, FROM_HERE = 0x1b, FROM_TABLE = 0x3b };
    const unsigned char *head = object->unwinding;
    if (head == NULL || (const char *)head < object->start || (const char *)head + 12 > object->end || head[0] != 1 ||
        head[1] != FROM_HERE || head[2] != OF_FOUR_BYTES || head[3] != FROM_TABLE)
        return NULL;
    uint32_t count;
    memcpy(&count, head + 8, sizeof count);
    const int32_t (*pairs)[2] = (const void *)(head + 12);
    if (count > (uint64_t)(object->end - (const char *)pairs) / sizeof *pairs)
        return NULL;
    const int64_t wanted = (int64_t)(pc - (uint64_t)head);
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (pairs[middle][0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NULL : pairs[low - 1];
}

static bool find_function(const struct found_object *object, uint64_t pc, struct function *found) {
    const int32_t *pair = search(object, pc);
    if (pair == NULL)
        return false;
    struct bytes from = entry_at(object, object->unwinding + pair[1]);
    const unsigned char *base = from.at;
    const uint64_t back = number(&from, 4);
    unsigned encoding = 0;
    if (from.bad || back == 0 || back > (uint64_t)(base - (const unsigned char *)object->start) ||
        !read_common(entry_at(object, base - back), found, &encoding))
        return false;
    const size_t size = size_of(encoding);
    found->start = (const char *)object->unwinding + pair[0];
    skip(&from, size);
    const uint64_t length = number(&from, size);
    skip(&from, unsigned_at(&from));
    found->rest = from;
    return size >= 4 && !from.bad && pc - (uint64_t)found->start < length;
}

/* -- its rules ---------------------------------------------------------------------------------------------- */

static struct rule *rule_of(struct rules *rules, uint64_t number_of_register) {
    static struct rule others; /* which nobody reads; under the lock of samples.c */
    return number_of_register == BP ? &rules->bp : number_of_register == RETURN ? &rules->pc : &others;
}

/* "what bp has, and an offset", as functions that align their stacks say it. ``is_read``: and what lies there. */
static bool by_bp(struct bytes *from, bool is_read, int64_t *offset) {
    enum { BP_AND = 0x70 + BP, READ = 0x06 };
    struct bytes text = *from;
    const uint64_t length = unsigned_at(&text);
    *from = text;
    skip(from, length);
    text.end = from->at;
    bool is_it = number(&text, 1) == BP_AND;
    *offset = signed_at(&text);
    is_it = is_it && (!is_read || number(&text, 1) == READ);
    return is_it && !from->bad && !text.bad && text.at == text.end;
}

struct program {
    struct bytes code;
    const struct function *function;
    struct rules rules, first, remembered[MOST_REMEMBERED];
    unsigned remembered_count;
    uint64_t at, pc; /* what the rules are for; what they are wanted for */
};

/* An instruction of those with a number of its own. False: one that is not known. */
static bool run_other(struct program *p, unsigned instruction) {
    struct bytes *code = &p->code;
    struct rules *rules = &p->rules;
    uint64_t which;
    switch (instruction) {
    case 0x00: /* nop */
        return true;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        p->at += number(code, (size_t)1 << (instruction - 2)) * p->function->code_factor;
        return true;
    case 0x05: /* offset_extended */
        which = unsigned_at(code);
        *rule_of(rules, which) = (struct rule){BY_FRAME, (int64_t)unsigned_at(code) * p->function->data_factor};
        return true;
    case 0x06: /* restore_extended */
        which = unsigned_at(code);
        *rule_of(rules, which) = *rule_of(&p->first, which);
        return true;
    case 0x07: /* undefined: of the return address, where a thread begins */
        return unsigned_at(code) != RETURN;
    case 0x08: /* same_value */
        *rule_of(rules, unsigned_at(code)) = (struct rule){UNCHANGED, 0};
        return true;
    case 0x0a: /* remember_state */
        if (p->remembered_count == MOST_REMEMBERED)
            return false;
        p->remembered[p->remembered_count++] = *rules;
        return true;
    case 0x0b: /* restore_state */
        if (p->remembered_count == 0)
            return false;
        *rules = p->remembered[--p->remembered_count];
        return true;
    case 0x0c: /* def_cfa */
        rules->base = unsigned_at(code);
        rules->offset = (int64_t)unsigned_at(code);
        rules->is_indirect = false;
        return true;
    case 0x0d: /* def_cfa_register */
        rules->base = unsigned_at(code);
        return true;
    case 0x0e: /* def_cfa_offset */
        rules->offset = (int64_t)unsigned_at(code);
        return true;
    case 0x0f: /* def_cfa_expression */
        rules->is_indirect = true;
        return by_bp(code, true, &rules->offset);
    case 0x10: /* expression */
        which = unsigned_at(code);
        rule_of(rules, which)->where = BY_BP;
        return by_bp(code, false, &rule_of(rules, which)->offset) || (which != BP && which != RETURN);
    case 0x2e: /* GNU_args_size */
        unsigned_at(code);
        return true;
    default:
        return false;
    }
}

/* As far as ``pc``. False where it has what is not known. */
static bool run(struct program *p, struct bytes code) {
    p->code = code;
    while (p->code.at < p->code.end && !p->code.bad) {
        const unsigned first = (unsigned)number(&p->code, 1), low = first & 0x3f;
        if (first >> 6 == 1) /* advance_loc */
            p->at += low * p->function->code_factor;
        else if (first >> 6 == 2) /* offset */
            *rule_of(&p->rules, low) = (struct rule){BY_FRAME, (int64_t)unsigned_at(&p->code) * p->function->data_factor};
        else if (first >> 6 == 3) /* restore */
            *rule_of(&p->rules, low) = *rule_of(&p->first, low);
        else if (!run_other(p, low))
            return false;
        if (p->at > p->pc)
            return true;
    }
    return !p->code.bad;
}

static bool rules_at(const struct function *function, uint64_t pc, struct rules *found) {
    struct program program = {.function = function, .at = (uint64_t)function->start, .pc = pc};
    if (!run(&program, function->first))
        return false;
    program.first = program.rules;
    /* A step beyond ``pc`` changes no rule before it is left. */
    if (!run(&program, function->rest))
        return false;
    *found = program.rules;
    return true;
}

/* -- frames ------------------------------------------------------------------------------------------------- */

static bool read_stack(const struct stack_limits *stack, uint64_t address, uint64_t *value) {
    if (address % 8 != 0 || address < stack->low || address > stack->high - 8)
        return false;
    *value = *(const uint64_t *)address;
    return true;
}

static bool follow(const struct stack_limits *stack, struct rule rule, uint64_t frame, uint64_t bp, uint64_t *value) {
    if (rule.where == UNCHANGED)
        return true;
    return read_stack(stack, (rule.where == BY_BP ? bp : frame) + (uint64_t)rule.offset, value);
}

static bool leave_frame(const struct stack_limits *stack, const struct rules *rules, struct registers *r) {
    uint64_t frame;
    if (rules->is_indirect) {
        if (!read_stack(stack, r->bp + (uint64_t)rules->offset, &frame))
            return false;
    } else if (rules->base == SP || rules->base == BP) {
        frame = (rules->base == SP ? r->sp : r->bp) + (uint64_t)rules->offset;
    } else {
        return false;
    }
    if (frame <= r->sp || frame - r->sp > LARGEST_FRAME || rules->pc.where != BY_FRAME)
        return false;
    const uint64_t bp = r->bp;
    r->sp = frame;
    return follow(stack, rules->pc, frame, bp, &r->pc) && follow(stack, rules->bp, frame, bp, &r->bp);
}

bool unwind_find_object(const void *address, struct found_object *found) {
    return find_object != NULL && find_object((void *)address, found) == 0 && found->map->l_name != NULL;
}

/* Wheels bring copies with names such as libstdc++-1b2c3d4e.so.6. */
static bool is_cplusplus(const char *name) {
    const char *file = strrchr(name, '/');
    file = file == NULL ? name : file + 1;
    return strncmp(file, "libstdc++", 9) == 0 || strncmp(file, "libc++", 6) == 0;
}

static bool is_passed(const struct found_object *object) {
    return object->map == interpreter || object->map == library || is_cplusplus(object->map->l_name);
}

static bool limits(struct stack_limits *stack, uint64_t sp, bool is_first) {
    if (is_first)
        stack->high = stack_end == NULL ? 0 : (uint64_t)*stack_end;
    else
        __asm__("mov %%fs:0, %0" : "=r"(stack->high)); /* glibc has it behind the thread's stack */
    stack->low = sp;
    return stack->high > sp && stack->high - sp <= LARGEST_STACK;
}

/* From the frame of who asks to the first one outside, behind that which returns to ``caller``. */
static const void *walk(const struct stack_limits *stack, struct registers r, const void *caller) {
    bool is_behind = false, is_in_interpreter = false;
    for (int i = 0; i < DEEPEST; i++) {
        struct found_object object;
        struct function function;
        struct rules rules;
        const uint64_t inside = r.pc - (i > 0); /* the call is before what it returns to */
        is_behind = is_behind || r.pc == (uint64_t)caller;
        if (!unwind_find_object((const void *)inside, &object))
            return NULL;
        const bool is_outermost = is_in_interpreter && *object.map->l_name == '\0'; /* the program, which runs Python */
        if (is_behind && !is_passed(&object))
            return is_outermost ? NULL : (const void *)r.pc;
        is_in_interpreter = is_in_interpreter || (is_behind && object.map == interpreter);
        if (!find_function(&object, inside, &function) || (is_behind && function.start == evaluation) ||
            !rules_at(&function, inside, &rules) || !leave_frame(stack, &rules, &r))
            return NULL;
    }
    return NULL;
}

const void *unwind_owner(const void *caller, bool is_first) {
    struct found_object object;
    if (!unwind_find_object((const char *)caller - 1, &object) || !is_passed(&object))
        return caller;
    struct registers r;
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=r"(r.pc), "=r"(r.sp), "=r"(r.bp));
    struct stack_limits stack;
    const void *found = limits(&stack, r.sp, is_first) ? walk(&stack, r, caller) : NULL;
    return found == NULL ? caller : found;
}

/* -- beginning ---------------------------------------------------------------------------------------------- */

static struct link_map *map_of(const char *symbol) {
    struct found_object found;
    const void *address = lookup_symbol(symbol);
    return address != NULL && unwind_find_object(address, &found) ? found.map : NULL;
}

void unwind_open(void) {
    *(void **)&find_object = lookup_symbol("_dl_find_object");
    evaluation = lookup_symbol("_PyEval_EvalFrameDefault");
    interpreter = map_of("PyObject_Malloc");
    library = map_of("strdup");
    stack_end = lookup_symbol("__libc_stack_end");
}
