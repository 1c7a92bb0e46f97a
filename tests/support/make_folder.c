/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_folder FOLDER CLASSES IMAGES: an image folder of generated photographs,
 * FOLDER/class_0/0000.jpg and so on, for tests that are shell scripts. Sizes differ, every seventh
 * image is grey, every eleventh progressive, every thirteenth a PNG. FOLDER must not exist yet.
 */
#include "tests/support/die.h"
#include "tests/support/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0)
        mr_test_die(path);
}

static void make_image(const char *folder, uint32_t class, uint32_t number)
{
    uint32_t seed = class * 10007 + number;
    bool png = number % 13 == 12;
    char path[4096];
    struct mr_test_image image;

    snprintf(path, sizeof(path), "%s/class_%u/%04u.%s", folder, class, number, png ? "png" : "jpg");
    if (png) {
        image = mr_test_png(&(struct mr_test_png){
            .width = 150 + seed % 90, .height = 120 + seed % 70, .seed = seed, .colour_type = 2});
    } else {
        image = mr_test_jpeg(
            &(struct mr_test_jpeg){.width = 200 + seed % 130,
                                   .height = 180 + seed % 110,
                                   .seed = seed,
                                   .colour = number % 7 == 6 ? MR_TEST_GREY : MR_TEST_YCC,
                                   .progressive = number % 11 == 10});
    }
    mr_test_image_save(&image, path);
    mr_test_image_free(&image);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: make_folder FOLDER CLASSES IMAGES\n");
        return 2;
    }
    uint32_t n_classes = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t n_images = (uint32_t)strtoul(argv[3], NULL, 10);

    make_directory(argv[1]);
    for (uint32_t class = 0; class < n_classes; class ++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/class_%u", argv[1], class);
        make_directory(path);
        for (uint32_t i = 0; i < n_images; i++)
            make_image(argv[1], class, i);
    }
    return 0;
}
