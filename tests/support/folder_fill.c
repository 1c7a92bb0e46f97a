/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a small folder of generated photographs: one folder for each class. */
#include "tests/support/folder_fill.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/die.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

void mr_test_folder_fill(const char *folder, uint32_t n_classes, uint32_t n_images)
{
    char path[4096];
    for (uint32_t c = 0; c < n_classes; c++) {
        snprintf(path, sizeof path, "%s/class_%u", folder, c);
        if (mkdir(path, 0777) != 0)
            mr_test_die(path);
        for (uint32_t i = 0; i < n_images; i++) {
            uint32_t seed = c * 1000 + i;
            struct mr_test_jpeg jpeg = {.width = 40 + (seed * 37) % 160,
                                        .height = 40 + (seed * 53) % 130,
                                        .seed = seed,
                                        .colour = i % 7 == 3 ? MR_TEST_GREY : MR_TEST_YCC,
                                        .progressive = i % 5 == 4,
                                        .restart = i % 11 == 5 ? 3 : 0};
            struct mr_test_image image = mr_test_jpeg(&jpeg);
            snprintf(path, sizeof path, "class_%u/%03u.jpg", c, i);
            mr_test_folder_write(folder, path, image.bytes, image.len);
            mr_test_image_free(&image);
        }
    }
}

char *mr_test_folder_filled(uint32_t n_classes, uint32_t n_images)
{
    char *folder = mr_test_folder_create();
    mr_test_folder_fill(folder, n_classes, n_images);
    return folder;
}
