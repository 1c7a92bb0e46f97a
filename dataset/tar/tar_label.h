/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a label from the text of a member: an integer, or an integer field of a JSON object. */
#ifndef DATASET_TAR_LABEL_H
#define DATASET_TAR_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parse a decimal integer with optional white space around it. */
bool mr_tar_label_integer(const char *text, size_t len, int64_t *value_out);
/*
 * Find an integer field of a JSON object. If the object has the field twice, the last one counts.
 * False: there is no such field, it is not an integer, or the text is not an object. Keys are
 * compared byte by byte, so a key with an escape matches nothing.
 */
bool mr_tar_label_json(const char *text, size_t len, const char *field, int64_t *value_out);

#endif
