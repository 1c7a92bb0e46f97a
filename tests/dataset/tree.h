/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders for the tests of datasets. A failure here ends the test program. */
#ifndef TESTS_DATASET_TREE_H
#define TESTS_DATASET_TREE_H

#include <limits.h>
#include <stddef.h>

#include <millrace/dataset.h>

struct tree {
    char *folder;            /* a temporary one */
    char path[PATH_MAX / 2]; /* its path; real: no symbolic link in it */
};

void tree_create(struct tree *tree);
/* Remove everything. */
void tree_destroy(struct tree *tree);

/* Full path of a name; the buffer is one of eight that take turns. */
const char *tree_at(const struct tree *tree, const char *name);
/* Make a folder and those above it. */
void tree_folder(const struct tree *tree, const char *name);
/* Make a file, and the folders above it. */
void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t len);
/* A file with a few bytes that are no image. */
void tree_file(const struct tree *tree, const char *name);
void tree_link(const struct tree *tree, const char *target, const char *name);
/*
 * "kind:" and the full path of a name with every byte that is not a letter, digit, '/', '.' or '_'
 * escaped; as above. /
 */
const char *tree_spec(const struct tree *tree, const char *kind, const char *name);

/* Open and fail the test with the error's words if that fails. */
mr_dataset *open_dataset(const char *spec);
/* Open, expect a failure with this status whose text holds words. */
void expect_open_error(const char *spec, mr_status status, const char *words);
/* Path of sample i as workers open it; as above one of eight buffers. */
const char *path_of(const mr_dataset *dataset, int64_t i);
int64_t label_of(mr_dataset *dataset, int64_t i);

#endif
