/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutated annotations: each gives boxes or one line of damage. Built with sanitizers, this finds
 * reads outside the bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/annotations/box_member.h"
#include "dataset/dataset.h"
#include "tests/dataset/tree.h"

enum { N_MUTATED = 1000, ROOM = 4096 };

static const char voc[] =
    "<?xml version='1.0'?><annotation><size><width>5</width></size>\n<object><name>dog</name>"
    "<difficult>1</difficult><part><name>head</name></part><bndbox><xmin>1</xmin><ymin>2.5</ymin>"
    "<xmax>30</xmax><ymax>40</ymax></bndbox></object><!-- c --><object><name><![CDATA[cat]]></name>"
    "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object>"
    "</annotation>";
static const char yolo[] = "0 0.5 0.25 0.125 1e-1\r\n\n\t12 .5 +1 0 0\n3 0.1 0.2 0.3 0.4";
static const char coco[] =
    "{\"info\": {\"a\": [1, {\"images\": []}]},\n\"images\": [{\"id\": 9, \"file_name\": "
    "\"n\\u00e9.jpg\", \"width\": 20, \"height\": 30.0}, {\"file_name\": \"c.jpg\", \"id\": 5}],\n"
    "\"annotations\": [{\"image_id\": 9, \"category_id\": 7, \"bbox\": [1.1, 2.2, 3.3, 40], "
    "\"area\": 5.5, \"iscrowd\": 1, \"segmentation\": [[1, 2, {\"bbox\": 3}]]}, {\"image_id\": 5, "
    "\"category_id\": 3, \"bbox\": [1, 2, 3, 4]}],\n\"categories\": [{\"id\": 7, \"name\": \"s\"}, "
    "{\"id\": 3, \"name\": \"t\"}]}";

static struct tree tree;
static struct mr_box_list list;
static uint64_t state_of_draws = 88172645463325252u; /* xorshift64 */

static uint32_t draw(uint32_t n)
{
    state_of_draws ^= state_of_draws << 13;
    state_of_draws ^= state_of_draws >> 7;
    state_of_draws ^= state_of_draws << 17;
    return (uint32_t)(state_of_draws >> 32) % n;
}

static size_t insert(char text[ROOM], size_t len, const char *piece, size_t n)
{
    size_t at = draw((uint32_t)len + 1);
    if (len + n > ROOM)
        return len;
    memmove(text + at + n, text + at, len - at);
    memcpy(text + at, piece, n);
    return len + n;
}

static size_t mutate_once(char text[ROOM], size_t len)
{
    static const char *const words[] = {"<",   "</object>", "[",        "{",
                                        "\"",  "1e99",      "-1",       "<!DOCTYPE a>",
                                        "7",   " ",         "<object>", "999999999999999999999",
                                        "null"};
    const char *word = words[draw(sizeof words / sizeof *words)];
    char piece[64];
    size_t at = draw((uint32_t)len + 1), n = draw(sizeof piece);
    if (n > len - at)
        n = len - at;
    memcpy(piece, text + at, n);
    switch (draw(4)) {
    case 0: return insert(text, len, word, strlen(word));
    case 1: return insert(text, len, piece, n);
    case 2: memmove(text + at, text + at + n, len - at - n); return len - n;
    default:
        if (at < len)
            text[at] = (char)draw(256);
        return len;
    }
}

static char *mutate(const char *text, size_t *len_out)
{
    char room[ROOM];
    size_t len = strlen(text);
    memcpy(room, text, len);
    for (uint32_t n = 1 + draw(4); n > 0; n--)
        len = mutate_once(room, len);
    char *bytes = malloc(len + !len); /* of this length, so that sanitizers see its end */
    assert_non_null(bytes);
    memcpy(bytes, room, len);
    *len_out = len;
    return bytes;
}

static void expect_line(mr_status status, const mr_error *error)
{
    if (status == MR_OK)
        return;
    assert_int_equal(status, MR_ERR_DAMAGED);
    assert_null(strchr(error->text, '\n'));
    assert_true(strlen(error->text) > 0);
}

static void read_mutated(const char *spec, const char *text)
{
    mr_dataset *dataset = open_dataset(spec);
    for (int i = 0; i < N_MUTATED; i++) {
        mr_error error = {0};
        size_t len;
        char *bytes = mutate(text, &len);
        expect_line(mr_box_member_read(mr_dataset_catalog(dataset), 0, (const uint8_t *)bytes, len,
                                       &list, &error),
                    &error);
        free(bytes);
    }
    mr_dataset_destroy(dataset);
}

static void mutated_xml_and_lines_give_boxes_or_one_line(void **state)
{
    (void)state;
    tree_write(&tree, "v/ImageSets/Main/train.txt", "a\n", 2);
    tree_write(&tree, "list.txt", "a.jpg\n", 6);
    read_mutated(tree_spec(&tree, "voc", "v"), voc);
    read_mutated(tree_spec(&tree, "yolo", "list.txt"), yolo);
}

#ifdef MR_HAVE_YAJL
static void read_rows(const mr_dataset *dataset)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    for (int64_t i = 0; i < mr_dataset_n_samples(dataset); i++) {
        struct mr_extent members[MR_MAX_MEMBERS];
        mr_catalog_members(catalog, i, members);
        assert_int_equal(mr_box_member_read(catalog, i, mr_catalog_memory(catalog, members),
                                            (size_t)members[0].len, &list, NULL),
                         MR_OK);
    }
}

static void mutated_json_opens_or_gives_one_line(void **state)
{
    (void)state;
    static const char *const keys[] = {"", "&labels=dense", "&coco_reference=train",
                                       "&empty=drop&crowd=drop"};
    char spec[2 * PATH_MAX];
    for (int i = 0; i < N_MUTATED; i++) {
        mr_error error = {0};
        mr_dataset *dataset;
        size_t len;
        char *bytes = mutate(coco, &len);
        tree_write(&tree, "c.json", bytes, len);
        free(bytes);
        snprintf(spec, sizeof spec, "coco:%s?annotations=%s/c.json&index=none%s", tree.path,
                 tree.path, keys[draw(4)]);
        mr_status status = mr_dataset_open(spec, NULL, &dataset, &error);
        expect_line(status, &error);
        if (status == MR_OK)
            read_rows(dataset);
        mr_dataset_destroy(dataset);
    }
}
#endif

static int set_up(void **state)
{
    (void)state;
    tree_create(&tree);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_box_list_fini(&list);
    tree_destroy(&tree);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_xml_and_lines_give_boxes_or_one_line),
#ifdef MR_HAVE_YAJL
        cmocka_unit_test(mutated_json_opens_or_gives_one_line),
#endif
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
