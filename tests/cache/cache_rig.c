/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs with a cache but without a loader. A file is packed only when its times have settled, so the
 * rig waits for that.
 */
#include "tests/cache/cache_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/file.h"
#include "cache/cache_folder.h"
#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"

enum { SETTLE_MS = 70 };

void cache_rig_reopen(struct cache_rig *rig)
{
    mr_error error;
    mr_dataset_destroy(rig->dataset);
    assert_ok(mr_dataset_open(rig->photos, NULL, &rig->dataset, &error), &error);
    rig->catalog = mr_dataset_catalog(rig->dataset);
    rig->n = mr_dataset_n_samples(rig->dataset);
    mr_test_sleep_ms(SETTLE_MS);
}

void cache_rig_set_up(struct cache_rig *rig, uint32_t n_images)
{
    memset(rig, 0, sizeof *rig);
    rig->encoding = MR_PACKED_DCT;
    rig->folder = mr_test_folder_create();
    snprintf(rig->photos, sizeof rig->photos, "%s/photos", rig->folder);
    snprintf(rig->dir, sizeof rig->dir, "%s/cache", rig->folder);
    assert_int_equal(mkdir(rig->photos, 0777), 0);
    mr_test_folder_fill(rig->photos, 1, n_images);
    cache_rig_reopen(rig);
}

void cache_rig_tear_down(struct cache_rig *rig)
{
    mr_dataset_destroy(rig->dataset);
}

void cache_rig_change(struct cache_rig *rig, const char *name, uint32_t seed)
{
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 90, .height = 70, .seed = seed});
    mr_test_folder_write(rig->photos, name, image.bytes, image.len);
    mr_test_image_free(&image);
    mr_test_sleep_ms(SETTLE_MS);
}

bool cache_rig_fits(const struct cache_rig *rig, int64_t index)
{
    return rig->encoding != MR_PACKED_MARKED || index % 5 != 4;
}

int64_t cache_rig_n_fit(const struct cache_rig *rig)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rig->n; i++)
        n += cache_rig_fits(rig, i);
    return n;
}

struct mr_cache_host_options cache_rig_options(const struct cache_rig *rig)
{
    return (struct mr_cache_host_options){.dir = rig->dir,
                                          .encoding = rig->encoding,
                                          .slowdown_percent = 25,
                                          .max_file_bytes = 1 << 30};
}

void cache_run_begin(struct cache_run *run, struct cache_rig *rig,
                     const struct mr_cache_host_options *options)
{
    struct mr_cache_host_options standard = cache_rig_options(rig);
    mr_error error;
    memset(run, 0, sizeof *run);
    run->rig = rig;
    run->region_bytes = mr_cache_region_bytes(rig->n);
    run->region =
        mmap(NULL, run->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(run->region, MAP_FAILED);
    mr_status status = mr_cache_host_create(options ? options : &standard, rig->catalog,
                                            run->region, &run->cache, &error);
    if (status == MR_OK)
        status = mr_cache_use_create(run->region, rig->catalog, 1, &run->use, &error);
    if (status == MR_OK)
        status = mr_cache_fill_create(run->region, rig->catalog, &run->fill, &error);
    assert_ok(status, &error);
    assert_int_equal(
        mr_file_cache_create(rig->catalog, mr_cache_use_files(run->use), 16, &run->data), 0);
}

void cache_run_end(struct cache_run *run)
{
    mr_cache_fill_destroy(run->fill);
    mr_file_cache_destroy(run->data);
    mr_cache_use_destroy(run->use);
    mr_cache_host_destroy(run->cache);
    munmap(run->region, run->region_bytes);
}

uint8_t *cache_run_read(struct cache_run *run, const struct mr_cache_hit *hit, uint64_t offset,
                        uint64_t len)
{
    int fd = mr_file_cache_acquire(run->data, hit->entry.file);
    uint8_t *bytes = calloc(1, len + 64);
    size_t n = 0;
    if (fd < 0 || mr_file_read_at(fd, hit->entry.offset + offset, bytes, len, &n) != 0 || n < len) {
        free(bytes);
        bytes = NULL;
    }
    if (fd >= 0)
        mr_file_cache_release(run->data, hit->entry.file);
    return bytes;
}

bool cache_run_find(struct cache_run *run, int64_t index, struct mr_cache_hit *hit_out)
{
    if (!mr_cache_use_find(run->use, 0, index, hit_out))
        return false;
    if (hit_out->is_checked)
        return true;
    uint8_t *bytes = cache_run_read(run, hit_out, 0, hit_out->entry.len);
    const struct mr_part_list list = {
        .n = 1, .part[0].purpose = hit_out->needs_file ? MR_FOR_MARKS : MR_FOR_IMAGE};
    const struct mr_read read = {.list = &list,
                                 .part[0] = {bytes, bytes ? hit_out->entry.len : 0, NULL}};
    bool good = mr_cache_use_check(run->use, index, hit_out, &read);
    free(bytes);
    return good;
}

bool cache_run_has(struct cache_run *run, int64_t index)
{
    struct mr_cache_hit hit;
    return cache_run_find(run, index, &hit);
}

unsigned cache_run_count(struct cache_run *run)
{
    unsigned n = 0;
    for (int64_t i = 0; i < run->rig->n; i++)
        n += cache_run_has(run, i);
    return n;
}

unsigned cache_run_fill_all(struct cache_run *run)
{
    unsigned n = 0;
    for (int64_t i = 0; i < run->rig->n; i++)
        if (!cache_run_has(run, i))
            mr_cache_fill_met(run->fill, i);
    while (mr_cache_fill_idle(run->fill))
        n++;
    return n;
}

static uint32_t mix(uint64_t number, uint32_t i)
{
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}

static uint32_t make_bytes(uint64_t number)
{
    return 1 + mix(number, 0) % 3000;
}

void cache_rig_make_entry(struct cache_made *made, uint64_t number)
{
    memset(made, 0, sizeof *made);
    uint32_t n_rows = 1 + mix(number, 1) % 39;
    made->template.n_components = 1;
    made->template.quant[0][0] = (uint16_t)(1 + number % 20);
    made->entry = (struct mr_cache_entry){.sample = {.path_hash = number,
                                                     .file_bytes = number * 3,
                                                     .mtime_ns = (int64_t)number,
                                                     .len = make_bytes(number)},
                                          .template = &made->template,
                                          .rows = made->rows,
                                          .bytes = made->bytes};
    made->entry.sample.recipe = MR_CACHE_RECIPE(MR_PACKED_DCT);
    made->entry.sample.encoding = MR_PACKED_DCT;
    made->entry.sample.n_rows = n_rows;
    for (uint32_t i = 0; i <= n_rows; i++)
        made->rows[i] = mix(number, 2 + i);
    for (uint32_t i = 0; i < made->entry.sample.len; i++)
        made->bytes[i] = (uint8_t)mix(number, 100 + i);
}

bool cache_rig_is_right(const struct mr_cache_sample *sample, const uint8_t *bytes)
{
    static struct cache_made made;
    cache_rig_make_entry(&made, sample->path_hash);
    return sample->len == made.entry.sample.len && sample->n_rows == made.entry.sample.n_rows &&
           sample->file_bytes == made.entry.sample.file_bytes &&
           memcmp(mr_cache_log_rows(sample), made.rows, (sample->n_rows + 1) * sizeof *made.rows) ==
               0 &&
           memcmp(bytes, made.bytes, sample->len) == 0;
}

struct walk {
    struct cache_counts *counts;
    const struct mr_cache_files *files;
};

static void check_record(void *user, uint64_t at, const struct mr_cache_head *head)
{
    static uint8_t bytes[3000];
    static _Alignas(8) uint8_t record[MR_CACHE_MAX_RECORD];
    const struct walk *walk = user;
    const struct mr_cache_sample *sample = (const void *)head;
    size_t n = 0;
    (void)at;
    if (head->kind != MR_CACHE_SAMPLE)
        return;
    walk->counts->n_records++;
    bool right =
        sample->len <= sizeof bytes &&
        mr_file_read_at(walk->files->data, sample->offset, bytes, sample->len, &n) == 0 &&
        n == sample->len && cache_rig_is_right(sample, bytes) &&
        mr_cache_log_read(walk->files->log, sample->template_at, MR_CACHE_TEMPLATE, record) &&
        ((const struct mr_cache_template *)(const void *)record)->template.quant[0][0] ==
            1 + sample->path_hash % 20;
    walk->counts->n_wrong += !right;
}

struct cache_counts cache_rig_count(const char *dir)
{
    struct cache_counts counts = {0};
    struct mr_cache_ids ids;
    struct mr_cache_files files;
    mr_error error;
    int folder;
    assert_ok(mr_cache_folder_open(dir, false, &folder, &error), &error);
    assert_int_equal(mr_cache_folder_list(folder, &ids), 0);
    counts.n_segments = (unsigned)ids.n;
    for (size_t i = 0; i < ids.n; i++) {
        uint64_t at = sizeof(struct mr_cache_log_head);
        struct walk walk = {&counts, &files};
        if (mr_cache_folder_open_segment(folder, ids.ids[i], false, &files) != 0)
            continue;
        assert_int_equal(mr_cache_log_walk(files.log, &at, check_record, &walk), 0);
        mr_cache_folder_close_segment(&files);
    }
    free(ids.ids);
    close(folder);
    return counts;
}

void cache_rig_find_file(const char *dir, const char *ending, char path_out[700])
{
    const struct dirent *entry;
    DIR *listing = opendir(dir);
    assert_non_null(listing);
    path_out[0] = '\0';
    while ((entry = readdir(listing))) {
        size_t len = strlen(entry->d_name), end = strlen(ending);
        if (len > end && strcmp(entry->d_name + len - end, ending) == 0)
            snprintf(path_out, 700, "%s/%.64s", dir, entry->d_name);
    }
    closedir(listing);
    assert_true(path_out[0] != '\0');
}
