/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C as a flag, so that workers are ended and temporary files removed before the program goes. */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

/* From now on SIGINT, SIGTERM and SIGHUP set the flag, and a closed pipe is an error of write() instead of a signal. */
void mr_interrupt_catch(void);
/* Whether one of them came. */
bool mr_interrupt_came(void);
/* End by the signal that came, as the shell expects; returns when none did. */
void mr_interrupt_raise(void);

#endif
