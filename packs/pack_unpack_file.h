/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are made below a folder, each under a temporary name first. No existing file is
 * replaced.
 */
#ifndef PACKS_PACK_UNPACK_FILE_H
#define PACKS_PACK_UNPACK_FILE_H

#include "base/error.h"

struct mr_pack_unpack_folder {
    int fd; /* -1 where none is open */
    const char *path;
};

/*
 * Make and open a folder, whose parent must be there. path is for messages too and must stay valid.
 * MR_ERR_IO.
 */
mr_status mr_pack_unpack_file_begin(const char *path, struct mr_pack_unpack_folder *folder_out,
                                    mr_error *error);
/* Sync everything that was written to the disk. MR_ERR_IO. */
mr_status mr_pack_unpack_file_sync(const struct mr_pack_unpack_folder *folder, mr_error *error);
void mr_pack_unpack_file_end(struct mr_pack_unpack_folder *folder);

/*
 * Write a file of a safe name (mr_pack_sample_name_is_safe()), with the folders it lies in.
 * *written_out: false where a file with these bytes was there already. MR_ERR_INVALID: one with
 * others was, or something that is no file.
 * MR_ERR_DAMAGED: no file can have that name there (too long, below another file, bytes that the
 * file system refuses). MR_ERR_IO.
 */
mr_status mr_pack_unpack_file_write(const struct mr_pack_unpack_folder *folder, const char *name,
                                    const void *bytes, size_t len, bool *written_out,
                                    mr_error *error);

#endif
