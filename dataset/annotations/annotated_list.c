/* SPDX-License-Identifier: Apache-2.0 */
/* Makes lists of annotated images in shared memory. */
#include "dataset/annotations/annotated_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/shared_memory.h"
#include "dataset/file.h"
#include "dataset/kind.h"
#include "dataset/list.h"
#include "dataset/list_line.h"

enum { LABEL_BYTES = sizeof "\t-9223372036854775808\t" };

mr_status mr_annotated_list_init(struct mr_annotated_list *list, const char *root,
                                 const char *member, uint64_t max_bytes, int fds[MR_CATALOG_N_FDS],
                                 mr_error *error)
{
    char absolute[PATH_MAX];
    *list = (struct mr_annotated_list){0};
    mr_extra_add(&list->extra, member, max_bytes);
    mr_status status = mr_catalog_builder_init(&list->builder, MR_SCHEME_LIST, error);
    if (status == MR_OK)
        status = mr_kind_open_root(*root ? root : ".", &fds[MR_CATALOG_FD_ROOT], absolute, error);
    return status < 0 ? status : mr_catalog_builder_root(&list->builder, root, absolute, error);
}

void mr_annotated_list_fini(struct mr_annotated_list *list)
{
    mr_catalog_builder_fini(&list->builder);
    mr_bytes_fini(&list->text);
}

static mr_status add_path(struct mr_bytes *text, const char *path, mr_error *error)
{
    mr_status status = mr_bytes_reserve(text, mr_list_line_write_path(path, NULL), error);
    if (status == MR_OK && *path)
        text->len += mr_list_line_write_path(path, (char *)text->data + text->len);
    return status;
}

mr_status mr_annotated_list_add(struct mr_annotated_list *list, const char *image, int64_t label,
                                const char *annotation, mr_error *error)
{
    char field[LABEL_BYTES];
    int len = snprintf(field, sizeof field, "\t%" PRId64 "\t", label);
    mr_status status = add_path(&list->text, image, error);
    if (status == MR_OK)
        status = mr_bytes_append(&list->text, field, (size_t)len, error);
    if (status == MR_OK)
        status = add_path(&list->text, annotation, error);
    return status < 0 ? status : mr_bytes_append(&list->text, "\n", 1, error);
}

/* Move the text into sealed shared memory. */
static mr_status share_text(struct mr_bytes *text, const char *name, int *fd_out, mr_error *error)
{
    mr_status status = mr_shared_memory_create("millrace-annotated", text->len, fd_out, error);
    if (status < 0)
        return status;
    int rc = mr_file_write_at(*fd_out, text->data, text->len, 0);
    if (rc == 0)
        rc = mr_shared_memory_seal_content(*fd_out);
    mr_bytes_fini(text);
    return rc < 0 ? mr_error_os(error, MR_ERR_NO_MEMORY, -rc, "cannot make the list of %s", name)
                  : MR_OK;
}

mr_status mr_annotated_list_finish(struct mr_annotated_list *list, const char *name,
                                   int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    size_t len = list->text.len;
    if (len == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s holds no sample", name);
    mr_status status = share_text(&list->text, name, &fds[MR_CATALOG_FD_NAMES], error);
    return status < 0 ? status
                      : mr_list_scan(&list->builder, name, len, MR_I64, &list->extra, fds, error);
}
