/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of docs/detection.md, run on generated photographs, which are also laid out as VOC
 * and COCO are: detection makes targets of the boxes, segmentation learns masks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

enum { N_IMAGES = 200, N_BATCHES = 4, SIDE = 160, SIZE = 8000 };

static char *folder, *voc;

static void write_image(int i)
{
    char name[40];
    struct mr_test_image image = mr_test_png(&(struct mr_test_png){
        .width = SIDE, .height = SIDE, .seed = (uint32_t)i, .colour_type = 3, .depth = 2});

    snprintf(name, sizeof name, "a/%03d.png", i);
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

/* Two boxes of different classes, at whole pixels. Their centres are so far apart that they are in
 * two cells. */
static void write_labels(int i, const char *further)
{
    char name[40], text[200];
    int len =
        snprintf(text, sizeof text, "0 0.25 0.25 0.25 0.375\n1 0.75 0.75 0.375 0.25\n%s", further);

    snprintf(name, sizeof name, "a/%03d.txt", i);
    mr_test_folder_write(folder, name, text, (uint64_t)len);
}

static void link_to(const char *target, const char *name)
{
    char path[1000];

    snprintf(path, sizeof path, "%s/%s", voc, name);
    assert_int_equal(symlink(target, path), 0);
}

static void write_xml(int i)
{
    static const char xml[] =
        "<annotation><object><name>cat</name><bndbox><xmin>20</xmin><ymin>10</ymin><xmax>60</xmax>"
        "<ymax>70</ymax></bndbox></object><object><name>dog</name><bndbox><xmin>90</xmin><ymin>100"
        "</ymin><xmax>150</xmax><ymax>140</ymax></bndbox></object></annotation>";
    char name[40], target[1000];

    snprintf(name, sizeof name, "Annotations/%03d.xml", i);
    mr_test_folder_write(voc, name, xml, strlen(xml));
    snprintf(target, sizeof target, "%s/a/%03d.png", folder, i);
    snprintf(name, sizeof name, "JPEGImages/%03d.jpg", i);
    link_to(target, name);
}

/* The same images, boxes and masks as in VOC and COCO. */
static void lay_out(void)
{
    static const char *const folders[] = {"Annotations", "JPEGImages", "ImageSets",
                                          "ImageSets/Main", "ImageSets/Segmentation"};
    static char set[8 * N_IMAGES], json[300 * N_IMAGES];
    char path[1000];
    int n = 0, len = snprintf(json, sizeof json, "{\"images\":[");

    voc = mr_test_folder_create();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", voc, folders[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    snprintf(path, sizeof path, "%s/a", folder);
    link_to(path, "SegmentationClass");
    for (int i = 0; i < N_IMAGES; i++) {
        write_xml(i);
        n += snprintf(set + n, sizeof set - (size_t)n, "%03d\n", i);
        len += snprintf(json + len, sizeof json - (size_t)len,
                        "%s{\"id\":%d,\"file_name\":\"%03d.png\"}", i ? "," : "", i, i);
    }
    len += snprintf(json + len, sizeof json - (size_t)len, "],\"annotations\":[");
    for (int i = 0; i < N_IMAGES; i++)
        len += snprintf(json + len, sizeof json - (size_t)len,
                        "%s{\"image_id\":%d,\"category_id\":1,\"bbox\":[20,10,40,60]},"
                        "{\"image_id\":%d,\"category_id\":2,\"bbox\":[90,100,60,40]}",
                        i ? "," : "", i, i);
    snprintf(json + len, sizeof json - (size_t)len, "]}");
    mr_test_folder_write(voc, "ImageSets/Main/train.txt", set, (uint64_t)n);
    mr_test_folder_write(voc, "ImageSets/Segmentation/train.txt", set, (uint64_t)n);
    mr_test_folder_write(folder, "boxes.json", json, strlen(json));
}

static int make_dataset(void **state)
{
    char list[20 * N_IMAGES], path[1000];
    int len = 0;

    (void)state;
    folder = mr_test_folder_create();
    snprintf(path, sizeof path, "%s/a", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    for (int i = 0; i < N_IMAGES; i++) {
        write_image(i);
        write_labels(i, "");
        len += snprintf(list + len, sizeof list - (size_t)len, "a/%03d.png\n", i);
    }
    mr_test_folder_write(folder, "train.txt", list, (uint64_t)len);
    lay_out();
    return 0;
}

/* Returns the program's exit status; its output and errors are in text. */
static int run_program(const char *program, const char *spec, char *text)
{
    char command[3000];

    snprintf(command, sizeof command, "'%s' '%s' 2>&1", program, spec);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(text, 1, SIZE - 1, pipe);
    text[len] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    assert_non_null(end);
    return end + 1;
}

static void detection_has_a_cell_for_each_box(void **state)
{
    char spec[1000], text[SIZE];
    int n_images, n_boxes, n_cells, all_images = 0, all_boxes = 0;

    (void)state;
    snprintf(spec, sizeof spec, "yolo:%s/train.txt?root=%s", folder, folder);
    if (run_program(MR_TEST_DETECTION, spec, text) != 0)
        fail_msg("it prints \"%s\"", text);
    for (const char *line = text; *line; line = next_line(line)) {
        if (sscanf(line, "%d images, %d boxes, %d cells", &n_images, &n_boxes, &n_cells) != 3)
            fail_msg("it prints \"%s\"", text);
        assert_true(n_boxes <= 2 * n_images);
        assert_true(n_cells <= n_boxes && n_cells > n_boxes * 9 / 10); /* few share one */
        all_images += n_images;
        all_boxes += n_boxes;
    }
    assert_int_equal(all_images, N_IMAGES);
    assert_true(all_boxes > N_IMAGES && all_boxes < 2 * N_IMAGES); /* some are cut off */
}

static void detection_takes_the_same_boxes_from_voc_and_coco(void **state)
{
    static char text[SIZE], same[SIZE];
    char specs[3][2000];

    (void)state;
    snprintf(specs[0], sizeof specs[0], "yolo:%s/train.txt?root=%s", folder, folder);
    snprintf(specs[1], sizeof specs[1], "voc:%s?set=train&task=detection", voc);
    snprintf(specs[2], sizeof specs[2], "coco:%s/a?annotations=%s/boxes.json&index=none", folder,
             folder);
    assert_int_equal(run_program(MR_TEST_DETECTION, specs[0], text), 0);
    for (int i = MR_TEST_HAS_EXPAT ? 1 : 2; i < (MR_TEST_HAS_YAJL ? 3 : 2); i++) {
        if (run_program(MR_TEST_DETECTION, specs[i], same) != 0)
            fail_msg("it prints \"%s\"", same);
        assert_string_equal(same, text);
    }
}

static void detection_names_a_damaged_label(void **state)
{
    char spec[1000], text[SIZE];

    (void)state;
    write_labels(7, "1 0.5 0.5 wide 0.5\n");
    snprintf(spec, sizeof spec, "yolo:%s/train.txt?root=%s", folder, folder);
    assert_int_equal(run_program(MR_TEST_DETECTION, spec, text), 1);
    assert_words(text, "a/007.txt");
    assert_words(text, "line 3");
    write_labels(7, "");
}

/* Each image is its own mask: its palette's indices are the classes. */
static void check_segmentation(const char *spec)
{
    char text[SIZE];
    double loss, first = 0, last = 0;
    int n_images, n_batches = 0;

    if (run_program(MR_TEST_SEGMENTATION, spec, text) != 0)
        fail_msg("it prints \"%s\"", text);
    for (const char *line = text; *line; line = next_line(line)) {
        if (sscanf(line, "%d images, loss %lf", &n_images, &loss) != 2)
            fail_msg("it prints \"%s\"", text);
        first = n_batches++ == 0 ? loss : first;
        last = loss;
    }
    assert_int_equal(n_batches, N_BATCHES);
    if (!(first < 3.04 && last < 0.8 * first)) /* 3.04: all of 21 classes are equally likely */
        fail_msg("the loss is %f, then %f", first, last);
}

static void segmentation_learns_the_colours_of_classes(void **state)
{
    char spec[3000];

    (void)state;
    snprintf(spec, sizeof spec, "imagefolder:%s?extra=seg:100000:.png:%s", folder, folder);
    check_segmentation(spec);
    snprintf(spec, sizeof spec, "voc:%s?set=train&task=segmentation", voc);
    check_segmentation(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detection_has_a_cell_for_each_box),
        cmocka_unit_test(detection_takes_the_same_boxes_from_voc_and_coco),
        cmocka_unit_test(detection_names_a_damaged_label),
        cmocka_unit_test(segmentation_learns_the_colours_of_classes),
    };
    return cmocka_run_group_tests(tests, make_dataset, NULL);
}
