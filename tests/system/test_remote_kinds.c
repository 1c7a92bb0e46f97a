/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records, ranges and annotations at URLs: the same samples, names, labels and bits as from local
 * files, and an error that names what is missing or was replaced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"
#include "tests/support/images.h"
#include "tests/support/shards.h"

enum { N_IMAGES = 24, RECORD_BYTES = 3 * 24 * 24, N_RECORDS = 20, SPEC_BYTES = 16384 };

#define BOXES "random_iou_crop+random_shortest_size(48:64)+hflip+sanitize"

static char *folder;
static struct mr_test_http *server;
static _Atomic enum mr_test_fault fault; /* read by the threads of the server */
static _Atomic uint64_t n_annotations;   /* requests for c.json */

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user;
    n_annotations += strcmp(request->path, "/c.json") == 0;
    return fault;
}

static void write_text(const char *name, const char *text)
{
    mr_test_folder_write(folder, name, text, strlen(text));
}

static void make_folder(const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* The last record of a file is cut. */
static void write_records(const char *name, uint32_t seed)
{
    static uint8_t bytes[7 + N_RECORDS * (RECORD_BYTES + 9)];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = mr_test_pattern(seed, (uint32_t)(i % 251), (uint32_t)(i / 251), 0);
    mr_test_folder_write(folder, name, bytes, sizeof bytes - 1);
}

static struct mr_test_image make_image(int i)
{
    return mr_test_jpeg(&(struct mr_test_jpeg){
        .width = 60 + 3 * (uint32_t)i, .height = 100 - (uint32_t)i, .seed = (uint32_t)i});
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    setenv("XDG_CACHE_HOME", folder, 1);
    server = mr_test_http_start(folder, choose, NULL);
    fault = MR_TEST_HTTP_GOOD;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_http_stop(server);
    mr_test_folder_remove(folder);
    return 0;
}

/* Write a SPEC: each ~ becomes the folder, each $ the URL. */
static const char *place(const char *form, char text[SPEC_BYTES])
{
    size_t len = 0;
    for (; *form; form++) {
        const char *name = *form == '~' ? folder : *form == '$' ? mr_test_http_url(server) : NULL;
        len += (size_t)(name ? snprintf(text + len, SPEC_BYTES - len, "%s", name)
                             : snprintf(text + len, SPEC_BYTES - len, "%c", *form));
    }
    return text;
}

static mr_dataset *open_form(const char *form)
{
    char spec[SPEC_BYTES];
    return mr_test_dataset(place(form, spec));
}

static struct mr_test_epoch run(mr_dataset *dataset, const char *transform, uint32_t n_workers,
                                const char *reader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 4;
    o.seed = 5;
    o.num_workers = n_workers;
    o.reader = strcmp(reader, "pread") == 0 ? MR_READER_PREAD : MR_READER_AUTO;
    if (transform && strcmp(transform, BOXES) == 0)
        o.pad_batch = 200;
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 3);
    mr_loader_get_stats(loader, &stats);
    assert_string_equal(stats.reader, reader);
    mr_loader_destroy(loader);
    return epoch;
}

static void expect_same_samples(mr_dataset *local, mr_dataset *remote)
{
    char x[4096], y[4096];
    assert_int_equal(mr_dataset_n_samples(remote), mr_dataset_n_samples(local));
    assert_int_equal(mr_dataset_n_classes(remote), mr_dataset_n_classes(local));
    assert_int_equal(mr_dataset_annotations(remote), mr_dataset_annotations(local));
    for (int64_t i = 0; i < mr_dataset_n_samples(local); i += 7) {
        mr_sample_info a = MR_SAMPLE_INFO_INIT, b = MR_SAMPLE_INFO_INIT;
        int64_t label[2];
        mr_error error;
        if (mr_dataset_label(local, i, &label[0], NULL) == MR_OK) {
            if (mr_dataset_label(remote, i, &label[1], &error) != MR_OK)
                fail_msg("%s", error.text);
            assert_int_equal(label[0], label[1]);
        }
        assert_int_equal(mr_dataset_inspect(local, i, &a, NULL), MR_OK);
        assert_int_equal(mr_dataset_inspect(remote, i, &b, NULL), MR_OK);
        assert_memory_equal(&a, &b, sizeof a);
        mr_dataset_name(local, i, x, sizeof x);
        mr_dataset_name(remote, i, y, sizeof y);
        assert_string_equal(strrchr(x, '/'), strrchr(y, '/'));
        assert_null(strstr(y, "secret"));
    }
}

/* The forms are SPECs of place(). The second has files at URLs. */
static void expect_same(const char *local_form, const char *remote_form, const char *transform)
{
    mr_dataset *local = open_form(local_form), *remote = open_form(remote_form);
    struct mr_test_epoch wanted = run(local, transform, 2, "pread");
    assert_int_equal(wanted.status, MR_END);
    assert_int_equal(wanted.n_failures, 0);
    expect_same_samples(local, remote);
    for (int with = 0; with < 2; with++) {
        struct mr_test_epoch epoch = run(remote, transform, with ? 2 : MR_NO_WORKERS, "http");
        if (epoch.status != MR_END || epoch.n_failures > 0)
            fail_msg("%s", epoch.first_error.text);
        assert_int_equal(epoch.n_samples, wanted.n_samples);
        assert_memory_equal(epoch.indices, wanted.indices, epoch.n_samples * sizeof *epoch.indices);
        assert_true(epoch.digest == wanted.digest);
        mr_test_epoch_free(&epoch);
    }
    mr_test_epoch_free(&wanted);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

static void expect_error(const char *form, const char *words)
{
    char spec[SPEC_BYTES], text[SPEC_BYTES];
    mr_error error;
    mr_dataset *dataset;
    assert_true(mr_dataset_open(place(form, spec), NULL, &dataset, &error) < 0);
    if (!strstr(error.text, place(words, text)))
        fail_msg("'%s' is not in '%s'", text, error.text);
    assert_null(strstr(error.text, "secret"));
}

/* An epoch has a damaged sample, and the first error has these words. */
static void expect_damage(mr_dataset *dataset, const char *transform, const char *words)
{
    char text[SPEC_BYTES];
    struct mr_test_epoch epoch = run(dataset, transform, 2, "http");
    assert_true(epoch.n_failures > 0);
    assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
    if (!strstr(epoch.first_error.text, place(words, text)))
        fail_msg("'%s' is not in '%s'", text, epoch.first_error.text);
    assert_null(strstr(epoch.first_error.text, "secret"));
    mr_test_epoch_free(&epoch);
}

static void records_have_the_bits_of_local_ones(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "?shape=3x24x24&header=7&stride=1737&label_off=-7&label_bytes=4",
        "?shape=24x24x3&layout=hwc&label_off=6000&label_bytes=2", /* two requests a record */
    };
    char local[400], remote[400];
    write_records("a b.bin", 1);
    write_records("c", 2);
    write_text("short", "x");
    write_text("empty", "");
    for (int i = 0; i < 2; i++) {
        snprintf(local, sizeof local, "records:~/a b.bin,~/short,~/empty,~/c%s", keys[i]);
        snprintf(remote, sizeof remote, "records:$/a b.bin,$/short,$/empty,$/c%%3Fsig=secret%s",
                 keys[i]);
        expect_same(local, remote, "random_crop(16)+hflip");
        snprintf(remote, sizeof remote, "records:~/a b.bin,$/short,~/empty,$/c%s", keys[i]);
        expect_same(local, remote, "random_crop(16)+hflip");
    }
    /* windows of tokens that overlap */
    expect_same("records:~/a b.bin,~/c?header=7&dtype=u16&shape=65&stride=128",
                "records:$/a b.bin,$/c?header=7&dtype=u16&shape=65&stride=128", NULL);
}

static void many_files_of_records_are_found_by_few_connections(void **state)
{
    (void)state;
    static char spec[SPEC_BYTES];
    size_t len = (size_t)snprintf(spec, sizeof spec, "records:");
    for (int i = 0; i < 200; i++) {
        char name[20];
        snprintf(name, sizeof name, "%d", i);
        mr_test_folder_write(folder, name, spec, 10 + (uint64_t)i);
        len += (size_t)snprintf(spec + len, sizeof spec - len, "%s$/%d", i ? "," : "", i);
    }
    snprintf(spec + len, sizeof spec - len, "?bytes=1");
    mr_dataset *dataset = open_form(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), 200 * 10 + 199 * 100);
    assert_int_equal(mr_test_http_n_requests(server), 200);
    assert_in_range(mr_test_http_n_connections(server), 2, 16);
    mr_dataset_destroy(dataset);
}

static void records_that_are_missing_or_were_replaced_are_named(void **state)
{
    (void)state;
    write_records("a", 1);
    write_records("b", 2);
    write_text("short", "x");
    expect_error("records:$/a,$/none%3Fsig=secret?bytes=10", "$/none: HTTP 404 Not Found");
    expect_error("records:$/short%3Fsig=secret?bytes=10", "$/short holds no record: it has 1");
    mr_dataset *dataset = open_form("records:$/a,$/b%3Fsig=secret?shape=3x24x24&label_bytes=1");
    write_text("b", "another size: the time may be the same"); /* both are in the ETag */
    expect_damage(dataset, NULL, "the file changed since the dataset was opened");
    expect_damage(dataset, NULL, "$/b#");
    mr_error error;
    int64_t label;
    assert_int_equal(mr_dataset_label(dataset, 0, &label, NULL), MR_OK);
    assert_int_equal(mr_dataset_label(dataset, N_RECORDS + 1, &label, &error), MR_ERR_IO);
    assert_non_null(strstr(error.text, "/b: the file was replaced"));
    mr_dataset_destroy(dataset);
}

/* Write the images one after the other, and lists of their ranges. */
static void write_ranges(void)
{
    static uint8_t blob[1 << 20];
    static char relative[8192], urls[8192];
    size_t len = 5, x = 0, y = 0;
    for (int i = 0; i < N_IMAGES; i++) {
        struct mr_test_image image = make_image(i);
        bool second = i >= N_IMAGES / 2;
        char line[64];
        if (i == N_IMAGES / 2) {
            mr_test_folder_write(folder, "blob 0", blob, len);
            len = 3;
        }
        memcpy(blob + len, image.bytes, image.len);
        snprintf(line, sizeof line, "\t%d\t%zu\t%zu\n", i * 3, len, image.len);
        x += (size_t)snprintf(relative + x, sizeof relative - x, "blob %d%s", second, line);
        y += (size_t)snprintf(urls + y, sizeof urls - y, "%s/blob %d%s%s",
                              second ? mr_test_http_url(server) : folder, second,
                              second ? "?sig=secret" : "", line);
        len += image.len;
        mr_test_image_free(&image);
    }
    mr_test_folder_write(folder, "blob 1", blob, len);
    mr_test_folder_write(folder, "ranges", relative, x);
    mr_test_folder_write(folder, "mixed", urls, y);
}

static void ranges_have_the_bits_of_local_ones(void **state)
{
    (void)state;
    write_ranges();
    expect_same("ranges:~/ranges", "ranges:$/ranges%3Fsig=secret", "train:48");
    expect_same("ranges:~/ranges", "ranges:~/mixed", "train:48");
}

static void wrong_ranges_are_named(void **state)
{
    (void)state;
    char text[SPEC_BYTES];
    write_ranges();
    expect_error("ranges:$/none%3Fsig=secret", "$/none: HTTP 404 Not Found");
    write_text("wrong", "blob 0\t1\t5\t10\nnone?sig=secret\t1\t5\t10\n");
    expect_error("ranges:$/wrong", "$/none: HTTP 404 Not Found");
    write_text("wrong", "blob 0\t1\t5\t10\nblob 1?sig=secret\t1\t5\t99999999\n");
    expect_error("ranges:$/wrong",
                 "$/wrong:2: 99999999 bytes from 5 on are not in $/blob 1, which");
    write_text("wrong", place("~/blob 0\t1\t5\t10\nhttp://secret@h/x\t1\t5\t10\n", text));
    expect_error("ranges:~/wrong", "~/wrong:2: a URL of the dataset has a user or a password");
    mr_dataset *dataset = open_form("ranges:$/ranges");
    write_text("blob 1", "another blob");
    expect_damage(dataset, "train:48", "the file changed since the dataset was opened");
    expect_damage(dataset, "train:48", "$/blob 1/");
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_OK);
    assert_int_equal(mr_dataset_inspect(dataset, N_IMAGES - 1, &info, &error), MR_ERR_IO);
    assert_non_null(strstr(error.text, "/blob 1: the file was replaced"));
    mr_dataset_destroy(dataset);
}

static void write_photographs(const char *form)
{
    char name[64];
    for (int i = 0; i < N_IMAGES; i++) {
        struct mr_test_image image = make_image(i);
        snprintf(name, sizeof name, form, i);
        mr_test_folder_write(folder, name, image.bytes, image.len);
        mr_test_image_free(&image);
    }
}

/* Label files of all images but one. */
static void write_yolo(void)
{
    char name[64], line[64], text[8192] = "", urls[16384] = "";
    size_t len = 0, n = 0;
    make_folder("images");
    make_folder("labels");
    write_photographs("images/i %02d.jpg");
    for (int i = 0; i < N_IMAGES; i++) {
        snprintf(name, sizeof name, "labels/i %02d.txt", i);
        snprintf(line, sizeof line, "%d 0.%d 0.4 0.3 0.5\n%d 0.5 0.5 0.25 0.2\n", i % 2, 3 + i % 4,
                 1 - i % 2);
        if (i != 4)
            write_text(name, line);
        len += (size_t)snprintf(text + len, sizeof text - len, "images/i %02d.jpg\n", i);
        n += (size_t)snprintf(urls + n, sizeof urls - n, "%s/images/i %02d.jpg?sig=secret\r\n",
                              mr_test_http_url(server), i);
    }
    write_text("list", text);
    write_text("urls", urls);
    write_text("names", "zero\none\n");
}

static void darknets_lists_have_the_bits_of_local_ones(void **state)
{
    (void)state;
    static const char local[] = "yolo:~/list?root=~&names=~/names";
    mr_error error;
    write_yolo();
    expect_same(local, "yolo:$/list%3Fsig=secret?names=$/names", BOXES);
    expect_same(local, "yolo:~/list?root=$/&names=~/names", BOXES);
    expect_same(local, "yolo:~/urls?names=$/names", BOXES);
    expect_same(local, "yolo:$/urls%3Fsig=secret?names=$/names%3Fsig=secret", BOXES);
    mr_dataset *dataset = open_form("yolo:$/list");
    assert_int_equal(mr_dataset_save_list(dataset, "/nowhere", &error), MR_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "yolo at URLs cannot be saved"));
    mr_dataset_destroy(dataset);
    expect_error("yolo:$/none%3Fsig=secret", "$/none: HTTP 404 Not Found");
    expect_error("yolo:$/list?names=$/none%3Fsig=secret", "$/none: HTTP 404 Not Found");
    expect_error("yolo:~/list?root=$/x%3Fsig=secret", "the URL $/x is that of a folder");
    write_text("missing", "images/i 00.jpg\nimages/none.jpg?sig=secret\n");
    dataset = open_form("yolo:$/missing");
    expect_damage(dataset, BOXES, "$/images/none.jpg (index 1): HTTP 404 Not Found");
    mr_dataset_destroy(dataset);
}

#ifdef MR_HAVE_EXPAT
static void vocs_folders_have_the_bits_of_local_ones(void **state)
{
    (void)state;
    static const char *const folders[] = {"v",
                                          "v/ImageSets",
                                          "v/ImageSets/Main",
                                          "v/ImageSets/Segmentation",
                                          "v/JPEGImages",
                                          "v/Annotations",
                                          "v/SegmentationClass"};
    char name[64], text[1024], set[1024] = "";
    size_t len = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(folders[i]);
    write_photographs("v/JPEGImages/p%02d.jpg");
    for (int i = 0; i < N_IMAGES; i++) {
        struct mr_test_png mask = {
            .width = 60 + 3 * (uint32_t)i, .height = 100 - (uint32_t)i, .seed = (uint32_t)i};
        struct mr_test_image image = mr_test_png(&mask);
        snprintf(name, sizeof name, "v/SegmentationClass/p%02d.png", i);
        mr_test_folder_write(folder, name, image.bytes, image.len);
        mr_test_image_free(&image);
        snprintf(name, sizeof name, "v/Annotations/p%02d.xml", i);
        snprintf(text, sizeof text,
                 "<annotation><object><name>cat</name><bndbox><xmin>%d</xmin><ymin>2</ymin>"
                 "<xmax>50</xmax><ymax>60</ymax></bndbox></object></annotation>",
                 i);
        write_text(name, text);
        len += (size_t)snprintf(set + len, sizeof set - len, "p%02d\n", i);
    }
    write_text("v/ImageSets/Main/train.txt", set);
    write_text("v/ImageSets/Segmentation/val.txt", set);
    expect_same("voc:~/v", "voc:$/v", BOXES);
    expect_same("voc:~/v?task=segmentation&set=val", "voc:$/v/?task=segmentation&set=val",
                "segmentation_train(48)");
    expect_error("voc:$/v?set=test", "$/v/ImageSets/Main/test.txt: HTTP 404 Not Found");
    expect_error("voc:$/v%3Fsig=secret", "which has no query");
    char path[4200];
    mr_dataset *dataset = open_form("voc:$/v");
    snprintf(path, sizeof path, "%s/v/Annotations/p03.xml", folder);
    assert_int_equal(unlink(path), 0);
    expect_damage(dataset, BOXES, "$/v/Annotations/p03.xml (index 3): HTTP 404 Not Found");
    mr_dataset_destroy(dataset);
}
#endif

#ifdef MR_HAVE_YAJL
static void write_coco(int width)
{
    static char text[16384];
    size_t len = (size_t)snprintf(text, sizeof text, "{\"images\": [");
    for (int i = 0; i < N_IMAGES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s{\"id\": %d, \"file_name\": \"c %02d.jpg\"}", i ? "," : "",
                                100 - i, i);
    len += (size_t)snprintf(text + len, sizeof text - len, "], \"annotations\": [");
    for (int i = 0; i < 2 * N_IMAGES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s{\"image_id\": %d, \"category_id\": %d, \"bbox\": [%d, 3, %d, "
                                "30]}",
                                i ? "," : "", 100 - i / 2, 1 + i % 2, i % 9, width);
    snprintf(text + len, sizeof text - len,
             "], \"categories\": [{\"id\": 1, \"name\": \"a\"}, {\"id\": 2, \"name\": \"b\"}]}");
    write_text("c.json", text);
}

/* Requests for the annotations. Those of loaders that have ended may still arrive. */
static uint64_t count_opening(const char *form)
{
    uint64_t before = n_annotations;
    mr_dataset_destroy(open_form(form));
    return n_annotations - before;
}

static void cocos_images_have_the_bits_of_local_ones(void **state)
{
    (void)state;
    static const char remote[] = "coco:$/cc/?annotations=$/c.json%3Fsig=secret";
    make_folder("cc");
    write_photographs("cc/c %02d.jpg");
    write_coco(20);
    expect_same("coco:~/cc?annotations=~/c.json&index=none", remote, BOXES);
    expect_same("coco:~/cc?annotations=~/c.json&index=none", "coco:$/cc?annotations=~/c.json",
                BOXES);
    /* what is kept has the URL's version */
    assert_int_equal(count_opening(remote), 1);
    write_coco(21);
    expect_same("coco:~/cc?annotations=~/c.json&index=none", remote, BOXES);
    assert_int_equal(count_opening(remote), 1);
    fault = MR_TEST_HTTP_WEAK_ETAG; /* a version by its date */
    assert_int_equal(count_opening("coco:$/cc/?annotations=$/c.json"), 2);
    assert_int_equal(count_opening("coco:$/cc/?annotations=$/c.json"), 1);
    fault = MR_TEST_HTTP_GOOD;
    expect_error("coco:$/cc?annotations=$/none%3Fsig=secret", "$/none: HTTP 404 Not Found");
    write_text("wrong", "{\"images\": [}");
    expect_error("coco:$/cc?annotations=$/wrong%3Fsig=secret", "$/wrong, line 1, byte 13");
    expect_error("coco:$/cc?annotations=http://secret@h/x", "has a user or a password");
    expect_error("coco:$/cc%3Fsig=secret?annotations=$/c.json", "which has no query");
    mr_dataset *dataset = open_form(remote);
    char path[4200];
    snprintf(path, sizeof path, "%s/cc/c 05.jpg", folder);
    assert_int_equal(unlink(path), 0);
    expect_damage(dataset, BOXES, "$/cc/c 05.jpg (index 18): HTTP 404 Not Found");
    mr_dataset_destroy(dataset);
}
#endif

/* An image of noise, in which a request cannot read two headers, a shard of three of them. */
static void write_shard(void)
{
    enum { MEMBER_BYTES = 3 << 20 };
    struct mr_test_shard shard = {0};
    uint8_t *bytes = calloc(1, MEMBER_BYTES);
    assert_non_null(bytes);
    for (int i = 0; i < 3; i++) {
        char name[20];
        snprintf(name, sizeof name, "%d.jpg", i);
        struct mr_test_image image = make_image(i);
        memcpy(bytes, image.bytes, image.len);
        mr_test_shard_add(&shard, name, bytes, MEMBER_BYTES); /* zeros follow the image */
        mr_test_image_free(&image);
    }
    mr_test_shard_end(&shard);
    mr_test_folder_write(folder, "s.tar", shard.bytes, shard.len);
    mr_test_shard_free(&shard);
    free(bytes);
}

/* Open the shard. Returns the number of requests. */
static uint64_t open_shard(const char *keys, const char *last_name)
{
    char form[64], name[4096];
    uint64_t before = mr_test_http_n_requests(server);
    snprintf(form, sizeof form, "tar:$/s.tar%s", keys);
    mr_dataset *dataset = open_form(form);
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    mr_dataset_name(dataset, 2, name, sizeof name);
    assert_string_equal(strrchr(name, '/') + 1, last_name);
    mr_dataset_destroy(dataset);
    return mr_test_http_n_requests(server) - before;
}

/* The index calls the last member "new", which shows that it is used. */
static void an_index_of_wds2idx_is_used_beside_a_shard_at_a_url(void **state)
{
    (void)state;
    static const char index[] = "v1.2 3\njpg 512 3145728 0.jpg\njpg 3146752 3145728 1.jpg\n"
                                "jpg 6292992 3145728 new.jpg\n";
    write_shard();
    /* the version, each header, and what is after the last member; the index is asked for */
    assert_int_equal(open_shard("?label=none", "2.jpg"), 1 + 1 + 4);
    write_text("s.idx", index);
    assert_int_equal(open_shard("%3Fsig=x?label=none&index=none", "2.jpg"), 1 + 4);
    assert_int_equal(open_shard("%3Fsig=x?label=none&image=jpg", "2.jpg"), 1 + 4);
    assert_int_equal(open_shard("?label=none&image=jpg,jpeg", "new.jpg"), 1 + 2 + 3);
    assert_int_equal(open_shard("?label=none&image=jpg,jpeg", "new.jpg"), 1); /* it is kept */
    write_text("s.idx", "v1.2 1\njpg 512 3145728 0.jpg\n"); /* the others are missing */
    open_shard("?label=none&image=jpg,png", "2.jpg");
    write_text("s.idx", "");
    open_shard("?label=none&image=jpg,webp", "2.jpg");
    write_text("s.idx", index);
    expect_same("tar:~/s.tar?label=none&index=none", "tar:$/s.tar?label=none&image=jpg&index=none",
                "train:48");
}

static void kinds_that_read_no_urls_say_what_to_do(void **state)
{
    (void)state;
    expect_error("imagefolder:$/a%3Fsig=secret", "millrace list URL --save FILE");
    expect_error("$/a", "'$/a' is a URL that imagefolder does not read: a server is not asked");
    expect_error("cifar10:$/a", "'$/a' is a URL that cifar10 does not read: name its files as");
    make_folder("photographs");
    expect_error("imagefolder:~/photographs?extra=seg:100:.png:$/masks",
                 "the folder $/masks of a further member is a URL");
}

/* Nothing listens at the port, so the first object ends the opening. */
static void a_server_that_refuses_connections_ends_the_opening_soon(void **state)
{
    (void)state;
    static const char *const specs[] = {"tar:http://127.0.0.1:1/{000..499}.tar",
                                        "records:http://127.0.0.1:1/a,http://127.0.0.1:1/b?bytes=1",
                                        "list:http://127.0.0.1:1/a", "pack:http://127.0.0.1:1/a"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        uint64_t before_ns = mr_clock_now_ns();
        expect_error(specs[i], "127.0.0.1");
        uint64_t ms = (mr_clock_now_ns() - before_ns) / 1000000;
        assert_in_range(ms, 1000, 8000); /* 10 s are those of a server that once answered */
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(records_have_the_bits_of_local_ones),
        T(many_files_of_records_are_found_by_few_connections),
        T(records_that_are_missing_or_were_replaced_are_named),
        T(ranges_have_the_bits_of_local_ones),
        T(wrong_ranges_are_named),
        T(darknets_lists_have_the_bits_of_local_ones),
#ifdef MR_HAVE_EXPAT
        T(vocs_folders_have_the_bits_of_local_ones),
#endif
#ifdef MR_HAVE_YAJL
        T(cocos_images_have_the_bits_of_local_ones),
#endif
        T(an_index_of_wds2idx_is_used_beside_a_shard_at_a_url),
        T(kinds_that_read_no_urls_say_what_to_do),
        T(a_server_that_refuses_connections_ends_the_opening_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
