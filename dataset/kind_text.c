/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the small text files beside a dataset, from files and URLs. */
#include "dataset/kind_text.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/file.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"

enum { MAX_NAMES_BYTES = 64 << 20 };

struct source {
    const char *path;
    const char *what;
    int fd;
    struct mr_object *object; /* NULL: the file of fd */
    uint64_t len;
};

static mr_status open_source(struct source *source, mr_error *error)
{
    struct stat st;
    if (mr_url_is(source->path)) {
        mr_status status = mr_url_check(source->path, error);
        if (status == MR_OK)
            status = mr_object_open(source->path, NULL, &source->object, error);
        if (status == MR_OK)
            source->len = mr_object_version(source->object)->size;
        return status;
    }
    source->fd = mr_regular_file_open(AT_FDCWD, source->path, O_RDONLY, &st);
    if (source->fd < 0)
        return mr_regular_file_fail(error, -source->fd, "cannot open %s %s", source->what,
                                    source->path);
    source->len = (uint64_t)st.st_size;
    return MR_OK;
}

static mr_status read_source(const struct source *source, size_t most, struct mr_bytes *text,
                             mr_error *error)
{
    int shown = mr_url_path_len(source->path), rc = 0;
    size_t len = (size_t)source->len;
    if (source->len > most)
        return mr_error_set(error, MR_ERR_IO, "%.*s has more than %zu bytes", shown, source->path,
                            most);
    mr_status status = mr_bytes_reserve(text, len + 1, error);
    if (status < 0)
        return status;
    text->len = len;
    if (source->object)
        status = mr_object_read(source->object, 0, text->data, len, error);
    else
        rc = mr_file_read_at(source->fd, 0, text->data, len, &text->len);
    if (rc < 0)
        status =
            mr_error_os(error, MR_ERR_IO, -rc, "cannot read %s %s", source->what, source->path);
    if (status < 0)
        return status;
    text->data[text->len] = '\0';
    return memchr(text->data, '\0', text->len)
               ? mr_error_set(error, MR_ERR_DAMAGED, "%.*s holds a zero byte", shown, source->path)
               : MR_OK;
}

mr_status mr_kind_text_read(const char *path, const char *what, size_t most,
                            struct mr_bytes *text_out, mr_error *error)
{
    struct source source = {.path = path, .what = what, .fd = -1};
    mr_status status = open_source(&source, error);
    if (status == MR_OK)
        status = read_source(&source, most, text_out, error);
    mr_object_close(source.object);
    if (source.fd >= 0)
        close(source.fd);
    return status;
}

char *mr_kind_text_line(char **rest)
{
    char *line = strsep(rest, "\n");
    if (!line || (!*line && !*rest)) /* the empty text after the last newline is no line */
        return NULL;
    line[strcspn(line, "\r")] = '\0';
    return line;
}

mr_status mr_kind_text_names(struct mr_catalog_builder *builder, const char *path, mr_error *error)
{
    struct mr_bytes text = {0};
    mr_status status = mr_kind_text_read(path, "the class names", MAX_NAMES_BYTES, &text, error);
    for (char *rest = (char *)text.data, *line;
         status == MR_OK && (line = mr_kind_text_line(&rest));)
        status = mr_catalog_builder_class(builder, line, error);
    mr_bytes_fini(&text);
    return status;
}
