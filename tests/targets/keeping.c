/* What a C extension may do: keep objects in variables of its own, where neither the collector nor the interpreter
   knows of them. The interpreter's function is found in the process that loads this. */

extern void Py_IncRef(void *object);

static void *volatile kept[2]; /* or the compiler leaves out what nobody reads */
static unsigned long number;

void keep(void *object) {
    Py_IncRef(object);
    kept[number++ % 2] = object;
}
