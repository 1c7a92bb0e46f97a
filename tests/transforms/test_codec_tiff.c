/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the codec refuses in a TIFF before libtiff takes memory or time for it, and that libtiff
 * prints nothing. libtiff's own messages are not compared, because they change with its versions.
 */
#include "tests/transforms/codec_support.h"
#include "transforms/formats/tiff_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#define DATA_AT 8
#define DATA_BYTES 4096

enum { BYTE = 1, SHORT = 3, LONG = 4 };

struct tag {
    uint16_t number;
    uint16_t type;
    uint32_t n;
    uint32_t value; /* or where the values are */
};

/*
 * A big-endian file: DATA_BYTES from DATA_AT on, then the directory of n tags and up to n_more tags
 * without a meaning.
 */
struct file {
    uint8_t *bytes;
    size_t len;
};

static uint8_t *put(uint8_t *p, uint32_t n_bytes, uint32_t value)
{
    for (uint32_t i = 0; i < n_bytes; i++)
        p[i] = (uint8_t)(value >> 8 * (n_bytes - 1 - i));
    return p + n_bytes;
}

static uint8_t *put_tag(uint8_t *p, const struct tag *tag)
{
    p = put(put(put(p, 2, tag->number), 2, tag->type), 4, tag->n);
    bool small = tag->n == 1 && tag->type != LONG;
    put(p, 4, small ? tag->value << (tag->type == BYTE ? 24 : 16) : tag->value);
    return p + 4;
}

static struct file make_file(const void *data, size_t len, const struct tag *tags, uint32_t n,
                             uint32_t n_more, const struct tag *more)
{
    struct file file = {.len = DATA_AT + DATA_BYTES + 2 + (size_t)(n + n_more) * 12 + 4};
    file.bytes = calloc(1, file.len);
    assert_non_null(file.bytes);
    memcpy(file.bytes, "MM\0*", 4);
    put(file.bytes + 4, 4, DATA_AT + DATA_BYTES);
    if (len > 0)
        memcpy(file.bytes + DATA_AT, data, len);
    uint8_t *p = put(file.bytes + DATA_AT + DATA_BYTES, 2, n + n_more);
    for (uint32_t i = 0; i < n; i++)
        p = put_tag(p, &tags[i]);
    for (uint32_t i = 0; i < n_more; i++) {
        struct tag tag = *more;
        tag.number = (uint16_t)(tag.number + i);
        p = put_tag(p, &tag);
    }
    return file;
}

enum { WIDTH, HEIGHT, BITS, COMPRESSION, COLOURS, OFFSETS, SAMPLES, ROWS, LENGTHS, N_TAGS };

static const struct tag plain[N_TAGS] = {
    [WIDTH] = {256, LONG, 1, 16},     [HEIGHT] = {257, LONG, 1, 16},
    [BITS] = {258, SHORT, 1, 8},      [COMPRESSION] = {259, SHORT, 1, 1},
    [COLOURS] = {262, SHORT, 1, 1},   [OFFSETS] = {273, LONG, 1, DATA_AT},
    [SAMPLES] = {277, SHORT, 1, 1},   [ROWS] = {278, LONG, 1, 262144},
    [LENGTHS] = {279, LONG, 1, 1000},
};

static mr_status decode(struct mr_codec *codec, const struct file *file, mr_error *error)
{
    uint8_t *pixels;
    mr_status status = codec_decode(codec, file->bytes, file->len, NULL, NULL, &pixels, error);
    if (status == MR_OK)
        free(pixels);
    else
        assert_true(strncmp(error->text, "TIFF: ", 6) == 0 ||
                    strstr(error->text, "above the limit"));
    return status;
}

/* text NULL: the message is libtiff's own. */
static void expect_damaged_file(struct mr_codec *codec, struct file file, const char *text)
{
    mr_error error;
    assert_int_equal(decode(codec, &file, &error), MR_ERR_DAMAGED);
    if (text)
        assert_string_equal(error.text, text);
    free(file.bytes);
}

static void directories_are_refused_with_the_reason(void **state)
{
    codec_expect_damaged(*state, "II*\0\10\0\0\0", 8,
                         "TIFF: the directory is beyond the end of the file");
    codec_expect_damaged(*state, "MM\0*\0\0\0\10\0\1", 10,
                         "TIFF: the directory is beyond the end of the file");
    codec_expect_damaged(*state, "MM\0+\0\10\0\0\0\0\0\0", 12, "TIFF: the file ends in its header");
    codec_expect_damaged(*state, "MM\0+\0\10\0\0\0\0\0\0\0\0\0\20", 16,
                         "TIFF: the directory is beyond the end of the file");
    codec_expect_damaged(*state, "MM\0*\0\0\0\10\0\1\1\0\0\3\0\0\0\3\0\0\0\26", 22,
                         "TIFF: tag 256 is beyond the end of the file");
    codec_expect_damaged(*state, "MM\0*\0\0\0\10\0\1\1\0\0\16\0\0\0\1\0\0\0\0", 22,
                         "TIFF: tag 256 has no known type");
}

static void wrong_sizes_are_refused(void **state)
{
    struct tag tags[N_TAGS];
    static const struct {
        int place;
        uint32_t value;
        const char *text;
    } changes[] = {
        {WIDTH, 0, NULL},
        {HEIGHT, 0, NULL},
        {HEIGHT, UINT32_MAX, NULL},
        {WIDTH, UINT32_MAX, NULL},
        {COMPRESSION, 34661, "TIFF: compression 34661 is not supported"},
        {COLOURS, 8, "TIFF: colour space 8 is not supported"},
        {COLOURS, 3, "TIFF: the palette is incomplete"},
        {BITS, 64, "TIFF: a depth of bits 64 is not supported"},
        {SAMPLES, 65535, "TIFF: a number of samples 65535 is not supported"},
        {ROWS, 0, NULL},
        {OFFSETS, UINT32_MAX, NULL},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(tags, plain, sizeof tags);
        tags[COMPRESSION].value = 32773; /* lengths count */
        tags[changes[i].place].value = changes[i].value;
        expect_damaged_file(*state, make_file(NULL, 0, tags, N_TAGS, 0, NULL), changes[i].text);
    }
    memcpy(tags, plain, sizeof tags);
    tags[WIDTH].value = tags[HEIGHT].value = 13400;
    expect_damaged_file(*state, make_file(NULL, 0, tags, N_TAGS, 0, NULL),
                        "13400 x 13400 pixels are above the limit of 178956970");
}

static void tags_cost_no_more_than_the_file(void **state)
{
    static const struct tag word = {40000, SHORT, 1, 1}, large = {40000, BYTE, 2500, DATA_AT};
    mr_error error;
    struct file file = make_file(NULL, 0, plain, N_TAGS, 512 - N_TAGS, &word);
    assert_int_equal(decode(*state, &file, &error), MR_OK);
    free(file.bytes);
    expect_damaged_file(*state, make_file(NULL, 0, plain, N_TAGS, 513 - N_TAGS, &word),
                        "TIFF: 513 tags are above the limit of 512");
    file = make_file(NULL, 0, plain, N_TAGS, 1, &large);
    assert_int_equal(decode(*state, &file, &error), MR_OK);
    free(file.bytes);
    expect_damaged_file(*state, make_file(NULL, 0, plain, N_TAGS, 2, &large),
                        "TIFF: its tags have 5000 bytes, the file only 4242");
}

/*
 * 64 strips of one row each, packed as empty heads only; all of them begin this far from the start.
 */
static struct file make_strips(uint8_t strip_len, uint32_t height)
{
    static const struct tag tags[N_TAGS] = {
        [WIDTH] = {256, LONG, 1, 1},          [HEIGHT] = {257, LONG, 1, 64},
        [BITS] = {258, SHORT, 1, 8},          [COMPRESSION] = {259, SHORT, 1, 32773},
        [COLOURS] = {262, SHORT, 1, 1},       [OFFSETS] = {273, LONG, 64, DATA_AT + 256},
        [SAMPLES] = {277, SHORT, 1, 1},       [ROWS] = {278, LONG, 1, 1},
        [LENGTHS] = {279, BYTE, 64, DATA_AT},
    };
    struct tag copy[N_TAGS];
    memcpy(copy, tags, sizeof copy);
    copy[HEIGHT].value = height;
    uint8_t data[512] = {0};
    memset(data, strip_len, 64);
    struct file file = make_file(data, sizeof data, copy, N_TAGS, 0, NULL);
    memset(file.bytes + 1000, 128, 600);
    /* Drop the data that is not needed. */
    memmove(file.bytes + 1600, file.bytes + DATA_AT + DATA_BYTES, file.len - DATA_AT - DATA_BYTES);
    put(file.bytes + 4, 4, 1600);
    file.len -= DATA_AT + DATA_BYTES - 1600;
    return file;
}

static void strips_that_overlap_much_are_refused(void **state)
{
    struct mr_image_head head;
    mr_error error;
    struct file file = make_strips(255, 64); /* 16320 bytes; 27424 are the limit */
    assert_int_equal(mr_codec_open(*state, file.bytes, file.len, &head, &error), MR_OK);
    mr_codec_close(*state);
    /* Two bytes each: 65280. */
    uint8_t *type = file.bytes + 1600 + 2 + LENGTHS * 12 + 2;
    put(type, 2, SHORT);
    memset(file.bytes + DATA_AT, 3, 128);
    codec_expect_damaged(*state, file.bytes, file.len,
                         "TIFF: its strips or tiles overlap too much");
    /*
     * Plain bytes may overlap, unless their bits are reversed: then libtiff copies a whole strip.
     */
    uint8_t *compression = file.bytes + 1600 + 2 + COMPRESSION * 12,
            *samples = file.bytes + 1600 + 2 + SAMPLES * 12;
    put(compression + 8, 2, 1);
    assert_int_equal(mr_codec_open(*state, file.bytes, file.len, &head, &error), MR_OK);
    mr_codec_close(*state);
    put(samples, 2, 266);
    put(samples + 8, 2, 2);
    codec_expect_damaged(*state, file.bytes, file.len,
                         "TIFF: its strips or tiles overlap too much");
    free(file.bytes);
}

static void pieces_are_counted(void **state)
{
    static const struct tag tags[] = {
        {256, LONG, 1, 13000},   {257, LONG, 1, 13000}, {258, SHORT, 1, 8}, {259, SHORT, 1, 1},
        {262, SHORT, 1, 1},      {277, SHORT, 1, 1},    {322, LONG, 1, 16}, {323, LONG, 1, 16},
        {324, LONG, 1, DATA_AT}, {325, LONG, 1, 256}};
    expect_damaged_file(*state, make_file(NULL, 0, tags, sizeof tags / sizeof *tags, 0, NULL),
                        "TIFF: 660969 strips or tiles are above the limit of 262144");
}

static void a_jpeg_of_several_scans_is_refused(void **state)
{
    static const struct mr_test_jpeg options[] = {
        {.width = 16, .height = 16, .colour = MR_TEST_GREY},
        {.width = 16, .height = 16, .colour = MR_TEST_GREY, .progressive = true},
        {.width = 16, .height = 16, .one_scan_each = true}};
    for (int i = 0; i < 3; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(&options[i]);
        struct tag tags[N_TAGS];
        mr_error error;
        memcpy(tags, plain, sizeof tags);
        tags[COMPRESSION].value = 7;
        tags[LENGTHS].value = (uint32_t)jpeg.len;
        assert_true(jpeg.len <= DATA_BYTES);
        struct file file = make_file(jpeg.bytes, jpeg.len, tags, N_TAGS, 0, NULL);
        mr_status status = decode(*state, &file, &error);
        assert_int_equal(status, i == 0 ? MR_OK : MR_ERR_DAMAGED);
        if (i > 0)
            assert_string_equal(
                error.text, "TIFF: a JPEG of several scans or of wrong markers is not supported");
        free(file.bytes);
        mr_test_image_free(&jpeg);
    }
}

/* libjpeg skips 0xff before a marker, so a frame of several scans could hide after it. */
static void a_jpeg_with_fill_bytes_is_refused(void **state)
{
    (void)state;
    static const uint8_t plain_jpeg[] =
        "\xff\xd8\xff\xc0\0\13\10\0\1\0\1\1\1\21\0\xff\xda\0\10\1\1\0\0\77\0";
    uint8_t filled[65536] = "\xff\xd8\xff\xff\xc2\0\13\10\0\1\0\1\1\1\21\0";
    assert_true(mr_tiff_check_jpeg(plain_jpeg, sizeof plain_jpeg - 1));
    memcpy(filled + 4 + 0xc200, plain_jpeg + 2, sizeof plain_jpeg - 3);
    assert_false(mr_tiff_check_jpeg(filled, sizeof filled));
    static const uint8_t empty[] = "\xff\xd8\xff\xc2\0\13\10\0\1\0\1\1\1\21\0\xff\xda\0\6\0\0\77\0";
    assert_false(mr_tiff_check_jpeg(empty, sizeof empty - 1));
}

/*
 * An xz stream of two blocks of one plain byte, with a check of 4 bytes, in which two filters are
 * before LZMA.
 */
static const uint8_t two_blocks[] = "\3757zXZ\0\0\1\0\0\0\0"
                                    /* both sizes; differences, x86 */
                                    "\4\302\200\200\1\5\3\1\0\4\0\41\1\36\0\0crc4"
                                    "\1\0\0x\0\0\0\0"
                                    "chck"
                                    "\2\0\41\1\36\0\0\0crc4"
                                    "\1\0\0x\0\0\0\0"
                                    "chck"
                                    "\0";

enum {
    FIRST_FILTERS = 18,
    FIRST_SIZE = 25,
    FIRST_CHUNK = 32,
    SECOND_BLOCK = 44,
    SECOND_SIZE = 48,
    XZ_END = 68
};

static bool check_xz_with(size_t at, uint8_t value)
{
    uint8_t *bytes = malloc(XZ_END), reversed[XZ_END]; /* a sanitizer knows its end */
    assert_non_null(bytes);
    memcpy(bytes, two_blocks, XZ_END);
    if (at < XZ_END)
        bytes[at] = value;
    for (size_t i = 0; i < XZ_END; i++) {
        reversed[i] = 0;
        for (int bit = 0; bit < 8; bit++)
            reversed[i] |= (uint8_t)((bytes[i] >> bit & 1) << (7 - bit));
    }
    bool good = mr_tiff_check_xz(bytes, XZ_END, false);
    assert_int_equal(mr_tiff_check_xz(reversed, XZ_END, true), good);
    free(bytes);
    return good;
}

static void dictionaries_of_lzma_are_checked(void **state)
{
    (void)state;
    assert_int_equal(two_blocks[FIRST_SIZE], 30);
    assert_int_equal(two_blocks[SECOND_SIZE], 30);
    assert_true(check_xz_with(XZ_END, 0));
    assert_false(check_xz_with(FIRST_SIZE, 31));
    assert_false(check_xz_with(SECOND_SIZE, 31));
    assert_false(check_xz_with(SECOND_SIZE, 40));
    assert_false(check_xz_with(FIRST_FILTERS, 0xa1));
    assert_false(check_xz_with(FIRST_CHUNK, 3));
    assert_false(check_xz_with(SECOND_BLOCK + 1, 3)); /* four filters in a header of twelve bytes */
}

/* libtiff may have been built without LZMA and zstd. */
static void expect_damaged_here(struct mr_codec *codec, struct file file, const char *text)
{
    mr_error error;
    assert_int_equal(decode(codec, &file, &error), MR_ERR_DAMAGED);
    if (!strstr(error.text, "this build has no libtiff for it"))
        assert_string_equal(error.text, text);
    free(file.bytes);
}

static void large_dictionaries_are_refused(void **state)
{
    static const char text[] = "TIFF: LZMA with a dictionary above 128 MiB is not supported";
    for (int ycc = 0; ycc < 2; ycc++) { /* which libtiff turns into colours */
        struct tag tags[N_TAGS];
        uint8_t bytes[XZ_END];
        memcpy(tags, plain, sizeof tags);
        memcpy(bytes, two_blocks, sizeof bytes);
        bytes[SECOND_SIZE] = 40;
        tags[COMPRESSION].value = 34925;
        tags[LENGTHS].value = sizeof bytes;
        if (ycc) {
            tags[COLOURS].value = 6;
            tags[SAMPLES].value = 3;
        }
        expect_damaged_here(*state, make_file(bytes, sizeof bytes, tags, N_TAGS, 0, NULL), text);
        tags[LENGTHS].value = DATA_BYTES + 1000;
        expect_damaged_here(*state, make_file(bytes, sizeof bytes, tags, N_TAGS, 0, NULL),
                            "TIFF: a strip or tile is beyond the end of the file");
    }
}

#define N_CHANGES 7

static int compare_tags(const void *a, const void *b)
{
    return (int)((const struct tag *)a)->number - (int)((const struct tag *)b)->number;
}

/* The plain file with other values, or with more tags. */
static struct file make_changed(const struct tag *changes)
{
    struct tag tags[N_TAGS + N_CHANGES];
    uint32_t n = N_TAGS, k;
    memcpy(tags, plain, sizeof plain);
    for (const struct tag *change = changes; change < changes + N_CHANGES && change->number != 0;
         change++) {
        for (k = 0; k < N_TAGS && tags[k].number != change->number; k++) {
        }
        tags[k < N_TAGS ? k : n++] = *change;
    }
    qsort(tags, n, sizeof *tags, compare_tags);
    return make_file("\x80", 1, tags, n, 0, NULL);
}

/* clang-format off */
#define WIDE(n) {256, LONG, 1, n}, {257, LONG, 1, n}
#define CHANGE(tag, value) {tag, SHORT, 1, value}
#define PAIR(tag, first, second) {tag, SHORT, 2, (first) << 16 | (second)}
/* clang-format on */

enum {
    BITS_TAG = 258,
    PACKED = 259,
    COLOURS_TAG = 262,
    ORIENTATION = 274,
    N_SAMPLES = 277,
    PLANAR = 284
};

/*
 * Memory that the libraries take in addition to the pixels counts: two rows of fax, windows, strips
 * on their way to colours.
 */
static void memory_besides_the_pixels_counts(void **state)
{
    static const struct {
        struct tag tags[N_CHANGES];
        uint64_t need;
    } cases[] = {
        {{{256, LONG, 1, 60000000}, {257, LONG, 1, 1}, CHANGE(BITS_TAG, 1), CHANGE(PACKED, 4)},
         1147500000},
        {{WIDE(13000), CHANGE(PACKED, 50000), CHANGE(N_SAMPLES, 3), CHANGE(COLOURS_TAG, 2)},
         1148217728},
        {{WIDE(10000), CHANGE(PACKED, 5), CHANGE(N_SAMPLES, 3), CHANGE(COLOURS_TAG, 6)},
         1400000000},
        {{WIDE(13000), CHANGE(PACKED, 5), CHANGE(ORIENTATION, 3)}, 1183000000},
        {{WIDE(13000), CHANGE(PACKED, 5), CHANGE(N_SAMPLES, 3), CHANGE(COLOURS_TAG, 2),
          CHANGE(PLANAR, 2), CHANGE(BITS_TAG, 16)},
         1521000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "decoding needs %llu bytes of memory, above the limit of 1073741824",
                 (unsigned long long)cases[i].need);
        expect_damaged_here(*state, make_changed(cases[i].tags), text);
    }
}

static void limits_bind_libtiff_too(void **state)
{
    (void)state;
    static const struct tag large = {40000, BYTE, 2500, DATA_AT};
    static const struct tag tall[N_CHANGES] = {
        {256, LONG, 1, 1}, {257, LONG, 1, 1000000}, {278, LONG, 1, 1}};
    struct mr_codec_limits limits = {.max_decoder_bytes = 23523};
    struct mr_codec *codec;
    mr_error error;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    expect_damaged_file(codec, make_file(NULL, 0, plain, N_TAGS, 1, &large),
                        "decoding needs 23524 bytes of memory, above the limit of 23523");
    mr_codec_destroy(codec);
    limits.max_decoder_bytes = 7999999;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    struct file file = make_changed(tall); /* a million places of eight bytes */
    assert_int_equal(decode(codec, &file, &error), MR_ERR_DAMAGED);
    assert_null(strstr(error.text, "strips or tiles are above the limit"));
    free(file.bytes);
    mr_codec_destroy(codec);
}

static void arrangements_without_a_meaning_are_refused(void **state)
{
    static const struct {
        struct tag tags[N_CHANGES];
        const char *text;
    } cases[] = {
        {{CHANGE(COLOURS_TAG, 6), CHANGE(N_SAMPLES, 3), CHANGE(PLANAR, 2), PAIR(530, 1, 1)},
         "TIFF: uncompressed YCbCr with fewer colours than pixels is not supported"},
        {{CHANGE(COLOURS_TAG, 6), CHANGE(N_SAMPLES, 3), PAIR(530, 2, 1)},
         "TIFF: uncompressed YCbCr with fewer colours than pixels is not supported"},
        {{CHANGE(COLOURS_TAG, 6), CHANGE(N_SAMPLES, 3), CHANGE(PLANAR, 2), PAIR(530, 1, 1),
          CHANGE(PACKED, 7)},
         "TIFF: a JPEG of these samples is not supported"},
        {{CHANGE(BITS_TAG, 16), CHANGE(PACKED, 7)},
         "TIFF: a JPEG of these samples is not supported"},
        {{CHANGE(COLOURS_TAG, 2), CHANGE(N_SAMPLES, 3), CHANGE(PLANAR, 2), CHANGE(BITS_TAG, 16)},
         "TIFF: 3 samples of 16 bits in colour space 2 are not supported in this arrangement"},
        {{CHANGE(COLOURS_TAG, 2), CHANGE(N_SAMPLES, 5), PAIR(338, 0, 1)},
         "TIFF: 5 samples of 8 bits in colour space 2 are not supported in this arrangement"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_damaged_file(*state, make_changed(cases[i].tags), cases[i].text);
    static const struct tag turned[N_CHANGES] = {CHANGE(ORIENTATION, 9)},
                            zeros[N_CHANGES] = {CHANGE(COLOURS_TAG, 2), CHANGE(N_SAMPLES, 5),
                                                PAIR(338, 0, 0)};
    mr_error error;
    struct file file = make_changed(turned);
    assert_int_equal(decode(*state, &file, &error), MR_OK);
    free(file.bytes);
    file = make_changed(zeros);
    assert_int_equal(decode(*state, &file, &error), MR_OK);
    free(file.bytes);
}

/* libdeflate fails here, and libtiff then accepts the strip. */
static void deflate_longer_than_its_rows_is_unpacked(void **state)
{
    static const struct tag changes[N_CHANGES] = {CHANGE(PACKED, 8)};
    uint8_t *pixels;
    mr_error error;
    struct file file = make_changed(changes);
    memset(file.bytes + DATA_AT, 'x', 307);
    memcpy(file.bytes + DATA_AT, "\x78\1\1\x2c\1\xd3\xfe", 7); /* 300 plain bytes */
    assert_int_equal(codec_decode(*state, file.bytes, file.len, NULL, NULL, &pixels, &error),
                     MR_OK);
    assert_int_equal(pixels[0], 'x');
    assert_int_equal(pixels[16 * 16 * 3 - 1], 'x');
    free(pixels);
    free(file.bytes);
}

/* libjpeg warns, and libtiff accepts the strip. */
static void an_old_jpeg_that_ends_early_is_damaged(void **state)
{
    static const struct mr_test_jpeg options = {.width = 16, .height = 16};
    struct mr_test_image jpeg = mr_test_jpeg(&options);
    assert_true(jpeg.len <= DATA_BYTES);
    const struct tag changes[N_CHANGES] = {CHANGE(COLOURS_TAG, 6),
                                           CHANGE(N_SAMPLES, 3),
                                           CHANGE(PACKED, 6),
                                           {513, LONG, 1, DATA_AT},
                                           {514, LONG, 1, (uint32_t)jpeg.len}};
    for (int cut = 0; cut < 2; cut++) {
        mr_error error;
        struct file file = make_changed(changes);
        memcpy(file.bytes + DATA_AT, jpeg.bytes, jpeg.len);
        if (cut)
            put(file.bytes + DATA_AT + jpeg.len - 12, 2, 0xffd9);
        assert_int_equal(decode(*state, &file, &error), cut ? MR_ERR_DAMAGED : MR_OK);
        free(file.bytes);
    }
    mr_test_image_free(&jpeg);
}

/* Fax, LZW and JPEG of wrong bytes, and unknown tags: libtiff has a message about each. */
static void libtiff_prints_nothing(void **state)
{
    static const uint16_t compressions[] = {2, 3, 4, 5, 6, 7, 8, 34925, 50000};
    static const struct tag unknown = {60000, SHORT, 1, 1};
    int saved = dup(STDERR_FILENO);
    FILE *log = tmpfile();
    assert_true(saved >= 0 && log && dup2(fileno(log), STDERR_FILENO) >= 0);
    int n_good = 0;
    for (size_t i = 0; i < sizeof compressions / sizeof *compressions; i++) {
        struct tag tags[N_TAGS];
        mr_error error;
        memcpy(tags, plain, sizeof tags);
        tags[COMPRESSION].value = compressions[i];
        tags[BITS].value = compressions[i] < 5 ? 1 : 8;
        struct file file = make_file("\xff\x31\x02\x77\x12", 5, tags, N_TAGS, 3, &unknown);
        n_good += decode(*state, &file, &error) == MR_OK;
        free(file.bytes);
    }
    long n_printed = lseek(fileno(log), 0, SEEK_END);
    dup2(saved, STDERR_FILENO);
    close(saved);
    fclose(log);
    assert_int_equal(n_printed, 0);
    assert_int_equal(n_good, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directories_are_refused_with_the_reason),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(tags_cost_no_more_than_the_file),
        cmocka_unit_test(strips_that_overlap_much_are_refused),
        cmocka_unit_test(pieces_are_counted),
        cmocka_unit_test(a_jpeg_of_several_scans_is_refused),
        cmocka_unit_test(a_jpeg_with_fill_bytes_is_refused),
        cmocka_unit_test(dictionaries_of_lzma_are_checked),
        cmocka_unit_test(large_dictionaries_are_refused),
        cmocka_unit_test(memory_besides_the_pixels_counts),
        cmocka_unit_test(limits_bind_libtiff_too),
        cmocka_unit_test(arrangements_without_a_meaning_are_refused),
        cmocka_unit_test(deflate_longer_than_its_rows_is_unpacked),
        cmocka_unit_test(an_old_jpeg_that_ends_early_is_damaged),
        cmocka_unit_test(libtiff_prints_nothing),
    };
    return cmocka_run_group_tests(tests, codec_set_up, codec_tear_down);
}
