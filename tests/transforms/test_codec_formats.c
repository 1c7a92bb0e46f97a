/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats other than JPEG and PNG: every file of tests/data/formats.json has Pillow's pixels, whole
 * and in parts.
 */
#include "tests/support/format_corpus.h"
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#define N_BOXES 30

static struct mr_format_example *examples;
static size_t n_examples;

static uint8_t *decode_whole(struct mr_codec *codec, const struct mr_format_example *example)
{
    struct mr_image_head head;
    uint8_t *pixels;
    mr_error error;
    if (codec_decode(codec, example->file.bytes, example->file.len, NULL, &head, &pixels, &error) !=
        MR_OK)
        fail_msg("%s: %s", example->name, error.text);
    assert_int_equal(head.width, example->width);
    assert_int_equal(head.height, example->height);
    if (head.orientation != example->orientation)
        fail_msg("%s: orientation %u", example->name, head.orientation);
    return pixels;
}

static void whole_images_are_pillows(void **state)
{
    int n_wrong = 0;
    for (size_t i = 0; i < n_examples; i++) {
        uint8_t *pixels = decode_whole(*state, &examples[i]);
        uint32_t crc = (uint32_t)crc32(0, pixels, examples[i].width * examples[i].height * 3);
        if (crc != examples[i].crc) {
            print_error("%s: other pixels\n", examples[i].name);
            n_wrong++;
        }
        free(pixels);
    }
    assert_int_equal(n_wrong, 0);
}

static void parts_are_those_of_the_whole(void **state)
{
    for (size_t i = 0; i < n_examples; i++) {
        const struct mr_format_example *example = &examples[i];
        uint8_t *whole = decode_whole(*state, example), *pixels;
        mr_error error;
        for (uint32_t k = 0; k < N_BOXES; k++) {
            struct codec_box box = codec_box_at(k, example->width, example->height);
            if (codec_decode(*state, example->file.bytes, example->file.len, &box, NULL, &pixels,
                             &error) != MR_OK)
                fail_msg("%s: %s", example->name, error.text);
            if (!codec_box_equals(whole, example->width, &box, pixels))
                fail_msg("%s: box %u,%u %ux%u differs", example->name, box.x, box.y, box.width,
                         box.height);
            free(pixels);
        }
        free(whole);
    }
}

/* A file that is cut anywhere is damaged with one line, or as good as before. */
static void files_cut_short_are_damaged(void **state)
{
    for (size_t i = 0; i < n_examples; i++) {
        const struct mr_test_image *file = &examples[i].file;
        size_t n_good = 0;
        for (size_t len = 0; len < file->len; len += 1 + file->len / 40) {
            uint8_t *cut = malloc(len + 1), *pixels = NULL;
            mr_error error;
            memcpy(cut, file->bytes, len);
            mr_status status = codec_decode(*state, cut, len, NULL, NULL, &pixels, &error);
            if (status == MR_OK) {
                uint32_t crc =
                    (uint32_t)crc32(0, pixels, examples[i].width * examples[i].height * 3);
                assert_int_equal(crc, examples[i].crc);
                n_good++;
            } else {
                assert_int_equal(status, MR_ERR_DAMAGED);
                assert_null(strchr(error.text, '\n'));
            }
            free(pixels);
            free(cut);
        }
        assert_true(n_good <= 2); /* only bytes after the pixels are missing */
    }
}

/* Files are skipped if this build lacks their library. */
static bool is_left_out(struct mr_codec *codec, const struct mr_format_example *example)
{
    struct mr_image_head head;
    mr_error error;
    if (mr_codec_open(codec, example->file.bytes, example->file.len, &head, &error) != MR_OK)
        return strstr(error.text, "but this build has no ") != NULL;
    mr_codec_close(codec);
    return false;
}

static int load_all(void **state)
{
    size_t n_all;
    examples = mr_format_corpus_load(&n_all);
    *state = codec_make();
    for (size_t i = 0; i < n_all; i++) {
        if (is_left_out(*state, &examples[i]))
            mr_test_image_free(&examples[i].file);
        else
            examples[n_examples++] = examples[i];
    }
    return 0;
}

static int free_all(void **state)
{
    mr_format_corpus_free(examples, n_examples);
    mr_codec_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_images_are_pillows),
        cmocka_unit_test(parts_are_those_of_the_whole),
        cmocka_unit_test(files_cut_short_are_damaged),
    };
    return cmocka_run_group_tests(tests, load_all, free_all);
}
