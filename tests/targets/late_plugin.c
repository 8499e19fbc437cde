/* A library whose constructor wants the GIL, and keeps the dynamic linker's lock meanwhile, as dlopen has it. */
int PyGILState_Ensure(void);
void PyGILState_Release(int);
int PyRun_SimpleString(const char *);

__attribute__((constructor)) static void begin(void) {
    int state = PyGILState_Ensure();
    PyRun_SimpleString("import time\nfor _ in range(100): time.sleep(0.01)\nprint('loaded', flush=True)");
    PyGILState_Release(state);
}
