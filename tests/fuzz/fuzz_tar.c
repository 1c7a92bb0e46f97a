/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a header, as records of pax, as a label, and as a whole shard: no crash, nothing is
 * read past the end, and members are inside the file. A random header nearly always fails its
 * checksum, so a shard is tried again after the checksums of all its blocks are made right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataset/tar/tar_group.h"
#include "dataset/tar/tar_header.h"
#include "dataset/tar/tar_label.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/shards.h"

enum { MAX_EXTRA = 20 };

/* A copy that ends where a sanitizer sees it. */
static uint8_t *copy_bytes(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len + (len == 0));
    require(copy != NULL, "out of memory");
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

static void try_texts(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = copy_bytes(bytes, len);
    struct mr_tar_pax pax;
    int64_t value = 5;
    if (mr_tar_header_parse_pax(copy, len, &pax))
        require(!pax.path || ((const uint8_t *)pax.path >= copy && pax.path_len <= len &&
                              (const uint8_t *)pax.path + pax.path_len <= copy + len),
                "a pax path is outside");
    (void)mr_tar_label_json((const char *)copy, len, "y", &value);
    if (mr_tar_label_integer((const char *)copy, len, &value)) {
        char text[32];
        int64_t again;
        int n = snprintf(text, sizeof text, "%lld", (long long)value);
        require(mr_tar_label_integer(text, (size_t)n, &again) && again == value,
                "an integer is not what it was");
    }
    free(copy);
}

static void check_further(const struct mr_tar_samples *samples, uint64_t i, uint64_t size)
{
    const struct mr_catalog_extra *extra =
        (const struct mr_catalog_extra *)(const void *)samples->extra.data;
    const struct mr_catalog_member *members = (const void *)samples->members.data;
    require(members[i].problem != MR_PROBLEM_NONE ||
                (extra[i].len <= MAX_EXTRA && extra[i].offset <= size &&
                 extra[i].len <= size - extra[i].offset),
            "an extra member is outside, or too long");
}

static void check_samples(const struct mr_tar_samples *samples, uint64_t size)
{
    const struct mr_catalog_member *members = (const void *)samples->members.data;
    size_t at = 0;
    require(samples->members.len == samples->n * sizeof *members, "samples are counted wrongly");
    require(samples->extra.len == samples->n * sizeof(struct mr_catalog_extra),
            "extra members are missing");
    for (uint64_t i = 0; i < samples->n; i++) {
        require(at < samples->names.len && samples->names.data[at], "a sample has no name");
        at += strlen((const char *)samples->names.data + at) + 1;
        require(members[i].problem < MR_N_PROBLEMS, "a problem has no name");
        require(members[i].problem != MR_PROBLEM_NONE || members[i].offset <= size,
                "a member begins outside");
        require(i == 0 || members[i].offset <= size, "an offset is wrong");
        check_further(samples, i, size);
    }
    require(at == samples->names.len, "there are more names than samples");
}

static void try_shard(const uint8_t *bytes, size_t len)
{
    static int fd = -1;
    static const struct mr_tar_recipe recipe = {
        .label = MR_TAR_LABEL_JSON,
        .field = "y",
        .n_images = 2,
        .images = {"jpg", "png"},
        .n_extra = 1,
        .extra = {{.name = "json", .max_bytes = MAX_EXTRA}}};
    if (fd < 0)
        fd = memfd_create("fuzz_tar", MFD_CLOEXEC);
    require(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len,
            "cannot write the shard");
    struct mr_tar_file *file = calloc(1, sizeof *file);
    uint8_t window[MR_TAR_WINDOW];
    struct mr_tar_group *group;
    struct mr_tar_samples samples = {0};
    mr_error error = {0};
    require(file != NULL, "out of memory");
    file->window = window;
    file->window_size = sizeof window;
    file->fd = fd;
    file->shown = "fuzz";
    file->size = len;
    require(mr_tar_group_create(file, &recipe, &samples, &group, &error) == MR_OK, "out of memory");
    struct mr_tar_events events = {
        .member = mr_tar_group_member, .gap = mr_tar_group_gap, .user = group};
    mr_status status = mr_tar_scan(file, &events, &error);
    if (status == MR_OK)
        status = mr_tar_group_finish(group, &error);
    require(status == MR_OK || (status == MR_ERR_UNSUPPORTED && error.text[0]),
            "a shard ends with another error");
    if (status == MR_OK)
        check_samples(&samples, len);
    mr_tar_group_destroy(group);
    mr_tar_samples_fini(&samples);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    try_texts(bytes, len);
    try_shard(bytes, len);
    uint8_t *copy = copy_bytes(bytes, len);
    for (size_t at = 0; at + MR_TAR_BLOCK <= len; at += MR_TAR_BLOCK)
        if (!mr_tar_header_is_end(copy + at))
            mr_test_shard_sum(copy + at);
    try_shard(copy, len);
    free(copy);
    return 0;
}
