/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads indexes of wds2idx: a line "v1.2 N", then N lines, one per sample, with "suffix offset size
 * name" for each member. If a name contains a space, its line cannot be parsed, and the headers of
 * the shard are read instead.
 *
 * Invariant: all lines are checked before the first member is passed on.
 */
#include "dataset/tar/tar_wds.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/regular_file.h"
#include "dataset/extent.h"
#include "dataset/file.h"
#include "dataset/remote/object.h"
#include "dataset/tar/tar_group.h"
#include "dataset/tar/tar_header.h"

enum { MAX_BYTES = 1 << 30 };

/* "dir/train.tar" to "dir/train.idx". */
static bool find_index(const char *path, char index_out[MR_CATALOG_PATH])
{
    size_t len = strlen(path);
    if (len <= 4 || strcmp(path + len - 4, ".tar") != 0)
        return false;
    int n = snprintf(index_out, MR_CATALOG_PATH, "%.*s.idx", (int)len - 4, path);
    return n > 0 && n < MR_CATALOG_PATH;
}

bool mr_tar_wds_stat(int root, const char *path, struct stat *st_out)
{
    char index[MR_CATALOG_PATH];
    return find_index(path, index) && fstatat(root, index, st_out, 0) == 0;
}

static bool is_older(const struct stat *a, const struct stat *b)
{
    if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
        return a->st_mtim.tv_sec < b->st_mtim.tv_sec;
    return a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

/* Load the whole text and append a NUL. NULL: there is no usable index. */
static char *load_text(int root, const char *path, const struct stat *shard)
{
    struct stat st;
    char index[MR_CATALOG_PATH], *text = NULL;
    size_t n = 0;
    int fd = find_index(path, index) ? mr_regular_file_open(root, index, O_RDONLY, &st) : -1;
    if (fd < 0)
        return NULL;
    if (st.st_size <= MAX_BYTES && !is_older(&st, shard))
        text = malloc((size_t)st.st_size + 1);
    if (text && mr_file_read_at(fd, 0, text, (size_t)st.st_size, &n) < 0)
        n = 0;
    if (text)
        text[n] = '\0';
    close(fd);
    return text;
}

/*
 * The same beside a shard at a URL without a query, which may be a signature of the shard alone.
 * Its date is not compared with that of the shard: a store only knows when each was uploaded.
 */
static char *load_remote(const char *url)
{
    char index[MR_CATALOG_PATH], *text = NULL;
    struct mr_object *object;
    if (!find_index(url, index) || mr_object_open(index, NULL, &object, NULL) != MR_OK)
        return NULL;
    size_t len = (size_t)mr_object_version(object)->size;
    if (len <= MAX_BYTES)
        text = malloc(len + 1);
    if (text) {
        mr_status status = mr_object_read(object, 0, text, len, NULL);
        text[status == MR_OK ? len : 0] = '\0';
    }
    mr_object_close(object);
    return text;
}

static bool parse_number(const char *text, uint64_t *value_out)
{
    size_t len = strspn(text, "0123456789");
    *value_out = strtoull(text, NULL, 10);
    return len > 0 && len < 19 && text[len] == '\0';
}

/* Parse "suffix offset size name". after: end of the data of the previous member. */
static bool parse_member(char *suffix, char **rest, uint64_t after, uint64_t shard_bytes,
                         struct mr_tar_member *member)
{
    const char *offset = strsep(rest, " "), *size = strsep(rest, " "), *name = strsep(rest, " "),
               *stated;
    size_t stem_len;
    if (!name || !*name || !parse_number(offset, &member->offset) ||
        !parse_number(size, &member->len))
        return false;
    member->name = name;
    member->is_cut = false;
    if (mr_tar_group_split(name, &stem_len, &stated) && strcmp(stated, suffix) != 0)
        return false;
    return member->offset % MR_TAR_BLOCK == 0 && member->offset >= after + MR_TAR_BLOCK &&
           member->offset <= shard_bytes && member->len <= shard_bytes - member->offset;
}

/* True if the header of the member is directly before its data. */
static bool has_header(struct mr_tar_file *file, const struct mr_tar_member *member)
{
    struct mr_tar_header header;
    const uint8_t *block =
        mr_tar_file_look(file, member->offset - MR_TAR_BLOCK, MR_TAR_BLOCK, NULL);
    return block && mr_tar_header_parse(block, &header) == NULL && header.size == member->len &&
           (header.type == MR_TAR_FILE || header.type == MR_TAR_OLD_FILE);
}

/* The end of the data of a member with their padding. A file may end before the padding does. */
static uint64_t end_of_data(const struct mr_tar_file *file, uint64_t at, uint64_t len)
{
    uint64_t rest = file->size - at;
    uint64_t padded = len <= rest ? (len + MR_TAR_BLOCK - 1) / MR_TAR_BLOCK * MR_TAR_BLOCK : rest;
    return at + (padded < rest ? padded : rest);
}

/*
 * True if valid headers fill this part of the shard, and none of them is that of a regular file.
 * Folders, links and long names may be there. If a block is not a header, the shard may be broken
 * there, and only a pass over all headers can report that.
 */
static bool has_no_file(struct mr_tar_file *file, uint64_t at, uint64_t end)
{
    while (at < end) {
        struct mr_tar_header header;
        const uint8_t *block =
            end - at >= MR_TAR_BLOCK ? mr_tar_file_look(file, at, MR_TAR_BLOCK, NULL) : NULL;
        if (block && end == file->size && mr_tar_header_is_end(block))
            return true;
        if (!block || mr_tar_header_parse(block, &header) != NULL || header.type == MR_TAR_FILE ||
            header.type == MR_TAR_OLD_FILE)
            return false;
        at = end_of_data(file, at + MR_TAR_BLOCK, header.type == MR_TAR_EMPTY ? 0 : header.size);
    }
    return at == end;
}

/* Append the members of a line to members. *end is the end of the data of the last one. */
static bool parse_line(char *line, struct mr_tar_file *file, struct mr_bytes *members,
                       uint64_t *end)
{
    for (char *rest = line, *suffix; (suffix = strsep(&rest, " "));) {
        struct mr_tar_member member;
        if (!parse_member(suffix, &rest, *end, file->size, &member) ||
            mr_bytes_append(members, &member, sizeof member, NULL) < 0)
            return false;
        *end = member.offset + member.len;
    }
    return true;
}

/*
 * True if the index has all members of the shard. An index may leave members out, and wds2idx takes
 * the header of a long name for that of the member. So this checks the headers of the first and the
 * last member, every range between members, and the headers at both sides of that range. Where one
 * member directly follows another, there is nothing to check.
 */
static bool is_complete(struct mr_tar_file *file, const struct mr_tar_member *members, size_t n)
{
    uint64_t end = 0;
    bool checked = true; /* the header of the member that ends there was checked */
    for (size_t i = 0; i < n; i++) {
        const struct mr_tar_member *member = &members[i];
        uint64_t at = member->offset - MR_TAR_BLOCK;
        bool apart = i == 0 || at != end;
        if (apart && ((!checked && !has_header(file, member - 1)) || !has_no_file(file, end, at)))
            return false;
        checked = apart || i + 1 == n;
        if (checked && !has_header(file, member))
            return false;
        end = end_of_data(file, member->offset, member->len);
    }
    return n > 0 && has_no_file(file, end, file->size);
}

static bool parse_index(char *text, struct mr_tar_file *file, struct mr_bytes *members)
{
    char *rest = text, *line = strsep(&rest, "\n");
    uint64_t n_lines, n = 0, end = 0;
    if (strncmp(line, "v1.2 ", 5) != 0 || !parse_number(line + 5, &n_lines))
        return false;
    while ((line = strsep(&rest, "\n"))) {
        if (*line == '\0' && !rest)
            break;
        if (++n > n_lines || !parse_line(line, file, members, &end))
            return false;
    }
    return n == n_lines;
}

mr_status mr_tar_wds_read(int root, const char *path, const struct stat *st,
                          struct mr_tar_file *file, const struct mr_tar_events *events,
                          bool *used_out, mr_error *error)
{
    struct mr_bytes bytes = {0};
    mr_status status = MR_OK;
    char *text =
        file->object ? load_remote(mr_object_url(file->object)) : load_text(root, path, st);
    bool parsed = text && parse_index(text, file, &bytes);
    const struct mr_tar_member *members = (const void *)bytes.data;
    size_t n = bytes.len / sizeof *members;
    *used_out = parsed && is_complete(file, members, n);
    for (size_t i = 0; *used_out && status == MR_OK && i < n; i++)
        status = events->member(events->user, &members[i], error);
    mr_bytes_fini(&bytes);
    free(text);
    return status;
}
