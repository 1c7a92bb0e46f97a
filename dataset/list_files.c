/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a dataset of paths and labels in memory: writes them as the text of a list into shared
 * memory.
 */
#include "dataset/list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "dataset/list_line.h"

/* The name in messages and in /proc/PID/maps. */
#define NAME "millrace-files"

enum { LABEL_BYTES = sizeof "\t-9223372036854775808\n" };

static size_t write_label(const int64_t *labels, int64_t i, char text[LABEL_BYTES])
{
    return (size_t)snprintf(text, LABEL_BYTES, "\t%" PRId64 "\n", labels ? labels[i] : 0);
}

static mr_status measure_text(const char *const *paths, const int64_t *labels, int64_t n,
                              size_t *len_out, mr_error *error)
{
    char label[LABEL_BYTES];
    *len_out = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!paths[i] || !*paths[i])
            return mr_error_set(error, MR_ERR_INVALID, "path %" PRId64 " is %s", i,
                                paths[i] ? "empty" : "NULL");
        size_t most = MR_CATALOG_PATH - 1 - (*paths[i] == '#' ? strlen("./") : 0);
        if (strlen(paths[i]) > most)
            return mr_error_set(error, MR_ERR_INVALID, "path %" PRId64 " has more than %zu bytes",
                                i, most);
        *len_out += mr_list_line_write_path(paths[i], NULL) + write_label(labels, i, label);
    }
    return MR_OK;
}

static mr_status write_text(const char *const *paths, const int64_t *labels, int64_t n, size_t len,
                            int fd, mr_error *error)
{
    char label[LABEL_BYTES];
    char *text = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot map %zu bytes for paths", len);
    char *at = text;
    for (int64_t i = 0; i < n; i++) {
        at += mr_list_line_write_path(paths[i], at);
        size_t len_label = write_label(labels, i, label);
        memcpy(at, label, len_label);
        at += len_label;
    }
    munmap(text, len);
    int rc = mr_shared_memory_seal_content(fd);
    return rc < 0 ? mr_error_os(error, MR_ERR_IO, -rc, "cannot seal %zu bytes of paths", len)
                  : MR_OK;
}

mr_status mr_list_make(const char *const *paths, const int64_t *labels, int64_t n,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    size_t len;
    mr_status status = measure_text(paths, labels, n, &len, error);
    if (status == MR_OK)
        status = mr_shared_memory_create(NAME, len, &fds_out[MR_CATALOG_FD_NAMES], error);
    if (status == MR_OK)
        status = write_text(paths, labels, n, len, fds_out[MR_CATALOG_FD_NAMES], error);
    const struct mr_extra_list none = {0};
    return status == MR_OK ? mr_list_scan_beside(NAME, len, MR_I64, &none, fds_out, error) : status;
}
