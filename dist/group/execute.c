/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one collective on the engine, and explains a failure.
 *
 * When a rank dies, its connection to this rank breaks first, and the store notices it a moment
 * later. The engine's error alone names no rank, so this file asks the store, and waits for that
 * moment.
 */
#include "dist/group/execute.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "dist/group/collective_check.h"
#include "dist/group/collective_words.h"
#include "dist/group/late_ranks.h"

#define MS 1000000u       /* ns */
#define NAME_WAIT_MS 500  /* for the store to notice a rank after this rank did */
#define LOOKS_PER_LEFT 20 /* checks for broken ranks per query for ranks that left */

enum lost { NONE, BROKEN, LEFT };

/* The group is ending: the error is not needed, and the store may end. */
static bool is_ending(struct mr_group *group)
{
    pthread_mutex_lock(&group->lock);
    bool over = group->is_closing || group->is_given_up;
    pthread_mutex_unlock(&group->lock);
    return over;
}

/*
 * Which ranks broke or have left? The engine's connections may end before the store notices, so
 * this waits a moment. A rank that leaves much later does so because of the same failure.
 */
static enum lost find_lost(struct mr_group *group, uint32_t wait_ms, char words_out[MR_ERROR_TEXT])
{
    uint64_t until = mr_clock_now_ns() + (uint64_t)wait_ms * MS;
    for (uint32_t i = 0;; i++) {
        mr_error broken;
        char left[MR_COLLECTIVE_WORDS] = "";
        if (mr_group_broken(group, &broken)) {
            memcpy(words_out, broken.text, MR_ERROR_TEXT);
            return BROKEN;
        }
        if (i % LOOKS_PER_LEFT == 0)
            mr_group_left(group, left);
        if (left[0]) {
            memcpy(words_out, left, sizeof left);
            return LEFT;
        }
        if (mr_clock_now_ns() >= until || is_ending(group))
            return NONE;
        mr_clock_sleep_ms(5);
    }
}

mr_status mr_execute_explain(struct mr_group *group, const struct mr_collective *c,
                             mr_status status, mr_error *error)
{
    char what[MR_COLLECTIVE_WORDS];
    char time[MR_COLLECTIVE_WORDS];
    char lost[MR_ERROR_TEXT];
    mr_error engine_error = *error;
    mr_collective_words_describe(c, true, what);
    mr_collective_words_time(group->timeout_ms, time);
    if (is_ending(group))
        return mr_error_set(error, MR_ERR_STATE, "the group was destroyed before %s had ended",
                            what);
    bool is_peers = status == MR_ERR_IO || status == MR_ERR_PEER;
    bool is_time =
        /* the engine's text would repeat it */
        status == MR_ERR_CANCELED || status == MR_ERR_TIMEOUT;
    mr_late_ranks_note(group, c); /* other ranks may ask which ranks joined */
    enum lost how = find_lost(group, is_peers ? NAME_WAIT_MS : 0, lost);
    if (how == BROKEN)
        return mr_error_set(error, MR_ERR_PEER, "%s: %.700s", what, lost);
    if (is_time && how == NONE)
        mr_late_ranks_name(group, c, lost);
    if (is_time)
        return mr_error_set(error, MR_ERR_TIMEOUT, "%s timed out after %s%s%.700s", what, time,
                            lost[0] ? ": " : "", lost);
    if (is_peers && how == LEFT)
        return mr_error_set(error, MR_ERR_PEER, "%s: %.300s: %.400s", what, lost,
                            engine_error.text);
    mr_error_set(error, status < 0 ? status : MR_ERR_IO, "%s: %.800s", what, engine_error.text);
    error->os_error = engine_error.os_error;
    return (mr_status)error->status;
}

mr_status mr_execute_collective(struct mr_group *group, const struct mr_collective *c,
                                uint64_t deadline_ns, bool *is_verdict_out, mr_error *error)
{
    mr_status status = MR_OK;
    *is_verdict_out = false;
    mr_error_set(error, MR_OK, "%s", "");
    if (__atomic_load_n(&group->stop, __ATOMIC_ACQUIRE)) /* a rank was lost after the last one */
        return mr_execute_explain(group, c, MR_ERR_CANCELED, error);
    if (group->is_checked)
        status = mr_collective_check_run(group, c, deadline_ns, error);
    *is_verdict_out = status == MR_ERR_PEER;
    if (status) /* these errors are complete */
        return status == MR_ERR_IO || status == MR_ERR_CANCELED
                   ? mr_execute_explain(group, c, status, error)
                   : status;
    if (c->count == 0 && c->kind != MR_COLLECTIVE_BARRIER)
        return MR_OK;
    status = (mr_status)group->table->run(group->engine, c, deadline_ns, &group->stop, error);
    return status ? mr_execute_explain(group, c, status, error) : MR_OK;
}
