/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes packs of invented bytes.
 *
 * Invariant: the same i always gives the same bytes, in every process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "dataset/pack_index.h"
#include "tests/support/assert_words.h"
#include "tests/dataset/invented_pack.h"

static uint8_t invent_byte(uint64_t i, uint64_t at)
{
    return (uint8_t)(((i + 1) * 1000003u + at) * 0x9e3779b97f4a7c15u >> 56);
}

static void invent_tables(uint64_t i, struct invented *out)
{
    struct mr_packed_image *image = &out->entry.image;
    image->n_rows = (uint32_t)(1 + i % INVENTED_MAX_ROWS);
    for (uint32_t r = 0; r <= image->n_rows; r++)
        out->rows[r] = (uint32_t)(image->len * r / image->n_rows);
    out->template.n_components = 3;
    out->template.colour = MR_PACKED_YCC;
    for (int c = 0; c < 3; c++) {
        out->template.h[c] = out->template.v[c] = 1;
        for (int k = 0; k < 64; k++)
            /* five templates, each for six samples in a row */
            out->template.quant[c][k] = (uint16_t)(i / 6 % 5 + 1);
    }
    image->rows = out->rows;
    for (uint32_t r = 0; mr_packed_image_has_tiles(image->encoding) && r < image->n_rows; r++)
        out->sums[r] =
            (uint32_t)mr_xxh3(out->bytes + out->rows[r], out->rows[r + 1] - out->rows[r]);
    image->sums = mr_packed_image_has_tiles(image->encoding) ? out->sums : NULL;
    image->template = &out->template;
}

void invent(uint64_t i, struct invented *out)
{
    static const uint32_t encodings[] = {MR_PACKED_DCT, MR_PACKED_JPEG, MR_PACKED_DCT,
                                         MR_PACKED_RAW, MR_PACKED_DCT};
    memset(out, 0, sizeof *out);
    struct mr_pack_entry *entry = &out->entry;
    entry->image = (struct mr_packed_image){.encoding = encodings[i % 5],
                                            .flags = i % 2,
                                            .width = (uint32_t)(i + 1),
                                            .height = (uint32_t)(2 * i + 1),
                                            .orientation = (uint32_t)(i % 8 + 1),
                                            .len = 100 + i * 331 % (INVENTED_MAX_BYTES - 100)};
    for (size_t at = 0; at < sizeof out->bytes; at++)
        out->bytes[at] = invent_byte(i, at);
    if (entry->image.encoding == MR_PACKED_DCT)
        invent_tables(i, out);
    snprintf(out->name, sizeof out->name, "n%02u/file %llu.JPEG", (unsigned)(i % 3),
             (unsigned long long)i);
    out->label = (int64_t)i * 3;
    entry->bytes = out->bytes;
    entry->name = out->name;
    entry->label = &out->label;
}

void invent_marked(uint64_t i, struct invented *out)
{
    invent(i, out);
    struct mr_pack_entry *entry = &out->entry;
    if (entry->image.encoding != MR_PACKED_JPEG)
        return;
    entry->image.encoding = MR_PACKED_MARKED;
    entry->image.marks = out->marks;
    entry->image.marks_len = INVENTED_MARKS + i % 8;
    invent_tables(i, out);
    for (size_t at = 0; at < sizeof out->marks; at++)
        out->marks[at] = invent_byte(i, 7000 + at);
}

void invent_members(uint64_t i, struct mr_pack_entry *entry)
{
    entry->member_lens[0] = i % 4 * 11;
    entry->member_lens[1] = i % 3 == 0 ? 0 : INVENTED_MEMBER_BYTES - i % 7;
}

const char *invented_class(void *user, uint32_t i)
{
    static const char *const names[INVENTED_CLASSES] = {"n00", "", "n02 last"};
    (void)user;
    return names[i];
}

struct mr_pack_writer_options invented_options(uint64_t n_samples, uint64_t shard_bytes)
{
    static const struct mr_sample_kind kind = {
        .encoded = 1, .picture = 1, .label_dtype = MR_I64, .label_bytes = sizeof(int64_t)};
    return (struct mr_pack_writer_options){.kind = &kind,
                                           .n_samples = n_samples,
                                           .shard_bytes = shard_bytes,
                                           .align = 1,
                                           .origin = "invented, for a test",
                                           .n_classes = INVENTED_CLASSES,
                                           .class_name = invented_class};
}

struct mr_pack_writer_options invented_member_options(uint64_t n_samples, uint64_t shard_bytes)
{
    static const struct mr_sample_kind kind = {
        .encoded = 1,
        .picture = 1,
        .label_dtype = MR_I64,
        .label_bytes = sizeof(int64_t),
        .n_extra = INVENTED_MEMBERS,
        .extra = {{.name = "mask", .max_bytes = INVENTED_MEMBER_BYTES},
                  {.name = "a caption", .max_bytes = INVENTED_MEMBER_BYTES}}};
    struct mr_pack_writer_options options = invented_options(n_samples, shard_bytes);
    options.kind = &kind;
    return options;
}

mr_status invented_write_some(const char *dir, const struct mr_pack_writer_options *options,
                              uint64_t n_stop, mr_error *error)
{
    struct mr_pack_writer *writer;
    struct invented *invented = malloc(sizeof *invented);
    uint64_t n = 0;
    mr_status status = mr_pack_writer_open(dir, options, &writer, &n, error);
    for (; status == MR_OK && n < options->n_samples && n < n_stop; n++) {
        if (options->marks)
            invent_marked(n, invented);
        else
            invent(n, invented);
        if (options->kind->n_extra > 0)
            invent_members(n, &invented->entry);
        status = mr_pack_writer_add(writer, &invented->entry, error);
    }
    if (status == MR_OK && n == options->n_samples)
        status = mr_pack_writer_finish(writer, error);
    mr_pack_writer_close(writer);
    free(invented);
    return status;
}

void invented_write(const char *dir, const struct mr_pack_writer_options *options)
{
    mr_error error = {0};
    assert_ok(invented_write_some(dir, options, UINT64_MAX, &error), &error);
}

void keep_trees_in_memory(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
}

uint8_t *read_whole(const char *path, size_t *len_out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t len = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, len, file), len);
    fclose(file);
    *len_out = len;
    return bytes;
}

void write_whole(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

void mend_index(uint8_t *bytes, size_t len)
{
    uint64_t checksum = mr_pack_index_checksum(bytes, len);
    memcpy(bytes + offsetof(struct mr_pack_header, checksum), &checksum, sizeof checksum);
}
