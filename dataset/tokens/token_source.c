/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/tokens/token_source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/file.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"

mr_status mr_token_source_open(int root, const char *path, const struct mr_object_version *version,
                               struct mr_token_source *source_out, mr_error *error)
{
    struct mr_token_source *source = source_out;
    struct stat st;
    snprintf(source->shown, sizeof source->shown, "%.*s", mr_url_path_len(path), path);
    source->fd = -1;
    source->object = NULL;
    if (mr_url_is(path)) {
        mr_status status = mr_object_open(path, version, &source->object, error);
        if (status == MR_OK)
            source->size = mr_object_version(source->object)->size;
        return status;
    }
    source->fd = mr_regular_file_open(root, path, O_RDONLY, &st);
    if (source->fd < 0)
        return mr_regular_file_fail(error, -source->fd, "%s", path);
    source->size = (uint64_t)st.st_size;
    return MR_OK;
}

mr_status mr_token_source_read(const struct mr_token_source *source, uint64_t offset, void *out,
                               size_t len, mr_error *error)
{
    size_t n = 0;
    if (source->object)
        return mr_object_read(source->object, offset, out, len, error);
    int rc = mr_file_read_at(source->fd, offset, out, len, &n);
    if (rc < 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "%s", source->shown);
    return n == len ? MR_OK
                    : mr_error_set(error, MR_ERR_IO, "%s ends at byte %" PRIu64 ", needs %" PRIu64,
                                   source->shown, offset + n, offset + len);
}

void mr_token_source_close(struct mr_token_source *source)
{
    mr_object_close(source->object);
    if (source->fd >= 0)
        close(source->fd);
}
