/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kinds with annotations share: they make a list in memory, whose lines name an image and
 * its annotation. Nothing but that list is read when they are opened.
 */
#ifndef DATASET_ANNOTATIONS_ANNOTATED_LIST_H
#define DATASET_ANNOTATIONS_ANNOTATED_LIST_H

#include "dataset/catalog_build.h"
#include "dataset/extra.h"

/* The most bytes of an annotation in a file of its own, and of a mask. */
#define MR_ANNOTATED_LIST_BOXES (UINT64_C(1) << 20)
#define MR_ANNOTATED_LIST_MASK (UINT64_C(1) << 22)

struct mr_annotated_list {
    struct mr_catalog_builder builder; /* the kind adds class names, sets may_lack and kind.boxes */
    struct mr_bytes text;
    struct mr_extra_list extra;
};

/*
 * Open the root, where relative paths start; "": the working directory. member: the name of the
 * further member, of at most max_bytes. Call fini after a failure too.
 */
mr_status mr_annotated_list_init(struct mr_annotated_list *list, const char *root,
                                 const char *member, uint64_t max_bytes, int fds[MR_CATALOG_N_FDS],
                                 mr_error *error);
void mr_annotated_list_fini(struct mr_annotated_list *list);

/* Append a sample. annotation: the path of its member; "": none, or its bytes are in the catalog.
 */
mr_status mr_annotated_list_add(struct mr_annotated_list *list, const char *image, int64_t label,
                                const char *annotation, mr_error *error);

/* Make the catalog. name: of the list in messages. */
mr_status mr_annotated_list_finish(struct mr_annotated_list *list, const char *name,
                                   int fds[MR_CATALOG_N_FDS], mr_error *error);

#endif
