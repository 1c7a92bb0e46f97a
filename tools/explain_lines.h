/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of `millrace export --explain`: a line of JSON for each row of the arrays. Functions
 * that return bool have printed a message when they return false.
 */
#ifndef TOOLS_EXPLAIN_LINES_H
#define TOOLS_EXPLAIN_LINES_H

#include "tools/feed.h"
#include "tools/temporary_file.h"

struct mr_explain_lines {
    struct mr_temporary_file file;
    const struct mr_feed *feed;
    uint32_t raw_channels; /* 0: image files */
    bool turns;            /* EXIF counts, which it does in image files only */
    mr_sampler *sampler;   /* of orders that have an index several times; NULL: no occurrence but
                              0 */
    char *text;            /* lines of one batch */
    size_t len;
    size_t size;
};

/* Make the file under a temporary name. On failure too, mr_explain_lines_close() ends it. */
bool mr_explain_lines_open(struct mr_explain_lines *lines, const struct mr_feed *feed,
                           const char *path);
/* Append a line for each row of the batch. */
bool mr_explain_lines_append(struct mr_explain_lines *lines, const mr_batch *batch);
/* Close the file, which is removed unless it was renamed. Nothing for a zeroed struct. */
void mr_explain_lines_close(struct mr_explain_lines *lines);

#endif
