/* Reference tracers of another tool: one that only counts, and one that also passes on to who was there before. */
#include <stddef.h>

struct counts {
    long created, destroyed;
};

typedef int (*tracer)(void *object, int event, void *data);
static tracer below;
static void *below_data;

int count(void *object, int event, void *data) {
    struct counts *counts = data;
    counts->created += object != NULL && event == 0;
    counts->destroyed += object != NULL && event == 1;
    return 0;
}

int count_and_pass_on(void *object, int event, void *data) {
    count(object, event, data);
    return below == NULL ? 0 : below(object, event, below_data);
}

void set_below(tracer function, void *data) {
    below = function;
    below_data = data;
}
