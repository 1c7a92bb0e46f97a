/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the index from the parts of all shards. Each section is one pass over the parts, so the
 * index of many million samples needs no memory for them.
 *
 * Invariant: the folder is synced after the rename; otherwise a power failure may undo the rename.
 */
#include "packs/pack_index_save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/file.h"
#include "dataset/pack_index.h"
#include "packs/pack_part.h"

#define TEMPORARY MR_PACK_INDEX ".tmp"

enum { BUFFER_BYTES = 1 << 20, PIECE_BYTES = 16 << 10 };

struct output {
    struct mr_pack_draft *draft;
    struct mr_pack_header header;
    int fd;
    uint64_t at; /* bytes written to the file; `used` more are in the buffer */
    size_t used;
    int rc; /* the first failure, a negative errno */
    uint8_t *buffer;
};

static void flush_buffer(struct output *output)
{
    if (output->rc == 0)
        output->rc = mr_file_write_at(output->fd, output->buffer, output->used, output->at);
    output->at += output->used;
    output->used = 0;
}

static void put_bytes(struct output *output, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    while (len > 0 && output->rc == 0) {
        size_t n = BUFFER_BYTES - output->used;
        n = n < len ? n : len;
        memcpy(output->buffer + output->used, from, n);
        output->used += n;
        from += n;
        len -= n;
        if (output->used == BUFFER_BYTES)
            flush_buffer(output);
    }
}

static void begin_section(struct output *output, enum mr_pack_section which)
{
    static const uint8_t zeros[8];
    put_bytes(output, zeros, (size_t)(-(output->at + output->used) % 8));
    output->header.sections[which].off = output->at + output->used;
}

static void end_section(struct output *output, enum mr_pack_section which)
{
    output->header.sections[which].len =
        output->at + output->used - output->header.sections[which].off;
}

static void put_section(struct output *output, enum mr_pack_section which, const void *bytes,
                        size_t len)
{
    begin_section(output, which);
    put_bytes(output, bytes, len);
    end_section(output, which);
}

/* Copy a section of a part, piece by piece. */
static mr_status put_part(struct output *output, uint32_t shard, enum mr_pack_section which,
                          mr_error *error)
{
    uint8_t piece[PIECE_BYTES];
    uint64_t at, len;
    size_t n = 0;
    int fd, rc = 0;
    mr_status status = mr_pack_part_open(output->draft, shard, which, &fd, &at, &len, error);
    if (status < 0)
        return status;
    for (; rc == 0 && len > 0; at += n, len -= n) {
        rc = mr_file_read_at(fd, at, piece, len < sizeof piece ? (size_t)len : sizeof piece, &n);
        if (rc == 0 && n == 0) /* the file has become shorter */
            rc = -EIO;
        put_bytes(output, piece, n);
    }
    close(fd);
    return rc == 0 ? MR_OK : mr_pack_draft_fail(output->draft, -rc, "read", "a part", error);
}

static mr_status put_parts(struct output *output, enum mr_pack_section which, mr_error *error)
{
    mr_status status = MR_OK;
    begin_section(output, which);
    for (uint32_t i = 0; status == MR_OK && i < mr_pack_draft_n_shards(output->draft); i++)
        status = put_part(output, i, which, error);
    end_section(output, which);
    return status;
}

/* Write the start of each text, then the texts. */
static mr_status put_classes(struct output *output, const char *names, uint64_t len,
                             mr_error *error)
{
    struct mr_bytes starts = {0};
    mr_status status = MR_OK;
    for (uint64_t at = 0; status == MR_OK && at < len; at += strlen(names + at) + 1)
        status = mr_bytes_append_u64(&starts, at, error);
    put_section(output, MR_PACK_CLASSES, starts.data, starts.len);
    put_section(output, MR_PACK_CLASS_NAMES, names, len);
    mr_bytes_fini(&starts);
    return status;
}

static mr_status put_all(struct output *output, mr_error *error)
{
    const struct mr_pack_draft *draft = output->draft;
    const struct mr_pack_begin *begin = mr_pack_draft_begin(draft);
    const char *names = (const char *)(begin + 1), *origin = names + begin->class_names_len;
    put_bytes(output, &output->header, sizeof output->header); /* written again by seal_index() */
    mr_status status = put_parts(output, MR_PACK_SAMPLES, error);
    if (status == MR_OK)
        status = put_parts(output, MR_PACK_ROWS, error);
    if (status == MR_OK)
        status = put_parts(output, MR_PACK_LABELS, error);
    if (status == MR_OK)
        status = put_parts(output, MR_PACK_NAMES, error);
    if (status == MR_OK)
        status = put_classes(output, names, begin->class_names_len, error);
    put_section(output, MR_PACK_TEMPLATES, draft->templates.items,
                draft->templates.n * sizeof *draft->templates.items);
    put_section(output, MR_PACK_SHARDS, draft->shards.data, draft->shards.len);
    put_section(output, MR_PACK_ORIGIN, origin, strlen(origin) + 1);
    if (status == MR_OK && draft->n_marked > 0)
        status = put_parts(output, MR_PACK_MARKS, error);
    else
        put_section(output, MR_PACK_MARKS, NULL, 0);
    if (status == MR_OK)
        status = put_parts(output, MR_PACK_ROW_SUMS, error);
    put_section(output, MR_PACK_MEMBER_KINDS, begin->members,
                begin->n_members * sizeof *begin->members);
    if (status == MR_OK)
        status = put_parts(output, MR_PACK_MEMBERS, error);
    flush_buffer(output);
    return status;
}

static void fill_header(struct output *output)
{
    const struct mr_pack_begin *begin = mr_pack_draft_begin(output->draft);
    output->header = (struct mr_pack_header){.magic = MR_PACK_MAGIC,
                                             .version = MR_PACK_VERSION,
                                             .n_sections = MR_PACK_N_SECTIONS,
                                             .n_samples = begin->n_samples,
                                             .label_dtype = begin->label_dtype,
                                             .label_ndim = (uint32_t)begin->label_ndim,
                                             .label_bytes = begin->label_bytes,
                                             .marks_bytes = output->draft->marks_len};
    memcpy(output->header.label_shape, begin->label_shape, sizeof output->header.label_shape);
}

/* Write the header last, with the checksum of the whole file. Returns 0 or a negative errno. */
static int seal_index(struct output *output)
{
    struct mr_pack_header *header = &output->header;
    header->file_bytes = output->at;
    int rc = mr_file_write_at(output->fd, header, sizeof *header, 0);
    if (rc < 0)
        return rc;
    void *map = mmap(NULL, (size_t)output->at, PROT_READ, MAP_SHARED, output->fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    header->checksum = mr_pack_index_checksum(map, (size_t)output->at);
    munmap(map, (size_t)output->at);
    return mr_file_write_at(output->fd, header, sizeof *header, 0);
}

static mr_status write_index(struct output *output, mr_error *error)
{
    fill_header(output);
    mr_status status = put_all(output, error);
    if (status == MR_OK && output->rc == 0)
        output->rc = seal_index(output);
    if (status == MR_OK && output->rc < 0)
        status = mr_pack_draft_fail(output->draft, -output->rc, "write", TEMPORARY, error);
    return status;
}

mr_status mr_pack_index_save(struct mr_pack_draft *draft, mr_error *error)
{
    struct output output = {.draft = draft, .buffer = malloc(BUFFER_BYTES)};
    if (!output.buffer)
        return mr_error_memory(error, BUFFER_BYTES);
    output.fd =
        mr_regular_file_open(draft->root, TEMPORARY, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, NULL);
    mr_status status = output.fd >= 0
                           ? write_index(&output, error)
                           : mr_pack_draft_fail(draft, -output.fd, "create", TEMPORARY, error);
    int rc = status == MR_OK
                 ? mr_regular_file_publish(draft->root, output.fd, TEMPORARY, MR_PACK_INDEX)
                 : 0;
    if (rc < 0)
        status = mr_pack_draft_fail(draft, -rc, "write", MR_PACK_INDEX, error);
    else if (status < 0)
        (void)unlinkat(draft->root, TEMPORARY, 0);
    if (output.fd >= 0)
        close(output.fd);
    free(output.buffer);
    return status;
}
