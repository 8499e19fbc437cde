/* Fills every register, the vectors and the red zone, waits, and compares: what a tracer did not put back ends it.
 *
 * usage: registers spin | sleep | read      (spinning in user code, in nanosleep, in a read of its standard input)
 *
 * Exits with 7 at SIGTERM, as every target does, and with 99 when anything differs. Its main thread alone runs. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXIT_CODE 7
#define DIFFERS 99

uint64_t seen[15 + 16 + 64];        /* 15 registers (all but rsp), 16 words of red zone, 16 vectors of 4 words */
uint64_t wanted[15 + 16 + 64];
long kind;                          /* 0 spin, 1 sleep, 2 read */
struct timespec nap = {0, 20000000};
char letter;

static void on_term(int number) {
    (void)number;
    _exit(EXIT_CODE);
}

/* Registers come from `wanted`, are held while the thread spins or waits, and go to `seen`. A system call itself
 * gives back rax, rcx and r11 of its own; they are left out then. */
__asm__("        .globl  hold\n"
        "hold:   push rbx; push rbp; push r12; push r13; push r14; push r15\n"
        "        lea  rax, [rip + wanted]\n"
        "        .irp w,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "        mov  rbx, [rax + 15*8 + \\w*8]\n"
        "        mov  [rsp - 8 - \\w*8], rbx\n"
        "        .endr\n"
        "        .irp v,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "        vmovdqu ymm\\v, [rax + 31*8 + \\v*32]\n"
        "        .endr\n"
        "        mov rbx,[rax+8]; mov rcx,[rax+16]; mov rdx,[rax+24]; mov rsi,[rax+32]; mov rdi,[rax+40]; mov rbp,[rax+48]\n"
        "        mov r8,[rax+56]; mov r9,[rax+64]; mov r10,[rax+72]; mov r11,[rax+80]; mov r12,[rax+88]; mov r13,[rax+96]\n"
        "        mov r14,[rax+104]; mov r15,[rax+112]\n"
        "        cmp  qword ptr [rip + kind], 0\n"
        "        jne  1f\n"
        "        mov  rax, 2000000\n"
        "0:      dec  rax\n"
        "        jne  0b\n"
        "        jmp  3f\n"
        "1:      cmp  qword ptr [rip + kind], 1\n"
        "        jne  2f\n"
        "        lea  rdi, [rip + nap]; xor esi, esi; mov eax, 35; syscall\n"
        "        jmp  3f\n"
        "2:      xor  edi, edi; lea rsi, [rip + letter]; mov edx, 1; xor eax, eax; syscall\n"
        "3:      mov  [rip + seen], rax\n"
        "        lea  rax, [rip + seen]\n"
        "        mov [rax+8],rbx; mov [rax+16],rcx; mov [rax+24],rdx; mov [rax+32],rsi; mov [rax+40],rdi; mov [rax+48],rbp\n"
        "        mov [rax+56],r8; mov [rax+64],r9; mov [rax+72],r10; mov [rax+80],r11; mov [rax+88],r12; mov [rax+96],r13\n"
        "        mov [rax+104],r14; mov [rax+112],r15\n"
        "        .irp v,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "        vmovdqu [rax + 31*8 + \\v*32], ymm\\v\n"
        "        .endr\n"
        "        .irp w,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "        mov  rbx, [rsp - 8 - \\w*8]\n"
        "        mov  [rax + 15*8 + \\w*8], rbx\n"
        "        .endr\n"
        "        vzeroupper\n"
        "        pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx\n"
        "        ret\n");
void hold(void);

/* 1 when word `at` is a system call's own to change: results, and what was its argument. */
static int is_free(int at) { return at == 0 || (kind != 0 && (at == 2 || at == 3 || at == 4 || at == 5 || at == 10)); }

int main(int count, char **argument) {
    if (count != 2)
        return 2;
    kind = strcmp(argument[1], "spin") == 0 ? 0 : strcmp(argument[1], "sleep") == 0 ? 1 : 2;
    signal(SIGTERM, on_term);
    for (int at = 0; at < (int)(sizeof wanted / sizeof *wanted); at++)
        wanted[at] = 0x9E3779B97F4A7C15u * (uint64_t)(at + 1);
    if (write(1, "ready\n", 6) != 6)
        return 2;
    for (;;) {
        hold();
        for (int at = 0; at < (int)(sizeof wanted / sizeof *wanted); at++)
            if (seen[at] != wanted[at] && !is_free(at)) {
                fprintf(stderr, "word %d is %#lx, not %#lx\n", at, (long)seen[at], (long)wanted[at]);
                return DIFFERS;
            }
        if (kind != 0 && seen[0] != (kind == 2) && (long)seen[0] != -4) {
            fprintf(stderr, "the system call said %ld\n", (long)seen[0]);
            return DIFFERS;
        }
        if (write(1, ".", 1) != 1)
            return 2;
    }
}
