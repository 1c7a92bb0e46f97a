/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is packed as: any kind of JPEG as coefficients that decode to its pixels, or the
 * unchanged file, with a reason.
 */
#include "base/xxh3.h"
#include "tests/packs/packer_support.h"
#include "tests/support/assert_words.h"
#include "transforms/packed_selftest.h"
#include "transforms/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

static void check_sample(const struct mr_packed_sample *sample, uint32_t encoding,
                         const struct mr_test_image *jpeg)
{
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(jpeg->bytes, jpeg->len, &width, &height);
    assert_string_equal(sample->why, "");
    assert_false(sample->damaged);
    assert_false(sample->made_anew);
    assert_int_equal(sample->image.encoding, encoding);
    assert_int_equal(sample->image.width, width);
    assert_int_equal(sample->image.height, height);
    uint8_t *pixels = packer_pixels(&sample->image, sample->bytes);
    assert_memory_equal(pixels, full, (size_t)width * height * 3);
    free(pixels);
    free(full);
}

static void jpegs_become_coefficients_with_their_pixels(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        check_sample(&sample, MR_PACKED_DCT, &jpeg);
        uint32_t orientation = packer_kind(i)->orientation;
        assert_int_equal(sample.image.orientation, orientation ? orientation : 1);
        mr_test_image_free(&jpeg);
    }
    mr_packer_destroy(packer);
}

static void a_packer_gives_the_same_bytes_whatever_came_before(void **state)
{
    (void)state;
    struct mr_packer *used = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_packer *fresh =
            packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        packer_pack(used, jpeg.bytes, jpeg.len / 2);
        struct mr_packed_sample a = packer_pack(used, jpeg.bytes, jpeg.len);
        struct mr_packed_sample b = packer_pack(fresh, jpeg.bytes, jpeg.len);
        assert_int_equal(a.image.len, b.image.len);
        assert_int_equal(a.image.flags, b.image.flags);
        assert_memory_equal(a.bytes, b.bytes, a.image.len);
        assert_memory_equal(a.image.rows, b.image.rows, ((size_t)a.image.n_rows + 1) * 4);
        assert_memory_equal(&a.template, &b.template, sizeof a.template);
        mr_test_image_free(&jpeg);
        mr_packer_destroy(fresh);
    }
    mr_packer_destroy(used);
}

/* Expect the unchanged file, with this reason. */
static void check_kept(struct mr_packer *packer, const void *bytes, size_t len, bool damaged,
                       const char *why)
{
    struct mr_packed_sample sample = packer_pack(packer, bytes, len);
    if (sample.image.encoding != MR_PACKED_JPEG || sample.damaged != damaged ||
        !strstr(sample.why, why))
        fail_msg("encoding %u, damaged %d, \"%s\" instead of \"%s\"", sample.image.encoding,
                 sample.damaged, sample.why, why);
    assert_ptr_equal(sample.bytes, bytes);
    assert_int_equal(sample.image.len, len);
    assert_int_equal(sample.image.flags, 0);
    assert_true(sample.image.orientation >= 1);
}

static void what_is_no_jpeg_is_kept(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_test_png options = {.width = 33, .height = 21, .colour_type = 2, .orientation = 5};
    struct mr_test_image png = mr_test_png(&options);
    check_kept(packer, png.bytes, png.len, false, "not a JPEG");
    struct mr_packed_sample sample = packer_pack(packer, png.bytes, png.len);
    assert_int_equal(sample.image.width, 33);
    assert_int_equal(sample.image.height, 21);
    assert_int_equal(sample.image.orientation, 5);
    check_kept(packer, png.bytes, png.len / 2, true, "");
    check_kept(packer, "", 0, true, "the file is empty");
    check_kept(packer, "hello, world", 12, true, "not an image");
    check_kept(packer, "\xff\xd8", 2, true, "");
    check_kept(packer, "\xff\xd8\xff\xd9", 4, true, "");
    mr_test_image_free(&png);
    mr_packer_destroy(packer);
}

/* Either the pixels are the codec's, or the file is kept. */
static void check_cut(struct mr_packer *packer, const struct mr_test_image *jpeg, size_t len,
                      const uint8_t *full)
{
    struct mr_packed_sample sample = packer_pack(packer, jpeg->bytes, len);
    if (sample.image.encoding == MR_PACKED_JPEG) {
        assert_true(sample.damaged || sample.why[0] != '\0');
        return;
    }
    uint8_t *pixels = packer_pixels(&sample.image, sample.bytes);
    assert_memory_equal(pixels, full, (size_t)sample.image.width * sample.image.height * 3);
    free(pixels);
}

static void files_that_end_early_are_damaged_or_whole(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        uint32_t width, height;
        uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
        for (size_t len = jpeg.len > 9 ? jpeg.len - 9 : 0; len < jpeg.len; len++)
            check_cut(packer, &jpeg, len, full);
        size_t step = jpeg.len / 12 + 1;
        for (size_t len = 0; len < jpeg.len; len += step)
            check_cut(packer, &jpeg, len, full);
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len * 3 / 4);
        assert_true(sample.damaged);
        mr_test_image_free(&jpeg);
        free(full);
    }
    mr_packer_destroy(packer);
}

static void wrong_bits_never_make_other_pixels(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_packer *raw = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_RAW});
    uint32_t random = 7, n_kept = 0;
    for (uint32_t i = 0; i < 400; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i % 22));
        for (int k = 0; k < 2; k++) {
            random = random * 1664525 + 1013904223;
            jpeg.bytes[(random >> 8) % jpeg.len] ^= (uint8_t)(1u << (random >> 5) % 8);
        }
        struct mr_packed_sample decoded = packer_pack(raw, jpeg.bytes, jpeg.len);
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        if (sample.image.encoding == MR_PACKED_JPEG) {
            n_kept++;
        } else {
            assert_int_equal(decoded.image.encoding, MR_PACKED_RAW);
            uint8_t *pixels = packer_pixels(&sample.image, sample.bytes);
            assert_memory_equal(pixels, decoded.bytes, decoded.image.len);
            free(pixels);
        }
        mr_test_image_free(&jpeg);
    }
    assert_in_range(n_kept, 20, 380);
    mr_packer_destroy(packer);
    mr_packer_destroy(raw);
}

static void a_warning_is_kept_with_its_words(void **state)
{
    (void)state;
    struct mr_packer *packers[] = {
        packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT}),
        packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_RAW})};
    for (int p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < 3; i++) {
            struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i * 8));
            /* Bytes before the first marker that belong to none: all pixels can be decoded. */
            struct mr_test_image odd = packer_insert(&jpeg, 2, "abc", 3);
            check_kept(packers[p], odd.bytes, odd.len, true, "extraneous bytes before marker");
            assert_int_equal(packer_pack(packers[p], odd.bytes, odd.len).image.width,
                             packer_kind(i * 8)->width);
            mr_test_image_free(&odd);
            mr_test_image_free(&jpeg);
        }
        mr_packer_destroy(packers[p]);
    }
}

static void bytes_behind_the_end_do_not_matter(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_test_image jpeg = mr_test_jpeg(packer_kind(0));
    struct mr_test_image longer = packer_insert(&jpeg, jpeg.len, "\xff\xd8 and more", 11);
    struct mr_packed_sample sample = packer_pack(packer, longer.bytes, longer.len);
    check_sample(&sample, MR_PACKED_DCT, &jpeg);
    sample = packer_pack(packer, jpeg.bytes, jpeg.len - 2); /* no end-of-image marker */
    check_sample(&sample, MR_PACKED_DCT, &jpeg);
    mr_test_image_free(&longer);
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

static void a_progressive_file_without_its_last_scans_is_kept(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_test_image jpeg = mr_test_jpeg(packer_kind(17));
    size_t last = jpeg.len - 2;
    while (jpeg.bytes[last] != 0xff || jpeg.bytes[last + 1] != 0xda)
        last--;
    jpeg.bytes[last + 1] = 0xd9;
    check_kept(packer, jpeg.bytes, last + 2, false, "last scans");
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

/* A JPEG of two components, which no decoder converts to RGB. */
static struct mr_test_image make_pair(void)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long len = 0;
    uint8_t row[2 * 20] = {1, 200, 3};
    JSAMPROW line = row;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &bytes, &len);
    cinfo.image_width = cinfo.image_height = 20;
    cinfo.input_components = 2;
    cinfo.in_color_space = JCS_UNKNOWN;
    jpeg_set_defaults(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < 20)
        jpeg_write_scanlines(&cinfo, &line, 1);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return (struct mr_test_image){bytes, len};
}

static void jpegs_beyond_the_format_are_kept(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_test_image pair = make_pair();
    check_kept(packer, pair.bytes, pair.len, true, "JPEG with 2 components");
    struct mr_test_image many = mr_test_jpeg(&(struct mr_test_jpeg){
        .width = 70, .height = 40, .one_scan_each = true, .sampling = {{4, 2}, {2, 1}, {1, 1}}});
    check_kept(packer, many.bytes, many.len, false, "make 11 blocks");
    struct mr_test_image wide = mr_test_jpeg(&(struct mr_test_jpeg){.width = 16, .height = 16});
    uint8_t *frame = wide.bytes;
    while (frame[0] != 0xff || frame[1] != 0xc0)
        frame++;
    frame[4] = 12; /* bits */
    check_kept(packer, wide.bytes, wide.len, true, "precision");
    mr_test_image_free(&pair);
    mr_test_image_free(&many);
    mr_test_image_free(&wide);
    mr_packer_destroy(packer);
}

static void limits_hold(void **state)
{
    (void)state;
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 100});
    struct mr_test_image many =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 100, .progressive = true});
    static const uint32_t all[] = {MR_PACKED_RAW, MR_PACKED_DCT};
    for (int e = 0; e < 2; e++) {
        struct mr_packer_options options = {.encoding = all[e], .limits.max_pixels = 9999};
        struct mr_packer *packer = packer_make(&options);
        check_kept(packer, jpeg.bytes, jpeg.len, true, "above the limit of 9999");
        mr_packer_destroy(packer);
        options.limits = (struct mr_codec_limits){.max_scans = 2};
        packer = packer_make(&options);
        check_kept(packer, many.bytes, many.len, true, "above the limit of 2");
        mr_packer_destroy(packer);
        options.limits = (struct mr_codec_limits){.max_scan_blocks = 1459};
        packer = packer_make(&options);
        check_kept(packer, many.bytes, many.len, true,
                   "1460 blocks in its first 10 scans are above the limit of 1459");
        mr_packer_destroy(packer);
        options.limits = (struct mr_codec_limits){.max_decoder_bytes = 35000};
        packer = packer_make(&options);
        check_kept(packer, many.bytes, many.len, true, "above the limit of 35000");
        mr_packer_destroy(packer);
    }
    mr_test_image_free(&jpeg);
    mr_test_image_free(&many);
}

static void files_as_they_are_have_a_size(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_JPEG});
    struct mr_test_image jpeg = mr_test_jpeg(packer_kind(2));
    check_kept(packer, jpeg.bytes, jpeg.len, false, "");
    struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
    assert_string_equal(sample.why, "");
    assert_int_equal(sample.image.width, packer_kind(2)->width);
    assert_int_equal(sample.image.height, packer_kind(2)->height);
    assert_int_equal(sample.image.orientation, 6);
    check_kept(packer, "text", 4, true, "not an image");
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

static void trying_tells_good_from_bad(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_test_image jpeg = mr_test_jpeg(packer_kind(0));
    struct mr_packed_image file = {.encoding = MR_PACKED_JPEG, .orientation = 1, .len = jpeg.len};
    mr_error error;
    assert_int_equal(mr_packer_try(packer, &file, jpeg.bytes, &error), MR_OK);
    file.len -= 400;
    assert_int_equal(mr_packer_try(packer, &file, jpeg.bytes, &error), MR_ERR_DAMAGED);
    file.len = 0;
    assert_error(mr_packer_try(packer, &file, jpeg.bytes, &error), MR_ERR_DAMAGED, &error, "empty");
    struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
    uint8_t *copy = malloc(sample.image.len + MR_TILE_SLACK);
    assert_non_null(copy);
    memcpy(copy, sample.bytes, sample.image.len + MR_TILE_SLACK);
    assert_int_equal(mr_packer_try(packer, &sample.image, copy, &error), MR_OK);
    copy[1] ^= 0x80; /* the size of the first tile */
    assert_error(mr_packer_try(packer, &sample.image, copy, &error), MR_ERR_DAMAGED, &error,
                 "row 0");
    free(copy);
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jpegs_become_coefficients_with_their_pixels),
        cmocka_unit_test(a_packer_gives_the_same_bytes_whatever_came_before),
        cmocka_unit_test(what_is_no_jpeg_is_kept),
        cmocka_unit_test(files_that_end_early_are_damaged_or_whole),
        cmocka_unit_test(wrong_bits_never_make_other_pixels),
        cmocka_unit_test(a_warning_is_kept_with_its_words),
        cmocka_unit_test(bytes_behind_the_end_do_not_matter),
        cmocka_unit_test(a_progressive_file_without_its_last_scans_is_kept),
        cmocka_unit_test(jpegs_beyond_the_format_are_kept),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(files_as_they_are_have_a_size),
        cmocka_unit_test(trying_tells_good_from_bad),
    };
    mr_error why_not;
    if (mr_packed_selftest_check(&why_not) != MR_OK) {
        printf("%s\n", why_not.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
