/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's file: an array of JSON objects in Chrome's trace event format. Readers accept it
 * without the closing bracket, so a program that crashes leaves a trace too.
 */
#ifndef LOADER_TRACE_FILE_H
#define LOADER_TRACE_FILE_H

#include <limits.h>

#include "base/error.h"

enum { MR_TRACE_FILE_BUFFER = 65536 };

struct mr_trace_file {
    int fd;
    int os_error; /* of the first failed write; nothing is written after it */
    size_t len;
    char path[PATH_MAX];
    char buffer[MR_TRACE_FILE_BUFFER];
};

/*
 * Make the file, replacing that of an earlier run. A file that another loader is writing, or that
 * this process has written, is left alone: then the name is path.2, path.3, and so on, and a log
 * line says so. Returns MR_OK or MR_ERR_IO.
 */
mr_status mr_trace_file_open(struct mr_trace_file *file, const char *path, mr_error *error);

/* Append one object, shorter than 1 KiB. */
void mr_trace_file_put(struct mr_trace_file *file, const char *format, ...) MR_PRINTF(2, 3);

void mr_trace_file_flush(struct mr_trace_file *file);

/* Close the array and the file. Warns if the trace is incomplete because of os_error. */
void mr_trace_file_close(struct mr_trace_file *file);

#endif
