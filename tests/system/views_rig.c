/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/views_rig.h"

#include "tests/support/assert_words.h"
#include "tests/support/devices.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

#include <millrace/pack.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 512 };

static char *folder;

const char *views_at(const char *name)
{
    static char paths[4][2 * PATH];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void views_write_image(int i)
{
    char name[PATH];
    uint32_t width = 90 + 3 * (uint32_t)i, height = 70 + 2 * (uint32_t)i, seed = (uint32_t)i;
    struct mr_test_image image =
        i % 4 == 3 ? mr_test_png(&(struct mr_test_png){
                         .width = width, .height = height, .seed = seed, .colour_type = 2})
                   : mr_test_jpeg(&(struct mr_test_jpeg){.width = width,
                                                         .height = height,
                                                         .seed = seed,
                                                         .progressive = i % 4 == 2,
                                                         .orientation = (uint32_t)i % 9});
    snprintf(name, sizeof name, "photos/%s/%02d.jpg", i < VIEWS_N / 2 ? "a" : "b", i);
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

void views_damage_image(int i)
{
    char name[PATH];
    snprintf(name, sizeof name, "photos/%s/%02d.jpg", i < VIEWS_N / 2 ? "a" : "b", i);
    mr_test_folder_write(folder, name, "\xff\xd8\xff nothing", 11);
}

static struct {
    uint8_t bytes[1 << 16];
    size_t len;
} files[VIEWS_N];

static int get_file(void *user, int64_t index, mr_sample *sample)
{
    (void)user;
    sample->bytes = files[index].bytes;
    sample->len_bytes = files[index].len;
    sample->encoded = true;
    sample->label = index >= VIEWS_N / 2;
    return 0;
}

static mr_dataset *open_callbacks(void)
{
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    mr_dataset *dataset;
    mr_error error = {0};
    for (int i = 0; i < VIEWS_N; i++) {
        char name[PATH];
        snprintf(name, sizeof name, "photos/%s/%02d.jpg", i < VIEWS_N / 2 ? "a" : "b", i);
        FILE *file = fopen(views_at(name), "rb");
        assert_non_null(file);
        files[i].len = fread(files[i].bytes, 1, sizeof files[i].bytes, file);
        assert_in_range(files[i].len, 1, sizeof files[i].bytes - 1);
        fclose(file);
    }
    callbacks.n_samples = VIEWS_N;
    callbacks.get = get_file;
    assert_ok(mr_dataset_from_callbacks(&callbacks, &dataset, &error), &error);
    return dataset;
}

mr_dataset *views_open(int source)
{
    if (source == 5)
        return open_callbacks();
    static const char *const packs[] = {"dct", "jpeg", "plain", "raw"};
    char spec[3 * PATH];
    if (source == 0)
        snprintf(spec, sizeof spec, "imagefolder:%s", views_at("photos"));
    else
        snprintf(spec, sizeof spec, "pack:%s", views_at(packs[source - 1]));
    return mr_test_dataset(spec);
}

static void make_pack(const char *name, mr_pack_encoding encoding)
{
    mr_error error = {0};
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_dataset *dataset = views_open(0);
    options.encoding = encoding;
    options.no_index = strcmp(name, "plain") == 0;
    assert_ok(mr_dataset_pack(dataset, views_at(name), &options, NULL, &error), &error);
    mr_dataset_destroy(dataset);
}

int views_set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    assert_int_equal(mkdir(views_at("photos"), 0777), 0);
    assert_int_equal(mkdir(views_at("photos/a"), 0777), 0);
    assert_int_equal(mkdir(views_at("photos/b"), 0777), 0);
    for (int i = 0; i < VIEWS_N; i++)
        views_write_image(i);
    make_pack("dct", MR_PACK_DCT);
    make_pack("jpeg", MR_PACK_JPEG);
    make_pack("plain", MR_PACK_JPEG);
    make_pack("raw", MR_PACK_RAW);
    return 0;
}

int views_tear_down(void **state)
{
    (void)state;
    mr_test_folder_remove(folder);
    return 0;
}

mr_loader_options views_options(uint32_t n_workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = VIEWS_N;
    o.seed = 3;
    o.no_shuffle = true;
    o.num_workers = n_workers;
    o.dtype = MR_F32;
    return o;
}

struct views_taken views_take(mr_dataset *dataset, const char *transform,
                              const mr_loader_options *o)
{
    struct views_taken t = {.dataset = dataset, .loader = mr_test_loader(dataset, transform, o)};
    if (mr_loader_next(t.loader, MR_FOREVER, &t.batch) != MR_OK)
        fail_msg("%s: %s", transform, mr_loader_error(t.loader)->text);
    return t;
}

struct views_taken views_take_plain(const char *transform)
{
    mr_loader_options o = views_options(MR_NO_WORKERS);
    return views_take(views_open(0), transform, &o);
}

void views_give_back(struct views_taken *t)
{
    mr_batch_release(t->batch);
    mr_loader_destroy(t->loader);
    mr_dataset_destroy(t->dataset);
}

void views_expect_refused(const char *transform, const mr_loader_options *options,
                          const char *words)
{
    mr_transform *parsed = NULL;
    mr_loader *loader;
    mr_error error = {0};
    mr_dataset *dataset = views_open(0);
    mr_status status = mr_transform_parse(transform, &parsed, &error);
    if (status == MR_OK)
        status = mr_loader_create(dataset, parsed, options, &loader, &error);
    assert_error(status, MR_ERR_INVALID, &error, words);
    mr_transform_destroy(parsed);
    mr_dataset_destroy(dataset);
}

const uint8_t *views_picture(const struct views_taken *t, const char *name, int64_t row, int64_t k,
                             size_t *len_out)
{
    const mr_array *array = mr_batch_array(t->batch, name);
    if (!array)
        fail_msg("the batch has no %s", name);
    *len_out = (size_t)array->strides[k < 0 ? 0 : 1];
    return (const uint8_t *)mr_test_bytes(array) + row * array->strides[0] +
           (k < 0 ? 0 : k * array->strides[1]);
}

void views_assert_same(const struct views_taken *a, const struct views_taken *b, const char *name,
                       int64_t k)
{
    char geometry[64];
    snprintf(geometry, sizeof geometry, "%s.geometry", name);
    const char *const names[] = {name, geometry};
    for (int64_t row = 0; row < VIEWS_N; row++)
        for (int n = 0; n < 2; n++) {
            size_t len, other_len;
            const uint8_t *found = views_picture(a, names[n], row, k, &len);
            const uint8_t *wanted = views_picture(b, names[n], row, -1, &other_len);
            assert_int_equal(len, other_len);
            if (memcmp(found, wanted, len) != 0)
                fail_msg("%s, picture %d, row %d differs", names[n], (int)k, (int)row);
        }
}

struct views_taken views_take_alone(const char *name, int64_t k, const char *recipe)
{
    char text[VIEWS_TEXT];
    if (k < 0)
        snprintf(text, sizeof text, "view(%s,%s)", name, recipe);
    else
        snprintf(text, sizeof text, "view(%s#%d,%s)", name, (int)k, recipe);
    return views_take_plain(text);
}
