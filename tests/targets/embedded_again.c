/* A program that ends its Python after each SIGUSR1 and begins with a new one, and says so. On SIGTERM it exits with 7. It
 * needs no headers of Python: the functions it calls are the stable ABI's. */
#include <stdio.h>

void Py_Initialize(void);
int Py_FinalizeEx(void);
int PyRun_SimpleString(const char *);

static const char life[] = "import signal, sys, time\n"
                           "asked = []\n"
                           "signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))\n"
                           "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
                           "kept = [[str(i)] for i in range(5000)]\n"
                           "print('again' if turn else 'ready', flush=True)\n"
                           "while not asked:\n"
                           "    made = [[str(i)] for i in range(1000)]\n"
                           "    time.sleep(0.001)\n";

int main(void) {
    char turn[32];
    for (int i = 0;; i++) {
        Py_Initialize();
        snprintf(turn, sizeof turn, "turn = %d\n", i);
        if (PyRun_SimpleString(turn) != 0 || PyRun_SimpleString(life) != 0 || Py_FinalizeEx() != 0)
            return 1;
    }
}
