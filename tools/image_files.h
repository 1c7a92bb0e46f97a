/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every image file of a folder and its subfolders as a dataset, for a command that looks at files
 * and not at classes.
 */
#ifndef TOOLS_IMAGE_FILES_H
#define TOOLS_IMAGE_FILES_H

#include <millrace/dataset.h>

#include "tools/progress.h"

struct mr_image_files {
    char *root;        /* the folder's absolute path, the start of every name */
    uint64_t n_unread; /* folders in it that could not be read; each was reported */
};

/*
 * Find the files by their endings, those that an imagefolder takes, sorted by name. Returns the
 * exit status, after a message where it is not MR_EXIT_OK; there is nothing to close then.
 */
int mr_image_files_open(struct mr_image_files *files, const char *path,
                        struct mr_progress *progress, mr_dataset **dataset_out);
void mr_image_files_close(struct mr_image_files *files);

#endif
