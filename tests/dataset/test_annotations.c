/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets of annotated images: their order, where the annotations are, and the boxes in them. */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/annotations/box_member.h"
#include "dataset/dataset.h"
#include "dataset/index_place.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

static struct tree tree;

#define VOC "VOCdevkit/VOC2012/"
#define OBJECT(name, x)                                                                            \
    " <object><name>" name "</name><bndbox><xmin>" x                                               \
    "</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object>\n"

static void write_text(const char *name, const char *text)
{
    tree_write(&tree, name, text, strlen(text));
}

static int set_up(void **state)
{
    (void)state;
    tree_create(&tree);
    write_text(VOC "ImageSets/Main/train.txt", "b\n a \nc\n");
    write_text(VOC "ImageSets/Segmentation/val.txt", "c\r\na");
    write_text("bare/ImageSets/Main/train.txt", "x\n");
    write_text("yolo.txt", "a.jpg\n\nb/images/c.png\r\n/x/JPEGImages/images/d.e.jpg\nf\n");
    write_text("x.names", "zero\none\n");
    assert_int_equal(chdir(tree.path), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    tree_destroy(&tree);
    return 0;
}

static const char *member_of(const mr_dataset *dataset, int64_t i)
{
    static char path[MR_CATALOG_PATH];
    struct mr_extent members[MR_MAX_MEMBERS];
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    mr_catalog_members(catalog, i, members);
    assert_true(members[0].len == MR_LEN_UNKNOWN);
    assert_int_equal(mr_catalog_path(catalog, members[0].file, path), 0);
    return path;
}

static void expect_sample(mr_dataset *dataset, int64_t i, const char *image, const char *member)
{
    assert_string_equal(path_of(dataset, i), image);
    assert_string_equal(member_of(dataset, i), member);
    assert_int_equal(label_of(dataset, i), 0);
}

static void expect_class(const mr_dataset *dataset, uint32_t i, const char *name)
{
    assert_string_equal(mr_dataset_class_name(dataset, i), name);
}

static void label_files_have_the_names_that_darknet_gives_them(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("yolo:yolo.txt?names=x.names");
    assert_int_equal(mr_dataset_n_samples(dataset), 4);
    assert_int_equal(mr_dataset_kind(dataset)->boxes, 1);
    assert_int_equal(mr_dataset_annotations(dataset), MR_ANNOTATIONS_DARKNET);
    assert_string_equal(mr_dataset_kind(dataset)->extra[0].name, "boxes");
    expect_sample(dataset, 0, "a.jpg", "a.txt");
    expect_sample(dataset, 1, "b/images/c.png", "b/labels/c.txt");
    expect_sample(dataset, 2, "/x/JPEGImages/images/d.e.jpg", "/x/JPEGImages/labels/d.e.txt");
    expect_sample(dataset, 3, "f", "f.txt");
    expect_class(dataset, 1, "one");
    mr_dataset_destroy(dataset);
    dataset = open_dataset("yolo:yolo.txt?labels=beside&root=bare");
    expect_sample(dataset, 1, "b/images/c.png", "b/images/c.txt");
    expect_sample(dataset, 2, "/x/JPEGImages/images/d.e.jpg", "/x/JPEGImages/images/d.e.txt");
    mr_dataset_destroy(dataset);
}

static void voc_has_the_order_of_its_image_sets(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("voc:.");
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    assert_int_equal(mr_dataset_annotations(dataset), MR_ANNOTATIONS_VOC);
    expect_sample(dataset, 0, "JPEGImages/b.jpg", "Annotations/b.xml");
    expect_sample(dataset, 1, "JPEGImages/a.jpg", "Annotations/a.xml");
    assert_int_equal(mr_dataset_n_classes(dataset), 21);
    expect_class(dataset, 15, "person");
    mr_dataset_destroy(dataset);
    dataset = open_dataset("voc:" VOC "?set=val&task=Segmentation");
    assert_int_equal(mr_dataset_kind(dataset)->boxes, 0);
    assert_int_equal(mr_dataset_annotations(dataset), MR_ANNOTATIONS_MASKS);
    assert_string_equal(mr_dataset_kind(dataset)->extra[0].name, "mask_file");
    expect_sample(dataset, 0, "JPEGImages/c.jpg", "SegmentationClass/c.png");
    expect_sample(dataset, 1, "JPEGImages/a.jpg", "SegmentationClass/a.png");
    mr_dataset_destroy(dataset);
    dataset = open_dataset("voc:bare?names=x.names");
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    mr_dataset_destroy(dataset);
}

static void wrong_keys_and_folders_are_named(void **state)
{
    (void)state;
    expect_open_error("voc:nowhere", MR_ERR_IO, "nowhere/VOCdevkit/VOC2012");
    expect_open_error("voc:.?year=2011", MR_ERR_IO, "./TrainVal/VOCdevkit/VOC2011");
    expect_open_error("voc:.?set=test", MR_ERR_IO, "ImageSets/Main/test.txt");
    expect_open_error("voc:.?set=../x", MR_ERR_INVALID, "set '../x' of voc");
    expect_open_error("voc:.?task=pose", MR_ERR_INVALID, "task 'pose' of voc");
    expect_open_error("yolo:nowhere.txt", MR_ERR_IO, "nowhere.txt");
    expect_open_error("yolo:yolo.txt?labels=x", MR_ERR_INVALID, "labels 'x' of yolo");
    write_text("empty.txt", "\n\n");
    expect_open_error("yolo:empty.txt", MR_ERR_DAMAGED, "empty.txt holds no sample");
}

static struct mr_box_list list;

#ifdef MR_HAVE_YAJL
static mr_dataset *open_coco(const char *images, const char *annotations, const char *categories,
                             const char *keys)
{
    char text[4096], spec[512];
    snprintf(text, sizeof text,
             "{\"info\": {\"a\": [1, {\"images\": []}]},\n\"images\": [%s],\n"
             "\"annotations\": [%s],\n\"categories\": [%s]}",
             images, annotations, categories);
    write_text("c.json", text);
    snprintf(spec, sizeof spec, "coco:.?annotations=c.json&index=none%s", keys);
    return open_dataset(spec);
}

#define IMAGES                                                                                     \
    "{\"id\": 9, \"file_name\": \"i/n\\u00e9.jpg\", \"width\": 20, \"height\": 30.0},"             \
    "{\"id\": 2, \"file_name\": \"b.jpg\"}, {\"file_name\": \"c.jpg\", \"id\": 5}"
#define BOX(image, label, box, more)                                                               \
    "{\"image_id\": " image ", \"category_id\": " label ", \"bbox\": " box more                    \
    ", \"segmentation\": [[1, 2.5, {\"bbox\": 3}]]}"
#define BOXES                                                                                      \
    BOX("9", "7", "[1.1, 2.2, 3.3, 40]", ", \"area\": 5.5")                                        \
    "," BOX("2", "3", "[0, 0, 1, 9]", "") "," BOX(                                                 \
        "9", "3", "[5, 6, 7, 8]", ", \"iscrowd\": 1") "," BOX("77", "3", "[5, 6, 7, 8]", "")
#define CATEGORIES "{\"id\": 7, \"name\": \"seven\"}, {\"id\": 3, \"name\": \"three\"}"

static void read_rows(const mr_dataset *dataset, int64_t i)
{
    mr_error error = {0};
    struct mr_extent members[MR_MAX_MEMBERS];
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    mr_catalog_members(catalog, i, members);
    const uint8_t *bytes = mr_catalog_memory(catalog, &members[0]);
    assert_non_null(bytes);
    assert_ok(mr_box_member_read(catalog, i, bytes, (size_t)members[0].len, &list, &error), &error);
}

static void expect_row(uint32_t i, float x1, float y1, float x2, float y2, int64_t label);

static void coco_has_the_boxes_of_torchvision(void **state)
{
    (void)state;
    mr_dataset *dataset = open_coco(IMAGES, BOXES, CATEGORIES, "");
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    assert_int_equal(mr_dataset_annotations(dataset), MR_ANNOTATIONS_COCO);
    assert_string_equal(path_of(dataset, 2), "i/n\xc3\xa9.jpg");
    assert_int_equal(label_of(dataset, 2), 9);
    read_rows(dataset, 2);
    assert_int_equal(list.n, 2);
    expect_row(0, 1.1f, 2.2f, 1.1f + 3.3f, 2.2f + 40, 7);
    assert_true(list.rows[0].area == 5.5f && list.rows[0].is_crowd == 0);
    expect_row(1, 5, 6, 12, 14, 3);
    assert_true(list.rows[1].area == 56 && list.rows[1].is_crowd == 1);
    read_rows(dataset, 1);
    assert_int_equal(list.n, 0);
    assert_int_equal(mr_dataset_n_classes(dataset), 8);
    expect_class(dataset, 0, "__background__");
    expect_class(dataset, 4, "N/A");
    expect_class(dataset, 7, "seven");
    mr_dataset_destroy(dataset);
}

static void keys_of_coco_choose_boxes_and_images(void **state)
{
    (void)state;
    mr_dataset *dataset =
        open_coco(IMAGES, BOXES, CATEGORIES, "&labels=dense&crowd=drop&empty=drop");
    assert_int_equal(mr_dataset_n_samples(dataset), 1);
    read_rows(dataset, 0);
    assert_int_equal(list.n, 1);
    expect_row(0, 1.1f, 2.2f, 1.1f + 3.3f, 2.2f + 40, 1);
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    expect_class(dataset, 1, "seven");
    mr_dataset_destroy(dataset);
    dataset = open_coco(IMAGES, BOXES, CATEGORIES, "&coco_reference=train");
    assert_int_equal(mr_dataset_n_samples(dataset), 1);
    read_rows(dataset, 0);
    assert_int_equal(list.n, 1);
    expect_row(0, 1.1f, 2.2f, 1.1f + 3.3f, 30, 7);
    mr_dataset_destroy(dataset);
}

static void null_is_a_field_that_is_missing(void **state)
{
    (void)state;
    mr_dataset *dataset = open_coco(
        "{\"id\": 9, \"file_name\": \"a.jpg\", \"width\": null}",
        BOX("9", "7", "[1, 2, 3, 4]", ", \"id\": null, \"area\": 5, \"area\": null") "," BOX(
            "9", "7", "[1, 2, 3, 5]", ", \"iscrowd\": 1, \"iscrowd\": null"),
        CATEGORIES, "");
    read_rows(dataset, 0);
    assert_int_equal(list.n, 2);
    assert_true(list.rows[0].area == 12 && list.rows[1].area == 15);
    assert_int_equal(list.rows[1].is_crowd, 0);
    mr_dataset_destroy(dataset);
}

/* As in pycocotools; ids that are no integers tell nothing. */
static void boxes_with_one_id_are_the_last_of_them(void **state)
{
    (void)state;
    static const char one[] = ", \"id\": 1", two[] = ", \"id\": 2", text[] = ", \"id\": \"1\"";
    char boxes[1024];
    snprintf(boxes, sizeof boxes, "%s%s},%s%s},%s%s},%s%s},%s%s},%s%s}",
             "{\"image_id\": 9, \"category_id\": 3, \"bbox\": [1, 1, 1, 1]", two,
             "{\"image_id\": 2, \"category_id\": 3, \"bbox\": [2, 2, 2, 2]", one,
             "{\"image_id\": 9, \"category_id\": 3, \"bbox\": [3, 3, 3, 3]", one,
             "{\"image_id\": 9, \"category_id\": 3, \"bbox\": [4, 4, 4, 4]", text,
             "{\"image_id\": 9, \"category_id\": 7, \"bbox\": [5, 5, 5, 5]", one,
             "{\"image_id\": 9, \"category_id\": 7, \"bbox\": [6, 6, 6, 6]", ", \"id\": 1.5");
    mr_dataset *dataset = open_coco(IMAGES, boxes, CATEGORIES, "");
    read_rows(dataset, 0);
    assert_int_equal(list.n, 1);
    expect_row(0, 5, 5, 10, 10, 7);
    read_rows(dataset, 2);
    assert_int_equal(list.n, 5);
    expect_row(0, 1, 1, 2, 2, 3);
    expect_row(1, 5, 5, 10, 10, 7);
    expect_row(2, 4, 4, 8, 8, 3);
    expect_row(3, 5, 5, 10, 10, 7);
    expect_row(4, 6, 6, 12, 12, 7);
    mr_dataset_destroy(dataset);
}

static void expect_coco_error(const char *text, const char *words)
{
    write_text("bad.json", text);
    expect_open_error("coco:.?annotations=bad.json&index=none", MR_ERR_DAMAGED, words);
}

static void damaged_json_is_named_with_line_and_byte(void **state)
{
    (void)state;
    expect_coco_error("{\n \"images\": [\n{\"id\": 1]", "bad.json, line 3, byte ");
    expect_coco_error("{\n \"images\": [}", "line 2, byte ");
    expect_coco_error("", "byte 0");
    expect_coco_error("[]", "the file is an array");
    expect_coco_error("{\"images\": [], \"annotations\": 3}", "annotations is a number");
    expect_coco_error("{\"images\": []}", "bad.json has no array 'annotations'");
    expect_coco_error("{\"images\": [], \"images\": []}", "images is there twice");
    expect_coco_error("{\"images\": [{\"id\": 1}]}", "file_name is missing");
    expect_coco_error("{\"images\": [{\"id\": 1.5}]}", "id is a number of the wrong kind");
    expect_coco_error("{\"images\": [{\"id\": 9223372036854775808}]}", "id is a number");
    expect_coco_error("{\"images\": [{\"id\": {}}]}", "id is an object");
    expect_coco_error("{\"images\": [{\"file_name\": \"a\\u0000\"}]}", "has a zero byte");
    expect_coco_error("{\"annotations\": [{\"bbox\": [1, 2, 3]}]}", "bbox has not four numbers");
    expect_coco_error("{\"annotations\": [{\"bbox\": [1, 2, 3, 4, 5]}]}", "a number too many");
    expect_coco_error("{\"annotations\": [{\"bbox\": [1e99]}]}", "beyond float32");
    expect_coco_error("{\"annotations\": [{\"bbox\": null}]}", "bbox is null");
    expect_coco_error("{\"annotations\": [{\"bbox\": [null]}]}", "bbox is null");
    expect_coco_error("{\"annotations\": [{\"iscrowd\": true}]}", "iscrowd is true or false");
    expect_coco_error("{\"annotations\": null}", "annotations is null");
    expect_coco_error("{\"images\": [], \"annotations\": []}", "bad.json holds no sample");
    expect_open_error("coco:.", MR_ERR_INVALID, "coco needs the key annotations");
    expect_open_error("coco:.?masks=1", MR_ERR_UNSUPPORTED, "masks of coco are not offered yet");
    expect_open_error("coco:.?annotations=a&coco_reference=train&crowd=drop", MR_ERR_INVALID,
                      "coco_reference of coco states");
    expect_open_error("coco:.?annotations=nowhere", MR_ERR_IO, "nowhere");
}

/* The index of a file is used while the file keeps its size and time, and never trusted. */
static void an_index_of_coco_is_kept(void **state)
{
    (void)state;
    static const char text[] = "{\"images\": [{\"id\": 5, \"file_name\": \"a.jpg\"}],"
                               "\"annotations\": [" BOX("5", "1", "[1, 2, 3, 4]", "") "]}";
    static const char spec[] = "coco:.?annotations=kept/c.json&index=beside";
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    char other[sizeof text];
    glob_t found;
    for (int i = 0; i < 4; i++) {
        memcpy(other, text, sizeof text);
        if (i > 0) /* same size and time: what the index says counts, until it is damaged */
            memset(strstr(other, "\"id\": 5") + 6, '6', 1);
        tree_write(&tree, "kept/c.json", other, strlen(other));
        assert_int_equal(utimensat(AT_FDCWD, "kept/c.json", times, 0), 0);
        mr_dataset *dataset = open_dataset(spec);
        assert_int_equal(label_of(dataset, 0), i < 3 ? 5 : 6);
        mr_dataset_destroy(dataset);
        assert_int_equal(glob("kept/.c.json.*.millrace", 0, NULL, &found), 0);
        assert_int_equal(found.gl_pathc, 1);
        if (i == 2) {
            FILE *file = fopen(found.gl_pathv[0], "r+b");
            assert_non_null(file);
            assert_int_equal(fseek(file, 120, SEEK_SET), 0);
            assert_int_equal(putc(0xff, file), 0xff);
            assert_int_equal(fclose(file), 0);
        }
        globfree(&found);
    }
}
#endif

static bool take_any(void *user, const uint8_t *bytes, size_t len)
{
    (void)bytes, (void)len;
    *(bool *)user = true;
    return true;
}

static void a_longer_index_than_is_read_is_not_saved(void **state)
{
    (void)state;
    const size_t len = MR_INDEX_MAX_BYTES + 1;
    void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct mr_bytes file = {.data = map, .len = len};
    struct mr_index_place_key key = {MR_INDEX_BESIDE, AT_FDCWD, "long/c.json", "coco"};
    glob_t found;
    bool taken = false;
    assert_true(map != MAP_FAILED);
    write_text("long/c.json", "{}");
    mr_index_place_save(&key, &file);
    assert_int_equal(glob("long/.c.json.*", 0, NULL, &found), GLOB_NOMATCH);
    file.len = 100;
    mr_index_place_save(&key, &file);
    assert_true(mr_index_place_load(&key, take_any, &taken) && taken);
    assert_int_equal(glob("long/.c.json.*", 0, NULL, &found), 0);
    assert_int_equal(truncate(found.gl_pathv[0], (off_t)len), 0);
    taken = false;
    assert_false(mr_index_place_load(&key, take_any, &taken) || taken);
    globfree(&found);
    munmap(map, len);
}

static mr_status read_boxes(const mr_dataset *dataset, const char *text, size_t len,
                            mr_error *error)
{
    return mr_box_member_read(mr_dataset_catalog(dataset), 1, (const uint8_t *)text, len, &list,
                              error);
}

static void expect_boxes(const mr_dataset *dataset, const char *text, uint32_t n)
{
    mr_error error = {0};
    assert_ok(read_boxes(dataset, text, strlen(text), &error), &error);
    assert_int_equal(list.n, n);
}

static void expect_damage(const mr_dataset *dataset, const char *text, const char *words)
{
    mr_error error = {0};
    assert_error(read_boxes(dataset, text, strlen(text), &error), MR_ERR_DAMAGED, &error, words);
}

static void expect_row(uint32_t i, float x1, float y1, float x2, float y2, int64_t label)
{
    const struct mr_box_row *row = &list.rows[i];
    if (row->x1 != x1 || row->y1 != y1 || row->x2 != x2 || row->y2 != y2 || row->label != label)
        fail_msg("row %u is %g %g %g %g, %lld", i, (double)row->x1, (double)row->y1,
                 (double)row->x2, (double)row->y2, (long long)row->label);
}

static void lines_of_darknet_become_relative_boxes(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("yolo:yolo.txt?names=x.names");
    expect_boxes(dataset, "", 0);
    expect_boxes(dataset, "\n \r\n", 0);
    expect_boxes(dataset, "1 0.5 0.25 0.125 1e-1\r\n\n\t0 .5 +1 0 0", 2);
    assert_int_equal(list.is_relative, 1);
    expect_row(0, 0.5f, 0.25f, 0.125f, 0.1f, 1);
    expect_row(1, 0.5f, 1, 0, 0, 0);
    expect_damage(dataset, "0 1 1 1 1\n0 1 1 1\n", "b/labels/c.txt (index 1), line 2: '0 1 1 1'");
    static const char *const wrong[] = {"-1 1 1 1 1",   "x 1 1 1 1",   "0 1 1 1 1 1",
                                        "0 1 1 -1 1",   "0 1 1 1 -1",  "0 nan 1 1 1",
                                        "0 1e99 1 1 1", "0.5 1 1 1 1", "0 1,5 1 1 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_damage(dataset, wrong[i], "line 1: ");
    expect_damage(dataset, "2 1 1 1 1", "line 1: class 2 is not below 2");
    mr_dataset_destroy(dataset);
}

static void rows_are_read_as_they_are(void **state)
{
    (void)state;
    struct mr_box_row rows[2] = {{1, 2, 3, 4, 5, 1, -7}, {.label = INT64_MAX}};
    char bytes[MR_BOX_ROWS_HEAD + sizeof rows] = MR_BOX_ROWS_MAGIC;
    mr_error error = {0};
    mr_dataset *dataset = open_dataset("yolo:yolo.txt");
    memcpy(bytes + MR_BOX_ROWS_HEAD, rows, sizeof rows);
    assert_ok(read_boxes(dataset, bytes, sizeof bytes, &error), &error);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.is_relative, 0);
    assert_memory_equal(list.rows, rows, sizeof rows);
    assert_error(read_boxes(dataset, bytes, sizeof bytes - 1, &error), MR_ERR_DAMAGED, &error,
                 "b/labels/c.txt (index 1): 63 bytes are not rows of 32");
    assert_ok(read_boxes(dataset, bytes, MR_BOX_ROWS_HEAD, &error), &error);
    assert_int_equal(list.n, 0);
    mr_dataset_destroy(dataset);
}

#ifdef MR_HAVE_EXPAT
static void objects_of_voc_become_boxes(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("voc:.");
    expect_boxes(dataset, "<annotation/>", 0);
    expect_boxes(
        dataset,
        "<?xml version='1.0'?><annotation><folder>VOC2012</folder>\n"
        " <size><width>500</width></size>" OBJECT("dog", "1") OBJECT(
            " person\n",
            "7.5") "<object><name>bird</name><difficult>1</difficult>"
                   "<part><name>head</name><bndbox><xmin>9</xmin></bndbox></part>"
                   "<bndbox><ymax>4</ymax><xmax>3</xmax><ymin>2</ymin><xmin>1</xmin></bndbox>"
                   "</object></annotation>",
        3);
    assert_int_equal(list.is_relative, 0);
    expect_row(0, 1, 2, 30, 40, 12);
    expect_row(1, 7.5f, 2, 30, 40, 15);
    expect_row(2, 1, 2, 3, 4, 3);
    assert_true(list.rows[0].area == 29 * 38);
    assert_int_equal(list.rows[0].is_crowd, 0);
    assert_int_equal(list.rows[2].is_crowd, 1);
    mr_dataset_destroy(dataset);
}

/* In a kind that does not say what its boxes are. */
static void xml_may_follow_a_byte_order_mark_or_white_space(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("yolo:yolo.txt?names=x.names");
    expect_boxes(dataset, "\xef\xbb\xbf<annotation>" OBJECT("one", "1") "</annotation>", 1);
    expect_row(0, 1, 2, 30, 40, 1);
    expect_boxes(dataset, " \r\n\t<annotation/>", 0);
    expect_boxes(dataset, "", 0);
    expect_boxes(dataset, " \n", 0);
    mr_dataset_destroy(dataset);
}

static void damaged_xml_is_named_with_its_line(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("voc:.");
    expect_damage(dataset, "<annotation>\n\n" OBJECT("cow", "1"),
                  "Annotations/a.xml (index 1), line 4: no element found");
    expect_damage(dataset, "<annotation>\n" OBJECT("unicorn", "1") "</annotation>",
                  "line 2: <name> is 'unicorn', which is no class of the dataset");
    expect_damage(dataset, "<annotation>\n" OBJECT("cow", "0x1") "</annotation>",
                  "line 2: <xmin> is '0x1', which is no number");
    expect_damage(dataset, "<annotation>\n" OBJECT("cow", "") "</annotation>", "<xmin> is ''");
    expect_damage(dataset, "<annotation>\n<object><name>cow</name></object></annotation>",
                  "line 2: the object lacks its name or a side");
    expect_damage(dataset, "<annotation>\n<object/></annotation>", "line 2: the object lacks");
    expect_damage(dataset, "", "line 1: no element found");
    expect_damage(dataset, "<html><annotation/></html>", "it has no <annotation>");
    expect_damage(dataset, "<!DOCTYPE a [<!ENTITY b 'cc'>]>\n<annotation>&b;</annotation>",
                  "line 1: it has a document type declaration");
    mr_dataset_destroy(dataset);
}
#else
static void xml_is_refused(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset("voc:.");
    expect_damage(dataset, "<annotation/>", "XML, but this build has no expat");
    mr_dataset_destroy(dataset);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(label_files_have_the_names_that_darknet_gives_them),
        cmocka_unit_test(voc_has_the_order_of_its_image_sets),
        cmocka_unit_test(wrong_keys_and_folders_are_named),
#ifdef MR_HAVE_YAJL
        cmocka_unit_test(coco_has_the_boxes_of_torchvision),
        cmocka_unit_test(keys_of_coco_choose_boxes_and_images),
        cmocka_unit_test(null_is_a_field_that_is_missing),
        cmocka_unit_test(boxes_with_one_id_are_the_last_of_them),
        cmocka_unit_test(damaged_json_is_named_with_line_and_byte),
        cmocka_unit_test(an_index_of_coco_is_kept),
#endif
        cmocka_unit_test(a_longer_index_than_is_read_is_not_saved),
        cmocka_unit_test(lines_of_darknet_become_relative_boxes),
        cmocka_unit_test(rows_are_read_as_they_are),
#ifdef MR_HAVE_EXPAT
        cmocka_unit_test(objects_of_voc_become_boxes),
        cmocka_unit_test(xml_may_follow_a_byte_order_mark_or_white_space),
        cmocka_unit_test(damaged_xml_is_named_with_its_line),
#else
        cmocka_unit_test(xml_is_refused),
#endif
    };
    int n_failed = cmocka_run_group_tests(tests, set_up, tear_down);
    mr_box_list_fini(&list);
    return n_failed;
}
