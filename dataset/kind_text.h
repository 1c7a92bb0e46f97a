/* SPDX-License-Identifier: Apache-2.0 */
/* The small text files beside a dataset: names of classes, lists of images. */
#ifndef DATASET_KIND_TEXT_H
#define DATASET_KIND_TEXT_H

#include "dataset/catalog_build.h"

/*
 * Read a text file of at most most bytes. path may be a URL. what: the words before a path in
 * messages, such as "the class names". A NUL follows the bytes; one inside them is MR_ERR_DAMAGED.
 * error->os_error is ENOENT if there is no such file.
 */
mr_status mr_kind_text_read(const char *path, const char *what, size_t most,
                            struct mr_bytes *text_out, mr_error *error);
/* Take the next line, without its line end. NULL: there is none. */
char *mr_kind_text_line(char **rest);
/* Add the class names in a file, one a line. */
mr_status mr_kind_text_names(struct mr_catalog_builder *builder, const char *path, mr_error *error);

#endif
