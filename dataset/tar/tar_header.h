/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One header of a tar file, and the records of a pax header: ustar, pax, GNU and the old form
 * without a magic.
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
    MR_TAR_OLD_FILE,   /* a file, or, if its whole name ends with a slash, a folder */
    MR_TAR_EMPTY,      /* a folder, a link, a device: no data follow, whatever the size says */
    MR_TAR_OTHER,      /* of a type that is not known here; its data are skipped */
    MR_TAR_PAX,        /* records about the next member */
    MR_TAR_PAX_GLOBAL, /* records about all that follow */
    MR_TAR_LONG_NAME,  /* GNU: the next member's name */
    MR_TAR_LONG_LINK,
    MR_TAR_SPARSE, /* GNU: a file with holes, whose data are no range */
};

struct mr_tar_header {
    enum mr_tar_type type;
    uint64_t size;
    char name[MR_TAR_SHORT_NAME];
};

/*
 * What a pax header says of the things that matter here; text leads into the bytes that were
 * parsed.
 */
struct mr_tar_pax {
    const char *path; /* NULL: not given; no NUL at its end */
    size_t path_len;
    bool has_size;
    uint64_t size;
    bool is_sparse;
};

/* A block of zeros ends the archive. */
bool mr_tar_header_is_end(const uint8_t block[MR_TAR_BLOCK]);
/* "ustar" stands where ustar, pax and GNU have it. */
bool mr_tar_header_has_magic(const uint8_t block[MR_TAR_BLOCK]);
/* Returns NULL, or what is wrong with the block in a few words. */
const char *mr_tar_header_parse(const uint8_t block[MR_TAR_BLOCK],
                                struct mr_tar_header *header_out);
/* Returns false where the records are not well-formed. */
bool mr_tar_header_parse_pax(const uint8_t *bytes, size_t len, struct mr_tar_pax *pax_out);

#endif
