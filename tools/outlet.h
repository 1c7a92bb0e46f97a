/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a result goes that is written at once: a temporary file, renamed when complete, or an open
 * stream: "-" and /dev/stdout, a pipe, a device. Functions that return bool have printed a message
 * when they return false.
 */
#ifndef TOOLS_OUTLET_H
#define TOOLS_OUTLET_H

#include <stdbool.h>
#include <stddef.h>

struct mr_outlet {
    const char *path; /* NULL: nothing is asked for */
    bool stream;
    int fd; /* of a stream */
};

/*
 * Before the work: open the stream, or check that the file can be made. If the result goes to
 * standard output, whatever else this program prints there goes to stderr from now on. path NULL
 * asks for nothing.
 */
bool mr_outlet_open(struct mr_outlet *outlet, const char *path);
bool mr_outlet_store(struct mr_outlet *outlet, const void *bytes, size_t len_bytes);
/* Close the stream. Nothing for a zeroed struct. */
void mr_outlet_close(struct mr_outlet *outlet);

#endif
