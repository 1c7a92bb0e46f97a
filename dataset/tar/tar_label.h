/* SPDX-License-Identifier: Apache-2.0 */
/* A label from the text of a member: an integer, or an integer field of a JSON object. */
#ifndef DATASET_TAR_LABEL_H
#define DATASET_TAR_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An integer in decimal, with white space around it. */
bool mr_tar_label_integer(const char *text, size_t len, int64_t *value_out);
/*
 * The integer that a field of the object has; of a field that is there twice, the last one. False:
 * no such field, it is no integer, or the text is no object. A key is compared byte by byte; one
 * with an escape in it is equal to none.
 */
bool mr_tar_label_json(const char *text, size_t len, const char *field, int64_t *value_out);

#endif
