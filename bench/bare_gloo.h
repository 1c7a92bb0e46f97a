/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo's all_reduce, called as a separate program would call it. No exception leaves these
 * functions.
 */
#ifndef BENCH_BARE_GLOO_H
#define BENCH_BARE_GLOO_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Connect over 127.0.0.1; the ranks find each other through an empty folder. NULL after a message
 * on stderr.
 */
void *mr_bare_gloo_connect(const char *folder, int rank, int world_size);
bool mr_bare_gloo_reduce(void *bare, double *buffer, int count);
void mr_bare_gloo_close(void *bare);
/* "0.5.0" */
const char *mr_bare_gloo_version(void);

#ifdef __cplusplus
}
#endif

#endif
