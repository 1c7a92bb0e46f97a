/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each picture is noise, with a brightness that depends on its class. The loss falls however the
 * ranks were started.
 */
#include "tests/fault/rank_pictures.h"

#include "tests/support/folder.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, N_CLASSES = 10 };

static void write_split(const char *folder, const char *name, uint32_t n, uint32_t seed)
{
    uint32_t state = seed;
    uint8_t *bytes = malloc((size_t)n * RECORD);
    if (!bytes) {
        perror("pictures");
        exit(1);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *record = bytes + (size_t)i * RECORD;
        record[0] = (uint8_t)(i % N_CLASSES);
        for (int pixel = 1; pixel < RECORD; pixel++) {
            state = state * 1664525u + 1013904223u;
            record[pixel] = (uint8_t)(20 * record[0] + (state >> 26));
        }
    }
    mr_test_folder_write(folder, name, bytes, (uint64_t)n * RECORD);
    free(bytes);
}

void mr_rank_pictures_write(const char *folder, uint32_t n_train, uint32_t n_test)
{
    static const char names[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
    write_split(folder, "data_batch_1.bin", n_train, 1);
    write_split(folder, "test_batch.bin", n_test, 2);
    mr_test_folder_write(folder, "batches.meta.txt", names, sizeof names - 1);
}
