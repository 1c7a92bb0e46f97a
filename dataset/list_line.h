/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of a list file: path, tab, label, and a tab before each further path and before the
 * version of the image. Lines are parsed when a list is opened, and again for each sample.
 */
#ifndef DATASET_LIST_LINE_H
#define DATASET_LIST_LINE_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <millrace/batch.h>

#include "dataset/extent.h"

struct mr_list_line {
    const char *path; /* still escaped */
    size_t path_len;
    const char *label;
    size_t label_len;
    const char *further; /* what follows the tab after the label; NULL: nothing does */
    size_t further_len;
};

/*
 * Split a line (without its newline) at its first two tabs, and drop a carriage return at the end.
 * False if it has no tab.
 */
bool mr_list_line_split(const char *line, size_t len, struct mr_list_line *line_out);

/*
 * Undo the escapes of a path. Returns 0; -ENAMETOOLONG; -EINVAL if the path is empty or has an
 * unknown escape or a NUL.
 */
int mr_list_line_path(const struct mr_list_line *line, char path_out[MR_CATALOG_PATH]);

/* Write a text with its escapes and return the length. text_out NULL: only measure. */
size_t mr_list_line_escape(const char *name, char *text_out);
/*
 * The same for a path: "./" is written before a '#', which would look like the line of class names.
 */
size_t mr_list_line_write_path(const char *path, char *text_out);

/* The number of further fields: paths, and the version if there is one. */
uint64_t mr_list_line_n_further(const struct mr_list_line *line);
/*
 * Find the k-th of them, which may be empty, and make it the path of *line_out. False if there are
 * fewer.
 */
bool mr_list_line_further(const struct mr_list_line *line, uint64_t k,
                          struct mr_list_line *line_out);

/*
 * Parse a field that mr_list_line_further() has found as the version of an object, which is
 * size=BYTES or size=BYTES etag="...", with a strong ETag. False if it is anything else.
 */
bool mr_list_line_version(const struct mr_list_line *field, struct mr_object_version *version_out);

/* The form of a label: how many numbers it has, and which types can hold them. */
struct mr_label_form {
    uint32_t n;
    bool is_float; /* a number has a point or an exponent, or is nan or inf */
    bool is_huge;  /* an integer does not fit into an int64 */
    bool is_wide;  /* a number does not fit into an f32 */
};

/* False if the label is not a list of numbers, separated by commas or spaces. */
bool mr_list_line_label_form(const struct mr_list_line *line, locale_t c_locale,
                             struct mr_label_form *form_out);

/*
 * Write exactly n numbers of dtype to out. False if the label has more or fewer numbers, or one
 * does not fit.
 */
bool mr_list_line_label(const struct mr_list_line *line, mr_dtype dtype, uint32_t n,
                        locale_t c_locale, void *out);

#endif
