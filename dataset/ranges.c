/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens ranges:FILE: images that are ranges of larger files, such as an Arrow file. A line is that
 * of a list, with offset and length after the label. The catalog has the scheme of tar shards:
 * successive lines with the same path are a shard, and the image is a member of it.
 */
#include "dataset/ranges.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/catalog_build.h"
#include "dataset/reader/file_cache.h"
#include "dataset/kind_text.h"
#include "dataset/list.h"
#include "dataset/list_line.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

struct scan {
    const char *list;
    int root;
    struct mr_catalog_builder builder;
    uint64_t n_lines;
    char path[MR_CATALOG_PATH]; /* of the last line */
    uint64_t size;              /* of that file; UINT64_MAX: it is at a URL */
    struct mr_bytes urls;       /* of all files, NUL-terminated; "" for a local one */
    bool has_url;
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

/* Write the URL of a path; "" if it is local. */
static mr_status find_url(const struct scan *scan, const char *path, char url_out[MR_CATALOG_PATH],
                          mr_error *error)
{
    const char *root = (const char *)scan->builder.sections[MR_SECTION_ABSOLUTE].data;
    mr_error wrong;
    *url_out = '\0';
    if (!mr_url_is(root) && !mr_url_is(path))
        return MR_OK;
    if (mr_url_join(root, path, url_out, MR_CATALOG_PATH) < 0)
        return fail_line(scan, "the URL has more than 4095 bytes", error);
    return mr_url_check(url_out, &wrong) < 0 ? fail_line(scan, wrong.text, error) : MR_OK;
}

/* Begin a shard if the path is not that of the line before. */
static mr_status take_path(struct scan *scan, const char *path, mr_error *error)
{
    char url[MR_CATALOG_PATH];
    struct stat st = {0};
    if (scan->n_lines > 1 && strcmp(path, scan->path) == 0)
        return MR_OK;
    mr_status status = find_url(scan, path, url, error);
    if (status == MR_OK && !*url && fstatat(scan->root, path, &st, 0) != 0)
        status = mr_error_os(error, MR_ERR_IO, errno, "%s:%" PRIu64 ": cannot open %s", scan->list,
                             scan->n_lines, path);
    if (status < 0)
        return status;
    strcpy(scan->path, path);
    scan->size = *url ? UINT64_MAX : (uint64_t)st.st_size;
    scan->has_url |= *url != '\0';
    scan->builder.header.n_files++;
    status = mr_bytes_append(&scan->urls, url, strlen(url) + 1, error);
    return status < 0
               ? status
               : mr_catalog_builder_folder(&scan->builder, path, mr_file_cache_stamp(&st), error);
}

static mr_status check_range(const struct scan *scan, uint64_t number, uint64_t offset,
                             uint64_t len, const char *path, uint64_t size, mr_error *error)
{
    if (offset <= size && len <= size - offset)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s:%" PRIu64 ": %" PRIu64 " bytes from %" PRIu64
                        " on are not in %.*s, which has %" PRIu64,
                        scan->list, number, len, offset, mr_url_path_len(path), path, size);
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
    status = check_range(scan, scan->n_lines, (uint64_t)offset, (uint64_t)length, path, scan->size,
                         error);
    if (status < 0)
        return status;
    const uint64_t most = UINT64_MAX >> 8; /* no file is that long */
    struct mr_catalog_member member = {.offset = (uint64_t)offset,
                                       .len = (uint64_t)length < most ? (uint64_t)length : most,
                                       .label = label};
    snprintf(name, sizeof name, "%" PRId64 "+%" PRId64, offset, length);
    status = mr_catalog_builder_name(&scan->builder, name, error);
    return status < 0 ? status
                      : mr_bytes_append(&scan->builder.sections[MR_SECTION_MEMBERS], &member,
                                        sizeof member, error);
}

/* Find the sizes of all files at URLs, and check their ranges. */
static mr_status check_remote(struct scan *scan, mr_error *error)
{
    struct mr_bytes *sections = scan->builder.sections;
    uint64_t n_files = scan->builder.header.n_files;
    const char *url = (const char *)scan->urls.data;
    mr_status status = mr_catalog_builder_versions(&scan->builder, url, n_files, error);
    const struct mr_object_version *versions = (const void *)sections[MR_SECTION_VERSIONS].data;
    const struct mr_catalog_folder *files = (const void *)sections[MR_SECTION_FOLDERS].data;
    const struct mr_catalog_member *members = (const void *)sections[MR_SECTION_MEMBERS].data;
    for (uint64_t i = 0, file = 0; status == MR_OK && i < scan->n_lines; i++) {
        if (file + 1 < n_files && files[file + 1].first_file == i) {
            file++;
            url += strlen(url) + 1;
        }
        if (*url)
            status = check_range(scan, i + 1, members[i].offset, members[i].len, url,
                                 versions[file].size, error);
    }
    return status;
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
    if (status == MR_OK && scan->has_url)
        status = check_remote(scan, error);
    if (status < 0)
        return status;
    header->n_samples = scan->n_lines;
    header->kind.encoded = 1;
    header->kind.picture = 1;
    mr_kind_set_integer_label(&header->kind);
    return mr_catalog_builder_finish(&scan->builder, fd_out, error);
}

mr_status mr_ranges_open(struct mr_spec *spec, const mr_dataset_options *options,
                         int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    char *list = spec->paths[0];
    struct scan scan = {.list = list};
    struct mr_bytes text = {0};
    mr_status status = mr_spec_finish(spec, "none", error);
    if (status == MR_OK)
        status = mr_catalog_builder_init(&scan.builder, MR_SCHEME_TAR, error);
    if (status < 0)
        return status;
    status = mr_kind_text_read(list, "the list", SIZE_MAX - 1, &text, error);
    list[mr_url_path_len(list)] = '\0'; /* without a query */
    if (status == MR_OK)
        status = mr_list_open_root(scan.list, &scan.builder, &fds_out[MR_CATALOG_FD_ROOT], error);
    scan.root = fds_out[MR_CATALOG_FD_ROOT];
    if (status == MR_OK)
        status = build_catalog(&scan, (const char *)text.data, text.len,
                               &fds_out[MR_CATALOG_FD_REGION], error);
    mr_bytes_fini(&text);
    mr_bytes_fini(&scan.urls);
    mr_catalog_builder_fini(&scan.builder);
    return status;
}
