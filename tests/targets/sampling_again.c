/* A program that ends its Python and begins with a new one, twice. Arguments: a Python program, and its own argument.
 * That program runs each time, and may see the number of the time, from 0, as ``turn``.
 *
 * It needs no headers of Python: the functions it calls are the stable ABI's. */
#include <stdio.h>

void Py_Initialize(void);
int Py_FinalizeEx(void);
int PyRun_SimpleString(const char *);

int main(int argc, char **argv) {
    char text[10000];
    if (argc != 3)
        return 2;
    for (int turn = 0; turn < 3; turn++) {
        Py_Initialize();
        snprintf(text, sizeof text,
                 "import sys; sys.argv = [r'%s', r'%s']; sys.path.insert(0, r'%s/..')\n"
                 "exec(open(sys.argv[0]).read(), {'__name__': '__main__', 'turn': %d})\n",
                 argv[1], argv[2], argv[1], turn);
        if (PyRun_SimpleString(text) != 0 || Py_FinalizeEx() != 0)
            return 1;
    }
    return 0;
}
