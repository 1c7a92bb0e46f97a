/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset as workers see it: it turns an index into extents and, after the read, into data and
 * label. It is one flat read-only region behind file descriptors, without pointers.
 */
#ifndef DATASET_CATALOG_H
#define DATASET_CATALOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sample_kind.h"
#include "dataset/extent.h"

struct mr_pack_index;
struct mr_packed_image;

/*
 * Descriptors by place; -1 where a dataset does not need one. A worker inherits them under numbers
 * of its own.
 */
enum { MR_CATALOG_FD_REGION, MR_CATALOG_FD_NAMES, MR_CATALOG_FD_ROOT, MR_CATALOG_N_FDS };

struct mr_catalog; /* one mapping; private to the process that attached it */

/*
 * Map the region. Keeps no descriptor but the root directory's number, which must stay open while
 * the catalog is attached.
 */
mr_status mr_catalog_attach(const int fds[MR_CATALOG_N_FDS], struct mr_catalog **catalog_out,
                            mr_error *error);
void mr_catalog_detach(struct mr_catalog *catalog);

const struct mr_sample_kind *mr_catalog_kind(const struct mr_catalog *catalog);
int64_t mr_catalog_count(const struct mr_catalog *catalog);
/* Directory that relative paths start from; AT_FDCWD is never used. */
int mr_catalog_root(const struct mr_catalog *catalog);
/*
 * True: one file per sample, so that the dataset can be saved as a list. False: a file may hold
 * many samples, so it is worth keeping open.
 */
bool mr_catalog_loose_files(const struct mr_catalog *catalog);
uint64_t mr_catalog_n_files(const struct mr_catalog *catalog);

/*
 * What to read for a sample: writes 1 to MR_CATALOG_MAX_EXTENTS extents and returns their number.
 * index must be in range. /
 */
uint32_t mr_catalog_extents(const struct mr_catalog *catalog, int64_t index,
                            struct mr_extent *extents_out);

/* Samples are encoded images that lie in ranges of files: the members of tar shards. */
bool mr_catalog_has_members(const struct mr_catalog *catalog);
/*
 * For catalogs of such samples, and of loose files: where the image lies. It is the last of a
 * sample's extents; those before it hold kind.n_extra byte arrays, of which each is left out where
 * it is empty.
 */
void mr_catalog_image(const struct mr_catalog *catalog, int64_t index,
                      struct mr_extent *extent_out);
/* Lengths of the byte arrays; returns their sum. */
uint64_t mr_catalog_extra_lengths(const struct mr_catalog *catalog, int64_t index,
                                  uint64_t lens_out[MR_MAX_EXTRA]);

/* Path of a file, relative to the root or absolute, with its NUL. Returns 0 or -ENAMETOOLONG. */
int mr_catalog_path(const struct mr_catalog *catalog, uint64_t file,
                    char path_out[MR_CATALOG_PATH]);
/*
 * Is what was opened at that path the file that the catalog was made of? False: places in it are
 * wrong now.
 */
bool mr_catalog_is_file(const struct mr_catalog *catalog, uint64_t file, const struct stat *st);

/*
 * Name of a sample for messages: the path as the user would write it, with "#record" for records;
 * of a pack the file that was packed.
 */
void mr_catalog_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size);

/* The same without the prefix that the user wrote for the root. */
void mr_catalog_relative_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                              size_t size);
/*
 * The same with the index, as errors about a sample begin: "path (index 7)", "DIR/shard-00003
 * (file, index 7)" of a pack. catalog NULL: a sample of callbacks.
 */
void mr_catalog_describe(const struct mr_catalog *catalog, int64_t index,
                         char which_out[MR_CATALOG_DESCRIPTION]);
/*
 * The same for an error about one of the files that the sample lies in: "DIR/marks (file, index
 * 7)".
 */
void mr_catalog_describe_file(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                              char which_out[MR_CATALOG_DESCRIPTION]);

/*
 * For an error about the file that a sample lies in: the sample's name, or mr_catalog_describe()'s
 * text where the name is not that of the file.
 */
void mr_catalog_file_name(const struct mr_catalog *catalog, int64_t index,
                          char name_out[MR_CATALOG_DESCRIPTION]);

/*
 * After the read: where the data lie in the bytes that were read, and the label (kind.label_bytes
 * bytes to label_out). MR_ERR_DAMAGED when the bytes are too few.
 */
mr_status mr_catalog_split(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                           size_t len, const uint8_t **data_out, size_t *data_len_out,
                           void *label_out, mr_error *error);

/*
 * Samples are described: image and place are known before the read, so that a part of a sample can
 * be read (mr_reader_submit_range()). mr_catalog_extents() gives all of a sample but its marks and
 * what only restoring needs. Today packs have such samples. The five functions that follow are for
 * such catalogs only.
 */
bool mr_catalog_is_described(const struct mr_catalog *catalog);
/*
 * image_out's pointers lead into the catalog. MR_ERR_DAMAGED, with the sample's name, where the
 * index points outside. /
 */
mr_status mr_catalog_packed(const struct mr_catalog *catalog, int64_t index,
                            struct mr_packed_image *image_out, mr_error *error);
/*
 * Do all of a sample's bytes, with what stands beside them, have the checksum of the index?
 * MR_ERR_DAMAGED.
 */
mr_status mr_catalog_verify(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                            size_t len, mr_error *error);
/* One extent: all bytes of a sample, with what stands beside them. */
void mr_catalog_extent_whole(const struct mr_catalog *catalog, int64_t index,
                             struct mr_extent *extent_out);
/*
 * [offset, offset + len) of them as an extent. MR_ERR_DAMAGED, with the sample's name, where the
 * sample has none.
 */
mr_status mr_catalog_extent_part(const struct mr_catalog *catalog, int64_t index, uint64_t offset,
                                 uint64_t len, struct mr_extent *extent_out, mr_error *error);

/* Where the marks of a sample lie that has some (MR_PACKED_MARKED). False: it has none. */
bool mr_catalog_extent_marks(const struct mr_catalog *catalog, int64_t index,
                             struct mr_extent *extent_out);

/* For what is done with packs only: making, checking and undoing them. */
bool mr_catalog_is_pack(const struct mr_catalog *catalog);
/* Its index. NULL: it is no pack. */
const struct mr_pack_index *mr_catalog_pack(const struct mr_catalog *catalog);

/* The following serve the public calls of dataset.c; workers do not need them. */

/*
 * The label without the data. Returns MR_OK with kind.label_bytes bytes in label_out; MR_PENDING
 * when it must be read from extent_out, whose bytes then go through mr_catalog_widen();
 * MR_ERR_DAMAGED.
 */
mr_status mr_catalog_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                           struct mr_extent *extent_out, mr_error *error);
void mr_catalog_widen(const struct mr_catalog *catalog, const uint8_t *bytes, void *label_out);
uint32_t mr_catalog_n_classes(const struct mr_catalog *catalog);
const char *mr_catalog_class_name(const struct mr_catalog *catalog, uint32_t i);
/* The root's absolute path; "" where it is not known. */
const char *mr_catalog_absolute_root(const struct mr_catalog *catalog);

#endif
