/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM and SIGUSR1, agreed on by all ranks.
 *
 * Invariant: no signal is lost. A signal that arrives between reading and agreeing is kept for the
 * next call, and so is the lower of two.
 */
#include <millrace/run.h>

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "dist/group/collectives.h"

/*
 * In order of priority, lowest first. Signal numbers differ between machines, so ranks agree on the
 * index in this list.
 */
static const int signals[] = {SIGUSR1, SIGTERM};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler may use it only if it takes no lock");

/*
 * State of the handler, in static storage. pending: bit i is set when signals[i] has arrived. It is
 * an atomic and not a sig_atomic_t, because the handler may run in another thread than the reader.
 * before: written once, before the handler is installed.
 */
static struct {
    _Atomic unsigned pending;
    struct sigaction before[N_SIGNALS];
    int n_watched; /* number of signals watched; a second call must not chain a handler to itself */
} watch;

static void call_previous(const struct sigaction *before, int signal, siginfo_t *info,
                          void *context)
{
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(signal, info, context);
    else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(signal);
}

static void handle_signal(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    for (int i = 0; i < N_SIGNALS; i++) {
        if (signals[i] == signal) {
            atomic_fetch_or(&watch.pending, 1u << i);
            call_previous(&watch.before[i], signal, info, context);
        }
    }
    errno = saved_errno;
}

/*
 * Keeps the previous handler's signal mask and stack. Interrupted reads and writes are restarted.
 */
static mr_status watch_signal(int i, mr_error *error)
{
    struct sigaction *before = &watch.before[i];
    if (sigaction(signals[i], NULL, before) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot read the handler of signal %d",
                           signals[i]);
    struct sigaction action = {.sa_sigaction = handle_signal, .sa_mask = before->sa_mask};
    action.sa_flags = SA_SIGINFO | SA_RESTART | (before->sa_flags & (SA_ONSTACK | SA_NODEFER));
    if (sigaction(signals[i], &action, NULL) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot watch signal %d", signals[i]);
    return MR_OK;
}

mr_status mr_signals_watch(mr_error *error)
{
    mr_status status = MR_OK;
    while (status == MR_OK && watch.n_watched < N_SIGNALS) {
        status = watch_signal(watch.n_watched, error);
        watch.n_watched += status == MR_OK;
    }
    return status;
}

mr_status mr_signals_agree(mr_group *group, int *signal_out)
{
    if (!signal_out)
        return MR_ERR_INVALID;
    unsigned mine = atomic_exchange(&watch.pending, 0);
    int32_t highest = -1;
    for (int i = 0; i < N_SIGNALS; i++)
        if (mine & 1u << i)
            highest = i;
    mr_status status =
        group ? mr_collectives_all_reduce(group, &highest, 1, MR_I32, MR_MAX) : MR_OK;
    bool is_sound = status == MR_OK && highest >= -1 && highest < N_SIGNALS;
    unsigned reported = is_sound && highest >= 0 ? 1u << highest : 0;
    atomic_fetch_or(&watch.pending, mine & ~reported);
    if (status == MR_OK)
        *signal_out = reported ? signals[highest] : 0;
    return status;
}
