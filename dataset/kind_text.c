/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the small text files beside a dataset. */
#include "dataset/kind_text.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/file.h"

enum { MAX_NAMES_BYTES = 64 << 20 };

static mr_status read_file(int fd, const char *path, const char *what, size_t len,
                           struct mr_bytes *text, mr_error *error)
{
    mr_status status = mr_bytes_reserve(text, len + 1, error);
    if (status < 0)
        return status;
    int rc = mr_file_read_at(fd, 0, text->data, len, &text->len);
    if (rc < 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "cannot read %s %s", what, path);
    text->data[text->len] = '\0';
    return memchr(text->data, '\0', text->len)
               ? mr_error_set(error, MR_ERR_DAMAGED, "%s holds a zero byte", path)
               : MR_OK;
}

mr_status mr_kind_text_read(const char *path, const char *what, size_t most,
                            struct mr_bytes *text_out, mr_error *error)
{
    struct stat st;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, &st);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "cannot open %s %s", what, path);
    mr_status status =
        (uint64_t)st.st_size > most
            ? mr_error_set(error, MR_ERR_IO, "%s has more than %zu bytes", path, most)
            : read_file(fd, path, what, (size_t)st.st_size, text_out, error);
    close(fd);
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
