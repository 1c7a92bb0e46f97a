/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens ranges:FILE: images that are ranges of larger files, such as an Arrow file. A line is that
 * of a list, with offset and length after the label. The catalog has the scheme of tar shards:
 * successive lines with the same path are a shard, and the image is a member of it.
 */
#include "dataset/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/catalog_build.h"
#include "dataset/file.h"
#include "dataset/file_cache.h"
#include "dataset/list.h"
#include "dataset/list_line.h"
#include "dataset/spec.h"

struct scan {
    const char *list;
    int root;
    struct mr_catalog_builder builder;
    uint64_t n_lines;
    char path[MR_CATALOG_PATH]; /* of the last line */
    uint64_t size;              /* of that file */
};

static mr_status fail_line(const struct scan *scan, const char *what, mr_error *error)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "%s:%" PRIu64 ": %s", scan->list, scan->n_lines,
                        what);
}

/* The integer of a field; -1 if it is none, which neither an offset nor a length can be. */
static int64_t parse_field(const struct mr_list_line *line, uint64_t k)
{
    int64_t value = -1;
    struct mr_list_line field;
    if (mr_list_line_further(line, k, &field)) {
        field.label = field.path;
        field.label_len = field.path_len;
        mr_list_line_label(&field, MR_I64, 1, (locale_t)0, &value);
    }
    return value;
}

/* Begin a shard if the path is not that of the line before. */
static mr_status take_path(struct scan *scan, const char *path, mr_error *error)
{
    struct stat st;
    if (scan->n_lines > 1 && strcmp(path, scan->path) == 0)
        return MR_OK;
    if (fstatat(scan->root, path, &st, 0) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "%s:%" PRIu64 ": cannot open %s", scan->list,
                           scan->n_lines, path);
    strcpy(scan->path, path);
    scan->size = (uint64_t)st.st_size;
    scan->builder.header.n_files++;
    return mr_catalog_builder_folder(&scan->builder, path, mr_file_cache_stamp(&st), error);
}

static mr_status take_line(struct scan *scan, const char *text, size_t len, mr_error *error)
{
    struct mr_list_line line;
    char path[MR_CATALOG_PATH], name[64];
    int64_t label;
    if (len == 0 || !mr_list_line_split(text, len, &line) || mr_list_line_n_further(&line) != 2)
        return fail_line(scan, "the line is not path, label, offset and length, with tabs between",
                         error);
    int64_t offset = parse_field(&line, 0), length = parse_field(&line, 1);
    if (mr_list_line_path(&line, path) < 0)
        return fail_line(scan, "the path is empty, wrongly escaped, or has more than 4095 bytes",
                         error);
    if (!mr_list_line_label(&line, MR_I64, 1, (locale_t)0, &label))
        return fail_line(scan, "the label is not an integer of 64 bits", error);
    if (offset < 0 || length < 0)
        return fail_line(scan, "offset and length are not integers from 0 on", error);
    mr_status status = take_path(scan, path, error);
    if (status < 0)
        return status;
    if ((uint64_t)offset > scan->size || (uint64_t)length > scan->size - (uint64_t)offset)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s:%" PRIu64 ": %" PRId64 " bytes from %" PRId64
                            " on are not in %s, which has %" PRIu64,
                            scan->list, scan->n_lines, length, offset, path, scan->size);
    struct mr_catalog_member member = {
        .offset = (uint64_t)offset, .len = (uint64_t)length & (UINT64_MAX >> 8), .label = label};
    snprintf(name, sizeof name, "%" PRId64 "+%" PRId64, offset, length);
    status = mr_catalog_builder_name(&scan->builder, name, error);
    return status < 0 ? status
                      : mr_bytes_append(&scan->builder.sections[MR_SECTION_MEMBERS], &member,
                                        sizeof member, error);
}

static mr_status build_catalog(struct scan *scan, const char *text, size_t len, int *fd_out,
                               mr_error *error)
{
    struct mr_catalog_header *header = &scan->builder.header;
    mr_status status = MR_OK;
    for (const char *line = text, *end = text + len, *stop; status == MR_OK && line < end;
         line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        scan->n_lines++;
        status = take_line(scan, line, (size_t)(stop - line), error);
    }
    if (status == MR_OK && scan->n_lines == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s holds no sample", scan->list);
    if (status < 0)
        return status;
    header->n_samples = scan->n_lines;
    header->kind.encoded = 1;
    header->kind.picture = 1;
    mr_kind_set_integer_label(&header->kind);
    return mr_catalog_builder_finish(&scan->builder, fd_out, error);
}

static mr_status read_text(const char *path, char **text_out, size_t *len_out, mr_error *error)
{
    struct stat st;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, &st);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "cannot open the list %s", path);
    size_t size = (size_t)st.st_size;
    *text_out = malloc(size + 1);
    mr_status status = *text_out ? MR_OK : mr_error_memory(error, size + 1);
    int rc = *text_out ? mr_file_read_at(fd, 0, *text_out, size, len_out) : 0;
    if (rc < 0)
        status = mr_error_os(error, MR_ERR_IO, -rc, "cannot read the list %s", path);
    close(fd);
    return status;
}

mr_status mr_ranges_open(struct mr_spec *spec, const mr_dataset_options *options,
                         int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct scan scan = {.list = spec->paths[0]};
    char *text = NULL;
    size_t len = 0;
    mr_status status = mr_spec_finish(spec, "none", error);
    if (status == MR_OK)
        status = mr_catalog_builder_init(&scan.builder, MR_SCHEME_TAR, error);
    if (status < 0)
        return status;
    status = read_text(scan.list, &text, &len, error);
    if (status == MR_OK)
        status = mr_list_open_root(scan.list, &scan.builder, &fds_out[MR_CATALOG_FD_ROOT], error);
    scan.root = fds_out[MR_CATALOG_FD_ROOT];
    if (status == MR_OK)
        status = build_catalog(&scan, text, len, &fds_out[MR_CATALOG_FD_REGION], error);
    free(text);
    mr_catalog_builder_fini(&scan.builder);
    return status;
}
