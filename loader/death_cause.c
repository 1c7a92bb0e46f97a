/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says why a worker died, and how much its sample is to blame. A crash or the time limit counts 1 of 2. A SIGKILL from
 * elsewhere (an operator, the out-of-memory killer) counts 1 of 20. If another part of the program has reaped the
 * status, the cause that the fault handler left decides.
 */
#include "loader/death_cause.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/os_words.h"

static const char *signal_name(int signal)
{
    const char *name = mr_os_words_signal(signal);
    return name ? name : "?";
}

void mr_death_cause_find(const struct mr_exit *end, const struct mr_worker_record *record, bool limit_kill,
                         uint32_t time_limit_ms, struct mr_death_cause *cause_out)
{
    int fault = (int)atomic_load(&record->cause);
    int signal = end->known && end->signal ? end->signal : fault;
    *cause_out = (struct mr_death_cause){.blame = MR_BLAME_CRASH, .our_fault = true};
    char *words = cause_out->words;
    char *cause = cause_out->cause;
    size_t size = sizeof cause_out->words;
    if (limit_kill) {
        snprintf(words, size, "decoding took longer than %u ms, twice", time_limit_ms);
        snprintf(cause, size, "made no progress for %u ms and was killed", time_limit_ms);
    } else if (signal == SIGKILL || (signal == 0 && !end->known)) {
        cause_out->blame = MR_BLAME_KILL;
        cause_out->our_fault = false;
        snprintf(words, size, "its workers were killed %u times", MR_BLAME_LIMIT / MR_BLAME_KILL);
        snprintf(cause, size, "was killed");
    } else if (signal != 0) {
        snprintf(words, size, "the worker that decodes it dies by SIG%s", signal_name(signal));
        snprintf(cause, size, "died by SIG%s", signal_name(signal));
    } else {
        snprintf(words, size, "the worker that decodes it exits with status %d", end->code);
        snprintf(cause, size, "exited with status %d", end->code);
    }
}
