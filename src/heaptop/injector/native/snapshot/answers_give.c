/* the answer to any question, by the list of them. */
#include "snapshot/answers.h"

#include "query/paths.h"

const char *answers_give(struct answering *a) {
    static const char *(*const answers[])(struct answering *) = {
        [QUERY_GROUPS] = answers_groups,
        [QUERY_PATHS] = answers_paths,
        [QUERY_OBJECTS] = answers_objects,
        [QUERY_OBJECT] = answers_object,
        [QUERY_MAP] = answers_map,
        [QUERY_LOSE] = answers_lose,
        [QUERY_RETAINERS] = answers_retainers,
        [QUERY_STACKS] = answers_stacks,
        [QUERY_LIVE] = answers_live,
        [QUERY_KNOWN] = answers_known,
        [QUERY_AGES] = answers_ages,
        [QUERY_POINTS] = answers_points,
        [QUERY_WASTE] = answers_waste,
        [QUERY_UNREACHED] = answers_unreached,
        [QUERY_DUMP] = answers_dump,
    };
    uint32_t what = a->query->what;
    if (what >= sizeof answers / sizeof *answers || answers[what] == NULL)
        return "this agent does not know the question";
    bool needs_memory = what == QUERY_WASTE || what == QUERY_UNREACHED || what == QUERY_DUMP || a->query->containers;
    if (a->heap->stored != NULL && needs_memory)
        return "a heap dump does not hold what that needs";
    if (what == QUERY_LIVE || what == QUERY_KNOWN || what == QUERY_DUMP) { /* a piece takes less time than a selection */
        progress_begin(a->progress, 0);
        return a->progress->stopped ? query_cancelled : answers[what](a);
    }
    const char *refusal = selection_open(&a->selection, a->heap, a->types, a->seen_marks, a->query, a->progress);
    if (refusal == NULL && a->query->path.count != 0 && !paths_narrow(a, &a->query->path))
        refusal = query_no_memory;
    if (refusal == NULL && a->progress->stopped)
        refusal = query_cancelled;
    if (refusal == NULL && a->query->retainers.count != 0)
        refusal = answers_keep_retained(a);
    if (refusal == NULL)
        refusal = answers[what](a);
    selection_close(&a->selection);
    return refusal;
}
