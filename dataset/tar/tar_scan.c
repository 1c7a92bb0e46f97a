/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the headers of a tar file. It skips the data of members, and reads only extended
 * headers: the names and records that GNU and pax store before a member.
 *
 * Invariant: each step moves forwards by at least one block, so the number of steps is bounded for
 * any file.
 */
#include "dataset/tar/tar_scan.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "dataset/extent.h"
#include "dataset/file.h"
#include "dataset/remote/object.h"
#include "dataset/tar/tar_header.h"

/* An extended header with more bytes was not written by a program. */
enum { MAX_PAX = 1 << 20 };

struct walk {
    struct mr_tar_file *file;
    const struct mr_tar_events *events;
    uint64_t at;
    uint64_t first_at;       /* start of the headers of the next member */
    uint64_t extended_bytes; /* data of extended headers read so far */
    bool has_name, has_size, is_sparse;
    uint64_t size;
    char name[MR_CATALOG_PATH]; /* of the next member, from GNU or pax */
};

static bool is_in_window(const struct mr_tar_file *file, uint64_t at, size_t len)
{
    return at >= file->window_at && at - file->window_at <= file->window_len &&
           len <= file->window_len - (size_t)(at - file->window_at);
}

mr_status mr_tar_file_read(struct mr_tar_file *file, uint64_t at, void *out, size_t len,
                           size_t *n_out, mr_error *error)
{
    size_t n = at < file->size && len > file->size - at ? (size_t)(file->size - at) : len;
    bool is_read = is_in_window(file, at, n);
    *n_out = n; /* may be the window's length */
    if (is_read) {
        memcpy(out, file->window + (at - file->window_at), n);
        return MR_OK;
    }
    if (file->object)
        return mr_object_read(file->object, at, out, n, error);
    int rc = mr_file_read_at(file->fd, at, out, len, n_out);
    return rc < 0 ? mr_error_os(error, MR_ERR_IO, -rc, "%s", file->shown) : MR_OK;
}

/*
 * How much to read at `at`: more from read to read while little is skipped between them, so a shard
 * of small members is read as fast as the server sends it.
 */
static size_t choose_step(const struct mr_tar_file *file, uint64_t at)
{
    uint64_t end = file->window_at + file->window_len;
    bool is_dense = file->window_len > 0 && at >= end && at - end < file->window_len / 4;
    size_t step = is_dense ? 2 * file->step : MR_TAR_REMOTE_STEP;
    return step < file->window_size ? step : file->window_size;
}

const uint8_t *mr_tar_file_look(struct mr_tar_file *file, uint64_t at, size_t len, mr_error *error)
{
    assert(len <= MR_TAR_WINDOW && at <= file->size && len <= file->size - at);
    if (is_in_window(file, at, len))
        return file->window + (at - file->window_at);
    file->step = choose_step(file, at);
    mr_status status =
        mr_tar_file_read(file, at, file->window, file->step, &file->window_len, error);
    file->window_at = at;
    if (status == MR_OK && file->window_len >= len)
        return file->window;
    file->window_len = 0;
    if (status == MR_OK)
        mr_error_set(error, MR_ERR_IO, "%s shrank while it was read", file->shown);
    return NULL;
}

static mr_status refuse_compressed(const struct mr_tar_file *file, const uint8_t *head,
                                   mr_error *error)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *name;
    } forms[] = {
        {"\x1f\x8b", 2, "gzip"},    {"\x28\xb5\x2f\xfd", 4, "zstd"}, {"BZh", 3, "bzip2"},
        {"\xfd\x37zXZ", 5, "xz"},   {"\x04\x22\x4d\x18", 4, "lz4"},  {"\x5d\0\0", 3, "lzma"},
        {"\x1f\x9d", 2, "compress"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (memcmp(head, forms[i].bytes, forms[i].len) == 0)
            return mr_error_set(error, MR_ERR_UNSUPPORTED,
                                "%s is compressed (%s), so its members cannot be read in place; "
                                "decompress it, or unpack it and run millrace pack on the folder",
                                file->shown, forms[i].name);
    return MR_OK;
}

static mr_status refuse_sparse(const struct walk *walk, const char *name, mr_error *error)
{
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "%s/%s is stored with holes (sparse), so it cannot be read in place; "
                        "write the shard without --sparse, or unpack it and run millrace pack on "
                        "the folder",
                        walk->file->shown, name);
}

static void forget_extended(struct walk *walk)
{
    walk->has_name = walk->has_size = walk->is_sparse = false;
}

/*
 * True if the pass can continue at this block. The magic is checked first, because the checksum
 * takes longer.
 */
static bool is_new_start(const uint8_t *block)
{
    struct mr_tar_header header;
    return mr_tar_header_has_magic(block) && mr_tar_header_parse(block, &header) == NULL;
}

/* Find the next header where the pass can continue; the end of the file if there is none. */
static mr_status find_start(struct mr_tar_file *file, uint64_t at, uint64_t *start_out,
                            mr_error *error)
{
    for (; at < file->size && file->size - at >= MR_TAR_BLOCK; at += MR_TAR_BLOCK) {
        const uint8_t *block = mr_tar_file_look(file, at, MR_TAR_BLOCK, error);
        if (!block)
            return MR_ERR_IO;
        if (is_new_start(block)) {
            *start_out = at;
            return MR_OK;
        }
    }
    *start_out = file->size;
    return MR_OK;
}

/* Skip from a block that is not a header to the next header, or to the end. */
static mr_status skip_gap(struct walk *walk, const char *why, mr_error *error)
{
    struct mr_tar_gap gap = {.from = walk->first_at, .why = why};
    (void)posix_fadvise(walk->file->fd, 0, 0, POSIX_FADV_NORMAL); /* every block is read */
    mr_status status = find_start(walk->file, walk->at + MR_TAR_BLOCK, &gap.to, error);
    (void)posix_fadvise(walk->file->fd, 0, 0, POSIX_FADV_RANDOM);
    if (status < 0)
        return status;
    walk->at = walk->first_at = gap.to;
    forget_extended(walk);
    return walk->events->gap(walk->events->user, &gap, error);
}

/* Store the name of the next member. False: it cannot be a path. */
static bool store_name(struct walk *walk, const void *name, size_t len)
{
    if (len == 0 || len >= sizeof walk->name || memchr(name, '\0', len))
        return false;
    memcpy(walk->name, name, len);
    walk->name[len] = '\0';
    walk->has_name = true;
    return true;
}

/* Returns NULL, or what is wrong with the records. */
static const char *take_pax(struct walk *walk, const uint8_t *bytes, size_t len, bool global)
{
    struct mr_tar_pax pax;
    if (!mr_tar_header_parse_pax(bytes, len, &pax))
        return "a malformed pax header";
    walk->is_sparse |= pax.is_sparse;
    if (global)
        return pax.path || pax.has_size ? "a pax header with one path or size for all members"
                                        : NULL;
    if (pax.path && !store_name(walk, pax.path, pax.path_len))
        return "a pax header whose path is empty or too long";
    if (pax.has_size) {
        walk->has_size = true;
        walk->size = pax.size;
    }
    return NULL;
}

static const char *take_long_name(struct walk *walk, const uint8_t *bytes, size_t len)
{
    return store_name(walk, bytes, strnlen((const char *)bytes, len))
               ? NULL
               : "a long name that is empty or too long";
}

/* Read an extended header. len is at most MAX_PAX, and the data are inside the file. */
static mr_status read_extended(struct walk *walk, enum mr_tar_type type, uint64_t at, size_t len,
                               const char **wrong_out, mr_error *error)
{
    size_t n = 0;
    uint8_t *bytes = malloc(len + 1);
    if (!bytes)
        return mr_error_memory(error, len + 1);
    mr_status status = mr_tar_file_read(walk->file, at, bytes, len, &n, error);
    if (status < 0)
        *wrong_out = NULL;
    else if (type == MR_TAR_LONG_NAME)
        *wrong_out = take_long_name(walk, bytes, n);
    else
        *wrong_out = take_pax(walk, bytes, n, type == MR_TAR_PAX_GLOBAL);
    free(bytes);
    return status;
}

/* Step over a header and len bytes of data with their padding, but not past the end. */
static void step_over(struct walk *walk, uint64_t len)
{
    uint64_t rest = walk->file->size - walk->at - MR_TAR_BLOCK;
    uint64_t padded = len <= rest ? (len + MR_TAR_BLOCK - 1) / MR_TAR_BLOCK * MR_TAR_BLOCK : rest;
    walk->at += MR_TAR_BLOCK + (padded < rest ? padded : rest);
}

static mr_status take_extended(struct walk *walk, const struct mr_tar_header *header,
                               mr_error *error)
{
    const char *wrong = NULL;
    mr_status status = MR_OK;
    if (header->size > MAX_PAX)
        wrong = "an extended header of more than 1 MiB";
    else if (header->size > walk->file->size - walk->at - MR_TAR_BLOCK)
        wrong = "the file ends within a header";
    else if ((walk->extended_bytes += header->size) > walk->file->size)
        /* a malformed header may lead back into its data; do not read them more than once */
        wrong = "extended headers whose data overlap";
    else if (header->type != MR_TAR_LONG_LINK)
        status = read_extended(walk, header->type, walk->at + MR_TAR_BLOCK, (size_t)header->size,
                               &wrong, error);
    if (status < 0)
        return status;
    if (wrong)
        return skip_gap(walk, wrong, error);
    step_over(walk, header->size);
    return MR_OK;
}

/*
 * An old header is a folder if its full name ends with a slash. The full name may be in an extended
 * header before it.
 */
static enum mr_tar_type find_type(const struct mr_tar_header *header, const char *name)
{
    size_t len = strlen(name);
    if (header->type != MR_TAR_OLD_FILE)
        return header->type;
    return len > 0 && name[len - 1] == '/' ? MR_TAR_EMPTY : MR_TAR_FILE;
}

static mr_status take_member(struct walk *walk, const struct mr_tar_header *header, mr_error *error)
{
    const char *name = walk->has_name ? walk->name : header->name;
    uint64_t size = walk->has_size ? walk->size : header->size,
             rest = walk->file->size - walk->at - MR_TAR_BLOCK;
    enum mr_tar_type type = find_type(header, name);
    mr_status status = MR_OK;
    if (type == MR_TAR_SPARSE || walk->is_sparse)
        return refuse_sparse(walk, name, error);
    if (type == MR_TAR_FILE && *name) {
        struct mr_tar_member member = {
            .name = name, .offset = walk->at + MR_TAR_BLOCK, .len = size, .is_cut = size > rest};
        status = walk->events->member(walk->events->user, &member, error);
    }
    step_over(walk, type == MR_TAR_EMPTY ? 0 : size);
    walk->first_at = walk->at;
    forget_extended(walk);
    return status;
}

static mr_status take_header(struct walk *walk, const struct mr_tar_header *header, mr_error *error)
{
    switch (header->type) {
    case MR_TAR_PAX:
    case MR_TAR_PAX_GLOBAL:
    case MR_TAR_LONG_NAME:
    case MR_TAR_LONG_LINK: return take_extended(walk, header, error);
    default: return take_member(walk, header, error);
    }
}

static mr_status walk_headers(struct walk *walk, mr_error *error)
{
    mr_status status = MR_OK;
    while (status == MR_OK && walk->file->size - walk->at >= MR_TAR_BLOCK) {
        struct mr_tar_header header;
        const uint8_t *block = mr_tar_file_look(walk->file, walk->at, MR_TAR_BLOCK, error);
        if (!block)
            return MR_ERR_IO;
        if (mr_tar_header_is_end(block))
            return MR_OK;
        const char *wrong = mr_tar_header_parse(block, &header);
        status = wrong ? skip_gap(walk, wrong, error) : take_header(walk, &header, error);
    }
    if (status == MR_OK && walk->first_at < walk->file->size)
        status = skip_gap(walk, "the file ends within a header", error);
    return status;
}

mr_status mr_tar_scan(struct mr_tar_file *file, const struct mr_tar_events *events, mr_error *error)
{
    if (file->size >= MR_TAR_BLOCK) {
        const uint8_t *head = mr_tar_file_look(file, 0, MR_TAR_BLOCK, error);
        struct mr_tar_header header;
        if (!head)
            return MR_ERR_IO;
        if (mr_tar_header_parse(head, &header) != NULL && refuse_compressed(file, head, error) < 0)
            return MR_ERR_UNSUPPORTED;
    }
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return mr_error_memory(error, sizeof *walk);
    walk->file = file;
    walk->events = events;
    mr_status status = walk_headers(walk, error);
    free(walk);
    return status;
}
