/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attached catalog, and the table of its scheme. A scheme is one file, catalog_<scheme>.c, with
 * one table of functions. mr_catalog_attach() looks the table up once, by the number in the header
 * of the region.
 *
 * Invariant: the region is shared by processes and contains no pointers. The table and everything
 * else here is private to the process that attached the catalog.
 */
#ifndef DATASET_CATALOG_OPS_H
#define DATASET_CATALOG_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"
#include "dataset/catalog_format.h"
#include "dataset/extent.h"

struct mr_packed_image;

struct mr_catalog {
    const struct mr_catalog_ops *ops;
    const struct mr_catalog_header *header;
    const char *names; /* the section NAMES, or the list file */
    size_t names_len;
    const uint64_t *index; /* the section INDEX */
    int root;
    const void *beside; /* the file that is mapped beside the region; NULL: none */
    size_t beside_len;
    int beside_fd; /* the same file; -1: it is copied into a mixture, or there is none */
    void *state; /* private to the scheme */
};

/*
 * The functions of catalog.h with the same names, for one scheme. index and file are in range. The
 * functions for described samples (mr_catalog_is_described()) are all set or all NULL.
 */
struct mr_catalog_ops {
    /*
     * The name, in messages, of the file of MR_CATALOG_FD_NAMES, which is mapped beside the
     * region. NULL: no such file.
     */
    const char *beside;
    bool is_watched; /* it is the user's file, and is checked before each sample */
    bool loose_files;
    bool in_shards; /* encoded images in ranges of files */

    /* True if the sections are long enough for the look-ups below. NULL: no check is needed. */
    bool (*is_sound)(const struct mr_catalog *catalog);
    /* Make the state, after the region and the file beside it were mapped. NULL: nothing to do. */
    mr_status (*attach)(struct mr_catalog *catalog, mr_error *error);
    /* Called also after attach has failed. NULL: nothing to do. */
    void (*detach)(struct mr_catalog *catalog);

    struct mr_extent (*image)(const struct mr_catalog *catalog, int64_t index);
    /* Set if image is MR_FILE_PIECES, otherwise NULL. */
    void (*begin_pieces)(const struct mr_catalog *catalog, int64_t index,
                         struct mr_piece_walk *walk_out);
    bool (*next_piece)(const struct mr_catalog *catalog, struct mr_piece_walk *walk,
                       struct mr_extent *piece_out);
    /* NULL: all rows of tokens have kind.tokens. */
    uint64_t (*length)(const struct mr_catalog *catalog, int64_t index);
    /* NULL: the label is not an extent of its own. */
    bool (*label_extent)(const struct mr_catalog *catalog, int64_t index,
                         struct mr_extent *extent_out);
    /* NULL: kind.n_extra is 0. */
    void (*members)(const struct mr_catalog *catalog, int64_t index,
                    struct mr_extent members_out[MR_MAX_MEMBERS]);
    int (*path)(const struct mr_catalog *catalog, uint64_t file, char path_out[MR_CATALOG_PATH]);
    /* NULL: a file that does not exist is damage. */
    bool (*may_lack)(const struct mr_catalog *catalog, uint64_t file);
    /* NULL: the section VERSIONS has the versions. */
    bool (*version)(const struct mr_catalog *catalog, uint64_t file,
                    struct mr_object_version *version_out);
    /* NULL: any file at the path is accepted. */
    bool (*is_file)(const struct mr_catalog *catalog, uint64_t file, const struct stat *st);
    void (*name)(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size);
    /*
     * Describe a sample for an error about one of its files; if file is NULL, about the file with
     * its bytes. If the function is NULL, the name and the index in parentheses describe it.
     */
    void (*which)(const struct mr_catalog *catalog, int64_t index, const uint64_t *file,
                  char which_out[MR_CATALOG_DESCRIPTION]);
    mr_status (*label)(const struct mr_catalog *catalog, int64_t index, void *label_out,
                       struct mr_extent *extent_out, mr_error *error);
    /* NULL: label never returns MR_PENDING. */
    void (*widen)(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                  void *label_out);
    /* NULL: all bytes are data. */
    mr_status (*split)(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                       size_t len, const uint8_t *label, const uint8_t **data_out,
                       size_t *data_len_out, void *label_out, mr_error *error);

    /* For described samples. */
    mr_status (*packed)(const struct mr_catalog *catalog, int64_t index,
                        struct mr_packed_image *image_out, mr_error *error);
    mr_status (*verify)(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                        size_t len, mr_error *error);
    mr_status (*verify_member)(const struct mr_catalog *catalog, int64_t index, uint32_t k,
                               const uint8_t *bytes, size_t len, mr_error *error);
    bool (*marks)(const struct mr_catalog *catalog, int64_t index, struct mr_extent *extent_out);
};

/* One per enum mr_catalog_scheme. */
extern const struct mr_catalog_ops mr_catalog_folder_ops;
extern const struct mr_catalog_ops mr_catalog_list_ops;
extern const struct mr_catalog_ops mr_catalog_records_ops;
extern const struct mr_catalog_ops mr_catalog_pack_ops;
extern const struct mr_catalog_ops mr_catalog_tar_ops;
extern const struct mr_catalog_ops mr_catalog_tokens_ops;
extern const struct mr_catalog_ops mr_catalog_documents_ops;
extern const struct mr_catalog_ops mr_catalog_sequences_ops;
extern const struct mr_catalog_ops mr_catalog_mix_ops;

/*
 * Attach a catalog that is within another. inside: its header (region_len bytes), the bytes beside
 * it and the root. The memory and the root stay the other catalog's. Detach it with
 * mr_catalog_detach_inside(); NULL does nothing.
 */
mr_status mr_catalog_attach_inside(const struct mr_catalog *inside, uint64_t region_len,
                                   struct mr_catalog **catalog_out, mr_error *error);
void mr_catalog_detach_inside(struct mr_catalog *catalog);

#endif
