// stub.S for aarch64: the same routines, fields and states; what each does and why is said there.
//
// Register use: x19 = params throughout, kept by every routine that calls out; x20 and x21 as said.
// What another thread or the tracer looks at is written with release and read with acquire (stlr, ldar).

        .text

        .include "stub_fields.S"

        .set    PAIR,           0       // stub.Journal
        .set    FIRST_FD,       8
        .set    FIRST_INODE,    16
        .set    SECOND_FD,      24
        .set    SECOND_INODE,   32
        .set    MOVED_FD,       40
        .set    MOVED_INODE,    48
        .set    STAT,           56
        .set    ST_INO,         64      // 8 into struct stat

        .set    SYS_FCNTL,      25
        .set    SYS_CLOSE,      57
        .set    SYS_FSTAT,      80
        .set    SYS_NANOSLEEP,  101
        .set    SYS_RT_SIGRETURN, 139
        .set    SYS_PRCTL,      167
        .set    SYS_GETPID,     172
        .set    SYS_GETTID,     178
        .set    SYS_SOCKETPAIR, 199
        .set    PR_SET_NAME,    15
        .set    AF_UNIX,        1
        .set    F_DUPFD_CLOEXEC, 1030
        .set    LOWEST_FD,      60
        .set    CLOCK_MONOTONIC, 1

        .macro  system number
        mov     x8, \number
        svc     #0
        .endm
        .macro  invoke field            // a function of the target's
        ldr     x9, [x19, \field]
        blr     x9
        .endm
        .macro  flag field, value, base=x19
        mov     w9, \value
        add     x10, \base, \field
        stlr    w9, [x10]
        .endm
        .macro  swap field, old, new, otherwise, base=x19
        add     x10, \base, \field
9:      ldaxr   w9, [x10]
        cmp     w9, \old
        b.ne    \otherwise
        mov     w11, \new
        stlxr   w12, w11, [x10]
        cbnz    w12, 9b
        dmb     ish
        .endm
        .macro  write_time field        // into params
        mov     w0, CLOCK_MONOTONIC
        add     x1, x19, \field
        invoke  CLOCK_GETTIME
        .endm

magic:  .ascii  "heaptop-stub-v08"
give_back:                              // the result is in x0, where the tracer reads it
        system  SYS_RT_SIGRETURN
        b       give_back               // not made: the tracer held it back, and was killed then
        .balign 8
ret0:   mov     w0, 0
        ret

        .macro  write_down from, fd, inode
        ldr     w0, [x19, \from]
        str     x0, [x19, \fd]
        add     x1, x19, STAT
        system  SYS_FSTAT
        ldr     x0, [x19, ST_INO]
        str     x0, [x19, \inode]
        .endm
        .balign 16
open_pair:
        stp     x29, x30, [sp, -32]!
        mov     x29, sp
        str     x19, [sp, 16]
        mov     x19, x0
        mov     x0, AF_UNIX
        mov     x1, 0x80000             // SOCK_CLOEXEC
        orr     x1, x1, 1               // SOCK_STREAM
        mov     x2, 0
        add     x3, x19, PAIR
        system  SYS_SOCKETPAIR
        cbnz    x0, 1f
        write_down PAIR, FIRST_FD, FIRST_INODE
        write_down PAIR + 4, SECOND_FD, SECOND_INODE
        str     x0, [x19, MOVED_INODE]
        ldr     w0, [x19, PAIR + 4]
        mov     x1, F_DUPFD_CLOEXEC
        mov     x2, LOWEST_FD
        system  SYS_FCNTL
        str     x0, [x19, MOVED_FD]
        mov     x0, 0
1:      ldr     x19, [sp, 16]
        ldp     x29, x30, [sp], 32
        ret

        .macro  wait_for field, value, quarters
        mov     w20, \quarters
1:      add     x9, x19, \field
        ldar    w9, [x9]
        cmp     w9, \value
        b.ge    2f
        adr     x0, quarter
        mov     x1, 0
        system  SYS_NANOSLEEP
        subs    w20, w20, 1
        b.ne    1b
2:
        .endm
        .balign 16
start_pending:                          // x20 counts, x21 is the thread state
        ldr     w9, [x0, PENDING_RAN]
        add     w9, w9, 1
        str     w9, [x0, PENDING_RAN]
        stp     x29, x30, [sp, -64]!
        mov     x29, sp
        stp     x19, x20, [sp, 16]
        str     x21, [sp, 32]
        mov     x19, x0
        mov     w0, CLOCK_MONOTONIC
        add     x1, sp, 48
        invoke  CLOCK_GETTIME
        mov     x0, x19
        bl      start
        cbz     w0, 3f
        ldp     x9, x10, [sp, 48]
        stp     x9, x10, [x19, PENDING_FROM]
        wait_for HAS_STATE, 1, 48
        invoke  SAVE_THREAD
        mov     x21, x0
        wait_for STATE, 2, 48
        wait_for HAS_STATE, 1, 8000
        write_time PENDING_TO
        mov     x0, x21
        invoke  RESTORE_THREAD
3:      mov     w0, 0
        ldr     x21, [sp, 32]
        ldp     x19, x20, [sp, 16]
        ldp     x29, x30, [sp], 64
        ret

        .balign 16
start:                                  // x20 is what pthread_create has returned
        stp     x29, x30, [sp, -112]!   // from 32 on, room for a pthread_attr_t, of 64
        mov     x29, sp
        stp     x19, x20, [sp, 16]
        mov     x19, x0
        system  SYS_GETPID
        ldr     w9, [x19, PID]
        cmp     w0, w9
        b.ne    1f
        swap    CLAIM, 0, 1, 1f
        add     x0, sp, 32
        invoke  ATTR_INIT
        mov     w20, w0
        cbnz    w0, 3f
        add     x0, sp, 32
        ldr     x1, [x19, STACK_SIZE]
        invoke  ATTR_SETSTACKSIZE
        mov     w20, w0
        cbnz    w0, 3f
        add     x0, x19, PTHREAD
        add     x1, sp, 32
        ldr     x2, [x19, THREAD_MAIN]
        mov     x3, x19
        invoke  PTHREAD_CREATE
        mov     w20, w0
        add     x0, sp, 32
        invoke  ATTR_DESTROY
3:      ldr     w0, [x19, FD]
        add     x9, x19, CREATE_RC
        stlr    w20, [x9]
        mov     w9, 1
        cbz     w20, 2f
        system  SYS_CLOSE
1:      mov     w9, 0
2:      mov     w0, w9
        ldp     x19, x20, [sp, 16]
        ldp     x29, x30, [sp], 112
        ret

        .balign 16
cancel:
        flag    CANCELLED, 1, x0
        dmb     ish
        swap    CLAIM, 0, 2, 3f, x0
        b       1f
3:      swap    STATE, 1, 5, 2f, x0
1:      ldr     w0, [x0, FD]
        system  SYS_CLOSE
2:      ret

        .balign 16
thread_main:                            // x20 is the core's module, x21 whether it was put into the namespace
        stp     x29, x30, [sp, -48]!
        mov     x29, sp
        stp     x19, x20, [sp, 16]
        str     x21, [sp, 32]
        mov     x19, x0
        system  SYS_GETTID
        str     w0, [x19, TID]
        flag    STATE, 1
        dmb     ish
        mov     x0, PR_SET_NAME
        add     x1, x19, NAME
        system  SYS_PRCTL
        invoke  PTHREAD_SELF
        invoke  PTHREAD_DETACH
        add     x9, x19, CANCELLED
        ldar    w9, [x9]
        cbnz    w9, refused
        invoke  IS_INITIALIZED
        cbz     w0, refused
        invoke  IS_FINALIZING
        cbnz    w0, refused
        ldr     x9, [x19, NEW_STATE]
        cbz     x9, 5f
        invoke  MAIN_INTERPRETER
        invoke  NEW_STATE
        cbz     x0, refused
        flag    HAS_STATE, 1
5:      invoke  ENSURE
        str     w0, [x19, GILSTATE]
        write_time GIL_FROM
        swap    STATE, 1, 2, withdrawn
        ldr     x9, [x19, ENTER_TRACING]
        cbz     x9, 7f
        invoke  STATE_GET
        invoke  ENTER_TRACING
7:      invoke  DICT_NEW
        cbz     x0, failed
        str     x0, [x19, NAMESPACE]
        invoke  GET_BUILTINS            // borrowed
        mov     x2, x0
        ldr     x0, [x19, NAMESPACE]
        adr     x1, builtins_name
        invoke  SET_ITEM
        cbnz    w0, 1f
        ldr     x9, [x19, CORE_AGAIN]
        cbz     x9, 6f
        blr     x9
        cbz     x0, 1f
        mov     x20, x0
        ldr     x0, [x19, NAMESPACE]
        adr     x1, core_name
        mov     x2, x20
        invoke  SET_ITEM
        mov     w21, w0
        mov     x0, x20
        invoke  DEC_REF
        cbnz    w21, 1f
6:      add     x0, x19, BOOTSTRAP
        adr     x1, file_name
        mov     w2, 257                 // Py_file_input
        invoke  COMPILE_STRING
        cbz     x0, 1f
        str     x0, [x19, COMPILED]
        ldr     x1, [x19, NAMESPACE]
        mov     x2, x1
        invoke  EVAL_CODE
        cbz     x0, 3f
        invoke  DEC_REF
        b       4f
3:      flag    OUTCOME, 1
        invoke  ERR_CLEAR
4:      ldr     x0, [x19, COMPILED]
        invoke  DEC_REF
        b       2f
1:      flag    OUTCOME, 1
        invoke  ERR_CLEAR
2:      ldr     x0, [x19, NAMESPACE]
        invoke  DEC_REF
        bl      leave_python
        flag    STATE, 3
        b       out

failed: invoke  ERR_CLEAR
        ldr     w0, [x19, FD]
        system  SYS_CLOSE
withdrawn:
        bl      leave_python
        b       ended
refused:
        swap    STATE, 1, 4, ended
        ldr     w0, [x19, FD]
        system  SYS_CLOSE
ended:  flag    HAS_STATE, 1
        flag    STATE, 4
out:    mov     x0, 0
        ldr     x21, [sp, 32]
        ldp     x19, x20, [sp, 16]
        ldp     x29, x30, [sp], 48
        ret

leave_python:
        stp     x29, x30, [sp, -16]!
        mov     x29, sp
        ldr     x9, [x19, NEW_STATE]
        cbz     x9, 1f
        mov     w0, 0
        invoke  RELEASE
1:      ldr     w0, [x19, GILSTATE]
        invoke  RELEASE
        ldp     x29, x30, [sp], 16
        ret

        .balign 8
quarter:
        .quad   0, 250000
builtins_name:
        .asciz  "__builtins__"
file_name:
        .asciz  "<heaptop>"
core_name:
        .asciz  "heaptop_core"
