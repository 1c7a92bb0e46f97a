/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a dataset of loose files as a list: temporary name, fsync, rename, so a reader sees the
 * old list or the new one. A relative path in the new list starts from the folder of the new list,
 * not from that of the dataset.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/catalog_list.h"
#include "dataset/catalog_region.h"
#include "dataset/dataset.h"
#include "dataset/list.h"
#include "base/regular_file.h"
#include "dataset/list_line.h"
#include "dataset/remote/url.h"

struct output {
    const char *path;      /* of the list */
    char folder[PATH_MAX]; /* absolute; ends with a slash only if it is the root directory */
    char temporary[PATH_MAX + 64];
    FILE *file;
};

static void put_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '\t': fputs("\\t", file); break;
        case '\n': fputs("\\n", file); break;
        case '\\': fputs("\\\\", file); break;
        default: putc_unlocked(*text, file);
        }
    }
}

/* The part of an absolute path that is below folder; NULL if it is not below it. */
static const char *path_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    if (len > 0 && folder[len - 1] == '/')
        len--;
    return strncmp(path, folder, len) == 0 && path[len] == '/' && path[len + 1] ? path + len + 1
                                                                                : NULL;
}

/*
 * Write a path below the folder of the list. "./" is written before a "#", which would look like
 * the line of class names.
 */
static void write_relative(FILE *file, const char *folder, const char *path)
{
    if ((*folder ? *folder : *path) == '#')
        fputs("./", file);
    put_escaped(file, folder);
    if (*folder)
        putc_unlocked('/', file);
    put_escaped(file, path);
}

static void write_path(const struct output *output, const char *root, const char *path)
{
    const char *rest = path[0] == '/' ? path_below(path, output->folder) : NULL;
    if (rest) {
        write_relative(output->file, "", rest);
    } else if (path[0] == '/' || mr_url_is(path)) {
        put_escaped(output->file, path);
    } else if (strcmp(root, output->folder) == 0) {
        write_relative(output->file, "", path);
    } else if ((rest = path_below(root, output->folder))) {
        write_relative(output->file, rest, path);
    } else {
        put_escaped(output->file, root);
        if (root[strlen(root) - 1] != '/')
            putc_unlocked('/', output->file);
        put_escaped(output->file, path);
    }
}

/* The reader drops one "\r" before the newline, as of a CRLF line end. */
static void end_line(FILE *file, const char *last)
{
    size_t len = strlen(last);
    if (len > 0 && last[len - 1] == '\r')
        putc_unlocked('\r', file);
    putc_unlocked('\n', file);
}

/* The URL of a file that has one, the path of any other. */
static int find_path(const struct mr_catalog *catalog, uint64_t file,
                     char path_out[MR_CATALOG_PATH])
{
    int rc = mr_catalog_is_remote(catalog) ? mr_catalog_url(catalog, file, path_out) : -ENOENT;
    return rc == -ENOENT ? mr_catalog_path(catalog, file, path_out) : rc;
}

static mr_status fail_path(int64_t index, int rc, mr_error *error)
{
    return mr_error_os(error, MR_ERR_IO, -rc, "cannot make the path of sample %" PRId64, index);
}

static void write_classes(FILE *file, const struct mr_catalog *catalog)
{
    uint32_t n = mr_catalog_n_classes(catalog);
    const char *name = "";
    if (n == 0)
        return;
    fputs(MR_LIST_CLASSES, file);
    for (uint32_t i = 0; i < n; i++) {
        putc_unlocked('\t', file);
        name = mr_catalog_class_name(catalog, i);
        put_escaped(file, name);
    }
    end_line(file, name);
}

static bool is_lacking(const struct mr_catalog *catalog, uint64_t file, const char *path)
{
    return faccessat(mr_catalog_root(catalog), path, F_OK, 0) != 0 && errno == ENOENT &&
           mr_catalog_may_lack(catalog, file);
}

/*
 * Write the paths of the further members; an empty field for one that the sample lacks. Then the
 * version of the image, if line has one. NULL: the dataset is no list.
 */
static mr_status write_members(const struct output *output, const struct mr_catalog *catalog,
                               int64_t index, const struct mr_list_line *line, mr_error *error)
{
    struct mr_list_line field;
    char path[MR_CATALOG_PATH] = "";
    struct mr_extent members[MR_MAX_MEMBERS];
    mr_catalog_members(catalog, index, members);
    for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++) {
        path[0] = '\0';
        int rc = members[k].len > 0 ? find_path(catalog, members[k].file, path) : 0;
        if (rc < 0)
            return fail_path(index, rc, error);
        putc_unlocked('\t', output->file);
        if (*path && is_lacking(catalog, members[k].file, path))
            path[0] = '\0';
        if (*path)
            write_path(output, mr_catalog_absolute_root(catalog), path);
    }
    if (line && mr_list_line_further(line, mr_catalog_kind(catalog)->n_extra, &field)) {
        putc_unlocked('\t', output->file);
        fwrite(field.path, 1, field.path_len, output->file);
        path[0] = '\0';
    }
    end_line(output->file, path);
    return MR_OK;
}

static mr_status write_sample(const struct output *output, const struct mr_catalog *catalog,
                              int64_t index, mr_error *error)
{
    char path[MR_CATALOG_PATH];
    int rc = find_path(catalog, (uint64_t)index, path);
    if (rc < 0)
        return fail_path(index, rc, error);
    write_path(output, mr_catalog_absolute_root(catalog), path);
    putc_unlocked('\t', output->file);
    struct mr_list_line line;
    struct mr_extent extent;
    int64_t label;
    bool is_list = mr_catalog_list_line(catalog, index, &line);
    if (is_list) {
        fwrite(line.label, 1, line.label_len, output->file);
    } else {
        mr_status status = mr_catalog_label(catalog, index, &label, &extent, error);
        if (status < 0)
            return status;
        fprintf(output->file, "%" PRId64, label);
    }
    return write_members(output, catalog, index, is_list ? &line : NULL, error);
}

static mr_status write_all(const struct output *output, const struct mr_catalog *catalog,
                           mr_error *error)
{
    write_classes(output->file, catalog);
    mr_status status = MR_OK;
    for (int64_t i = 0; status == MR_OK && i < mr_catalog_count(catalog) && !ferror(output->file);
         i++)
        status = write_sample(output, catalog, i, error);
    if (status == MR_OK && (fflush(output->file) != 0 || ferror(output->file)))
        status = mr_error_os(error, MR_ERR_IO, errno, "cannot write %s", output->temporary);
    return status;
}

/* Find the absolute folder of the list, and create the temporary file in it. */
static mr_status create_temporary(struct output *output, mr_error *error)
{
    const char *slash = strrchr(output->path, '/');
    char *folder = slash ? strndup(output->path, (size_t)(slash - output->path) + 1) : strdup(".");
    if (!folder)
        return mr_error_memory(error, strlen(output->path));
    char *absolute = realpath(folder, output->folder);
    free(folder);
    if (!absolute)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot find the folder of %s", output->path);
    int fd = -1;
    for (unsigned i = 0; i < 100 && fd < 0 && (i == 0 || errno == EEXIST); i++) {
        int n = snprintf(output->temporary, sizeof output->temporary, "%s.%d-%u.tmp", output->path,
                         (int)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof output->temporary)
            return mr_error_os(error, MR_ERR_IO, ENAMETOOLONG, "%s", output->path);
        fd = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot create %s", output->temporary);
    output->file = fdopen(fd, "w");
    if (output->file)
        return MR_OK;
    int os_error = errno;
    close(fd);
    unlink(output->temporary);
    return mr_error_os(error, MR_ERR_NO_MEMORY, os_error, "fdopen of %s", output->temporary);
}

mr_status mr_dataset_save_list(const mr_dataset *dataset, const char *path, mr_error *error)
{
    if (!dataset || !path || !*path)
        return mr_error_set(error, MR_ERR_INVALID, "%s is not given", dataset ? "path" : "dataset");
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    if (!catalog || !mr_catalog_loose_files(catalog))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "only a dataset with one file per sample can be saved as a list");
    if (mr_catalog_region_len(catalog, MR_SECTION_STARTS) > 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "coco cannot be saved as a list: its boxes are not files of their own");
    if (mr_catalog_is_remote(catalog) &&
        mr_catalog_may_lack(catalog, mr_catalog_n_files(catalog) - 1))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "yolo at URLs cannot be saved as a list: the server would be asked "
                            "for every label file");
    if (mr_catalog_count(catalog) == 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "the dataset holds no sample, and a list needs one");
    if (*mr_catalog_absolute_root(catalog) == '\0')
        return mr_error_set(error, MR_ERR_IO,
                            "the absolute path of the dataset's folder is not known");
    struct output *output = calloc(1, sizeof *output);
    if (!output)
        return mr_error_memory(error, sizeof *output);
    output->path = path;
    mr_status status = create_temporary(output, error);
    if (status == MR_OK) {
        status = write_all(output, catalog, error);
        int rc = status == MR_OK ? mr_regular_file_publish(AT_FDCWD, fileno(output->file),
                                                           output->temporary, path)
                                 : 0;
        if (rc < 0)
            status = mr_error_os(error, MR_ERR_IO, -rc, "cannot write %s", path);
        else if (status < 0)
            unlink(output->temporary);
        fclose(output->file); /* its content is already flushed and synced */
    }
    free(output);
    return status;
}
