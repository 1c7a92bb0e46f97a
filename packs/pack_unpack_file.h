/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates files inside a folder, each under a temporary name first. Existing files are never
 * replaced.
 */
#ifndef PACKS_PACK_UNPACK_FILE_H
#define PACKS_PACK_UNPACK_FILE_H

#include "base/error.h"

struct mr_pack_unpack_folder {
    int fd; /* -1: not open */
    const char *path;
};

/*
 * Make and open a folder; its parent must exist. path is also used for messages and must stay
 * valid. MR_ERR_IO.
 */
mr_status mr_pack_unpack_file_begin(const char *path, struct mr_pack_unpack_folder *folder_out,
                                    mr_error *error);
/* Sync the file system of the folder. MR_ERR_IO. */
mr_status mr_pack_unpack_file_sync(const struct mr_pack_unpack_folder *folder, mr_error *error);
void mr_pack_unpack_file_end(struct mr_pack_unpack_folder *folder);

/*
 * Write a file with a safe name (mr_pack_sample_name_is_safe()), and create its folders.
 * *written_out: false if a file with these bytes already exists. MR_ERR_INVALID: a file with other
 * bytes exists, or something that is not a file.
 * MR_ERR_DAMAGED: no file can have that name there (too long, a parent is a file, bytes that the
 * file system refuses). MR_ERR_IO.
 */
mr_status mr_pack_unpack_file_write(const struct mr_pack_unpack_folder *folder, const char *name,
                                    const void *bytes, size_t len, bool *written_out,
                                    mr_error *error);

#endif
