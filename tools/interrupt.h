/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C as a flag, so that workers are ended and temporary files removed before the program exits. */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

/* At the start of the program: a file beyond `ulimit -f` is an error of write() (EFBIG) instead of a signal. */
void mr_interrupt_init(void);
/* From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU set the flag, and a closed pipe is an error of write()
 * instead of a signal. */
void mr_interrupt_catch(void);
/* While work is short and leaves a temporary file if it is cut off: those signals wait; then they come as ever. */
void mr_interrupt_hold(void);
void mr_interrupt_release(void);
/* Whether one of them came. */
bool mr_interrupt_came(void);
/* End by the signal that came, as the shell expects; returns when none did. */
void mr_interrupt_raise(void);

#endif
