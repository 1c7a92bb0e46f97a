/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of images, its packs, and the first batches of loaders over them, for tests of views. */
#ifndef TESTS_SYSTEM_VIEWS_RIG_H
#define TESTS_SYSTEM_VIEWS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/epochs.h"

enum { VIEWS_N = 12, VIEWS_SOURCES = 6, VIEWS_TEXT = 2048 };

/* Make and remove the folder. */
int views_set_up(void **state);
int views_tear_down(void **state);

/* The path of a file in the folder, valid until three more calls. */
const char *views_at(const char *name);

/* Write image i of photos/, also over another file. Half of them are of class 0. */
void views_write_image(int i);
void views_damage_image(int i);

/* Source 0 is the folder, 1 to 4 are its packs, 5 is callbacks that give the files. */
mr_dataset *views_open(int source);

/* All samples in order in one batch, f32. */
mr_loader_options views_options(uint32_t n_workers);

/* A loader with its first batch. */
struct views_taken {
    mr_dataset *dataset;
    mr_loader *loader;
    mr_batch *batch;
};

/* Takes the dataset. */
struct views_taken views_take(mr_dataset *dataset, const char *transform,
                              const mr_loader_options *options);
struct views_taken views_take_plain(const char *transform);
/* The view NAME, or picture k of it, alone. */
struct views_taken views_take_alone(const char *name, int64_t k, const char *recipe);
void views_give_back(struct views_taken *taken);

/* The text is refused, by itself or with these options, with an error that has the words. */
void views_expect_refused(const char *transform, const mr_loader_options *options,
                          const char *words);

/*
 * Picture k of a row of the array with that name, or the row if k is negative. *len_out: its bytes.
 */
const uint8_t *views_picture(const struct views_taken *taken, const char *name, int64_t row,
                             int64_t k, size_t *len_out);

/* Picture k of `name` in a equals the only picture in b, with its geometry. */
void views_assert_same(const struct views_taken *a, const struct views_taken *b, const char *name,
                       int64_t k);

#endif
