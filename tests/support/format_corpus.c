/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/format_corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <zlib.h>

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "formats.json: %s\n", why);
    abort();
}

static struct mr_test_image decode_base64(const char *text, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct mr_test_image image = {malloc(len + 1), len};
    uint8_t *packed = malloc(strlen(text) + 1);
    uLongf n_out = len;
    size_t n_packed = 0;
    uint32_t word = 0, n_bits = 0;
    if (!image.bytes || !packed)
        give_up("no memory");
    for (; *text && *text != '='; text++) {
        word = word << 6 | (uint32_t)(strchr(digits, *text) - digits);
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        packed[n_packed++] = (uint8_t)(word >> n_bits);
    }
    if (uncompress(image.bytes, &n_out, packed, n_packed) != Z_OK || n_out != len)
        give_up("a file is damaged");
    free(packed);
    return image;
}

static void read_example(json_t *row, struct mr_format_example *example)
{
    const char *name, *file, *crc;
    int len, width, height, orientation;
    if (json_unpack(row, "{s:s,s:s,s:i,s:i,s:i,s:i,s:s}", "name", &name, "file", &file, "len", &len,
                    "width", &width, "height", &height, "orientation", &orientation, "crc",
                    &crc) != 0)
        give_up("an entry is incomplete");
    snprintf(example->name, sizeof example->name, "%s", name);
    example->file = decode_base64(file, (size_t)len);
    example->width = (uint32_t)width;
    example->height = (uint32_t)height;
    example->orientation = (uint32_t)orientation;
    example->crc = (uint32_t)strtoul(crc, NULL, 16);
}

struct mr_format_example *mr_format_corpus_load(size_t *n_out)
{
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/formats.json", 0, &why);
    if (!root)
        give_up(why.text);
    size_t n = json_array_size(root);
    struct mr_format_example *examples = calloc(n, sizeof *examples);
    if (!examples)
        give_up("no memory");
    for (size_t i = 0; i < n; i++)
        read_example(json_array_get(root, i), &examples[i]);
    json_decref(root);
    *n_out = n;
    return examples;
}

void mr_format_corpus_free(struct mr_format_example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mr_test_image_free(&examples[i].file);
    free(examples);
}
