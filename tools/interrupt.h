/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns Ctrl-C into a flag, so the program can end its workers and remove temporary files before it
 * exits.
 */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

/*
 * Call this at the start of the program. Afterwards a file beyond `ulimit -f` is an error of
 * write() (EFBIG), not a signal.
 */
void mr_interrupt_init(void);
/*
 * From now on, SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU set the flag, and a closed pipe is an
 * error of write(), not a signal.
 */
void mr_interrupt_catch(void);
/*
 * Block these signals during a short operation that would leave a temporary file if it were
 * interrupted; release unblocks them.
 */
void mr_interrupt_hold(void);
void mr_interrupt_release(void);
/* True if one of these signals has arrived. */
bool mr_interrupt_came(void);
/* End the program by the signal that arrived, as a shell expects. Returns if there was none. */
void mr_interrupt_raise(void);

#endif
