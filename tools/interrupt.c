/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns Ctrl-C into a flag. A signal that the parent ignores (nohup) stays ignored. A second Ctrl-C
 * ends a program that does not check the flag. SIGXCPU keeps its handler, because the kernel sends
 * it again every second while the program cleans up.
 */
#include "tools/interrupt.h"

#include <signal.h>
#include <stddef.h>

/* A signal handler can reach no other state. */
static volatile sig_atomic_t caught;

static const struct {
    int number;
    int flags;
} signals[] = {{SIGINT, (int)SA_RESETHAND},
               {SIGTERM, (int)SA_RESETHAND},
               {SIGHUP, (int)SA_RESETHAND},
               {SIGQUIT, (int)SA_RESETHAND},
               {SIGXCPU, 0}};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

static void on_signal(int signal_number)
{
    caught = signal_number;
}

void mr_interrupt_init(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGXFSZ, &ignore, NULL);
}

void mr_interrupt_catch(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;

    for (size_t i = 0; i < N_SIGNALS; i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = signals[i].flags};
        if (sigaction(signals[i].number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i].number, &action, NULL);
    }
    sigaction(SIGPIPE, &ignore, NULL);
}

static void change_mask(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaddset(&set, signals[i].number);
    pthread_sigmask(how, &set, NULL);
}

void mr_interrupt_hold(void)
{
    change_mask(SIG_BLOCK);
}

void mr_interrupt_release(void)
{
    change_mask(SIG_UNBLOCK);
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
