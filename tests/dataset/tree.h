/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files and folders for the tests of datasets. A failure here ends the test program. */
#ifndef TESTS_DATASET_TREE_H
#define TESTS_DATASET_TREE_H

#include <limits.h>
#include <stddef.h>

#include <millrace/dataset.h>

struct tree {
    char *folder;            /* the temporary folder */
    char path[PATH_MAX / 2]; /* its real path, without symbolic links */
};

void tree_create(struct tree *tree);
/* Remove everything. */
void tree_destroy(struct tree *tree);

/* Full path of a name. Eight buffers take turns. */
const char *tree_at(const struct tree *tree, const char *name);
/* Create a folder and its parents. */
void tree_folder(const struct tree *tree, const char *name);
/* Create a file and the folders above it. */
void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t len);
/* Create a file with a few bytes that are not an image. */
void tree_file(const struct tree *tree, const char *name);
void tree_link(const struct tree *tree, const char *target, const char *name);
/*
 * "kind:" and the full path of a name, with every byte escaped that is not a letter, digit, '/',
 * '.' or '_'. Uses the same eight buffers.
 */
const char *tree_spec(const struct tree *tree, const char *kind, const char *name);

/* Open a dataset. If that fails, fail the test with the error message. */
mr_dataset *open_dataset(const char *spec);
/* Open a dataset and expect an error with this status whose message contains words. */
void expect_open_error(const char *spec, mr_status status, const char *words);
/* Path of sample i as workers open it, in one of eight buffers that take turns. */
const char *path_of(const mr_dataset *dataset, int64_t i);
int64_t label_of(mr_dataset *dataset, int64_t i);

#endif
