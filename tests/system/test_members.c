/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further members of samples from a folder, from its list, and from packs of it. The oracle is what
 * was written to each member's file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/packs.h"

enum { N = 23, MAX = 64, PATH = 600, SPEC = 8 * PATH };

static char *folder;
static const char *const members[2] = {"seg", "note"};

static const char *at(const char *name)
{
    static char paths[8][2 * PATH];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* The name of sample i, without its ending. */
static const char *stem_of(int64_t i)
{
    static char stem[32];
    snprintf(stem, sizeof stem, "%s/%03d", i < N / 2 ? "a" : "b", (int)i);
    return stem;
}

/* The content of member k of sample i. False: the sample does not have it. */
static bool make_member(int64_t i, int k, uint8_t bytes[MAX], size_t *len_out)
{
    *len_out = (i + k) % 5 == 1 ? 0 : (size_t)(i * 37 + k * 11) % MAX + 1;
    for (size_t b = 0; b < *len_out; b++)
        bytes[b] = (uint8_t)((uint64_t)(i * 2 + k + 1) * (b + 3) * 0x9e3779b97f4a7c15u >> 56);
    return (i + k) % 5 != 0;
}

static void write_file(const char *format, const char *stem, const void *bytes, size_t len)
{
    char name[PATH];
    snprintf(name, sizeof name, format, stem);
    mr_test_folder_write(folder, name, bytes, len);
}

static void write_sample(int64_t i)
{
    uint8_t bytes[MAX];
    size_t len;
    struct mr_test_image image = mr_test_jpeg(
        &(struct mr_test_jpeg){.width = 40, .height = 30 + (uint32_t)i, .seed = (uint32_t)i});
    write_file("photos/%s.jpg", stem_of(i), image.bytes, image.len);
    if (make_member(i, 0, bytes, &len))
        write_file("masks/%s.png", stem_of(i), bytes, len);
    if (make_member(i, 1, bytes, &len))
        write_file("no:tes,/%s_n.txt", stem_of(i), bytes, len);
    mr_test_image_free(&image);
}

static void write_spec(char spec[SPEC], const char *kind, const char *name, const char *keys)
{
    snprintf(spec, SPEC, "%s:%s%s%s", kind, at(name), *keys ? "?" : "", keys);
}

static mr_dataset *open_folder(void)
{
    char spec[SPEC];
    snprintf(spec, SPEC, "imagefolder:%s?extra=seg:%d:.png:%s,note:%d:_n.txt:%s", at("photos"), MAX,
             at("masks"), MAX, at("no:tes%2C"));
    return mr_test_dataset(spec);
}

static void make_pack(const char *name, mr_pack_encoding encoding)
{
    mr_error error = {0};
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_dataset *dataset = open_folder();
    options.encoding = encoding;
    options.num_workers = 2;
    assert_ok(mr_dataset_pack(dataset, at(name), &options, NULL, &error), &error);
    mr_dataset_destroy(dataset);
}

static int set_up(void **state)
{
    (void)state;
    static const char *const folders[] = {"photos",  "photos/a", "photos/b",  "masks",    "masks/a",
                                          "masks/b", "no:tes,",  "no:tes,/a", "no:tes,/b"};
    mr_error error = {0};
    folder = mr_test_folder_create();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(at(folders[i]), 0777), 0);
    for (int64_t i = 0; i < N; i++)
        write_sample(i);
    mr_dataset *dataset = open_folder();
    assert_ok(mr_dataset_save_list(dataset, at("list.txt"), &error), &error);
    mr_dataset_destroy(dataset);
    make_pack("dct", MR_PACK_DCT);
    make_pack("jpeg", MR_PACK_JPEG);
    make_pack("raw", MR_PACK_RAW);
    return 0;
}

static mr_loader_options base_options(uint32_t n_workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 7;
    o.seed = 3;
    o.num_workers = n_workers;
    return o;
}

static void check_row(const mr_batch *part, int k, int64_t row, int64_t index)
{
    char name[32];
    uint8_t want[MAX];
    size_t len;
    snprintf(name, sizeof name, "%s.offsets", members[k]);
    const int64_t *offsets = mr_test_data(part, name);
    const uint8_t *bytes = mr_test_bytes(mr_batch_array(part, members[k]));
    if (!make_member(index, k, want, &len))
        len = 0;
    assert_int_equal(offsets[row + 1] - offsets[row], len);
    assert_memory_equal(bytes + offsets[row], want, len);
}

static void check_epoch(mr_loader *loader, uint64_t epoch)
{
    uint64_t seen = 0;
    mr_batch *batch;
    assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
            const mr_batch *part = mr_batch_part(batch, p);
            const int64_t *index = mr_test_data(part, "index");
            for (int64_t i = 0; i < mr_batch_size(part); i++) {
                check_row(part, 0, i, index[i]);
                check_row(part, 1, i, index[i]);
                seen |= UINT64_C(1) << index[i];
            }
        }
        mr_batch_release(batch);
    }
    assert_int_equal(seen, (UINT64_C(1) << N) - 1);
}

/* The folder, its list, and its packs. */
static mr_dataset *open_source(int source)
{
    static const char *const packs[] = {"dct", "jpeg", "raw"};
    char spec[SPEC];
    if (source == 0)
        return open_folder();
    if (source == 1)
        write_spec(spec, "list", "list.txt", "extra=seg:64,note:64");
    else
        write_spec(spec, "pack", packs[source - 2], "");
    return mr_test_dataset(spec);
}
enum { N_SOURCES = 5 };

static void members_are_the_same_from_every_source(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 5};
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    for (int source = 0; source < N_SOURCES; source++) {
        mr_dataset *dataset = open_source(source);
        for (size_t i = 0; i < 3; i++) {
            mr_loader_options o = base_options(workers[i]);
            o.reader = readers[i % 2];
            o.verify_packs = i == 1;
            mr_test_set_devices(&o);
            mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
            check_epoch(loader, 0);
            check_epoch(loader, 1);
            mr_loader_destroy(loader);
        }
        mr_dataset_destroy(dataset);
    }
}

static void images_are_those_of_the_folder_without_members(void **state)
{
    (void)state;
    char spec[SPEC];
    write_spec(spec, "imagefolder", "photos", "");
    mr_dataset *plain = mr_test_dataset(spec);
    mr_loader_options o = base_options(MR_NO_WORKERS);
    mr_loader *loader = mr_test_loader(plain, "train:24", &o);
    struct mr_test_epoch want = mr_test_epoch_run(loader, 1);
    mr_loader_destroy(loader);
    for (int source = 0; source < N_SOURCES; source++) {
        mr_dataset *dataset = open_source(source);
        loader = mr_test_loader(dataset, "train:24", &o);
        struct mr_test_epoch got = mr_test_epoch_run(loader, 1);
        assert_int_equal(got.status, MR_END);
        assert_memory_equal(got.indices, want.indices, N * sizeof *want.indices);
        assert_memory_equal(got.row_digests, want.row_digests, N * sizeof *want.row_digests);
        mr_test_epoch_free(&got);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    mr_test_epoch_free(&want);
    mr_dataset_destroy(plain);
}

static void a_cache_changes_nothing(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    usleep(70000); /* a cache skips files that changed a moment ago */
    for (int source = 0; source < 2; source++) {
        mr_dataset *dataset = open_source(source);
        for (size_t f = 0; f < 2; f++) {
            for (uint32_t run = 0; run < 2; run++) {
                mr_loader_options o = base_options(run == 0 ? MR_NO_WORKERS : 2);
                mr_loader_stats stats = MR_LOADER_STATS_INIT;
                o.cache = at("cache");
                o.cache_form = forms[f];
                o.cache_slowdown = 100;
                mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
                check_epoch(loader, 0);
                check_epoch(loader, 1);
                assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
                if (run == 1)
                    assert_true(stats.n_cached >= 2 * N);
                mr_loader_destroy(loader);
            }
        }
        mr_dataset_destroy(dataset);
    }
}

static struct timespec times_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mtim;
}

static void set_time(const char *path, struct timespec time)
{
    const struct timespec times[2] = {time, time};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Load an epoch with the cache. Returns how many samples it helped to make. */
static uint64_t load_cached(const char *cache, bool good)
{
    mr_dataset *dataset = open_folder();
    mr_loader_options o = base_options(MR_NO_WORKERS); /* workers would be ahead */
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    o.cache = cache;
    o.cache_form = MR_CACHE_FORM_DCT;
    o.cache_slowdown = 100;
    mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
    if (good) {
        check_epoch(loader, 0);
    } else {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
        assert_int_equal(epoch.status, MR_END);
        mr_test_epoch_free(&epoch);
    }
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return stats.n_cached;
}

static uint64_t count_stale(const char *cache)
{
    mr_error error = {0};
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_dataset *dataset = open_folder();
    assert_ok(mr_cache_stat(cache, dataset, true, &report, &error), &error);
    assert_int_equal(report.n_damaged, 0);
    mr_dataset_destroy(dataset);
    return report.n_filled_stale;
}

static void fill_cache(const char *cache)
{
    usleep(70000); /* a cache skips files that changed a moment ago */
    for (int i = 0; i < 100 && load_cached(cache, true) < N; i++)
        ;
}

/* Sample 2 has both members, sample 0 has none. */
static void cached_members_are_used_until_their_files_change(void **state)
{
    (void)state;
    char mask[2 * PATH], cache[2 * PATH];
    uint8_t bytes[MAX], other[MAX];
    size_t len;
    snprintf(mask, sizeof mask, "%s", at("masks/a/002.png"));
    snprintf(cache, sizeof cache, "%s", at("members-cache"));
    assert_true(make_member(2, 0, bytes, &len) && len > 0);
    fill_cache(cache);
    assert_int_equal(load_cached(cache, true), N);
    assert_int_equal(count_stale(cache), 0);
    /* Another content with the same size and time is not seen: the member is in the cache. */
    struct timespec time = times_of(mask);
    memset(other, 0, sizeof other);
    mr_test_folder_write(folder, "masks/a/002.png", other, len);
    set_time(mask, time);
    assert_int_equal(load_cached(cache, true), N);
    time.tv_sec += 5;
    set_time(mask, time);
    assert_int_equal(count_stale(cache), 1);
    assert_int_equal(load_cached(cache, false), N - 1);
    mr_test_folder_write(folder, "masks/a/002.png", bytes, len);
    fill_cache(cache);
    assert_int_equal(load_cached(cache, true), N);
    /* a file that was missing, and one that goes missing */
    mr_test_folder_write(folder, "masks/a/000.png", other, 1);
    assert_int_equal(load_cached(cache, false), N - 1);
    assert_int_equal(remove(at("masks/a/000.png")), 0);
    fill_cache(cache);
    assert_int_equal(load_cached(cache, true), N);
    assert_int_equal(remove(mask), 0);
    assert_int_equal(load_cached(cache, false), N - 1);
    mr_test_folder_write(folder, "masks/a/002.png", bytes, len);
}

/* Flip the last byte of a file. */
static void flip_last_byte(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    int byte = getc(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    assert_int_equal(putc(byte ^ 0xff, file), byte ^ 0xff);
    assert_int_equal(fclose(file), 0);
}

static void an_altered_member_in_the_cache_costs_the_entry_only(void **state)
{
    (void)state;
    char cache[2 * PATH];
    glob_t found;
    snprintf(cache, sizeof cache, "%s", at("altered-cache"));
    fill_cache(cache);
    assert_int_equal(load_cached(cache, true), N);
    assert_int_equal(glob(at("altered-cache/seg-*.data"), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    flip_last_byte(found.gl_pathv[0]);
    globfree(&found);
    assert_int_equal(load_cached(cache, true), N - 1);
    fill_cache(cache);
    assert_int_equal(load_cached(cache, true), N);
}

/* The first error of an epoch of the folder, which must be damage of sample i. */
static void expect_damage(int64_t i, const char *words)
{
    for (uint32_t n_workers = 0; n_workers < 2; n_workers++) {
        mr_dataset *dataset = open_folder();
        mr_loader_options o = base_options(n_workers ? n_workers : MR_NO_WORKERS);
        o.on_error = MR_ON_ERROR_FAIL;
        mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
        assert_int_equal(epoch.n_failures, 1);
        assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
        assert_int_equal(epoch.first_error.index, i);
        assert_words(epoch.first_error.text, words);
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

static void a_wrong_member_is_damage_and_its_file_is_named(void **state)
{
    (void)state;
    static const uint8_t zeros[MAX + 1];
    mr_error error = {0};
    mr_dataset *dataset = open_folder();
    write_file("masks/%s.png", stem_of(3), zeros, MAX + 1);
    expect_damage(3, "masks/a/003.png (index 3): ");
    assert_error(mr_dataset_pack(dataset, at("never"), NULL, NULL, &error), MR_ERR_DAMAGED, &error,
                 "003");
    assert_int_equal(remove(at("masks/a/003.png")), 0);
    assert_int_equal(mkdir(at("masks/a/003.png"), 0777), 0);
    expect_damage(3, "masks/a/003.png");
    assert_int_equal(remove(at("masks/a/003.png")), 0);
    assert_int_equal(symlink("003.png", at("masks/a/003.png")), 0);
    expect_damage(3, "masks/a/003.png");
    assert_int_equal(remove(at("masks/a/003.png")), 0);
    write_sample(3);
    mr_dataset_destroy(dataset);
}

static struct mr_test_epoch load_damaged(const char *spec, mr_reader_kind reader)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = base_options(MR_NO_WORKERS);
    o.on_error = MR_ON_ERROR_SKIP;
    o.reader = reader;
    mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
    check_epoch(loader, 0);
    assert_int_equal(rename(at("masks"), at("away")), 0);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 7);
    assert_int_equal(rename(at("away"), at("masks")), 0);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return epoch;
}

/* The folder of the masks is gone after the dataset was opened. */
static void a_folder_that_is_gone_is_not_a_sample_without_the_member(void **state)
{
    (void)state;
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    char spec[SPEC];
    snprintf(spec, sizeof spec, "imagefolder:%s?extra=seg:%d:.png:%s,note:%d:_n.txt:%s",
             at("photos"), MAX, at("masks"), MAX, at("no:tes%2C"));
    for (size_t i = 0; i < 2; i++) {
        struct mr_test_epoch epoch = load_damaged(spec, readers[i]);
        assert_int_equal(epoch.n_failures, (N + 6) / 7); /* no sample of any batch is good */
        assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
        assert_words(epoch.first_error.text, "masks/");
        mr_test_epoch_free(&epoch);
    }
}

static void a_file_that_a_list_names_must_exist(void **state)
{
    (void)state;
    char spec[SPEC];
    const char *text = "photos/a/002.jpg\t0\tmasks/a/nowhere.png\t\n";
    mr_test_folder_write(folder, "short.txt", text, strlen(text));
    write_spec(spec, "list", "short.txt", "extra=seg:64,note:64");
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = base_options(MR_NO_WORKERS);
    o.batch_size = 1;
    o.on_error = MR_ON_ERROR_FAIL;
    mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
    assert_words(epoch.first_error.text, "masks/a/nowhere.png");
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void keep_line(void *user, mr_log_level level, const char *line)
{
    assert_int_equal(level, MR_LOG_WARNING);
    snprintf(user, PATH, "%s", line);
}

static void a_member_that_no_image_has_is_logged(void **state)
{
    (void)state;
    char spec[SPEC], line[PATH] = "";
    mr_log_set(keep_line, line);
    mr_dataset_destroy(open_folder());
    assert_string_equal(line, "");
    snprintf(spec, sizeof spec, "imagefolder:%s?extra=seg:%d:.pgn:%s", at("photos"), MAX,
             at("masks"));
    mr_dataset_destroy(mr_test_dataset(spec));
    mr_log_set(NULL, NULL);
    assert_words(line, "have no 'seg': no ");
    assert_words(line, "masks/a/000.pgn");
}

static void expect_same_file(const char *a, const char *b)
{
    char command[4 * PATH + 16];
    snprintf(command, sizeof command, "cmp -s '%s' '%s'", a, b);
    if (system(command) != 0)
        fail_msg("%s and %s differ", a, b);
}

/* Members come with the sample from pack to pack, and a pack is made again byte for byte. */
static void packs_of_packs_have_the_members(void **state)
{
    (void)state;
    mr_error error = {0};
    char spec[SPEC];
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_dataset *dataset = open_source(3);
    options.num_workers = 5;
    assert_ok(mr_dataset_pack(dataset, at("again"), &options, NULL, &error), &error);
    mr_dataset_destroy(dataset);
    expect_same_file(at("again/shard-00000"), at("dct/shard-00000"));
    write_spec(spec, "pack", "again", "");
    dataset = mr_test_dataset(spec);
    mr_loader_options o = base_options(MR_NO_WORKERS);
    mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
    check_epoch(loader, 0);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    write_spec(spec, "imagefolder", "photos", "");
    dataset = mr_test_dataset(spec);
    assert_error(mr_dataset_pack(dataset, at("dct"), NULL, NULL, &error), MR_ERR_INVALID, &error,
                 "holds a complete pack of another dataset");
    mr_dataset_destroy(dataset);
}

static void check_unpacked_member(const char *dir, int64_t i, int k)
{
    char name[PATH];
    uint8_t want[MAX], got[MAX + 1];
    size_t len;
    snprintf(name, sizeof name, "%s/%s.%s", dir, stem_of(i), members[k]);
    FILE *file = fopen(at(name), "rb");
    assert_int_equal(file != NULL, make_member(i, k, want, &len) && len > 0);
    if (!file)
        return;
    assert_int_equal(fread(got, 1, sizeof got, file), len);
    assert_memory_equal(got, want, len);
    fclose(file);
}

static void unpacked_members_stand_beside_their_images(void **state)
{
    (void)state;
    mr_error error = {0};
    mr_dataset *dataset = open_source(3);
    assert_ok(mr_pack_unpack(dataset, at("files"), NULL, NULL, &error), &error);
    assert_ok(mr_pack_unpack(dataset, at("files"), NULL, NULL, &error), &error);
    for (int64_t i = 0; i < N; i++) {
        char name[2][PATH];
        snprintf(name[0], PATH, "files/%s.jpg", stem_of(i));
        snprintf(name[1], PATH, "photos/%s.jpg", stem_of(i));
        expect_same_file(at(name[0]), at(name[1]));
        check_unpacked_member("files", i, 0);
        check_unpacked_member("files", i, 1);
    }
    mr_dataset_destroy(dataset);
}

/* The member would get the name of the image's file, and be taken for an image. */
static void an_unpacked_member_is_never_taken_for_an_image(void **state)
{
    (void)state;
    char spec[SPEC];
    mr_error error = {0};
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    snprintf(spec, sizeof spec, "imagefolder:%s?extra=jpg:%d:.png:%s", at("photos"), MAX,
             at("masks"));
    options.encoding = MR_PACK_JPEG;
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_ok(mr_dataset_pack(dataset, at("jpgs"), &options, NULL, &error), &error);
    mr_dataset_destroy(dataset);
    write_spec(spec, "pack", "jpgs", "");
    dataset = mr_test_dataset(spec);
    assert_ok(mr_pack_unpack(dataset, at("jpgfiles"), NULL, NULL, &error), &error);
    mr_dataset_destroy(dataset);
    expect_same_file(at("jpgfiles/a/002.jpg"), at("photos/a/002.jpg"));
    expect_same_file(at("jpgfiles/a/002.jpg.member"), at("masks/a/002.png"));
}

/* The last byte of the shard is one of the last sample's last member. */
static void an_altered_member_is_found_by_its_checksum(void **state)
{
    (void)state;
    char spec[SPEC];
    mr_error error = {0};
    mr_pack_report report = MR_PACK_REPORT_INIT;
    make_pack("bad", MR_PACK_JPEG);
    flip_last_byte(at("bad/shard-00000"));
    write_spec(spec, "pack", "bad", "");
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_ok(mr_dataset_check(dataset, NULL, &report, &error), &error);
    assert_int_equal(report.n_damaged, 1);
    mr_loader_options o = base_options(2);
    o.verify_packs = 1;
    o.on_error = MR_ON_ERROR_FAIL;
    mr_loader *loader = mr_test_loader(dataset, "train:24", &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.n_failures, 1);
    assert_words(
        epoch.first_error.text,
        "bad/shard-00000 (b/022.jpg, index 22): the bytes of its member 'note' were altered");
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_the_same_from_every_source),
        cmocka_unit_test(images_are_those_of_the_folder_without_members),
        cmocka_unit_test(a_cache_changes_nothing),
        cmocka_unit_test(cached_members_are_used_until_their_files_change),
        cmocka_unit_test(an_altered_member_in_the_cache_costs_the_entry_only),
        cmocka_unit_test(a_wrong_member_is_damage_and_its_file_is_named),
        cmocka_unit_test(a_folder_that_is_gone_is_not_a_sample_without_the_member),
        cmocka_unit_test(a_file_that_a_list_names_must_exist),
        cmocka_unit_test(a_member_that_no_image_has_is_logged),
        cmocka_unit_test(packs_of_packs_have_the_members),
        cmocka_unit_test(unpacked_members_stand_beside_their_images),
        cmocka_unit_test(an_unpacked_member_is_never_taken_for_an_image),
        cmocka_unit_test(an_altered_member_is_found_by_its_checksum),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
