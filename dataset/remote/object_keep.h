/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that are loaded whole at each opening, such as the index of a pack, and that are kept in
 * the user's cache folder while the server has the same version.
 */
#ifndef DATASET_REMOTE_OBJECT_KEEP_H
#define DATASET_REMOTE_OBJECT_KEEP_H

#include "dataset/index_place.h"
#include "dataset/remote/object.h"

/*
 * As mr_object_load(), from the kept file if it is whole and of the object's version. Otherwise the
 * object is read, and kept, unless place is MR_INDEX_NONE. A failure to keep it is ignored.
 */
mr_status mr_object_keep_load(struct mr_object *object, enum mr_index_place place, const char *name,
                              int *fd_out, mr_error *error);

#endif
