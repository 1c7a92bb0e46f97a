/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's functions for these words are younger than some systems that the library runs on, and musl has none. */
#include "base/os_words.h"

#include <signal.h>
#include <string.h>

#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 32)
#define HAS_GLIBC_WORDS 1
#endif
#endif

#ifdef HAS_GLIBC_WORDS

const char *mr_os_words_error(int os_error)
{
    return strerrordesc_np(os_error);
}

const char *mr_os_words_signal(int signal)
{
    return sigabbrev_np(signal);
}

#else

enum { MAX_ERRNO = 133 }; /* above it, an older glibc writes into a buffer that all threads share */

const char *mr_os_words_error(int os_error)
{
    return os_error >= 0 && os_error <= MAX_ERRNO ? strerror(os_error) : NULL;
}

const char *mr_os_words_signal(int signal)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",     [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT", [SIGBUS] = "BUS",     [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",   [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",   [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN",
        [SIGTTOU] = "TTOU", [SIGURG] = "URG",     [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM",
        [SIGPROF] = "PROF", [SIGWINCH] = "WINCH", [SIGPOLL] = "POLL", [SIGPWR] = "PWR",   [SIGSYS] = "SYS"};
    return signal > 0 && (unsigned)signal < sizeof names / sizeof *names ? names[signal] : NULL;
}

#endif
