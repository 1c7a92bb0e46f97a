/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds of dataset share: opening the root directory, describing samples. */
#include "dataset/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "dataset/remote/url.h"

mr_status mr_kind_open_root(const char *path, int *fd_out, char absolute_out[PATH_MAX],
                            mr_error *error)
{
    if (mr_url_is(path)) {
        size_t len = mr_url_shown_len(path);
        if (path[len])
            return mr_error_set(error, MR_ERR_INVALID,
                                "the URL %.*s is that of a folder, which has no query", (int)len,
                                path);
        snprintf(absolute_out, PATH_MAX, "%s%s", path, path[len - 1] == '/' ? "" : "/");
        return MR_OK;
    }
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot open the folder %s", path);
    if (!realpath(path, absolute_out))
        absolute_out[0] = '\0';
    *fd_out = fd;
    return MR_OK;
}

void mr_kind_set_integer_label(struct mr_sample_kind *kind)
{
    kind->label_dtype = MR_I64;
    kind->label_ndim = 0;
    kind->label_bytes = sizeof(int64_t);
}

bool mr_kind_shape_bytes(mr_dtype dtype, uint32_t ndim, const int64_t *shape, uint64_t *bytes_out)
{
    uint64_t bytes = mr_dtype_size(dtype);
    for (uint32_t i = 0; i < ndim; i++)
        if (shape[i] < 1 || !mr_checked_mul_u64(bytes, (uint64_t)shape[i], &bytes) ||
            bytes > INT64_MAX)
            return false;
    *bytes_out = bytes;
    return bytes > 0;
}

bool mr_kind_set_raw(struct mr_sample_kind *kind, mr_dtype dtype, uint32_t ndim,
                     const int64_t *shape, mr_layout layout)
{
    if (ndim > MR_MAX_NDIM - 1 || !mr_kind_shape_bytes(dtype, ndim, shape, &kind->data_bytes))
        return false;
    kind->encoded = 0;
    kind->dtype = dtype;
    kind->ndim = ndim;
    if (ndim > 0)
        memcpy(kind->shape, shape, ndim * sizeof *shape);
    kind->layout = layout;
    int64_t channels = ndim == 3 ? shape[layout == MR_NCHW ? 0 : 2] : 0;
    kind->picture = dtype == MR_U8 && (channels == 1 || channels == 3);
    return true;
}

bool mr_kind_may_be_token(mr_dtype dtype)
{
    switch (dtype) {
    case MR_U8:
    case MR_I8:
    case MR_U16:
    case MR_I16:
    case MR_U32:
    case MR_I32:
    case MR_I64: return true;
    default: return false;
    }
}
