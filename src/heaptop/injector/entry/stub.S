# The machine code that runs in the target: claims the request, starts one native thread, runs the bootstrap.
#
# Position independent, no relocation, no stack of its own beyond what its caller gave it.
# `python -m heaptop.injector.entry.assemble` assembles it into stub_code.py; a test does so again and compares. The
# offsets are those of stub.Params.
#
# Remote calls return to give_back, whose address is the first word of a signal frame (machine/x86_64.py): the tracer takes
# the thread over at the entry of that system call, and if it is gone, the call gives the thread back.
#
# Register use: rbx = params throughout (saved by every routine that calls out).
# System V ABI: each routine is entered with rsp = 8 (mod 16) and aligns by its one push.

        .intel_syntax noprefix
        .text

        .include "stub_fields.S"

        .set    PAIR,           0       # stub.Journal
        .set    FIRST_FD,       8
        .set    FIRST_INODE,    16
        .set    SECOND_FD,      24
        .set    SECOND_INODE,   32
        .set    MOVED_FD,       40
        .set    MOVED_INODE,    48
        .set    STAT,           56
        .set    ST_INO,         64      # 8 into struct stat

        .set    ATTRIBUTES,     64      # room for a pthread_attr_t, of 56

        .set    SYS_CLOSE,      3
        .set    SYS_FSTAT,      5
        .set    SYS_RT_SIGRETURN, 15
        .set    SYS_NANOSLEEP,  35
        .set    SYS_GETPID,     39
        .set    SYS_SOCKETPAIR, 53
        .set    SYS_FCNTL,      72
        .set    SYS_PRCTL,      157
        .set    SYS_GETTID,     186
        .set    PR_SET_NAME,    15
        .set    AF_UNIX,        1
        .set    STREAM_CLOEXEC, 0x80001
        .set    F_DUPFD_CLOEXEC, 1030
        .set    LOWEST_FD,      60      # below 64 the table of the process need not grow
        .set    CLOCK_MONOTONIC, 1

magic:  .ascii  "heaptop-stub-v08"
give_back:
        mov     rdi, rax                # the result, where the tracer reads it
1:      mov     eax, SYS_RT_SIGRETURN
        syscall
        jmp     1b                      # not made: the tracer held it back, and was killed then
        .balign 8
ret0:   xor     eax, eax                # stands in for Py_IsFinalizing where no version of it is exported
        ret

# long open_pair(journal): a socketpair, its second end moved away from the low numbers, and all three in the journal.
# Of one piece: if the tracer is killed in it, it still runs to its end, and the next attach closes what is written
# there. 0, or what socketpair(2) said.
        .macro  write_down from, fd, inode
        mov     edi, [rbx + \from]
        mov     [rbx + \fd], rdi
        lea     rsi, [rbx + STAT]
        mov     eax, SYS_FSTAT
        syscall
        mov     rax, [rbx + ST_INO]
        mov     [rbx + \inode], rax
        .endm
        .balign 16
open_pair:
        push    rbx
        mov     rbx, rdi
        mov     edi, AF_UNIX
        mov     esi, STREAM_CLOEXEC
        xor     edx, edx
        lea     r10, [rbx + PAIR]
        mov     eax, SYS_SOCKETPAIR
        syscall
        test    rax, rax
        jne     1f
        write_down PAIR, FIRST_FD, FIRST_INODE
        write_down PAIR + 4, SECOND_FD, SECOND_INODE
        mov     [rbx + MOVED_INODE], rax
        mov     edi, [rbx + PAIR + 4]
        mov     esi, F_DUPFD_CLOEXEC
        mov     edx, LOWEST_FD
        mov     eax, SYS_FCNTL
        syscall
        mov     [rbx + MOVED_FD], rax
        xor     eax, eax
1:      pop     rbx
        ret

# int start_pending(params): what Py_AddPendingCall runs on the main thread, at a safe point. Always 0, "no error".
# Up to 3.11 a fork while the new thread makes its thread state would leave the child with a lock that nobody opens. So
# this thread keeps the GIL until that is done, and no thread can fork: for 12 ms at most, since a hook of the allocators
# (tracemalloc's) may need the GIL for it. Then the new thread may have the GIL, for 12 ms at most: 3.12 warns at a fork
# with two threads and no filter. If it still has no thread state, this thread at least forks no child for 2 s more.
# The program feels all of this, so the times go into the params: when this began, when the new thread had the GIL, and
# when this thread wanted it back. By libc's function, as Python does it: the kernel's page answers, and no filter is
# asked.
        .macro  write_time to
        mov     edi, CLOCK_MONOTONIC
        lea     rsi, \to
        call    [rbx + CLOCK_GETTIME]
        .endm
        .macro  wait_for field, value, quarters
        mov     r12d, \quarters
1:      cmp     dword ptr [rbx + \field], \value
        jge     2f
        lea     rdi, [rip + quarter]
        xor     esi, esi
        mov     eax, SYS_NANOSLEEP
        syscall
        dec     r12d
        jne     1b
2:
        .endm
        .balign 16
start_pending:
        inc     dword ptr [rdi + PENDING_RAN]
        push    rbx
        push    r12
        push    r13                     # the thread state: the next attach may write new params meanwhile
        sub     rsp, 16                 # when this began: it is the params' if it is this call that starts the thread
        mov     rbx, rdi
        write_time [rsp]
        mov     rdi, rbx
        call    start
        test    eax, eax
        je      3f
        movups  xmm0, [rsp]
        movups  [rbx + PENDING_FROM], xmm0
        wait_for HAS_STATE, 1, 48
        call    [rbx + SAVE_THREAD]
        mov     r13, rax
        wait_for STATE, 2, 48
        wait_for HAS_STATE, 1, 8000
        write_time [rbx + PENDING_TO]
        mov     rdi, r13
        call    [rbx + RESTORE_THREAD]
3:      xor     eax, eax
        add     rsp, 16
        pop     r13
        pop     r12
        pop     rbx
        ret

# int start(params): claims the request and starts the native thread: 1 when it did, 0 when not.
# A fork's copy of a queued call, or of this page, is recognised by its pid and does nothing.
        .balign 16
start:
        push    rbx
        mov     rbx, rdi
        mov     eax, SYS_GETPID
        syscall
        cmp     eax, [rbx + PID]
        jne     1f
        xor     eax, eax
        mov     ecx, 1
        lock cmpxchg [rbx + CLAIM], ecx
        jne     1f
        sub     rsp, ATTRIBUTES         # a stack of its own size: the program's default may hold no Python
        mov     rdi, rsp
        call    [rbx + ATTR_INIT]
        test    eax, eax
        jne     3f
        mov     rdi, rsp
        mov     rsi, [rbx + STACK_SIZE]
        call    [rbx + ATTR_SETSTACKSIZE]
        test    eax, eax
        jne     3f
        lea     rdi, [rbx + PTHREAD]
        mov     rsi, rsp
        mov     rdx, [rbx + THREAD_MAIN]
        mov     rcx, rbx
        call    [rbx + PTHREAD_CREATE]
        push    rax
        push    rax                     # twice: calls want rsp = 0 (mod 16)
        lea     rdi, [rsp + 16]
        call    [rbx + ATTR_DESTROY]
        pop     rax
        pop     rax
3:      add     rsp, ATTRIBUTES
        mov     edi, [rbx + FD]         # before the next attach may know of it, and bring its own
        mov     [rbx + CREATE_RC], eax
        test    eax, eax
        mov     eax, 1
        je      2f                      # else no thread will ever close it
        mov     eax, SYS_CLOSE
        syscall
1:      xor     eax, eax
2:      pop     rbx
        ret

# void cancel(params): takes the request back and closes its descriptor: one that nobody claimed, and one whose thread
# has not come to Python yet (it then finds state 5, and only ends). Uses no library: safe on any thread.
        .balign 16
cancel:
        mov     dword ptr [rdi + CANCELLED], 1
        xor     eax, eax
        mov     ecx, 2
        lock cmpxchg [rdi + CLAIM], ecx
        je      1f
        mov     eax, 1
        mov     ecx, 5
        lock cmpxchg [rdi + STATE], ecx
        jne     2f
1:      mov     edi, [rdi + FD]
        mov     eax, SYS_CLOSE
        syscall
2:      ret

# void *thread_main(params): the native thread.
# Compiling and running are two steps: PyRun_String would keep the parser's arena for as long as the session lasts.
        .balign 16
thread_main:
        push    rbx
        mov     rbx, rdi
        mov     eax, SYS_GETTID
        syscall
        mov     [rbx + TID], eax
        mov     dword ptr [rbx + STATE], 1
        mov     edi, PR_SET_NAME
        lea     rsi, [rbx + NAME]
        mov     eax, SYS_PRCTL
        syscall
        call    [rbx + PTHREAD_SELF]
        mov     rdi, rax
        call    [rbx + PTHREAD_DETACH]
        cmp     dword ptr [rbx + CANCELLED], 0
        jne     refused
        call    [rbx + IS_INITIALIZED]
        test    eax, eax
        je      refused
        call    [rbx + IS_FINALIZING]
        test    eax, eax
        jne     refused
        cmp     qword ptr [rbx + NEW_STATE], 0
        je      5f
        call    [rbx + MAIN_INTERPRETER]
        mov     rdi, rax
        call    [rbx + NEW_STATE]       # this thread's from now on: PyGILState_Ensure finds it, and makes none
        test    rax, rax
        je      refused
        mov     dword ptr [rbx + HAS_STATE], 1
5:      call    [rbx + ENSURE]
        mov     [rbx + GILSTATE], eax
        write_time [rbx + GIL_FROM]
        mov     eax, 1
        mov     ecx, 2
        lock cmpxchg [rbx + STATE], ecx
        jne     withdrawn
        cmp     qword ptr [rbx + ENTER_TRACING], 0
        je      7f
        call    [rbx + STATE_GET]
        mov     rdi, rax
        call    [rbx + ENTER_TRACING]   # as within a trace function: the program's own are not called on this thread
7:      call    [rbx + DICT_NEW]
        test    rax, rax
        je      failed
        mov     [rbx + NAMESPACE], rax
        call    [rbx + GET_BUILTINS]    # borrowed
        mov     rdx, rax
        mov     rdi, [rbx + NAMESPACE]
        lea     rsi, [rip + builtins_name]
        call    [rbx + SET_ITEM]
        test    eax, eax
        jne     1f
        cmp     qword ptr [rbx + CORE_AGAIN], 0
        je      6f
        call    [rbx + CORE_AGAIN]      # of the native core that an earlier session has left
        test    rax, rax
        je      1f
        push    rax
        push    rax                     # twice: calls want rsp = 0 (mod 16)
        mov     rdi, [rbx + NAMESPACE]
        lea     rsi, [rip + core_name]
        mov     rdx, rax
        call    [rbx + SET_ITEM]
        mov     rdi, [rsp]
        mov     [rsp + 8], rax
        call    [rbx + DEC_REF]
        pop     rax
        pop     rax
        test    eax, eax
        jne     1f
6:      lea     rdi, [rbx + BOOTSTRAP]
        lea     rsi, [rip + file_name]
        mov     edx, 257                # Py_file_input
        call    [rbx + COMPILE_STRING]
        test    rax, rax
        je      1f
        mov     [rbx + COMPILED], rax
        mov     rdi, rax
        mov     rsi, [rbx + NAMESPACE]
        mov     rdx, rsi
        call    [rbx + EVAL_CODE]
        mov     rdi, rax
        test    rax, rax
        je      3f
        call    [rbx + DEC_REF]
        jmp     4f
3:      mov     dword ptr [rbx + OUTCOME], 1
        call    [rbx + ERR_CLEAR]
4:      mov     rdi, [rbx + COMPILED]
        call    [rbx + DEC_REF]
        jmp     2f
1:      mov     dword ptr [rbx + OUTCOME], 1
        call    [rbx + ERR_CLEAR]
2:      mov     rdi, [rbx + NAMESPACE]
        call    [rbx + DEC_REF]
        call    leave_python
        mov     dword ptr [rbx + STATE], 3
        jmp     out

failed: call    [rbx + ERR_CLEAR]       # no memory: as if refused
        mov     edi, [rbx + FD]
        mov     eax, SYS_CLOSE
        syscall
withdrawn:
        call    leave_python
        jmp     ended
refused:                                # before Python: the descriptor is this thread's, unless cancel was faster
        mov     eax, 1
        mov     ecx, 4
        lock cmpxchg [rbx + STATE], ecx
        jne     ended
        mov     edi, [rbx + FD]
        mov     eax, SYS_CLOSE
        syscall
ended:  mov     dword ptr [rbx + HAS_STATE], 1 # or never will
        mov     dword ptr [rbx + STATE], 4
out:    xor     eax, eax
        pop     rbx
        ret

# A thread state that PyThreadState_New made is released twice: once for that, keeping the GIL (0, PyGILState_LOCKED).
leave_python:
        push    rbx
        cmp     qword ptr [rbx + NEW_STATE], 0
        je      1f
        xor     edi, edi
        call    [rbx + RELEASE]
1:      mov     edi, [rbx + GILSTATE]
        call    [rbx + RELEASE]
        pop     rbx
        ret

        .balign 8
quarter:                                # of a millisecond, as a timespec
        .quad   0, 250000
builtins_name:
        .asciz  "__builtins__"
file_name:
        .asciz  "<heaptop>"
core_name:
        .asciz  "heaptop_core"
