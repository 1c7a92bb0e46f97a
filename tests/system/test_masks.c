/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks: the first further member of a sample, decoded as indices and moved with the picture. The
 * oracle computes each pixel from the batch's geometry, by torch's or Pillow's rule.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "transforms/codec_png.h"

#include <millrace/loader.h>
#include <millrace/pack.h>

enum { N = 12, SIDE = 24, MOST_PIXELS = 6000, PATH = 512, SPEC = 3 * PATH, FILL = 77 };

static char *folder;

static const char *at(const char *name)
{
    static char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A palette of 8 and of 4 bits, grey, interlaced grey, grey of 16 bits whose values are small. */
static struct mr_test_png mask_of(int64_t i)
{
    static const struct mr_test_png kinds[] = {{.colour_type = 3},
                                               {.colour_type = 3, .depth = 4},
                                               {.colour_type = 0},
                                               {.colour_type = 0, .interlaced = true}};
    struct mr_test_png mask = kinds[i % 4];
    mask.width = 40 + (uint32_t)i;
    mask.height = 30 + 2 * (uint32_t)i;
    mask.seed = 100 + (uint32_t)i;
    return mask;
}

static void write_png(const char *name, const struct mr_test_png *png)
{
    struct mr_test_image image = mr_test_png(png);
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

static void write_mask(int64_t i)
{
    char name[PATH];
    struct mr_test_png mask = mask_of(i);
    snprintf(name, sizeof name, "masks/a/%03d.png", (int)i);
    write_png(name, &mask);
}

static mr_dataset *open_folder(void)
{
    char spec[SPEC];
    snprintf(spec, sizeof spec, "imagefolder:%s?extra=seg:65536:.png:%s/masks", at("photos"),
             folder);
    return mr_test_dataset(spec);
}

static void make_pack(const char *name, mr_pack_encoding encoding)
{
    mr_error error = {0};
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_dataset *dataset = open_folder();
    options.encoding = encoding;
    assert_ok(mr_dataset_pack(dataset, at(name), &options, NULL, &error), &error);
    mr_dataset_destroy(dataset);
}

static int set_up(void **state)
{
    (void)state;
    static const char *const folders[] = {"photos", "photos/a", "masks", "masks/a"};
    mr_error error = {0};
    folder = mr_test_folder_create();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(at(folders[i]), 0777), 0);
    for (int64_t i = 0; i < N; i++) {
        char name[PATH];
        struct mr_test_png mask = mask_of(i);
        struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){
            .width = mask.width, .height = mask.height, .seed = (uint32_t)i});
        snprintf(name, sizeof name, "photos/a/%03d.jpg", (int)i);
        mr_test_folder_write(folder, name, image.bytes, image.len);
        mr_test_image_free(&image);
        write_mask(i);
    }
    mr_dataset *dataset = open_folder();
    assert_ok(mr_dataset_save_list(dataset, at("list.txt"), &error), &error);
    mr_dataset_destroy(dataset);
    make_pack("dct", MR_PACK_DCT);
    make_pack("jpeg", MR_PACK_JPEG);
    make_pack("raw", MR_PACK_RAW);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_folder_remove(folder);
    return 0;
}

static struct {
    uint8_t bytes[1 << 16];
    size_t len;
} photos[N], seg[N];
static int64_t wrong_mask = -1; /* the index of a sample whose callback gives */
static size_t wrong_bytes;      /* these many bytes, or with 0 the length of its mask alone */

static int get_file(void *user, int64_t index, mr_sample *sample)
{
    (void)user;
    sample->bytes = photos[index].bytes;
    sample->len_bytes = photos[index].len;
    sample->encoded = true;
    bool is_wrong = index == wrong_mask;
    sample->column[0] = is_wrong && wrong_bytes == 0 ? NULL : seg[index].bytes;
    sample->column_bytes[0] = is_wrong && wrong_bytes > 0 ? wrong_bytes : seg[index].len;
    sample->column[1] = &seg[index].len;
    return 0;
}

static size_t read_file(const char *name, uint8_t bytes[1 << 16])
{
    FILE *file = fopen(at(name), "rb");
    assert_non_null(file);
    size_t len = fread(bytes, 1, 1 << 16, file);
    assert_in_range(len, 1, (1 << 16) - 1);
    fclose(file);
    return len;
}

/* The second column is not a mask: it is the length of the first one. */
static mr_dataset *open_callbacks(void)
{
    static const mr_column_form columns[] = {
        {.name = "seg", .dtype = MR_U8, .ndim = 1, .shape = {1 << 16}, .ragged = 1},
        {.name = "length", .dtype = MR_I64}};
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    mr_dataset *dataset;
    mr_error error = {0};
    for (int i = 0; i < N; i++) {
        char name[PATH];
        snprintf(name, sizeof name, "photos/a/%03d.jpg", i);
        photos[i].len = read_file(name, photos[i].bytes);
        snprintf(name, sizeof name, "masks/a/%03d.png", i);
        seg[i].len = read_file(name, seg[i].bytes);
    }
    callbacks.n_samples = N;
    callbacks.get = get_file;
    callbacks.columns = columns;
    callbacks.n_columns = 2;
    assert_ok(mr_dataset_from_callbacks(&callbacks, &dataset, &error), &error);
    return dataset;
}

enum { CALLBACKS = 5, N_SOURCES };

/* The folder, its list, its packs, and callbacks that give the files. */
static mr_dataset *open_source(int source)
{
    static const char *const packs[] = {"dct", "jpeg", "raw"};
    char spec[SPEC];
    if (source == 0)
        return open_folder();
    if (source == CALLBACKS)
        return open_callbacks();
    if (source == 1)
        snprintf(spec, sizeof spec, "list:%s?extra=seg:65536", at("list.txt"));
    else
        snprintf(spec, sizeof spec, "pack:%s", at(packs[source - 2]));
    return mr_test_dataset(spec);
}

typedef int64_t (*nearest_fn)(int64_t in, int64_t out, int64_t i);

static int64_t torch_nearest(int64_t in, int64_t out, int64_t i)
{
    volatile float scale = (float)in / (float)out, place = scale * (float)i;
    return (int64_t)floorf(place);
}

/* Pillow adds the steps. With the sizes here no place is near a whole number. */
static int64_t pil_nearest(int64_t in, int64_t out, int64_t i)
{
    return (2 * i + 1) * in / (2 * out);
}

static int64_t element(const mr_array *array, int64_t i)
{
    const void *data = mr_test_bytes(array);
    switch (array->dtype) {
    case MR_U8: return ((const uint8_t *)data)[i];
    case MR_I16: return ((const int16_t *)data)[i];
    default: return ((const int64_t *)data)[i];
    }
}

/* Where the mask of a row begins, and its size: in a ragged batch, that of its image. */
static int64_t find_mask(const mr_batch *part, const mr_array *masks, int64_t row, int64_t *height,
                         int64_t *width)
{
    if (masks->ndim == 3) {
        *height = masks->shape[1];
        *width = masks->shape[2];
        return row * *height * *width;
    }
    const int32_t *shape = (const int32_t *)mr_test_data(part, "image.shape") + 2 * row;
    assert_int_equal(masks->ndim, 1);
    assert_int_equal(masks->shape[0], (int64_t)mr_batch_size(part) * MOST_PIXELS);
    *height = shape[0];
    *width = shape[1];
    return ((const int64_t *)mr_test_data(part, "mask_image.offsets"))[row];
}

/* Places beyond the image are 255. Sets the size of the image. */
static void check_padding(const mr_batch *part, const mr_array *masks, int64_t row, int64_t *height,
                          int64_t *width)
{
    const int32_t *shape = (const int32_t *)mr_test_data(part, "image.shape") + 2 * row;
    for (int64_t y = 0; y < *height; y++)
        for (int64_t x = 0; x < *width; x++)
            if (y >= shape[0] || x >= shape[1])
                assert_int_equal(element(masks, (row * *height + y) * *width + x), 255);
    *height = shape[0];
    *width = shape[1];
}

/*
 * A crop, or a crop and a resize, then flips, as the geometry g says. The mask begins at element
 * `first`, and a line has `line` elements.
 */
static void check_mask(const mr_array *masks, int64_t first, int64_t height, int64_t width,
                       int64_t line, const int32_t *g, int64_t index, nearest_fn nearest)
{
    struct mr_test_png mask = mask_of(index);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            int64_t out_x = g[6] ? width - 1 - x : x, out_y = g[7] ? height - 1 - y : y;
            int64_t in_x = g[2] + nearest(g[4], width, out_x);
            int64_t in_y = g[3] + nearest(g[5], height, out_y);
            bool inside = in_x >= 0 && in_y >= 0 && in_x < mask.width && in_y < mask.height;
            int64_t want = inside ? mr_test_png_value(&mask, (uint32_t)in_x, (uint32_t)in_y) : FILL;
            int64_t got = element(masks, first + y * line + x);
            if (got != want)
                fail_msg("sample %d at %d,%d: %d instead of %d", (int)index, (int)x, (int)y,
                         (int)got, (int)want);
        }
}

static void check_row(const mr_batch *part, int64_t row, nearest_fn nearest)
{
    const mr_array *masks = mr_batch_array(part, "mask_image");
    const int32_t *g = (const int32_t *)mr_test_data(part, "geometry") + 8 * row;
    int64_t index = ((const int64_t *)mr_test_data(part, "index"))[row];
    int64_t height, width;
    assert_non_null(masks);
    int64_t first = find_mask(part, masks, row, &height, &width), line = width;
    if (masks->ndim == 3 && mr_batch_array(part, "image.shape"))
        check_padding(part, masks, row, &height, &width);
    check_mask(masks, first, height, width, line, g, index, nearest);
}

/* Masks of n pictures of each sample, of the view of that name. */
static void check_view(const mr_batch *batch, const char *name, int64_t n, nearest_fn nearest)
{
    char masks_name[64], geometry_name[64];
    snprintf(masks_name, sizeof masks_name, "%s.mask_image", name);
    snprintf(geometry_name, sizeof geometry_name, "%s.geometry", name);
    const mr_array *masks = mr_batch_array(batch, masks_name);
    const int32_t *geometry = mr_test_data(batch, geometry_name);
    assert_non_null(masks);
    int64_t height = masks->shape[masks->ndim - 2], width = masks->shape[masks->ndim - 1];
    for (int64_t i = 0; i < n * mr_batch_size(batch); i++)
        check_mask(masks, i * height * width, height, width, width, geometry + 8 * i,
                   ((const int64_t *)mr_test_data(batch, "index"))[i / n], nearest);
}

static void check_epoch(mr_dataset *dataset, const char *transform, const mr_loader_options *o,
                        nearest_fn nearest)
{
    mr_loader *loader = mr_test_loader(dataset, transform, o);
    uint64_t seen = 0;
    mr_batch *batch;
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
            const mr_batch *part = mr_batch_part(batch, p);
            for (int64_t i = 0; i < mr_batch_size(part); i++) {
                check_row(part, i, nearest);
                seen |= UINT64_C(1) << ((const int64_t *)mr_test_data(part, "index"))[i];
            }
        }
        mr_batch_release(batch);
    }
    assert_int_equal(seen, (1 << N) - 1);
    mr_loader_destroy(loader);
}

static mr_loader_options base_options(uint32_t n_workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 5;
    o.seed = 3;
    o.num_workers = n_workers;
    return o;
}

static void masks_move_with_their_pictures_from_every_source(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 5};
    for (int source = 0; source < N_SOURCES; source++) {
        mr_dataset *dataset = open_source(source);
        for (size_t i = 0; i < 3; i++) {
            mr_loader_options o = base_options(workers[i]);
            mr_test_set_devices(&o);
            check_epoch(dataset, "random_resized_crop(24)+hflip+vflip+mask()", &o, torch_nearest);
        }
        mr_dataset_destroy(dataset);
    }
}

static void every_dtype_and_rule(void **state)
{
    (void)state;
    mr_loader_options o = base_options(MR_NO_WORKERS);
    mr_dataset *dataset = open_folder();
    check_epoch(dataset, "random_crop(36,padding=9)+mask(fill=77)", &o, torch_nearest);
    check_epoch(dataset, "random_crop(36,padding=9)+hflip+mask(fill=77,dtype=i16)", &o,
                pil_nearest);
    check_epoch(dataset, "resize(31:23)+hflip+mask(dtype=i64)", &o, torch_nearest);
    check_epoch(dataset, "resize(32:64)+hflip+mask(nearest=pil)", &o, pil_nearest);
    check_epoch(dataset, "resize(64:128)+color_jitter(0.4,0.4)+mask(nearest=pil,dtype=i64)", &o,
                pil_nearest);
    check_epoch(dataset, "pad_if_smaller(60)+mask(fill=77)+random_crop(60)", &o, torch_nearest);
    mr_dataset_destroy(dataset);
}

/* Each view that has `mask` has an array of masks, moved as its pictures. */
static void masks_of_views_move_with_their_pictures_from_every_source(void **state)
{
    (void)state;
    static const char text[] =
        "view(plain,train:16)|view(a,random_resized_crop(24)+hflip+mask())|"
        "view(b,3,random_resized_crop(20:16,scale=0.1:0.5)+vflip+mask(dtype=i16))|"
        "view(c,resize(32:64)+hflip+mask(nearest=pil))";
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 5};
    for (int source = 0; source < N_SOURCES; source++)
        for (size_t i = 0; i < 3; i++) {
            mr_dataset *dataset = open_source(source);
            mr_loader_options o = base_options(workers[i]);
            mr_loader *loader = mr_test_loader(dataset, text, &o);
            mr_batch *batch;
            uint64_t n = 0;
            while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
                assert_null(mr_batch_array(batch, "plain.mask_image"));
                assert_null(mr_batch_array(batch, "seg"));
                assert_int_equal(mr_batch_array(batch, "a.mask_image")->ndim, 3);
                assert_int_equal(mr_batch_array(batch, "b.mask_image")->shape[1], 3);
                check_view(batch, "a", 1, torch_nearest);
                check_view(batch, "b", 3, torch_nearest);
                check_view(batch, "c", 1, pil_nearest);
                for (uint32_t k = 0; source == CALLBACKS && k < mr_batch_size(batch); k++)
                    assert_int_equal(((const int64_t *)mr_test_data(batch, "length"))[k],
                                     seg[((const int64_t *)mr_test_data(batch, "index"))[k]].len);
                n += mr_batch_size(batch);
                mr_batch_release(batch);
            }
            assert_int_equal(n, N);
            mr_loader_destroy(loader);
            mr_dataset_destroy(dataset);
        }
}

/* Of images, masks and geometry. */
static uint64_t digest_of(mr_dataset *dataset, const char *transform, uint32_t n_workers)
{
    mr_loader_options o = base_options(n_workers);
    o.ragged = true;
    o.max_row_bytes = 1 << 20;
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.status, MR_END);
    assert_int_equal(epoch.n_valid, N);
    uint64_t digest = epoch.digest;
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    return digest;
}

/* A crop of a file or of a pack reads only what it shows. */
static void detection_gives_the_same_bits_from_every_source(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "scale_jitter(60)+fixed_size_crop(40:50,fill=123:117:104)+hflip",
        "random_shortest_size(20:30:70,max_size=80)+vflip",
        "random_zoom_out(123:117:104)+random_crop(30)+hflip",
        "random_zoom_out(fill=1:2:3,p=1)+random_shortest_size(33)",
        "letterbox(64:48)+fixed_size_crop(40)",
    };
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        char text[PATH];
        uint64_t want = 0;
        snprintf(text, sizeof text, "%s+mask(fill=255)", texts[t]);
        for (int source = 0; source < CALLBACKS; source++) {
            static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
            mr_dataset *dataset = open_source(source);
            for (size_t i = 0; i < 3; i++) {
                uint64_t digest = digest_of(dataset, text, workers[i]);
                want = source + i ? want : digest;
                if (digest != want)
                    fail_msg("%s: source %d with %u workers has other bits", text, source,
                             workers[i]);
            }
            mr_dataset_destroy(dataset);
        }
    }
}

static void masks_of_images_of_different_sizes(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    for (int source = 0; source < N_SOURCES; source++) {
        mr_dataset *dataset = open_source(source);
        for (size_t i = 0; i < 3; i++) {
            mr_loader_options o = base_options(workers[i]);
            mr_test_set_devices(&o);
            o.ragged = true;
            o.dtype = i == 1 ? MR_F32 : MR_U8;
            o.max_row_bytes = MOST_PIXELS * 3 * mr_dtype_size((mr_dtype)o.dtype);
            check_epoch(dataset, "random_resize(20,60)+hflip+vflip+mask()", &o, torch_nearest);
            check_epoch(dataset, "hflip+mask(dtype=i64)", &o, torch_nearest);
            o.ragged = false;
            o.max_row_bytes = 0;
            o.pad_batch = 110;
            check_epoch(dataset, "random_resize(20,60)+hflip+vflip+mask()", &o, torch_nearest);
            check_epoch(dataset, "hflip+mask(dtype=i64)", &o, torch_nearest);
            check_epoch(dataset, "vflip+mask(dtype=i16)", &o, torch_nearest);
            check_epoch(dataset, "resize(24:40)+mask()", &o, torch_nearest); /* of one size */
        }
        mr_dataset_destroy(dataset);
    }
}

static void a_cache_changes_nothing(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    mr_dataset *dataset = open_folder();
    usleep(70000); /* a cache skips files that changed a moment ago */
    for (size_t f = 0; f < 2; f++)
        for (uint32_t run = 0; run < 3; run++) {
            mr_loader_options o = base_options(run == 0 ? MR_NO_WORKERS : 2);
            o.cache = at(f ? "index" : "packed");
            o.cache_form = forms[f];
            o.cache_slowdown = 100;
            check_epoch(dataset, "random_resized_crop(24)+hflip+mask()", &o, torch_nearest);
        }
    mr_dataset_destroy(dataset);
}

static void expect_damage(const char *transform, const char *words)
{
    bool calls = wrong_mask >= 0;
    mr_dataset *dataset = calls ? open_callbacks() : open_folder();
    mr_loader_options o = base_options(MR_NO_WORKERS);
    o.on_error = MR_ON_ERROR_FAIL;
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.n_failures, 1);
    assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
    assert_int_equal(epoch.first_error.index, 4);
    assert_words(epoch.first_error.text, calls ? "index 4" : "photos/a/004.jpg (index 4): ");
    assert_words(epoch.first_error.text, words);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void a_wrong_mask_is_damage_of_its_sample(void **state)
{
    (void)state;
    wrong_mask = 4;
    expect_damage("resize(24:24)+mask()", "it has no mask");
    wrong_bytes = (1 << 16) + 1;
    expect_damage("resize(24:24)+mask()", "get gave 65537 bytes of 'seg': more than 65536");
    wrong_mask = -1;
    struct mr_test_png png = mask_of(4);
    png.colour_type = 2;
    write_png("masks/a/004.png", &png);
    expect_damage("resize(24:24)+mask()", "its mask: it has neither a palette nor grey");
    png = mask_of(4);
    png.width++;
    write_png("masks/a/004.png", &png);
    expect_damage("resize(24:24)+mask()", "its mask: it is 45x38, the image is 44x38");
    png = mask_of(4);
    png.colour_type = 0;
    png.depth = 16;
    write_png("masks/a/004.png", &png);
    expect_damage("resize(24:24)+mask()", ", which u8 cannot hold");
    struct mr_test_image image = mr_test_png(&png);
    mr_test_folder_write(folder, "masks/a/004.png", image.bytes, image.len / 2);
    expect_damage("resize(24:24)+mask()", "its mask: ");
    mr_test_image_free(&image);
    assert_int_equal(remove(at("masks/a/004.png")), 0);
    expect_damage("resize(24:24)+mask()", "it has no mask");
    expect_damage("view(a,resize(24:24))|view(b,resize(9:9)+mask())", "it has no mask");
    write_mask(4);
}

static void rows_without_a_sample_are_zeros(void **state)
{
    (void)state;
    assert_int_equal(remove(at("masks/a/004.png")), 0);
    mr_dataset *dataset = open_folder();
    mr_loader_options o = base_options(2);
    o.batch_size = N;
    o.no_shuffle = true;
    o.on_error = MR_ON_ERROR_ZERO;
    mr_loader *loader = mr_test_loader(dataset, "resize(24:24)+mask()", &o);
    mr_batch *batch;
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    const mr_array *masks = mr_batch_array(batch, "mask_image");
    assert_int_equal(((const uint8_t *)mr_test_data(batch, "mask"))[4], 0);
    for (int64_t i = 0; i < SIDE * SIDE; i++)
        assert_int_equal(element(masks, 4 * SIDE * SIDE + i), 0);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    write_mask(4);
}

static void expect_refused(mr_dataset *dataset, const char *text, const char *words)
{
    mr_transform *transform;
    mr_loader *loader;
    mr_error error = {0};
    mr_loader_options o = base_options(MR_NO_WORKERS);
    o.dtype = strstr(text, "mixup") ? MR_F32 : MR_U8;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    assert_error(mr_loader_create(dataset, transform, &o, &loader, &error), MR_ERR_INVALID, &error,
                 words);
    mr_transform_destroy(transform);
}

static void what_does_not_move_masks_is_refused_by_name(void **state)
{
    (void)state;
    char spec[SPEC];
    mr_dataset *dataset = open_folder();
    expect_refused(dataset, "train:24+random_choice(augmix,invert)+mask()",
                   "augmix is not applied to masks");
    expect_refused(dataset, "exif+train:24+mask()", "exif is not applied to masks");
    expect_refused(dataset, "train:24+mask()+mixup(0.2)", "mixup is not applied to masks");
    expect_refused(dataset, "view(a,train:24)|view(b,train:24+mask()+mixup(0.2))",
                   "view 'b': mixup is not applied to masks");
    expect_refused(dataset, "resize(30)+five_crop(24)+mask()",
                   "mask is not applied to five_crop and ten_crop");
    expect_refused(dataset, "random_resize(20,30)",
                   "random_resize gives each image another size; add random_crop(N) or");
    expect_refused(dataset, "hflip+scale_jitter(20)", "scale_jitter gives each image");
    mr_dataset_destroy(dataset);
    snprintf(spec, sizeof spec, "imagefolder:%s", at("photos"));
    dataset = mr_test_dataset(spec);
    expect_refused(dataset, "train:24+mask()", "the samples have no further member");
    mr_dataset_destroy(dataset);
}

static uint64_t fingerprint_of(const char *transform)
{
    mr_dataset *dataset = open_folder();
    mr_loader_options o = base_options(MR_NO_WORKERS);
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    uint64_t fingerprint = mr_loader_fingerprint(loader);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return fingerprint;
}

static void ranks_with_other_masks_have_another_fingerprint(void **state)
{
    (void)state;
    uint64_t plain = fingerprint_of("train:24+mask()");
    assert_true(plain == fingerprint_of("train:24+mask(nearest=torch,fill=0)"));
    assert_true(plain != fingerprint_of("train:24+mask(fill=255)"));
    assert_true(plain != fingerprint_of("train:24+mask(nearest=pil)"));
    assert_true(plain != fingerprint_of("train:24"));
}

/* Any change of a mask's file is damage, or another mask of the same size. */
static void altered_masks_are_damage_or_masks(void **state)
{
    (void)state;
    struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    struct mr_mask_pixels pixels = {0};
    uint64_t random = 20261128;
    unsigned n_good = 0;
    for (int round = 0; round < 2000; round++) {
        struct mr_test_png png = mask_of(round);
        png.width = png.height = 20;
        struct mr_test_image image = mr_test_png(&png);
        size_t len = image.len;
        mr_error error = {0};
        for (int k = 0; k < 1 + round % 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            image.bytes[(random >> 33) % len] = (uint8_t)(random >> 20);
        }
        if (round % 5 == 0)
            len = (size_t)(random >> 40) % len;
        mr_status status =
            mr_codec_png_read_indices(&limits, image.bytes, len, 20, 20, &pixels, &error);
        assert_true(status == MR_OK || status == MR_ERR_DAMAGED);
        assert_true(status == MR_OK || strstr(error.text, "its mask: "));
        n_good += status == MR_OK;
        mr_test_image_free(&image);
    }
    assert_in_range(n_good, 1, 1900);
    mr_mask_inflate_fini(&pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_move_with_their_pictures_from_every_source),
        cmocka_unit_test(masks_of_views_move_with_their_pictures_from_every_source),
        cmocka_unit_test(detection_gives_the_same_bits_from_every_source),
        cmocka_unit_test(every_dtype_and_rule),
        cmocka_unit_test(masks_of_images_of_different_sizes),
        cmocka_unit_test(a_cache_changes_nothing),
        cmocka_unit_test(a_wrong_mask_is_damage_of_its_sample),
        cmocka_unit_test(rows_without_a_sample_are_zeros),
        cmocka_unit_test(what_does_not_move_masks_is_refused_by_name),
        cmocka_unit_test(ranks_with_other_masks_have_another_fingerprint),
        cmocka_unit_test(altered_masks_are_damage_or_masks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
