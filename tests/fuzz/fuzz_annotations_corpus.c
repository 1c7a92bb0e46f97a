/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations of every format, cut short, and with bytes and pieces exchanged. */
#include "tests/support/corpus.h"

#include <string.h>

#include "dataset/annotations/coco_table.h"

enum { N_CUTS = 60, N_MUTATIONS = 1400, N_MASKS = 5, N_INDEXES = 2 };

static const char *const texts[] = {
    "v<?xml version='1.0'?><annotation><size><width>5</width></size>\n<object><name>dog</name>"
    "<difficult>1</difficult><part><name>head</name></part><bndbox><xmin>1</xmin><ymin>2.5</ymin>"
    "<xmax>30</xmax><ymax>40</ymax></bndbox></object><!-- c --><object><name><![CDATA[cat]]></name>"
    "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object>"
    "</annotation>",
    "v<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>&b;</annotation>",
    "y0 0.5 0.25 0.125 1e-1\r\n\n\t12 .5 +1 0 0\n3 0.1 0.2 0.3 0.4",
    "j{\"info\": {\"a\": [1, {\"images\": []}]},\n\"images\": [{\"id\": 9, \"file_name\": "
    "\"n\\u00e9.jpg\", \"width\": 20, \"height\": 30.0}, {\"file_name\": \"c.jpg\", \"id\": 5, "
    "\"width\": 7, \"height\": 8}],\n\"annotations\": [{\"image_id\": 9, \"category_id\": 7, "
    "\"bbox\": [1.1, 2.2, 3.3, 40], \"area\": 5.5, \"iscrowd\": 1, \"segmentation\": "
    "[[1, 2, {\"bbox\": 3}]]}, {\"image_id\": 5, \"category_id\": 3, \"bbox\": [1, 2, 3, 4]}],\n"
    "\"categories\": [{\"id\": 7, \"name\": \"s\"}, {\"id\": 3, \"name\": \"t\"}]}",
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static const struct mr_test_png masks[N_MASKS] = {
    {.width = 30, .height = 20, .colour_type = 3},
    {.width = 9, .height = 7, .colour_type = 3, .depth = 2, .interlaced = true},
    {.width = 30, .height = 20, .colour_type = 0},
    {.width = 20, .height = 30, .colour_type = 0, .depth = 16, .interlaced = true},
    {.width = 5, .height = 5, .colour_type = 2}, /* not a mask */
};

static void append(struct mr_test_image *seed, const void *bytes, size_t len)
{
    memcpy(seed->bytes + seed->len, bytes, len);
    seed->len += len;
}

/* With categories out of order, the names of all classes below the first would be made. */
static struct mr_test_image make_index(bool is_sorted)
{
    static const char names[] = "a.jpg\0b.jpg\0cat";
    const struct mr_coco_image images[] = {{.id = 3, .width = 4, .height = 5},
                                           {.id = 7, .name = 6, .width = 9, .height = 8}};
    const struct mr_coco_box boxes[] = {{.image = 3, .row = {.x2 = 2, .y2 = 3, .label = 2}},
                                        {.image = 7, .row = {.x2 = 30, .y2 = 3, .label = 2}}};
    const struct mr_coco_category categories[] = {{.id = is_sorted ? 1 : INT64_MAX, .name = 12},
                                                  {.id = 2, .name = 12}};
    struct mr_test_image seed = {.bytes = mr_corpus_room(512)};
    append(&seed, "i\2\2\2", 4);
    append(&seed, images, sizeof images);
    append(&seed, boxes, sizeof boxes);
    append(&seed, categories, sizeof categories);
    append(&seed, names, sizeof names);
    return seed;
}

static struct mr_test_image make_seed(uint32_t i)
{
    if (i < N_INDEXES)
        return make_index(i == 0);
    i -= N_INDEXES;
    struct mr_test_image seed = {NULL, 0};
    if (i < N_TEXTS) {
        seed.bytes = mr_corpus_room(strlen(texts[i]));
        append(&seed, texts[i], strlen(texts[i]));
        return seed;
    }
    struct mr_test_image mask = mr_test_png(&masks[i - N_TEXTS]);
    seed.bytes = mr_corpus_room(mask.len + 1);
    append(&seed, "m", 1);
    append(&seed, mask.bytes, mask.len);
    mr_test_image_free(&mask);
    return seed;
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)i;
    mr_corpus_feed_cuts(seed, N_CUTS);
    for (uint32_t round = 0; round < N_MUTATIONS; round++)
        mr_corpus_feed_mutation(seed, 1, round, random);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {N_INDEXES + N_TEXTS + N_MASKS, make_seed, run_seed};
    return mr_corpus_main(&corpus, argc, argv);
}
