/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a list file: checks every line once and stores the start of every 16th line. Paths and
 * labels are read from the mapped text when a sample is requested. The mapped text is a copy in
 * shared memory if the list is small, otherwise the file. The form of the labels (how many numbers,
 * integers or not) is known only after the last line.
 */
#include "dataset/list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/shared_memory.h"
#include "dataset/file.h"
#include "dataset/spec.h"
#include "dataset/list_line.h"
#include "dataset/catalog_build.h"
#include "dataset/remote/object.h"
#include "dataset/remote/stores/credentials.h"
#include "dataset/remote/stores/store_name.h"
#include "dataset/remote/url.h"

/* A larger list is not copied: a copy takes time, and ranks share the pages of the file. */
enum { COPY_BYTES = 8 << 20 };

struct scan {
    const char *path; /* of the list, for messages */
    const char *text;
    size_t len;
    size_t first;        /* start of the first sample's line */
    uint64_t line_shift; /* 1 if a line of class names precedes it */
    locale_t c_locale;
    mr_dtype dtype; /* MR_DTYPE_DEFAULT: derived from the labels */
    const struct mr_extra_list *extra;
    bool has_url; /* a path is a URL */
    bool has_s3;  /* of S3, so its keys are needed */
    uint64_t n_lines;
    struct mr_label_form form; /* of all lines; n is the count of the first line */
    uint64_t huge_line;        /* the first line with an integer beyond int64 */
    uint64_t wide_line;        /* the first line with a number beyond f32 */
};

static mr_status fail_line(const struct scan *scan, uint64_t number, mr_error *error,
                           const char *what)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "%s:%" PRIu64 ": %s", scan->path,
                        number + scan->line_shift, what);
}

static bool is_url(const struct mr_list_line *line)
{
    return line->path_len >= strlen("https://") && mr_url_is(line->path);
}

static mr_status fail_path(const struct scan *scan, int rc, mr_error *error)
{
    return fail_line(
        scan, scan->n_lines, error,
        rc == -ENAMETOOLONG
            ? "the path has more than 4095 bytes"
            : "the path is empty, or has a zero byte, or a backslash not followed by t, n or \\");
}

static mr_status check_any_path(struct scan *scan, const struct mr_list_line *line, mr_error *error)
{
    char path[MR_CATALOG_PATH];
    mr_error wrong;
    int rc = mr_list_line_path(line, path);
    if (rc < 0)
        return fail_path(scan, rc, error);
    if (!mr_url_is(path))
        return MR_OK;
    scan->has_url = true;
    scan->has_s3 |= mr_store_name_find(path) == MR_STORE_S3;
    return mr_url_check(path, &wrong) == MR_OK ? MR_OK
                                               : fail_line(scan, scan->n_lines, error, wrong.text);
}

/*
 * Most paths need no unescaping and no copy: they have no backslash, are not empty, not too long
 * and no URLs.
 */
static mr_status check_path(struct scan *scan, const struct mr_list_line *line, mr_error *error)
{
    if (line->path_len > 0 && line->path_len < MR_CATALOG_PATH && !is_url(line) &&
        !memchr(line->path, '\\', line->path_len) && !memchr(line->path, '\0', line->path_len))
        return MR_OK;
    return check_any_path(scan, line, error);
}

/*
 * A path after the label may be empty: the sample does not have this member. One field more than
 * there are paths is the version of the image.
 */
static mr_status check_further(struct scan *scan, const struct mr_list_line *line, mr_error *error)
{
    struct mr_list_line further;
    struct mr_object_version version;
    uint64_t n = mr_list_line_n_further(line);
    if (n == scan->extra->n + 1 && mr_list_line_further(line, n - 1, &further) &&
        mr_list_line_version(&further, &version))
        n--;
    if (n != scan->extra->n)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s:%" PRIu64 ": the line has %" PRIu64
                            " further paths, the key extra names %" PRIu32,
                            scan->path, scan->n_lines + scan->line_shift, n, scan->extra->n);
    mr_status status = MR_OK;
    for (uint64_t k = 0; status == MR_OK && k < n && mr_list_line_further(line, k, &further); k++)
        status = further.path_len > 0 ? check_any_path(scan, &further, error) : MR_OK;
    return status;
}

static mr_status check_label(struct scan *scan, const struct mr_list_line *line, mr_error *error)
{
    struct mr_label_form form;
    if (!mr_list_line_label_form(line, scan->c_locale, &form))
        return fail_line(scan, scan->n_lines, error,
                         "the label is neither a number nor numbers separated by commas or spaces");
    if (scan->n_lines == 1)
        scan->form.n = form.n;
    if (form.n != scan->form.n)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s:%" PRIu64 ": the label has %" PRIu32
                            " numbers, the first has %" PRIu32,
                            scan->path, scan->n_lines + scan->line_shift, form.n, scan->form.n);
    scan->form.is_float |= form.is_float;
    if (form.is_huge && !scan->form.is_huge)
        scan->huge_line = scan->n_lines;
    if (form.is_wide && !scan->form.is_wide)
        scan->wide_line = scan->n_lines;
    scan->form.is_huge |= form.is_huge;
    scan->form.is_wide |= form.is_wide;
    return MR_OK;
}

/* Check a label whose dtype the SPEC states: every number must fit. */
static mr_status check_typed_label(struct scan *scan, const struct mr_list_line *line, void *buffer,
                                   mr_error *error)
{
    if (mr_list_line_label(line, scan->dtype, scan->form.n, scan->c_locale, buffer))
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s:%" PRIu64 ": the label is not %" PRIu32 " number%s of %s", scan->path,
                        scan->n_lines + scan->line_shift, scan->form.n,
                        scan->form.n == 1 ? "" : "s", mr_dtype_name(scan->dtype));
}

static mr_status check_line(struct scan *scan, const char *text, size_t len, void **buffer,
                            mr_error *error)
{
    struct mr_list_line line;
    if (!mr_list_line_split(text, len, &line))
        return fail_line(scan, scan->n_lines, error,
                         len ? "no tab between path and label" : "the line is empty");
    mr_status status = check_path(scan, &line, error);
    if (status == MR_OK && (line.further || scan->extra->n > 0))
        status = check_further(scan, &line, error);
    if (status == MR_OK)
        status = check_label(scan, &line, error);
    if (status < 0 || scan->dtype == MR_DTYPE_DEFAULT)
        return status;
    if (!*buffer)
        *buffer = malloc(scan->form.n * mr_dtype_size(scan->dtype));
    if (!*buffer)
        return mr_error_memory(error, scan->form.n * mr_dtype_size(scan->dtype));
    return check_typed_label(scan, &line, *buffer, error);
}

static mr_status scan_lines(struct scan *scan, struct mr_bytes *index, mr_error *error)
{
    const char *end = scan->text + scan->len;
    void *buffer = NULL; /* one label; used if the SPEC states its dtype */
    mr_status status = MR_OK;
    for (const char *line = scan->text + scan->first; status == MR_OK && line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        if (scan->n_lines % MR_CATALOG_STEP == 0)
            status = mr_bytes_append_u64(index, (uint64_t)(line - scan->text), error);
        scan->n_lines++;
        if (status == MR_OK)
            status = check_line(scan, line, (size_t)(stop - line), &buffer, error);
        line = stop + (stop < end);
    }
    free(buffer);
    if (status == MR_OK && scan->n_lines == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s holds no sample", scan->path);
    return status;
}

/* Read the first line if it is "# classes:<tab>name<tab>name". Any other first line is a sample. */
static mr_status scan_classes(struct scan *scan, struct mr_catalog_builder *builder,
                              mr_error *error)
{
    size_t mark = strlen(MR_LIST_CLASSES "\t");
    if (scan->len < mark || memcmp(scan->text, MR_LIST_CLASSES "\t", mark) != 0)
        return MR_OK;
    const char *stop = memchr(scan->text, '\n', scan->len);
    const char *end = stop ? stop : scan->text + scan->len;
    scan->first = (size_t)(end - scan->text) + (stop != NULL);
    scan->line_shift = 1;
    if (end[-1] == '\r')
        end--;
    mr_status status = MR_OK;
    for (const char *name = scan->text + mark - 1; status == MR_OK && name < end;) {
        name++; /* the tab */
        const char *tab = memchr(name, '\t', (size_t)(end - name));
        const char *name_end = tab ? tab : end;
        char plain[MR_CATALOG_PATH];
        if (mr_list_line_path(
                &(struct mr_list_line){.path = name, .path_len = (size_t)(name_end - name)},
                plain) < 0)
            return fail_line(scan, 0, error, "a class name is empty, too long or wrongly escaped");
        status = mr_catalog_builder_class(builder, plain, error);
        name = name_end;
    }
    return status;
}

static mr_status set_label_kind(const struct scan *scan, struct mr_sample_kind *kind,
                                mr_error *error)
{
    kind->encoded = 1;
    kind->picture = 1;
    kind->label_dtype = scan->dtype;
    if (scan->dtype == MR_DTYPE_DEFAULT)
        kind->label_dtype = scan->form.is_float ? MR_F32 : MR_I64;
    if (scan->form.is_huge && kind->label_dtype == MR_I64)
        return fail_line(scan, scan->huge_line, error, "the label does not fit into 64 bits");
    if (scan->form.is_wide && kind->label_dtype == MR_F32)
        return fail_line(scan, scan->wide_line, error,
                         "the label does not fit into f32; ?label=f64 holds it");
    kind->label_ndim = scan->form.n > 1;
    kind->label_shape[0] = scan->form.n > 1 ? (int64_t)scan->form.n : 0;
    kind->label_bytes = scan->form.n * mr_dtype_size(kind->label_dtype);
    return MR_OK;
}

static mr_status build_catalog(struct scan *scan, struct mr_catalog_builder *builder, int *fd_out,
                               mr_error *error)
{
    mr_status status = scan_classes(scan, builder, error);
    if (status == MR_OK)
        status = scan_lines(scan, &builder->sections[MR_SECTION_INDEX], error);
    if (status == MR_OK)
        status = set_label_kind(scan, &builder->header.kind, error);
    if (status < 0)
        return status;
    builder->header.n_samples = builder->header.n_files = scan->n_lines;
    builder->header.names_file_bytes = scan->len;
    const char *root = (char *)builder->sections[MR_SECTION_ABSOLUTE].data;
    if (scan->has_url || mr_url_is(root))
        builder->header.is_remote = 1;
    mr_extra_declare(scan->extra, &builder->header.kind);
    if (status == MR_OK && (scan->has_s3 || mr_store_name_find(root) == MR_STORE_S3))
        status = mr_credentials_find(true, error);
    return status == MR_OK ? mr_catalog_builder_finish(builder, fd_out, error) : status;
}

static mr_status open_list(const char *path, int *fd_out, size_t *len_out, mr_error *error)
{
    struct stat st;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, &st);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "cannot open the list %s", path);
    *fd_out = fd;
    if (st.st_size == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s holds no sample", path);
    *len_out = (size_t)st.st_size;
    return MR_OK;
}

static mr_status read_into(int copy, int list, const char *path, size_t len, mr_error *error)
{
    size_t n = 0;
    void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
    if (map == MAP_FAILED)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno,
                           "cannot map %zu bytes for a copy of the list %s", len, path);
    int rc = mr_file_read_at(list, 0, map, len, &n);
    munmap(map, len);
    if (rc < 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "cannot read the list %s", path);
    if (n < len)
        return mr_error_set(error, MR_ERR_IO,
                            "the list %s shrank from %zu to %zu bytes while it was read", path, len,
                            n);
    rc = mr_shared_memory_seal_content(copy);
    return rc < 0 ? mr_error_os(error, MR_ERR_IO, -rc, "cannot seal the copy of the list %s", path)
                  : MR_OK;
}

/* Load a list from its URL into shared memory. */
static mr_status load_list(const char *url, int *fd_out, size_t *len_out, mr_error *error)
{
    struct mr_object *object;
    mr_status status = mr_object_open(url, NULL, &object, error);
    if (status < 0)
        return status;
    *len_out = (size_t)mr_object_version(object)->size;
    status = *len_out > 0 ? mr_object_load(object, "millrace-list", fd_out, error)
                          : mr_error_set(error, MR_ERR_DAMAGED, "%.*s holds no sample",
                                         mr_url_path_len(url), url);
    mr_object_close(object);
    return status;
}

/* Copy a small list and replace its descriptor, so later changes of the file have no effect. */
static mr_status copy_list(const char *path, size_t len, int *fd, mr_error *error)
{
    int copy;
    if (len > COPY_BYTES || len > mr_shared_memory_limit())
        return MR_OK;
    mr_status status = mr_shared_memory_create("millrace-list", len, &copy, error);
    if (status < 0)
        return status;
    status = read_into(copy, *fd, path, len, error);
    if (status == MR_OK) {
        int list = *fd;
        *fd = copy;
        copy = list;
    }
    close(copy);
    return status;
}

mr_status mr_list_open_root(const char *path, struct mr_catalog_builder *builder, int *fd_out,
                            mr_error *error)
{
    char absolute[PATH_MAX];
    const char *slash = strrchr(path, '/');
    char *folder = strndup(path, mr_url_is(path) ? mr_url_folder_len(path)
                                 : slash         ? (size_t)(slash - path) + 1
                                                 : 0);
    if (!folder)
        return mr_error_memory(error, strlen(path));
    mr_status status = mr_kind_open_root(*folder ? folder : ".", fd_out, absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(builder, folder, absolute, error);
    free(folder);
    return status;
}

static mr_status scan_file(struct scan *scan, struct mr_catalog_builder *builder,
                           int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    /* MAP_PRIVATE, because a copy is sealed: see map_file() in catalog_region.c. */
    void *map = mmap(NULL, scan->len, PROT_READ, MAP_PRIVATE, fds[MR_CATALOG_FD_NAMES], 0);
    if (map == MAP_FAILED)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot map %zu bytes of the list %s",
                           scan->len, scan->path);
    scan->text = map;
    scan->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    mr_status status = MR_OK;
    if (scan->c_locale == (locale_t)0)
        status = mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot make the C locale");
    if (status == MR_OK)
        status = build_catalog(scan, builder, &fds[MR_CATALOG_FD_REGION], error);
    if (scan->c_locale != (locale_t)0)
        freelocale(scan->c_locale);
    munmap(map, scan->len);
    return status;
}

static mr_status take_keys(struct mr_spec *spec, mr_dtype *dtype_out,
                           struct mr_extra_list *extra_out, mr_error *error)
{
    const char *text = mr_spec_take(spec, "label");
    *dtype_out = MR_DTYPE_DEFAULT;
    if (text &&
        (mr_dtype_parse(text, dtype_out) != MR_OK || *dtype_out == MR_F16 || *dtype_out == MR_BF16))
        return mr_error_set(error, MR_ERR_INVALID,
                            "label '%s' is none of u8, i8, u16, i16, i32, i64, f32, f64", text);
    mr_status status = mr_extra_parse(spec, "extra", "NAME:BYTES", extra_out, error);
    return status < 0 ? status : mr_spec_finish(spec, "label, extra, boxes", error);
}

mr_status mr_list_scan(struct mr_catalog_builder *builder, const char *name, size_t len,
                       mr_dtype label_dtype, const struct mr_extra_list *extra,
                       int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    struct scan scan = {.path = name, .len = len, .dtype = label_dtype, .extra = extra};
    return scan_file(&scan, builder, fds, error);
}

mr_status mr_list_scan_beside(const char *name, size_t len, mr_dtype label_dtype,
                              const struct mr_extra_list *extra, int fds[MR_CATALOG_N_FDS],
                              mr_error *error)
{
    struct mr_catalog_builder builder;
    mr_status status = mr_catalog_builder_init(&builder, MR_SCHEME_LIST, error);
    if (status == MR_OK)
        status = mr_list_open_root(name, &builder, &fds[MR_CATALOG_FD_ROOT], error);
    if (status == MR_OK)
        status = mr_list_scan(&builder, name, len, label_dtype, extra, fds, error);
    mr_catalog_builder_fini(&builder);
    return status;
}

mr_status mr_list_open(struct mr_spec *spec, const mr_dataset_options *options,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    char *path = spec->paths[0];
    struct mr_extra_list extra;
    mr_dtype dtype;
    int *list = &fds_out[MR_CATALOG_FD_NAMES];
    size_t len = 0;
    bool is_remote = mr_url_is(path);
    mr_status status = take_keys(spec, &dtype, &extra, error);
    if (status == MR_OK)
        status =
            is_remote ? load_list(path, list, &len, error) : open_list(path, list, &len, error);
    if (status == MR_OK && !is_remote)
        status = copy_list(path, len, list, error);
    if (is_remote) /* neither messages nor the URLs of samples have the list's query */
        path[mr_url_shown_len(path)] = '\0';
    return status == MR_OK ? mr_list_scan_beside(path, len, dtype, &extra, fds_out, error) : status;
}
