/* SPDX-License-Identifier: Apache-2.0 */
/* Writes lists for list:FILE. */
#ifndef BENCH_WRITE_LIST_H
#define BENCH_WRITE_LIST_H

#include <stdint.h>
#include <stdio.h>

/* Write one line in the form that list:FILE reads. Errors show in ferror(). */
void mr_write_list_line(FILE *file, const char *path, int64_t label);

#endif
