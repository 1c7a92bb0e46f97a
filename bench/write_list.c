/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one line of a list: path, tab, label. Bytes that would break the line are escaped. */
#include "bench/write_list.h"

#include <inttypes.h>

void mr_write_list_line(FILE *file, const char *path, int64_t label)
{
    for (; *path; path++) {
        if (*path == '\t')
            fputs("\\t", file);
        else if (*path == '\n')
            fputs("\\n", file);
        else if (*path == '\\')
            fputs("\\\\", file);
        else
            putc(*path, file);
    }
    fprintf(file, "\t%" PRId64 "\n", label);
}
