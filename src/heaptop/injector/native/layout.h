/* layout: where CPython keeps things, by version. What depends on a version of Python is here and, for each C type, in
   structures.c; no other file names one, but for the self-check, which says each fact a second time (check_source.h).

   One fact a line, one version a column. A value is an offset in bytes unless its name says otherwise; 0 where
   a version does not have the thing (nothing we read but ob_refcnt is at offset 0). Sources: the headers
   named on each block, in the CPython tree of that version; 64-bit builds with the GIL, and behind them a
   free-threaded one, where no code of ours runs: it is read in a core or a copy.

   The self-check (check.c) compares every line with what the running interpreter says of itself before a
   census may run. */
#ifndef HEAPTOP_LAYOUT_H
#define HEAPTOP_LAYOUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Never Py_RETURN_NONE and its like: headers of 3.12 and later leave the reference out, as None, True and False are
   immortal there, and the core runs on 3.8 to 3.11 too, wherever it was built. */
static inline PyObject *new_reference(PyObject *o) {
    Py_IncRef(o);
    return o;
}

#define LAYOUT_FIRST_MINOR 8
#define LAYOUT_MINORS 8 /* 3.8 … 3.15 */
#define LAYOUT_COLUMNS (LAYOUT_MINORS + 1) /* and one free-threaded build, which is read from outside alone */

/* clang-format off */
#define LAYOUT_TABLE(X)                                                                                    \
/*  fact                  3.8   3.9  3.10  3.11  3.12  3.13  3.14  3.15 3.13t                             */ \
/*  pycore_pymem.h, pycore_gc.h: from the head of generation 0; 3.14 is 3.14.5 and later                  */ \
X(gc_generation,           24,   24,   24,   24,   24,   24,   24,   24,   24)                             \
X(gc_permanent,            80,   80,   80,   80,   80,   80,   72,   72,   80)                             \
X(gc_collecting,          176,  176,  176,  176,  176,  176,  168,  104,  176)                             \
X(gc_garbage,             184,  184,  184,  184,  184,  184,  176,  120,  184)                             \
/*  object.h of free-threaded builds: how many bytes more an object's head has, and where the collector's      \
    bits of an object are; then it has no lists, and objects are in the heaps of mimalloc: those of a thread,   \
    whether it has them, those that threads left to the interpreter; whether blocks have heads for debugging.   \
    pycore_mimalloc.h, pycore_tstate.h, pycore_interp.h, pycore_pymem.h                                   */ \
X(head_extra,              0,    0,    0,    0,    0,    0,    0,    0,   16)                              \
X(gc_bits,                 0,    0,    0,    0,    0,    0,    0,    0,   11)                              \
X(thread_heaps,            0,    0,    0,    0,    0,    0,    0,    0,  352)                              \
X(thread_has_heaps,        0,    0,    0,    0,    0,    0,    0,    0,14216)                              \
X(interpreter_abandoned,   0,    0,    0,    0,    0,    0,    0,    0,10816)                              \
X(runtime_debug,           0,    0,    0,    0,    0,    0,    0,    0,  968)                              \
/*  object.h: bits of ob_refcnt; of 32, the highest is set in what is immortal                            */ \
X(refcount_bits,           64,   64,   64,   64,   32,   32,   32,   32,    0)                             \
/*  cpython/object.h: PyTypeObject, PyHeapTypeObject; descrobject.h                                       */ \
X(type_name,               24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(type_basicsize,          32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(type_itemsize,           40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(type_flags,             168,  168,  168,  168,  168,  168,  168,  168,  184)                             \
X(type_traverse,          184,  184,  184,  184,  184,  184,  184,  184,  200)                             \
X(type_clear,             192,  192,  192,  192,  192,  192,  192,  192,  208)                             \
X(type_size,              416,  408,  408,  408,  416,  416,  416,  424,  432)                             \
X(type_base,              256,  256,  256,  256,  256,  256,  256,  256,  272)                             \
X(type_dict,              264,  264,  264,  264,  264,  264,  264,  264,  280)                             \
X(type_is_gc,             328,  328,  328,  328,  328,  328,  328,  328,  344)                             \
X(type_bases,             336,  336,  336,  336,  336,  336,  336,  336,  352)                             \
X(type_mro,               344,  344,  344,  344,  344,  344,  344,  344,  360)                             \
X(type_cache,             352,  352,  352,  352,  352,  352,  352,  352,  368)                             \
X(heap_name,              848,  840,  848,  848,  856,  856,  856,  864,  872)                             \
X(heap_slots,             856,  848,  856,  856,  864,  864,  864,  872,  880)                             \
X(heap_qualname,          864,  856,  864,  864,  872,  872,  872,  880,  888)                             \
X(heap_cached_keys,       872,  864,  872,  872,  880,  880,  880,  888,  896)                             \
X(heap_module,              0,  872,  880,  880,  888,  888,  888,  896,  904)                             \
X(descr_method,            40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
/*  16 bytes stand before the object when its type has one of these flags; sys.getsizeof adds what stands  \
    before to static types too (1), although they have none                                               */ \
X(flags_pre_header,         0,    0,    0,   16,   24,   24,   24,   24,   24)                             \
X(flags_inline_values,      0,    0,    0,    0,    0,    4,    4,    4,    4)                             \
X(size_static_pre_header,   0,    0,    0,    1,    1,    0,    0,    0,    0)                             \
/*  pycore_object.h, pycore_dict.h: attribute values kept outside a dict. 3.11: the array at -32 and the  \
    dict at -24; 3.12: either at -24, an array less 1; later: the dict at -24, the array behind the       \
    object. values_visited_twice: by the instance, and by the dict that has them too; values_items: from    \
    the start of an array to its first value                                                              */ \
X(object_values,            0,    0,    0,  -32,  -24,    0,    0,    0,    0)                             \
X(object_dict,              0,    0,    0,  -24,  -24,  -24,  -24,  -24,   -8)                             \
X(values_tag,               0,    0,    0,    0,    1,    0,    0,    0,    0)                             \
X(values_visited_twice,     0,    0,    0,    0,    0,    1,    0,    0,    1)                             \
X(values_items,             0,    0,    0,    0,    0,    8,    8,    8,    8)                             \
/*  cpython/tupleobject.h, listobject.h, setobject.h, dictobject.h, pycore_dict.h                         */ \
X(tuple_items,             24,   24,   24,   24,   24,   24,   32,   32,   40)                             \
X(list_items,              24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(list_allocated,          32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(set_mask,                32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(set_table,               40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(set_small_table,         64,   64,   64,   64,   64,   64,   64,   64,   80)                             \
X(set_used,                24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(dict_keys,               32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(dict_values,             40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(dict_used,               16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
/*  cpython/bytearrayobject.h: ob_bytes; from 3.15 on a bytes object's, whose head is before it     */ \
X(bytearray_items,         32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(bytearray_allocated,     24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(bytearray_head,           0,    0,    0,    0,    0,    0,    0,   32,    0)                             \
/*  the table of a dict: its size, up to 3.10 as such, then as two logarithms (of the size, and of         \
    the bytes of the indices); the kind is 0 for any key and else says that all are str, without hashes   */ \
X(keys_size,                8,    8,    8,    8,    8,    8,    8,    8,    8)                             \
X(keys_log_index_bytes,     0,    0,    0,    9,    9,    9,    9,    9,    9)                             \
X(keys_kind,                0,    0,    0,   10,   10,   10,   10,   10,   10)                             \
X(keys_usable,             24,   24,   24,   16,   16,   16,   16,   16,   16)                             \
X(keys_entries,            32,   32,   32,   24,   24,   24,   24,   24,   24)                             \
X(keys_indices,            40,   40,   40,   32,   32,   32,   32,   32,   32)                             \
/*  cpython/unicodeobject.h; the sizes of the three structures, and the bits of the state                 */ \
X(str_length,              16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(str_state,               32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(str_state_kind,           2,    2,    2,    2,    2,    2,    2,    2,    2)                             \
X(str_state_compact,        5,    5,    5,    5,    5,    5,    5,    5,    5)                             \
X(str_state_ascii,          6,    6,    6,    6,    6,    6,    6,    6,    6)                             \
X(str_ascii_size,          48,   48,   48,   48,   40,   40,   40,   40,   56)                             \
X(str_compact_size,        72,   72,   72,   72,   56,   56,   56,   56,   72)                             \
X(str_size,                80,   80,   80,   80,   64,   64,   64,   64,   80)                             \
X(str_utf8,                56,   56,   56,   56,   48,   48,   48,   48,   64)                             \
X(str_utf8_length,         48,   48,   48,   48,   40,   40,   40,   40,   56)                             \
X(str_data,                72,   72,   72,   72,   56,   56,   56,   56,   72)                             \
X(str_wstr,                40,   40,   40,   40,    0,    0,    0,    0,    0)                             \
X(str_wstr_length,         64,   64,   64,   64,    0,    0,    0,    0,    0)                             \
/*  cpython/longintrepr.h, longobject.c: the word at 16 is the signed number of digits, or from 3.12 on    \
    that number shifted by this; an int is measured with at least so many                                 */ \
X(int_shift,                0,    0,    0,    0,    3,    3,    3,    3,    3)                             \
X(int_least_digits,         0,    0,    0,    1,    1,    1,    1,    1,    1)                             \
X(int_digits,              24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
/*  cpython/code.h: members that are objects; code_cached points to four that are made when asked for     */ \
X(code_code,               48,   48,   48,  152,    0,    0,    0,    0,    0)                             \
X(code_consts,             56,   56,   56,   24,   24,   24,   24,   24,   40)                             \
X(code_names,              64,   64,   64,   32,   32,   32,   32,   32,   48)                             \
X(code_varnames,           72,   72,   72,    0,    0,    0,    0,    0,    0)                             \
X(code_freevars,           80,   80,   80,    0,    0,    0,    0,    0,    0)                             \
X(code_cellvars,           88,   88,   88,    0,    0,    0,    0,    0,    0)                             \
/*  up to 3.10: co_cell2arg, co_opcache and its size                                                      */ \
X(code_cell_arguments,     96,   96,   96,    0,    0,    0,    0,    0,    0)                             \
X(code_cache,             160,  160,  160,    0,    0,    0,    0,    0,    0)                             \
X(code_cache_size,        172,  172,  172,    0,    0,    0,    0,    0,    0)                             \
X(code_filename,          104,  104,  104,  112,  112,  112,  112,  112,  128)                             \
X(code_name,              112,  112,  112,  120,  120,  120,  120,  120,  136)                             \
X(code_qualname,            0,    0,    0,  128,  128,  128,  128,  128,  144)                             \
X(code_lines,             120,  120,  120,  136,  136,  136,  136,  136,  152)                             \
X(code_exceptions,          0,    0,    0,   40,   40,   40,   40,   40,   56)                             \
X(code_locals_names,        0,    0,    0,   96,   96,   96,   96,   96,  112)                             \
X(code_locals_kinds,        0,    0,    0,  104,  104,  104,  104,  104,  120)                             \
X(code_cached,              0,    0,    0,    0,  152,  160,  160,  160,  176)                             \
/*  from 3.11 on: where the instructions begin, and the number of the first one that can be traced        */ \
X(code_adaptive,            0,    0,    0,  184,  192,  200,  208,  208,  216)                             \
X(code_traceable,           0,    0,    0,  168,  176,  184,  192,  192,  200)                             \
/*  cpython/pystate.h: the innermost frame, or (3.11, 3.12) a structure on the C stack that has it at      \
    cframe_frame                                                                                          */ \
X(thread_interpreter,      16,   16,   16,   16,   16,   16,   16,   16,   16)                             \
X(thread_frame,            24,   24,   24,    0,    0,   72,   72,   72,   72)                             \
X(thread_cframe,            0,    0,    0,   56,   56,    0,    0,    0,    0)                             \
X(cframe_frame,             0,    0,    0,    8,    0,    0,    0,    0,    0)                             \
/*  cpython/frameobject.h, pycore_frame.h: the code may have flags in its low bits; the instruction is an  \
    int in units of this many bytes, or (0) a pointer into the code                                       */ \
X(frame_back,              24,   24,   24,   48,    8,    8,    8,    8,    8)                             \
X(frame_code,              32,   32,   32,   32,    0,    0,    0,    0,    0)                             \
X(frame_code_flags,         0,    0,    0,    0,    0,    0,    7,    7,    0)                             \
X(frame_instruction,      104,  104,   96,   56,   56,   56,   56,   56,   56)                             \
X(frame_instruction_unit,   1,    1,    2,    0,    0,    0,    0,    0,    0)                             \
X(frame_owner,              0,    0,    0,   69,   70,   70,   74,   74,   70)                             \
/*  what roots.c and labels.c read. cpython/frameobject.h, pycore_frame.h: locals, cells and the value      \
    stack follow each other from frame_items on; up to 3.10 the value stack is pointed to. Its top is a     \
    pointer, or (1) a count: of values, from 3.11 on of items. NULL or -1 while the frame runs           */ \
X(frame_items,            360,  360,  352,   72,   72,   72,   80,   80,   72)                             \
X(frame_stack,             64,   64,   64,    0,    0,    0,    0,    0,    0)                             \
X(frame_top,               72,   72,   80,   64,   64,   64,   64,   64,   64)                             \
X(frame_top_is_count,       0,    0,    1,    1,    1,    1,    0,    0,    1)                             \
X(frame_function,           0,    0,    0,    0,   16,   16,   16,   16,   16)                             \
X(frame_namespace,         56,   56,   56,   24,   40,   40,   40,   40,   40)                             \
X(frame_globals,           48,   48,   48,    8,   24,   24,   24,   24,   24)                             \
X(frame_builtins,          40,   40,   40,   16,   32,   32,   32,   32,   32)                             \
X(frame_object,             0,    0,    0,   40,   48,   48,   48,   48,   48)                             \
X(frame_trace,             80,   80,   72,    0,    0,    0,    0,    0,    0)                             \
/*  an item may have flags, and no object at all where all of them are set; the lowest: it is not counted*/ \
X(frame_item_flags,         0,    0,    0,    0,    0,    0,    3,    3,    0)                             \
/*  a frame object's and a generator's own frame: a structure, up to 3.10 a pointer to a frame object    */ \
X(frame_object_frame,       0,    0,    0,   24,   24,   24,   24,   24,   40)                             \
X(generator_frame,         16,   16,   16,   80,   72,   72,   72,   72,   88)                             \
/*  from 3.11 on: its code, gi_frame_state, and the first of its values that says that there are no values left    */ \
X(generator_code,           0,    0,    0,   16,   72,   72,   72,   72,   88)                             \
X(generator_state,          0,    0,    0,   75,   67,   67,   67,   67,   83)                             \
X(generator_cleared,        0,    0,    0,    4,    4,    4,    4,    5,    4)                             \
X(generator_qualname,      56,   56,   48,   40,   32,   32,   32,   32,   48)                             \
X(code_locals,             28,   28,   28,   80,   80,   80,   80,   80,   96)                             \
X(code_slots,               0,    0,    0,   76,   72,   72,   72,   72,   88)                             \
X(code_stack_size,         32,   32,   32,   68,   64,   64,   64,   64,   80)                             \
X(code_arguments,          16,   16,   16,   56,   52,   52,   52,   52,   68)                             \
X(code_keywords,           24,   24,   24,   64,   60,   60,   60,   60,   76)                             \
X(code_first_line,         40,   40,   40,   72,   68,   68,   68,   68,   84)                             \
/*  cpython/funcobject.h, cpython/pyerrors.h, cpython/object.h                                           */ \
X(function_code,           16,   16,   48,   48,   48,   48,   48,   48,   64)                             \
X(function_globals,        24,   24,   16,   16,   16,   16,   16,   16,   32)                             \
X(function_defaults,       32,   32,   56,   56,   56,   56,   56,   56,   72)                             \
X(function_keywords,       40,   40,   64,   64,   64,   64,   64,   64,   80)                             \
X(function_closure,        48,   48,   72,   72,   72,   72,   72,   72,   88)                             \
X(function_dict,           72,   72,   88,   88,   88,   88,   88,   88,  104)                             \
X(function_module,         88,   88,  104,  104,  104,  104,  104,  104,  120)                             \
X(function_qualname,      104,  104,   40,   40,   40,   40,   40,   40,   56)                             \
X(function_annotations,    96,   96,  112,  112,  112,  112,  112,  112,  128)                             \
X(exception_arguments,     24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(exception_notes,          0,    0,    0,   32,   32,   32,   32,   32,   48)                             \
X(exception_traceback,     32,   32,   32,   40,   40,   40,   40,   40,   56)                             \
X(exception_context,       40,   40,   40,   48,   48,   48,   48,   48,   64)                             \
X(exception_cause,         48,   48,   48,   56,   56,   56,   56,   56,   72)                             \
X(type_members,           240,  240,  240,  240,  240,  240,  240,  240,  256)                             \
X(type_dict_offset,       288,  288,  288,  288,  288,  288,  288,  288,  304)                             \
X(type_subclasses,        360,  360,  360,  360,  360,  360,  360,  360,  376)                             \
/*  pycore_typeobject.h, from 3.14 on pycore_interp_structs.h: what an interpreter keeps of a static type,  \
    whose number is at type_subclasses; and how far behind the first those of extensions are             */ \
X(static_type_size,         0,    0,    0,    0,   40,   48,   48,   48,   48)                             \
X(static_type_dict,         0,    0,    0,    0,   16,   24,   24,   24,   24)                             \
X(static_types_more,        0,    0,    0,    0,    0, 9616, 9616, 9760, 9616)                             \
/*  moduleobject.c; cpython/methodobject.h; cpython/traceback.h, weakrefobject.h; hamt.c, pycore_context.h */ \
X(module_dict,             16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(builtin_self,            24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(builtin_module,          32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(traceback_next,          16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(traceback_frame,         24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(weakref_referent,        16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(hamt_items,              32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(variable_name,           16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
/*  _asynciomodule.c: of a future the loop, the first callback and its context, and the others; then what     \
    a task has besides; step_task: of the object that is called for a task's next step                    */ \
X(future_loop,             16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(future_callback,         24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(future_context,          32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(future_callbacks,        40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(future_exception,        48,   48,   48,   48,   48,   48,   48,   48,   64)                             \
X(future_result,           56,   56,   64,   64,   64,   64,   64,   64,   80)                             \
X(future_source,           64,   64,   72,   72,   72,   72,   72,   72,   88)                             \
X(future_awaited_by,        0,    0,    0,    0,    0,    0,   96,   96,    0)                             \
X(task_waiter,            104,  144,  152,  128,  128,  112,  120,  120,  128)                             \
X(task_coroutine,         112,  152,  160,  136,  136,  120,  128,  128,  136)                             \
X(task_name,              120,  160,  168,  144,  144,  128,  136,  136,  144)                             \
X(task_context,           128,  168,  176,  152,  152,  136,  144,  144,  152)                             \
X(step_task,               16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
/*  _collectionsmodule.c: the first block, how often items were added or taken, and the most items, -1 where there is no \
    limit; of a block, the next one                                                                         \
    odictobject.c: the first node of an OrderedDict; of a node, the next one                                \
    _functoolsmodule.c: the dict of an lru_cache, and the limit likewise                                 */ \
X(deque_block,             24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(deque_block_next,       520,  520,  520,  520,  520,  520,  520,  520,  520)                             \
X(deque_state,             56,   56,   56,   56,   56,   56,   56,   56,   72)                             \
X(deque_maxlen,            64,   64,   64,   64,   64,   64,   64,   64,   80)                             \
X(ordered_first,           48,   48,   48,   48,   48,   48,   48,   48,   64)                             \
X(ordered_next,            16,   16,   16,   16,   16,   16,   16,   16,   16)                             \
X(cache_table,             72,   72,   72,   72,   72,   72,   72,   72,   88)                             \
X(cache_maxsize,           96,   96,   96,   96,   96,   96,   96,   96,  112)                             \
/*  mmapmodule.c: of a mapping, where and how large it is, the position in it, and its place in a file      \
    _ctypes/ctypes.h, CDataObject: the data, whether it is a block of its own, whose part it is, its size;  \
    where it is when it fits into the object; zlibmodule.c and _bz2module.c: the z_stream, the bz_stream  */ \
X(mmap_data,               16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(mmap_size,               24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(mmap_position,           32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(mmap_offset,             40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(ctypes_data,             16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(ctypes_owns,             24,   24,   24,   24,   24,   24,   24,   24,   40)                             \
X(ctypes_base,             32,   32,   32,   32,   32,   32,   32,   32,   48)                             \
X(ctypes_size,             40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(ctypes_inside,           80,   80,   80,   80,   80,   80,   80,   80,   96)                             \
X(zlib_stream,             16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(bz2_stream,              16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
/*  _io/stringio.c: the buffer of a StringIO, how many characters it has room for; what writes them first, or a pointer to it */ \
X(stringio_buffer,         16,   16,   16,   16,   16,   16,   16,   16,   32)                             \
X(stringio_size,           40,   40,   40,   40,   40,   40,   40,   40,   56)                             \
X(stringio_writer,          0,    0,    0,    0,   56,   56,    0,    0,   72)                             \
X(stringio_writer_pointer,  0,    0,    0,    0,    0,    0,   56,   56,    0)                             \
/*  cpython/pystate.h, pycore_interp.h (from 3.14 on pycore_interp_structs.h). thread_raised: three words   \
    up to 3.11, then one; thread_handled: three up to 3.10, then one                                     */ \
X(thread_next,              8,    8,    8,    8,    8,    8,    8,    8,    8)                             \
X(thread_id,              176,  176,  176,  152,  136,  152,  152,  176,  152)                             \
X(thread_native_id,         0,    0,    0,  160,  144,  160,  160,  184,  160)                             \
X(thread_dict,            152,  152,  152,  128,  112,  128,  128,  152,  128)                             \
X(thread_context,         240,  240,  240,  224,  208,  208,  208,  232,  208)                             \
X(thread_raised,           88,   88,   88,   96,   96,  112,  112,  136,  112)                             \
X(thread_handled,         112,  112,  112,  320,  256,  256,  256,  288,  256)                             \
X(thread_profile,          72,   72,   72,   80,   80,   96,   96,  120,   96)                             \
X(thread_trace,            80,   80,   80,   88,   88,  104,  104,  128,  104)                             \
X(thread_async,           168,  168,  168,  144,  128,  144,  144,  168,  144)                             \
X(thread_generators,      224,  224,  224,  208,  192,  192,  192,  216,  192)                             \
X(interpreter_threads,      8,    8,    8,   16,   72, 7344, 7344, 7336, 7344)                             \
/*  codecs: three words; atexit: an array, then how many it has and how many it has room for, or from 3.14   \
    on a list; lock: the GIL, where each interpreter may have its own                                     */ \
X(interpreter_modules,     56,  856,  856,  888,  944, 7656, 7688, 7592, 7664)                             \
X(interpreter_codecs,     120,  912,  912,  936, 1248, 7960, 8000, 7952, 7976)                             \
X(interpreter_atexit,       0,    0, 3488, 3536, 3944,10712,10792,10768,10728)                             \
X(atexit_is_list,           0,    0,    0,    0,    0,    0,    1,    1,    0)                             \
X(interpreter_lock,         0,    0,    0,    0,  384,   16,   16,   16,   16)                             \
/*  for memory of another process, where no function says it. pycore_runtime.h: of _PyRuntime, the first      \
    interpreter of its list, and the main one; of an interpreter, the next one, and the head of generation 0,  \
    which up to 3.8 is in _PyRuntime                                                                      */ \
X(runtime_interpreters,    32,   32,   32,   40,   40,  632,  808,  936,  632)                             \
X(runtime_main,            40,   40,   40,   48,   48,  640,  816,  944,  640)                             \
X(runtime_collector,      368,    0,    0,    0,    0,    0,    0,    0,    0)                             \
X(interpreter_next,         0,    0,    0,    0,    0, 7264, 7272, 7264, 7264)                             \
X(interpreter_collector,    0,  640,  640,  672,  136, 7424, 7432, 7408, 7424)
/* clang-format on */

struct layout {
#define LAYOUT_FIELD(name, ...) int32_t name;
    LAYOUT_TABLE(LAYOUT_FIELD)
#undef LAYOUT_FIELD
};

/* The column in use, and what we call or compare with in the interpreter. Written by layout_open under the GIL,
   and by layout_set in tests; read by everybody, also in a snapshot child. */
extern struct layout layout;

typedef struct { /* what _PyObject_GC_New puts before an object; the low bits of both words are flags */
    uintptr_t next;
    uintptr_t prev;
} gc_head;

/* Types that code compares with, and None, by the symbol of each. A walk never takes the address that the linker has found: in
   a process that reads the memory of another one, that is another interpreter's. */
#define LAYOUT_SYMBOLS(X)                                                                                                      \
    X(PyTypeObject, type_type, "PyType_Type")                                                                                  \
    X(PyTypeObject, object_type, "PyBaseObject_Type")                                                                          \
    X(PyTypeObject, list_type, "PyList_Type")                                                                                  \
    X(PyTypeObject, tuple_type, "PyTuple_Type")                                                                                \
    X(PyTypeObject, dict_type, "PyDict_Type")                                                                                  \
    X(PyTypeObject, set_type, "PySet_Type")                                                                                    \
    X(PyTypeObject, frozenset_type, "PyFrozenSet_Type")                                                                        \
    X(PyTypeObject, str_type, "PyUnicode_Type")                                                                                \
    X(PyTypeObject, bytes_type, "PyBytes_Type")                                                                                \
    X(PyTypeObject, bytearray_type, "PyByteArray_Type")                                                                        \
    X(PyTypeObject, int_type, "PyLong_Type")                                                                                   \
    X(PyTypeObject, float_type, "PyFloat_Type")                                                                                \
    X(PyTypeObject, module_type, "PyModule_Type")                                                                              \
    X(PyTypeObject, builtin_type, "PyCFunction_Type")                                                                          \
    X(PyTypeObject, descriptor_type, "PyMethodDescr_Type")                                                                     \
    X(PyTypeObject, traceback_type, "PyTraceBack_Type")                                                                        \
    X(PyTypeObject, capsule_type, "PyCapsule_Type")                                                                            \
    X(PyTypeObject, code_type, "PyCode_Type")                                                                                  \
    X(PyTypeObject, function_type, "PyFunction_Type")                                                                          \
    X(PyTypeObject, cell_type, "PyCell_Type")                                                                                  \
    X(PyTypeObject, frame_type, "PyFrame_Type")                                                                                \
    X(PyTypeObject, generator_type, "PyGen_Type")                                                                              \
    X(PyTypeObject, coroutine_type, "PyCoro_Type")                                                                             \
    X(PyTypeObject, asynchronous_type, "PyAsyncGen_Type")                                                                      \
    X(PyTypeObject, weakref_type, "_PyWeakref_RefType")                                                                        \
    X(PyTypeObject, ordered_type, "PyODict_Type")                                                                              \
    X(PyObject, none, "_Py_NoneStruct")                                                                                        \
    X(PyObject, yes, "_Py_TrueStruct")                                                                                         \
    X(PyObject, no, "_Py_FalseStruct")

struct symbols {
#define LAYOUT_SYMBOL(type, name, symbol) type *name;
    LAYOUT_SYMBOLS(LAYOUT_SYMBOL)
#undef LAYOUT_SYMBOL
    bool without_code;        /* nothing of the interpreter may be called: see rules.h */
    const char *static_types; /* 3.12+, without code: where the interpreter keeps the dicts of its own types, or NULL */
    PyObject *(*type_get_dict)(PyTypeObject *); /* 3.12+: a new reference; NULL before */
    void (*set_allocator)(int domain, void *allocator);
    void (*get_allocator)(int domain, void *allocator);
    void *(*interpreter)(void), *(*first_interpreter)(void), *(*main_interpreter)(void);
    void *(*next_interpreter)(const void *), *(*first_thread)(const void *); /* of an interpreter */
    const void *runtime; /* _PyRuntime */
    int64_t (*interpreter_id)(const void *); /* reads it from the state, and nothing else */
    void *(*thread_state)(void);           /* the calling thread's, or NULL where it has no GIL … */
    bool thread_state_is_shared;           /* … but up to 3.11 that of whoever has the GIL */
    bool tracer_is_notified;                   /* a reference tracer, from 3.14 on, when another takes its place */
    int (*code_line)(PyObject *code, int); /* PyCode_Addr2Line */
    int (*is_finalizing)(void);            /* asked without the GIL; NULL where there is none */
    void (*enter_tracing)(PyThreadState *); /* 3.11+; NULL before */
    inquiry type_is_gc;            /* tp_is_gc of ``type``: true for heap types */
    traverseproc dict_traverse;    /* tp_traverse of ``dict``, */
    traverseproc python_traverse;  /* and, without code, of classes in Python */
    PyObject *sizeof_name;         /* interned "__sizeof__"; one reference for the life of the process */
};
extern struct symbols symbols;

enum { GENERATIONS = 3, PERMANENT = 3, LISTS = 4, UNTRACKED = 4, ROWS = 5 };
extern gc_head *gc_lists[LISTS]; /* the heads of generations 0, 1, 2 and the permanent one */

/* Choose the column for a ``sys.hexversion``, and nothing else. NULL, or a sentence as layout_open. */
const char *layout_choose(uint32_t version, bool free_threaded);

/* The minor version whose column is in use. */
int layout_minor(void);

/* The symbol at a position of LAYOUT_SYMBOLS, and where its address belongs; NULL behind the last. */
const char *layout_symbol(int position, void ***place);

/* Other interpreters than the caller's. One with a lock of its own may be in the middle of anything, and nothing of it is
   read. Those under the same lock stand still while the caller has it; but where interpreters may have locks of their own, an
   ended one is unlinked and freed without any lock (pystate.c, PyInterpreterState_Delete). There they are looked for in a
   clone alone, which may fail in place of the target. */
enum { MOST_INTERPRETERS = 64 };
struct interpreters {
    const void *others[MOST_INTERPRETERS];       /* under the same lock */
    int64_t ids[MOST_INTERPRETERS], own_id;   /* as Python has them; -1: not known */
    gc_head *lists[MOST_INTERPRETERS][LISTS]; /* of each; NULL where all interpreters share gc_lists (3.8) */
    uint32_t count, left_out; /* and how many have objects that are not read; before the clone looked: whether any may */
    const void *own, *first;  /* the caller's, and the first in the list of all */
};
extern struct interpreters interpreters;

/* Look all symbols up that code of the core calls or compares with. Without the GIL: see lookup.h. */
void layout_look_up(uint32_t version);

/* Choose the column for a ``sys.hexversion``, and find list heads; the symbols were looked up. Needs the GIL.
   NULL when all is found, else a sentence (static storage) that gives the reason native mode is refused. */
const char *layout_open(uint32_t version);

/* Whether there is any other interpreter now. Needs the GIL, and reads nothing of the others. */
bool layout_has_others(void);

/* In a clone: find the other interpreters, where layout_open left that to it. */
void layout_find_others(void);

/* Find the list heads and the other interpreters again (layout_open does it; tests after layout_set). Returns as
   layout_open. */
const char *layout_find_lists(void);

/* The same from the head of generation 0 on, which is read, where there are lists; and the other interpreters, from the first of
   all on. */
const char *layout_lists_at(gc_head *first);
void layout_interpreters_at(const void *own, const void *first);

/* Whether a collection is under way now in an interpreter under this lock: another thread is in a finalizer that it
   runs. */
bool layout_collecting(void);

/* Have the interpreter refuse to collect, or allow it again. Only for as long as the GIL is held. */
void layout_block_collector(bool block);

/* A line of the table by position; NULL behind the last. */
const char *layout_fact(int position, int32_t *value);

/* NULL when all that the interpreter publishes of itself (_Py_DebugOffsets, from 3.13 on) is as the table says, else
   the name of a fact. */
const char *layout_published(void);

/* The same of memory of another process, where _PyRuntime and an interpreter are at these addresses. */
const char *layout_published_at(const void *runtime, const void *interpreter);

/* 0, or -1 when there is no such fact. For tests. */
int layout_set(const char *name, int32_t value);

/* -- reading memory by the table ------------------------------------------------------------------------- */

static inline void *at(const void *base, int32_t offset) { return (char *)base + offset; }
static inline void *pointer_at(const void *base, int32_t offset) { return *(void **)at(base, offset); }
static inline PyObject *object_at(const void *base, int32_t offset) { return *(PyObject **)at(base, offset); }
static inline int64_t int64_at(const void *base, int32_t offset) { return *(int64_t *)at(base, offset); }
static inline uint64_t uint64_at(const void *base, int32_t offset) { return *(uint64_t *)at(base, offset); }
static inline uint32_t uint32_at(const void *base, int32_t offset) { return *(uint32_t *)at(base, offset); }
static inline uint8_t uint8_at(const void *base, int32_t offset) { return *(uint8_t *)at(base, offset); }

/* Where its fields would begin if its head were that of a build with the GIL: for offsets of C types that no fact has. */
static inline void *body_of(const void *o) { return at(o, layout.head_extra); }
static inline uint32_t head_size(void) { return (uint32_t)sizeof(PyObject) + (uint32_t)layout.head_extra; }
static inline PyTypeObject *type_at(const void *o) { return pointer_at(body_of(o), 8); } /* ob_type */
static inline int64_t size_field(const void *o) { return int64_at(body_of(o), 16); }     /* ob_size */

/* The object may be of another build than the one that this was compiled for. */
#undef Py_TYPE
#define Py_TYPE(o) type_at(o)

/* The value of an int of exactly that type, of up to 60 bits; false where it is longer. longintrepr.h: from 3.12 on the two
   lowest bits are 0 for what is positive, 1 for zero, 2 for what is negative. */
static inline bool int_value(const void *o, int64_t *value) {
    enum { DIGIT_BITS = 30, MOST_DIGITS = 2 };
    int64_t size = size_field(o), sign = size < 0 ? -1 : 1;
    if (layout.int_shift != 0) {
        sign = (size & 3) == 2 ? -1 : 1;
        size = size >> layout.int_shift;
    }
    uint64_t digits = (uint64_t)(size < 0 ? -size : size), found = 0;
    if (digits > MOST_DIGITS)
        return false;
    while (digits-- > 0)
        found = found << DIGIT_BITS | uint32_at(o, layout.int_digits + 4 * (int32_t)digits);
    *value = sign * (int64_t)found;
    return true;
}

/* object.h of free-threaded builds: its owner's count, and in the same number that of the other threads and how the two are to be
   merged. One that is queued for that, or whose count is deferred, has one reference more than there are. */
static inline int64_t merged_count(const PyObject *o) {
    enum { LOCAL = 12, SHARED = 16, STATES = 3, QUEUED = 2, SHIFT = 2, DEFERRED = 64 };
    uint32_t local = uint32_at(o, LOCAL);
    int64_t shared = int64_at(o, SHARED);
    bool one_more = (shared & STATES) == QUEUED || uint8_at(o, layout.gc_bits) & DEFERRED;
    return local == UINT32_MAX ? INT64_MAX : (int64_t)local + (shared >> SHIFT) - one_more;
}

/* References that are counted; INT64_MAX of what is immortal. */
static inline int64_t reference_count(const PyObject *o) {
    if (layout.gc_bits != 0)
        return merged_count(o);
    if (layout.refcount_bits == 64)
        return int64_at(o, 0);
    int32_t count = (int32_t)uint32_at(o, 0);
    return count < 0 ? INT64_MAX : count;
}

static inline unsigned long type_flags(PyTypeObject *type) { return uint64_at(type, layout.type_flags); }
static inline traverseproc type_traverse(PyTypeObject *type) { return (traverseproc)pointer_at(type, layout.type_traverse); }
static inline PyTypeObject *type_base(PyTypeObject *type) { return pointer_at(type, layout.type_base); }

enum {
    FLAG_MANAGED_DICT = 1 << 4, /* where there is an object_dict */
    FLAG_IMMUTABLE_TYPE = 1 << 8, /* from 3.10 on: a heap type that C code has made */
    FLAG_HEAP_TYPE = 1 << 9,
    FLAG_HAVE_GC = 1 << 14,
    FLAG_EXCEPTION = 1 << 30,
    FLAG_TYPE_SUBCLASS = 1 << 31,
};

/* The innermost frame of a thread, of Python's or not; NULL when there is none. */
static inline const char *thread_innermost(const void *thread) {
    if (layout.thread_frame != 0)
        return pointer_at(thread, layout.thread_frame);
    void *cframe = pointer_at(thread, layout.thread_cframe);
    return cframe == NULL ? NULL : pointer_at(cframe, layout.cframe_frame);
}

/* Values of frame_owner; from the last on, no Python frame. enum _frameowner of pycore_frame.h. */
enum { FRAME_OF_GENERATOR = 1, FRAME_OF_C = 3 };

/* Whether frames are structures that frame objects point to, and not objects themselves. */
static inline bool frames_are_structures(void) { return layout.frame_object_frame != 0; }

/* What a word of a frame refers to, or NULL: its flags may say that it is a number, and whether the reference is counted. */
static inline PyObject *frame_reference(const void *frame, int32_t offset, bool *counted) {
    uintptr_t word = (uintptr_t)pointer_at(frame, offset), flags = word & (uintptr_t)layout.frame_item_flags;
    *counted = !(flags & 1);
    return flags != 0 && flags == (uintptr_t)layout.frame_item_flags ? NULL : (PyObject *)(word ^ flags);
}

static inline gc_head *gc_of(const void *o) { return (gc_head *)o - 1; }
static inline PyObject *gc_object(gc_head *g) { return (PyObject *)(g + 1); }
static inline gc_head *gc_next(const gc_head *g) { return (gc_head *)(g->next & ~(uintptr_t)3); }
static inline gc_head *gc_prev(const gc_head *g) { return (gc_head *)(g->prev & ~(uintptr_t)3); }

/* Whether the collector looks after an object that it may: it has it in a list, or has marked it as its own. */
static inline bool is_tracked(const void *o) {
    return layout.gc_bits != 0 ? uint8_at(o, layout.gc_bits) & 1 : gc_next(gc_of(o)) != NULL;
}

#endif
