/* SPDX-License-Identifier: Apache-2.0 */
/* Opens all image files of a folder and its subfolders as a dataset without classes. */
#ifndef TOOLS_IMAGE_FILES_H
#define TOOLS_IMAGE_FILES_H

#include <millrace/dataset.h>

#include "tools/progress.h"

struct mr_image_files {
    char *root;        /* the folder's absolute path, the start of every name */
    uint64_t n_unread; /* subfolders that could not be read; each was reported */
};

/*
 * Find the files by the endings that an imagefolder accepts, sorted by name. Returns the exit
 * status; unless it is MR_EXIT_OK, a message was printed and there is nothing to close.
 */
int mr_image_files_open(struct mr_image_files *files, const char *path,
                        struct mr_progress *progress, mr_dataset **dataset_out);
void mr_image_files_close(struct mr_image_files *files);

#endif
