/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset as workers see it. It turns an index into extents and, after the read, the bytes into
 * data and label. It is one flat read-only region behind file descriptors, and contains no
 * pointers.
 */
#ifndef DATASET_CATALOG_H
#define DATASET_CATALOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sample_kind.h"
#include "dataset/extent.h"

struct mr_catalog_size;
struct mr_pack_index;
struct mr_packed_image;

/*
 * Descriptors by position; -1 if the dataset does not need one. Workers inherit them under other
 * numbers.
 */
enum { MR_CATALOG_FD_REGION, MR_CATALOG_FD_NAMES, MR_CATALOG_FD_ROOT, MR_CATALOG_N_FDS };

struct mr_catalog; /* one mapping, private to the process that attached it */

/*
 * Map the region. Of the descriptors it uses only the root directory and the file beside the region
 * later, which must stay open while the catalog is attached.
 */
mr_status mr_catalog_attach(const int fds[MR_CATALOG_N_FDS], struct mr_catalog **catalog_out,
                            mr_error *error);
void mr_catalog_detach(struct mr_catalog *catalog);

const struct mr_sample_kind *mr_catalog_kind(const struct mr_catalog *catalog);
int64_t mr_catalog_count(const struct mr_catalog *catalog);
/* The directory that relative paths start from. It is never AT_FDCWD. */
int mr_catalog_root(const struct mr_catalog *catalog);
/*
 * True: each sample is a file, so the dataset can be saved as a list. False: a file may hold many
 * samples, so readers keep it open.
 */
bool mr_catalog_loose_files(const struct mr_catalog *catalog);
uint64_t mr_catalog_n_files(const struct mr_catalog *catalog);
/* Files with lower numbers are opened for each read; readers keep the others open. */
uint64_t mr_catalog_n_loose_files(const struct mr_catalog *catalog);
/* Number of sources of a mixture; 0: not a mixture. */
uint32_t mr_catalog_n_sources(const struct mr_catalog *catalog);
/* The source of a sample of a mixture. */
uint32_t mr_catalog_source_of(const struct mr_catalog *catalog, int64_t index);

/* True if the samples are encoded images in ranges of files: the members of tar shards. */
bool mr_catalog_has_members(const struct mr_catalog *catalog);
/* Where the image of a sample is: a file, a member of a shard, a packed sample, a record. */
struct mr_extent mr_catalog_image(const struct mr_catalog *catalog, int64_t index);
/*
 * MR_ERR_DAMAGED, with the name of the sample: the file that says where it is has shrunk since the
 * dataset was opened. Looking there would end this process by SIGBUS.
 */
mr_status mr_catalog_check(const struct mr_catalog *catalog, int64_t index, mr_error *error);
/* The pieces of an image that is MR_FILE_PIECES, one after the other. */
void mr_catalog_begin_pieces(const struct mr_catalog *catalog, int64_t index,
                             struct mr_piece_walk *walk_out);
/* False: there are no more. */
bool mr_catalog_next_piece(const struct mr_catalog *catalog, struct mr_piece_walk *walk,
                           struct mr_extent *piece_out);
/* The number of ids of a row of tokens. Not for mixtures. */
uint64_t mr_catalog_length(const struct mr_catalog *catalog, int64_t index);
/*
 * Where its further members are: kind.n_extra extents, in the order of kind.extra. len is 0 if the
 * sample does not have the member, and MR_LEN_UNKNOWN if the member is a file.
 */
void mr_catalog_members(const struct mr_catalog *catalog, int64_t index,
                        struct mr_extent members_out[MR_MAX_MEMBERS]);
/* The bytes of an extent in the catalog. NULL: it is in a file. */
const uint8_t *mr_catalog_memory(const struct mr_catalog *catalog, const struct mr_extent *extent);
/* Append a part to a list. */
void mr_part_list_add(struct mr_part_list *list, struct mr_extent extent, uint64_t max_bytes,
                      enum mr_purpose purpose);
/* List all parts of a sample except its marks. max_bytes: the limit for the image. */
void mr_catalog_parts(const struct mr_catalog *catalog, int64_t index, uint64_t max_bytes,
                      struct mr_part_list *list_out);
/*
 * Restrict the image of the list to [offset, offset + len) of it. MR_ERR_DAMAGED, with the name of
 * the sample, if that is outside the image. The length of a loose file is not known here, so the
 * read finds whether the file has these bytes; and the file may have been replaced, so the caller
 * checks it after the read.
 */
mr_status mr_catalog_restrict(const struct mr_catalog *catalog, int64_t index, uint64_t offset,
                              uint64_t len, struct mr_part_list *list, mr_error *error);

/* The path of a file with its NUL, absolute or relative to the root. Returns 0 or -ENAMETOOLONG. */
int mr_catalog_path(const struct mr_catalog *catalog, uint64_t file,
                    char path_out[MR_CATALOG_PATH]);
/* True if a file of the catalog is at a URL. */
bool mr_catalog_is_remote(const struct mr_catalog *catalog);
/* True if what was found in the dataset's files may be kept for the next time. */
bool mr_catalog_keeps_index(const struct mr_catalog *catalog);
/*
 * The URL of a file with its NUL. Returns 0; -ENOENT: the file is local; -ENAMETOOLONG.
 */
int mr_catalog_url(const struct mr_catalog *catalog, uint64_t file, char url_out[MR_CATALOG_PATH]);
/* The version of a remote file that the catalog was made from. False: any version is right. */
bool mr_catalog_version(const struct mr_catalog *catalog, uint64_t file,
                        struct mr_object_version *version_out);
/* True if the file is that of a member that its sample may lack. It was found not to exist. */
bool mr_catalog_may_lack(const struct mr_catalog *catalog, uint64_t file);
/*
 * True if the opened file is still the one that the catalog was made from. If not, the offsets in
 * the catalog are wrong.
 */
bool mr_catalog_is_file(const struct mr_catalog *catalog, uint64_t file, const struct stat *st);

/*
 * The name of a sample for messages: its path as the user would write it, with "#record" for
 * records. In a pack: the name of the file that was packed.
 */
void mr_catalog_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size);

/* The same without the prefix that the user wrote for the root. */
void mr_catalog_relative_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                              size_t size);
/*
 * The same with the index, as errors about a sample begin: "path (index 7)", or "DIR/shard-00003
 * (file, index 7)" in a pack. catalog NULL: a sample of callbacks.
 */
void mr_catalog_describe(const struct mr_catalog *catalog, int64_t index,
                         char which_out[MR_CATALOG_DESCRIPTION]);
/* The same for an error about one of the files of the sample: "DIR/marks (file, index 7)". */
void mr_catalog_describe_file(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                              char which_out[MR_CATALOG_DESCRIPTION]);

/*
 * The name for an error about the file of a sample. It is the name of the sample, or the text of
 * mr_catalog_describe() if the sample has another name than the file.
 */
void mr_catalog_file_name(const struct mr_catalog *catalog, int64_t index,
                          char name_out[MR_CATALOG_DESCRIPTION]);

/*
 * After the read: find the data in the bytes of the first part, and write the label
 * (kind.label_bytes bytes) to label_out. label: the bytes of the MR_FOR_LABEL part, or NULL if the
 * sample has none. MR_ERR_DAMAGED if there are too few bytes.
 */
mr_status mr_catalog_split(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                           size_t len, const uint8_t *label, const uint8_t **data_out,
                           size_t *data_len_out, void *label_out, mr_error *error);

/*
 * True if the samples are described: what the image is and where its rows are is known before the
 * read, so the rows of a crop can be read alone. Today only packs have such samples. The four
 * functions that follow are only for such catalogs.
 */
bool mr_catalog_is_described(const struct mr_catalog *catalog);
/*
 * The pointers in image_out point into the catalog. MR_ERR_DAMAGED, with the name of the sample, if
 * its index entry points outside.
 */
mr_status mr_catalog_packed(const struct mr_catalog *catalog, int64_t index,
                            struct mr_packed_image *image_out, mr_error *error);
/*
 * Compare all bytes of a sample with the checksum in the index. MR_ERR_DAMAGED if they differ.
 */
mr_status mr_catalog_verify(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                            size_t len, mr_error *error);
/* The same for further member k, an entry of kind.extra. */
mr_status mr_catalog_verify_member(const struct mr_catalog *catalog, int64_t index, uint32_t k,
                                   const uint8_t *bytes, size_t len, mr_error *error);
/* Where the marks of a sample (MR_PACKED_MARKED) are. False: it has none. */
bool mr_catalog_marks(const struct mr_catalog *catalog, int64_t index,
                      struct mr_extent *extent_out);

/* Only for code that makes, checks or unpacks packs. */
bool mr_catalog_is_pack(const struct mr_catalog *catalog);
/* The index of a pack. NULL: not a pack. */
const struct mr_pack_index *mr_catalog_pack(const struct mr_catalog *catalog);

/* The following functions serve the public calls of dataset.c. Workers do not need them. */

/* The size of the image as an annotation states it, without reading its file. NULL: not stated. */
const struct mr_catalog_size *mr_catalog_stated_size(const struct mr_catalog *catalog,
                                                     int64_t index);
/*
 * The label without the data. Returns MR_OK with kind.label_bytes bytes in label_out; MR_PENDING if
 * it must be read from extent_out and passed through mr_catalog_widen(); or MR_ERR_DAMAGED.
 */
mr_status mr_catalog_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                           struct mr_extent *extent_out, mr_error *error);
void mr_catalog_widen(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                      void *label_out);
uint32_t mr_catalog_n_classes(const struct mr_catalog *catalog);
const char *mr_catalog_class_name(const struct mr_catalog *catalog, uint32_t i);
/* The absolute path of the root; "" if it is not known. */
const char *mr_catalog_absolute_root(const struct mr_catalog *catalog);

#endif
