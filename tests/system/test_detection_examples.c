/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of docs/detection.md, run on generated photographs: detection makes targets of the
 * boxes, segmentation learns masks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

enum { N_IMAGES = 200, N_BATCHES = 4, SIDE = 160, SIZE = 8000 };

static char *folder;

static void write_image(int i)
{
    char name[40];
    struct mr_test_image image = mr_test_png(&(struct mr_test_png){
        .width = SIDE, .height = SIDE, .seed = (uint32_t)i, .colour_type = 3, .depth = 2});

    snprintf(name, sizeof name, "a/%03d.png", i);
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

/* Two boxes of different classes. Their centres are so far apart that they are in two cells. */
static void write_labels(int i, const char *further)
{
    char name[40], text[200];
    int len = snprintf(text, sizeof text, "0 0.25 0.25 0.3 0.4\n1 0.75 0.75 0.4 0.3\n%s", further);

    snprintf(name, sizeof name, "a/%03d.txt", i);
    mr_test_folder_write(folder, name, text, (uint64_t)len);
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
static void segmentation_learns_the_colours_of_classes(void **state)
{
    char spec[3000], text[SIZE];
    double loss, first = 0, last = 0;
    int n_images, n_batches = 0;

    (void)state;
    snprintf(spec, sizeof spec, "imagefolder:%s?extra=seg:100000:.png:%s", folder, folder);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detection_has_a_cell_for_each_box),
        cmocka_unit_test(detection_names_a_damaged_label),
        cmocka_unit_test(segmentation_learns_the_colours_of_classes),
    };
    return cmocka_run_group_tests(tests, make_dataset, NULL);
}
