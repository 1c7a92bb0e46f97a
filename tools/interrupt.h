/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C as a flag, so that workers are ended and temporary files removed before the program exits.
 */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

/*
 * At the start of the program: a file beyond `ulimit -f` is an error of write() (EFBIG) instead of
 * a signal.
 */
void mr_interrupt_init(void);
/*
 * From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU set the flag, and a closed pipe is an
 * error of write() instead of a signal.
 */
void mr_interrupt_catch(void);
/*
 * Block those signals during short work that would leave a temporary file if it were interrupted;
 * then unblock them.
 */
void mr_interrupt_hold(void);
void mr_interrupt_release(void);
/* Has one of them come? */
bool mr_interrupt_came(void);
/* End by the signal that came, as the shell expects; returns if none did. */
void mr_interrupt_raise(void);

#endif
