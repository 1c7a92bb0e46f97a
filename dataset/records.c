/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files of fixed-size records. The data of record i begin at header + i * stride. If the
 * stride is less than the size of a record, the records overlap. The label's offset may be
 * negative, so the bytes to read may begin before the data.
 */
#include "dataset/records.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "base/words.h"
#include "dataset/spec.h"
#include "dataset/catalog_build.h"
#include "dataset/remote/url.h"

/* If data and label are further apart than this, they are read by two reads. */
enum { MAX_GAP = 4096 };

#define KNOWN_KEYS                                                                                 \
    "bytes, header, stride, dtype, shape, layout, label_off, label_bytes, label_dtype, "           \
    "label_shape"

/* Runs first, so that a misspelt key is reported, not the value that is missing because of it. */
static mr_status check_keys(struct mr_spec *spec, mr_error *error)
{
    static const char *const keys[] = {"bytes",       "header",     "stride",    "dtype",
                                       "shape",       "layout",     "label_off", "label_bytes",
                                       "label_dtype", "label_shape"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        mr_spec_take(spec, keys[i]);
    return mr_spec_finish(spec, KNOWN_KEYS, error);
}

static int64_t label_end(const struct mr_record_layout *layout)
{
    return layout->label_len > 0 ? layout->label_off + layout->label_len : 0;
}

int64_t mr_records_needed(const struct mr_record_layout *layout)
{
    int64_t data = (int64_t)layout->kind.data_bytes;
    return label_end(layout) > data ? label_end(layout) : data;
}

uint64_t mr_records_in(const struct mr_record_layout *layout, int64_t size)
{
    /* no overflow: each term is between 0 and INT64_MAX / 2 */
    int64_t room = size - layout->header - mr_records_needed(layout);
    return room < 0 ? 0 : 1 + (uint64_t)(room / layout->stride);
}

void mr_records_parts(const struct mr_record_layout *layout, struct mr_catalog_record *record_out)
{
    int64_t data_len = (int64_t)layout->kind.data_bytes, off = layout->label_off,
            len = layout->label_len;
    struct mr_catalog_record record = {.header = (uint64_t)layout->header,
                                       .stride = (uint64_t)layout->stride,
                                       .n_parts = 1,
                                       .part_len = {(uint64_t)data_len},
                                       .label_len = (uint64_t)len,
                                       .widen = layout->widen};
    if (len > 0 && (off - data_len > MAX_GAP || -(off + len) > MAX_GAP)) {
        record.n_parts = 2;
        record.part_off[1] = off;
        record.part_len[1] = (uint64_t)len;
        record.label_at = (uint64_t)data_len;
    } else if (len > 0) {
        int64_t start = off < 0 ? off : 0;
        record.part_off[0] = start;
        record.part_len[0] = (uint64_t)(mr_records_needed(layout) - start);
        record.data_at = (uint64_t)-start;
        record.label_at = (uint64_t)(off - start);
    }
    *record_out = record;
}

/* "3x32x32" or "3,32,32". */
static mr_status parse_shape(const char *key, const char *text, uint32_t *ndim_out,
                             int64_t *shape_out, mr_error *error)
{
    uint32_t ndim = 0;
    for (const char *rest = text;;) {
        char *end;
        errno = 0;
        long long dim = *rest >= '0' && *rest <= '9' ? strtoll(rest, &end, 10) : 0;
        if (dim < 1 || errno || ndim == MR_MAX_NDIM - 1 || (*end && *end != 'x' && *end != ','))
            return mr_error_set(error, MR_ERR_INVALID,
                                "%s '%s' is not 1 to %d whole numbers such as 3x32x32", key, text,
                                MR_MAX_NDIM - 1);
        shape_out[ndim++] = dim;
        if (*end == '\0')
            break;
        rest = end + 1;
    }
    *ndim_out = ndim;
    return MR_OK;
}

static mr_status take_dtype(struct mr_spec *spec, const char *key, mr_dtype *dtype_out,
                            mr_error *error)
{
    const char *text = mr_spec_take(spec, key);
    if (text && mr_dtype_parse(text, dtype_out) != MR_OK)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "%s '%s' is none of u8, i8, u16, i16, u32, i32, i64, f16, bf16, f32, f64", key, text);
    return MR_OK;
}

static mr_status take_layout(struct mr_spec *spec, mr_layout *layout_out, mr_error *error)
{
    const char *text = mr_spec_take(spec, "layout");
    if (!text)
        return MR_OK;
    if (mr_word_is(text, "chw"))
        *layout_out = MR_NCHW;
    else if (mr_word_is(text, "hwc"))
        *layout_out = MR_NHWC;
    else
        return mr_error_set(error, MR_ERR_INVALID, "layout '%s' is neither chw nor hwc", text);
    return MR_OK;
}

/* Read the keys bytes, dtype, shape and layout. */
static mr_status take_data(struct mr_spec *spec, struct mr_sample_kind *kind, mr_error *error)
{
    int64_t bytes = 0, shape[MR_MAX_NDIM - 1];
    uint32_t ndim = 0;
    mr_dtype dtype = MR_U8;
    mr_layout layout = MR_NCHW;
    const char *shape_text = mr_spec_take(spec, "shape");
    if (mr_spec_take_int(spec, "bytes", 1, INT64_MAX / 4, &bytes, error) < 0 ||
        take_dtype(spec, "dtype", &dtype, error) < 0 || take_layout(spec, &layout, error) < 0 ||
        (shape_text && parse_shape("shape", shape_text, &ndim, shape, error) < 0))
        return MR_ERR_INVALID;
    if (bytes == 0 && !shape_text)
        return mr_error_set(error, MR_ERR_INVALID, "records need bytes= or shape=");
    int64_t size = (int64_t)mr_dtype_size(dtype);
    if (!shape_text) {
        if (bytes % size != 0)
            return mr_error_set(error, MR_ERR_INVALID,
                                "bytes %" PRId64 " is not a multiple of %" PRId64
                                ", the size of %s",
                                bytes, size, mr_dtype_name(dtype));
        ndim = 1;
        shape[0] = bytes / size;
    }
    if (!mr_kind_set_raw(kind, dtype, ndim, shape, layout) || kind->data_bytes > INT64_MAX / 4)
        return mr_error_set(error, MR_ERR_INVALID, "shape '%s' of %s is too large", shape_text,
                            mr_dtype_name(dtype));
    if (bytes != 0 && kind->data_bytes != (uint64_t)bytes)
        return mr_error_set(error, MR_ERR_INVALID,
                            "shape '%s' of %s has %" PRIu64 " bytes, but bytes is %" PRId64,
                            shape_text, mr_dtype_name(dtype), kind->data_bytes, bytes);
    return MR_OK;
}

/* Describe a label that is passed on unchanged: label_dtype and label_shape. */
static mr_status set_label_array(struct mr_record_layout *layout, mr_dtype dtype, uint32_t ndim,
                                 const int64_t *shape, int64_t label_bytes, mr_error *error)
{
    struct mr_sample_kind *kind = &layout->kind;
    int64_t size = (int64_t)mr_dtype_size(dtype);
    if (ndim == 0 && label_bytes > size && label_bytes % size == 0) {
        ndim = 1;
        kind->label_shape[0] = label_bytes / size;
    } else if (ndim > 0) {
        memcpy(kind->label_shape, shape, ndim * sizeof *shape);
    }
    kind->label_dtype = dtype;
    kind->label_ndim = ndim;
    if (!mr_kind_shape_bytes(dtype, ndim, kind->label_shape, &kind->label_bytes) ||
        kind->label_bytes > INT64_MAX / 4)
        return mr_error_set(error, MR_ERR_INVALID, "label_shape is too large");
    if (label_bytes != 0 && kind->label_bytes != (uint64_t)label_bytes)
        return mr_error_set(error, MR_ERR_INVALID,
                            "label_shape and label_dtype have %" PRIu64
                            " bytes, but label_bytes is %" PRId64,
                            kind->label_bytes, label_bytes);
    layout->label_len = (int64_t)kind->label_bytes;
    return MR_OK;
}

static mr_status take_label(struct mr_spec *spec, struct mr_record_layout *layout, mr_error *error)
{
    int64_t bytes = 0, shape[MR_MAX_NDIM - 1], off = (int64_t)layout->kind.data_bytes;
    uint32_t ndim = 0;
    mr_dtype dtype = MR_DTYPE_DEFAULT;
    const char *shape_text = mr_spec_take(spec, "label_shape");
    bool has_off = mr_spec_take(spec, "label_off") != NULL;
    if (mr_spec_take_int(spec, "label_bytes", 1, INT64_MAX / 4, &bytes, error) < 0 ||
        mr_spec_take_int(spec, "label_off", -(INT64_MAX / 4), INT64_MAX / 4, &off, error) < 0 ||
        take_dtype(spec, "label_dtype", &dtype, error) < 0 ||
        (shape_text && parse_shape("label_shape", shape_text, &ndim, shape, error) < 0))
        return MR_ERR_INVALID;
    layout->label_off = off;
    if (dtype != MR_DTYPE_DEFAULT)
        return set_label_array(layout, dtype, ndim, shape, bytes, error);
    if (shape_text)
        return mr_error_set(error, MR_ERR_INVALID, "label_shape needs label_dtype");
    if (bytes == 0 && has_off)
        return mr_error_set(error, MR_ERR_INVALID, "label_off needs label_bytes or label_dtype");
    if (bytes != 0 && bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "label_bytes %" PRId64 " is not 1, 2, 4 or 8; other labels need label_dtype", bytes);
    mr_kind_set_integer_label(&layout->kind);
    layout->label_len = bytes;
    layout->widen = bytes != 0;
    return MR_OK;
}

static mr_status take_record_layout(struct mr_spec *spec, struct mr_record_layout *layout,
                                    mr_error *error)
{
    if (check_keys(spec, error) < 0 || take_data(spec, &layout->kind, error) < 0 ||
        take_label(spec, layout, error) < 0 ||
        mr_spec_take_int(spec, "header", 0, INT64_MAX / 4, &layout->header, error) < 0)
        return MR_ERR_INVALID;
    int64_t start = layout->label_len > 0 && layout->label_off < 0 ? layout->label_off : 0;
    layout->stride = mr_records_needed(layout) - start;
    if (mr_spec_take_int(spec, "stride", 1, INT64_MAX / 4, &layout->stride, error) < 0)
        return MR_ERR_INVALID;
    if (layout->header + start < 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "label_off %" PRId64
                            " is before the start of the file: header is %" PRId64,
                            layout->label_off, layout->header);
    return MR_OK;
}

static mr_status find_file_size(int root, const char *path, const char *shown, int64_t *size_out,
                                mr_error *error)
{
    struct stat st;
    if (fstatat(root, path, &st, 0) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "%s", shown);
    if (!S_ISREG(st.st_mode))
        return mr_error_set(error, MR_ERR_IO, "%s is not a regular file", shown);
    *size_out = st.st_size;
    return MR_OK;
}

/* Append a file of size bytes to the catalog. */
static mr_status add_file(struct mr_catalog_builder *builder, const struct mr_record_layout *layout,
                          const char *path, int64_t size, mr_error *error)
{
    mr_status status = mr_bytes_append_u64(&builder->sections[MR_SECTION_STARTS],
                                           builder->header.n_samples, error);
    if (status == MR_OK)
        status = mr_catalog_builder_name(builder, path, error);
    if (status == MR_OK && size > INT64_MAX / 4)
        status = mr_error_set(error, MR_ERR_IO, "%.*s has %" PRId64 " bytes", mr_url_path_len(path),
                              path, size);
    if (status == MR_OK &&
        (!mr_checked_add_u64(builder->header.n_samples, mr_records_in(layout, size),
                             &builder->header.n_samples) ||
         builder->header.n_samples > INT64_MAX))
        status =
            mr_error_set(error, MR_ERR_DAMAGED, "the files up to %.*s have more than 2^63 records",
                         mr_url_path_len(path), path);
    builder->header.n_files++;
    return status;
}

static mr_status finish_catalog(struct mr_catalog_builder *builder,
                                const struct mr_record_layout *layout, int *fd_out, mr_error *error)
{
    builder->header.kind = layout->kind;
    mr_records_parts(layout, &builder->header.record);
    mr_status status = mr_bytes_append_u64(&builder->sections[MR_SECTION_STARTS],
                                           builder->header.n_samples, error);
    return status < 0 ? status : mr_catalog_builder_finish(builder, fd_out, error);
}

static mr_status build_records(const struct mr_spec *spec, const struct mr_record_layout *layout,
                               int fds[MR_CATALOG_N_FDS], struct mr_catalog_builder *builder,
                               mr_error *error)
{
    char absolute[PATH_MAX];
    int64_t size = 0;
    mr_status status = mr_kind_open_root(".", &fds[MR_CATALOG_FD_ROOT], absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(builder, "", absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_find_versions(builder, spec->paths, spec->n_paths, error);
    const struct mr_object_version *versions =
        (const void *)builder->sections[MR_SECTION_VERSIONS].data;
    for (size_t i = 0; status == MR_OK && i < spec->n_paths; i++) {
        const char *path = spec->paths[i];
        if (mr_url_is(path))
            size = (int64_t)versions[i].size;
        else
            status = find_file_size(fds[MR_CATALOG_FD_ROOT], path, path, &size, error);
        if (status == MR_OK)
            status = add_file(builder, layout, path, size, error);
    }
    if (status == MR_OK && builder->header.n_samples == 0)
        return mr_error_set(
            error, MR_ERR_DAMAGED,
            "%.*s holds no record: it has %" PRId64 " bytes, header and one record need %" PRId64,
            mr_url_path_len(spec->paths[spec->n_paths - 1]), spec->paths[spec->n_paths - 1], size,
            layout->header + mr_records_needed(layout));
    return status < 0 ? status : finish_catalog(builder, layout, &fds[MR_CATALOG_FD_REGION], error);
}

mr_status mr_records_open(struct mr_spec *spec, const mr_dataset_options *options,
                          int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct mr_record_layout layout = {0};
    mr_status status = take_record_layout(spec, &layout, error);
    if (status < 0)
        return status;
    struct mr_catalog_builder builder;
    status = mr_catalog_builder_init(&builder, MR_SCHEME_RECORDS, error);
    if (status == MR_OK)
        status = build_records(spec, &layout, fds_out, &builder, error);
    mr_catalog_builder_fini(&builder);
    return status;
}

enum {
    CIFAR_DATA = 3 * 32 * 32,
    CIFAR_RECORD = 1 + CIFAR_DATA,
    CIFAR_MAX_CLASSES = 10,
    CIFAR_BATCHES = 5
};

/* batches.meta.txt: one class name per line. The file is optional. */
static mr_status read_cifar_names(struct mr_catalog_builder *builder, int root, mr_error *error)
{
    char text[4096], *rest = text;
    int fd = mr_regular_file_open(root, "batches.meta.txt", O_RDONLY, NULL);
    if (fd < 0)
        return MR_OK;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    mr_status status = MR_OK;
    uint32_t n_classes = 0;
    for (char *line;
         status == MR_OK && n_classes < CIFAR_MAX_CLASSES && (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        if (*line) {
            status = mr_catalog_builder_class(builder, line, error);
            n_classes++;
        }
    }
    return status;
}

static mr_status add_cifar_file(struct mr_catalog_builder *builder,
                                const struct mr_record_layout *layout, int root, const char *dir,
                                const char *name, mr_error *error)
{
    char shown[PATH_MAX + 32];
    int64_t size = 0;
    snprintf(shown, sizeof shown, "%s/%s", dir, name);
    mr_status status = find_file_size(root, name, shown, &size, error);
    if (status < 0)
        return status;
    if (size == 0 || size % CIFAR_RECORD != 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s has %" PRId64 " bytes, which is not a multiple of CIFAR-10's %d",
                            shown, size, CIFAR_RECORD);
    return add_file(builder, layout, name, size, error);
}

static mr_status add_cifar_files(struct mr_catalog_builder *builder,
                                 const struct mr_record_layout *layout, int root, const char *dir,
                                 bool test, mr_error *error)
{
    if (test)
        return add_cifar_file(builder, layout, root, dir, "test_batch.bin", error);
    for (int i = 1; i <= CIFAR_BATCHES; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        if (faccessat(root, name, F_OK, 0) != 0 && errno == ENOENT)
            continue;
        mr_status status = add_cifar_file(builder, layout, root, dir, name, error);
        if (status < 0)
            return status;
    }
    if (builder->header.n_files == 0)
        return mr_error_set(error, MR_ERR_IO, "%s holds no data_batch_1.bin to data_batch_5.bin",
                            dir);
    return MR_OK;
}

static mr_status build_cifar10(const char *dir, bool test, int fds[MR_CATALOG_N_FDS],
                               struct mr_catalog_builder *builder, mr_error *error)
{
    struct mr_record_layout layout = {
        .header = 1, .stride = CIFAR_RECORD, .label_off = -1, .label_len = 1, .widen = true};
    mr_kind_set_raw(&layout.kind, MR_U8, 3, (const int64_t[]){3, 32, 32}, MR_NCHW);
    mr_kind_set_integer_label(&layout.kind);
    char absolute[PATH_MAX];
    mr_status status = mr_kind_open_root(dir, &fds[MR_CATALOG_FD_ROOT], absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(builder, dir, absolute, error);
    if (status == MR_OK)
        status = read_cifar_names(builder, fds[MR_CATALOG_FD_ROOT], error);
    if (status == MR_OK)
        status = add_cifar_files(builder, &layout, fds[MR_CATALOG_FD_ROOT], dir, test, error);
    return status < 0 ? status
                      : finish_catalog(builder, &layout, &fds[MR_CATALOG_FD_REGION], error);
}

mr_status mr_records_open_cifar10(struct mr_spec *spec, const mr_dataset_options *options,
                                  int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    const char *split = mr_spec_take(spec, "split");
    if (split && !mr_word_is(split, "train") && !mr_word_is(split, "test"))
        return mr_error_set(error, MR_ERR_INVALID,
                            "split '%s' of cifar10 is neither train nor test", split);
    if (mr_spec_finish(spec, "split", error) < 0)
        return MR_ERR_INVALID;
    struct mr_catalog_builder builder;
    mr_status status = mr_catalog_builder_init(&builder, MR_SCHEME_RECORDS, error);
    if (status == MR_OK)
        status = build_cifar10(spec->paths[0], split && mr_word_is(split, "test"), fds_out,
                               &builder, error);
    mr_catalog_builder_fini(&builder);
    return status;
}
