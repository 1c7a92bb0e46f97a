/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C as a flag. Easy to get wrong: a signal that the parent ignores (nohup) must stay ignored, and a second Ctrl-C
 * must end a program that does not look at its flag.
 */
#include "tools/interrupt.h"

#include <signal.h>
#include <stddef.h>

/* The only state that a signal handler can reach. */
static volatile sig_atomic_t caught;

static void on_signal(int signal_number)
{
    caught = signal_number;
}

void mr_interrupt_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

bool mr_interrupt_came(void)
{
    return caught != 0;
}

void mr_interrupt_raise(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    if (caught == 0)
        return;
    sigaction((int)caught, &action, NULL);
    raise((int)caught);
}
