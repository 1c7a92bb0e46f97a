/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One header of a tar file, and the records of a pax header. Understands ustar, pax, GNU, and the
 * old format without a magic.
 */
#ifndef DATASET_TAR_HEADER_H
#define DATASET_TAR_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_TAR_BLOCK 512
#define MR_TAR_SHORT_NAME 257 /* prefix of 155, slash, name of 100, NUL */

enum mr_tar_type {
    MR_TAR_FILE,
    MR_TAR_OLD_FILE,   /* a folder if its full name ends with a slash, else a file */
    MR_TAR_EMPTY,      /* a folder, link or device: no data follow, whatever its size says */
    MR_TAR_OTHER,      /* of an unknown type; its data are skipped */
    MR_TAR_PAX,        /* records about the next member */
    MR_TAR_PAX_GLOBAL, /* records about all following members */
    MR_TAR_LONG_NAME,  /* GNU: the next member's name */
    MR_TAR_LONG_LINK,
    MR_TAR_SPARSE, /* GNU: a file with holes; its data are not one range */
};

struct mr_tar_header {
    enum mr_tar_type type;
    uint64_t size;
    char name[MR_TAR_SHORT_NAME];
};

/* The records of a pax header that are used here. Pointers point into the parsed bytes. */
struct mr_tar_pax {
    const char *path; /* NULL: absent; not NUL-terminated */
    size_t path_len;
    bool has_size;
    uint64_t size;
    bool is_sparse;
};

/* True for a block of zeros, which ends the archive. */
bool mr_tar_header_is_end(const uint8_t block[MR_TAR_BLOCK]);
/* True if the block has "ustar" at the place of the magic, as in ustar, pax and GNU headers. */
bool mr_tar_header_has_magic(const uint8_t block[MR_TAR_BLOCK]);
/* Returns NULL, or a few words that say what is wrong with the block. */
const char *mr_tar_header_parse(const uint8_t block[MR_TAR_BLOCK],
                                struct mr_tar_header *header_out);
/* Returns false if the records are malformed. */
bool mr_tar_header_parse_pax(const uint8_t *bytes, size_t len, struct mr_tar_pax *pax_out);

#endif
