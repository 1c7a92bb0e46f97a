/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds keys in the program's process, once for all datasets and loaders, and renews temporary ones
 * before they end. Requests see the newest set (settings_cell.h).
 */
#ifndef DATASET_REMOTE_STORES_CREDENTIALS_H
#define DATASET_REMOTE_STORES_CREDENTIALS_H

#include <stdbool.h>

#include "base/error.h"

/*
 * Before a request of this process: find the settings if that was not done or if the environment
 * has changed since, and renew keys that end soon. with_s3: also AWS's keys, for which a program, a
 * file or a server may be asked. Requests fail with the words of a source that fails, so the only
 * errors here are of memory. Threads: any. Blocks: while a source is asked.
 */
mr_status mr_credentials_find(bool with_s3, mr_error *error);

/* The same, with AWS's keys if they were asked for; until the release a thread renews what ends. */
mr_status mr_credentials_hold(mr_error *error);
void mr_credentials_release(void);

/* Where AWS's keys in the settings come from, without any part of a key. Threads: any. */
const char *mr_credentials_source(void);

#endif
