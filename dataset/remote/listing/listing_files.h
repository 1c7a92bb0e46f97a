/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images that a listing found, in the order of imagefolder: classes by name, the folders of a
 * class by their whole path, the files of a folder by name.
 */
#ifndef DATASET_REMOTE_LISTING_LISTING_FILES_H
#define DATASET_REMOTE_LISTING_LISTING_FILES_H

#include "base/bytes.h"
#include "base/error.h"
#include "dataset/extent.h"

/* A struct of zeros is empty. */
struct mr_listing_files {
    struct mr_bytes files;   /* struct mr_listing_file */
    struct mr_bytes classes; /* struct mr_listing_class */
    struct mr_bytes texts;   /* NUL-terminated */
};

struct mr_listing_file {
    uint64_t class_; /* in classes */
    uint64_t size;   /* MR_LEN_UNKNOWN: not stated */
    size_t text;     /* four texts: folder, name, the path as URLs have it, ETag */
};

struct mr_listing_class {
    size_t name; /* in texts */
    uint64_t n_files;
    uint64_t label;
    uint64_t sorted; /* the class whose label is this one's place */
};

/* Add a class, and write its place to *class_out. */
mr_status mr_listing_files_class(struct mr_listing_files *files, const char *name,
                                 uint64_t *class_out, mr_error *error);

/*
 * Add a file of a class.
 *
 * path     from the root of the listing on, as a file system would have it
 * spelled  the same as URLs have it
 * etag     "" if it is not known
 */
mr_status mr_listing_files_add(struct mr_listing_files *files, uint64_t class_, const char *path,
                               const char *spelled, uint64_t size, const char *etag,
                               mr_error *error);
uint64_t mr_listing_files_count(const struct mr_listing_files *files);

/* Sort the files, and number the classes. MR_ERR_DAMAGED: a file is there twice, or a class. */
mr_status mr_listing_files_sort(struct mr_listing_files *files, mr_error *error);

/*
 * Write the text of a list to text_out and return its length; NULL: only measure.
 *
 * root     what precedes each path
 * classes  write the line of class names
 */
size_t mr_listing_files_write(const struct mr_listing_files *files, const char *root, bool classes,
                              char *text_out);
/* Write the URL of a file; it was checked to have less than MR_CATALOG_PATH bytes. */
void mr_listing_files_url(const struct mr_listing_files *files, uint64_t i, const char *root,
                          char url_out[MR_CATALOG_PATH]);
void mr_listing_files_fini(struct mr_listing_files *files);

#endif
