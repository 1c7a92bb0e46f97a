/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destination of a result that is written at once: a temporary file that is renamed when
 * complete, or a stream ("-", /dev/stdout, a pipe, a device). Functions that return bool print a
 * message before they return false.
 */
#ifndef TOOLS_OUTLET_H
#define TOOLS_OUTLET_H

#include <stdbool.h>
#include <stddef.h>

struct mr_outlet {
    const char *path; /* NULL: no result is wanted */
    bool stream;
    int fd; /* for a stream */
};

/*
 * Call this before the work. Open the stream, or check that the file can be made. If the result
 * goes to standard output, everything else that this program prints there goes to stderr from now
 * on. path NULL: no result is wanted.
 */
bool mr_outlet_open(struct mr_outlet *outlet, const char *path);
bool mr_outlet_store(struct mr_outlet *outlet, const void *bytes, size_t len_bytes);
/* Close the stream. Does nothing for a zeroed struct. */
void mr_outlet_close(struct mr_outlet *outlet);

#endif
