/* Where callgrind is to count: between the two calls, in all threads. Without valgrind both do nothing. */
#include <valgrind/callgrind.h>

void count_from_here(void) { CALLGRIND_START_INSTRUMENTATION; }

void count_to_here(void) { CALLGRIND_STOP_INSTRUMENTATION; }
