/* A program that embeds Python. Argument: what its main thread does after Py_Initialize.
 *
 *   released   waits, with the GIL released
 *   looping    runs Python code for ever
 *   held       sleeps, keeping the GIL
 *   finalized  has called Py_Finalize, and waits
 *
 * It needs no headers of Python: the four functions it calls are the stable ABI's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void Py_Initialize(void);
void Py_Finalize(void);
int PyRun_SimpleString(const char *);
void *PyEval_SaveThread(void);

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    Py_Initialize();
    PyRun_SimpleString("import signal; signal.signal(signal.SIGTERM, signal.SIG_DFL)");
    if (strcmp(mode, "released") == 0) {
        PyEval_SaveThread();
        ready();
    } else if (strcmp(mode, "looping") == 0) {
        ready();
        PyRun_SimpleString("while True: sum(range(1000))");
    } else if (strcmp(mode, "held") == 0) {
        ready();
    } else if (strcmp(mode, "finalized") == 0) {
        Py_Finalize();
        ready();
    } else {
        fprintf(stderr, "embedded: released, looping, held or finalized\n");
        return 2;
    }
    for (;;)
        pause();
}
