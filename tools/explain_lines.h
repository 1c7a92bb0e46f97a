/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the file of `millrace export --explain`: a line of JSON for each row of the arrays.
 * Functions that return bool print a message before they return false.
 */
#ifndef TOOLS_EXPLAIN_LINES_H
#define TOOLS_EXPLAIN_LINES_H

#include "tools/feed.h"
#include "tools/temporary_file.h"

struct mr_explain_lines {
    struct mr_temporary_file file;
    const struct mr_feed *feed;
    uint32_t raw_channels; /* 0: image files */
    bool turns;            /* the transform turns images by EXIF; false for raw samples */
    mr_sampler
        *sampler; /* for orders in which an index may occur several times; NULL: each occurs once */
    char *text;   /* the lines of one batch */
    size_t len;
    size_t size;
};

/* Make the file under a temporary name. Call mr_explain_lines_close() also after a failure. */
bool mr_explain_lines_open(struct mr_explain_lines *lines, const struct mr_feed *feed,
                           const char *path);
/* Append a line for each row of the batch. */
bool mr_explain_lines_append(struct mr_explain_lines *lines, const mr_batch *batch);
/* Close the file; it is removed unless it was renamed. Does nothing for a zeroed struct. */
void mr_explain_lines_close(struct mr_explain_lines *lines);

#endif
