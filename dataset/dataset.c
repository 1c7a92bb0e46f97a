/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dataset object: descriptors and one mapping of the catalog, or the program's callbacks. It is
 * reference counted, because loaders use it after the program has destroyed it.
 */
#include "dataset/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "dataset/callbacks.h"
#include "dataset/file.h"
#include "dataset/kinds.h"
#include "dataset/list.h"
#include "dataset/remote/listing/listing.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

struct mr_dataset {
    _Atomic uint32_t n_refs;
    int fds[MR_CATALOG_N_FDS];
    struct mr_catalog *catalog; /* NULL with callbacks */
    bool has_callbacks;
    mr_callbacks callbacks;
    struct mr_sample_kind kind; /* with callbacks */
};

static mr_status alloc_dataset(mr_dataset **dataset_out, mr_error *error)
{
    mr_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return mr_error_memory(error, sizeof *dataset);
    dataset->n_refs = 1;
    for (int i = 0; i < MR_CATALOG_N_FDS; i++)
        dataset->fds[i] = -1;
    *dataset_out = dataset;
    return MR_OK;
}

static mr_status open_kind(mr_dataset *dataset, struct mr_spec *spec,
                           const mr_dataset_options *options, mr_error *error)
{
    mr_status status = spec->kind->open(spec, options, dataset->fds, error);
    return status < 0 ? status : mr_catalog_attach(dataset->fds, &dataset->catalog, error);
}

mr_status mr_dataset_open_object(const struct mr_catalog *catalog, uint64_t file,
                                 struct mr_object **object_out, mr_error *error)
{
    char url[MR_CATALOG_PATH];
    struct mr_object_version version;
    if (!mr_catalog_is_remote(catalog) || mr_catalog_url(catalog, file, url) != 0)
        return MR_PENDING;
    bool is_known = mr_catalog_version(catalog, file, &version);
    return mr_object_open(url, is_known ? &version : NULL, object_out, error);
}

static bool is_there(const struct mr_catalog *catalog, uint64_t file, const char *path)
{
    struct mr_object *object = NULL;
    mr_error error;
    mr_status status = mr_dataset_open_object(catalog, file, &object, &error);
    mr_object_close(object);
    if (status == MR_PENDING)
        return faccessat(mr_catalog_root(catalog), path, F_OK, 0) == 0;
    return status == MR_OK || error.os_error != ENOENT;
}

/* A member that all of the first images lack probably has a wrong suffix or folder. */
static void look_for_members(const struct mr_catalog *catalog)
{
    enum { N_LOOKED = 100 };
    const struct mr_sample_kind *kind = mr_catalog_kind(catalog);
    int64_t n = mr_catalog_count(catalog) < N_LOOKED ? mr_catalog_count(catalog) : N_LOOKED;
    for (uint32_t k = 0; k < kind->n_extra; k++) {
        char first[MR_CATALOG_PATH], path[MR_CATALOG_PATH];
        int64_t i = 0;
        for (; i < n; i++) {
            struct mr_extent members[MR_MAX_MEMBERS];
            mr_catalog_members(catalog, i, members);
            if (!mr_catalog_may_lack(catalog, members[k].file) ||
                mr_catalog_path(catalog, members[k].file, i == 0 ? first : path) != 0 ||
                is_there(catalog, members[k].file, i == 0 ? first : path))
                break;
        }
        if (i == n && n > 0)
            mr_log_line(MR_LOG_WARNING, "the first %" PRId64 " images have no '%s': no %s, ...", n,
                        kind->extra[k].name, first);
    }
}

static mr_status resolve_options(const mr_dataset_options *options, mr_dataset_options *out,
                                 mr_error *error)
{
    mr_status status = mr_options_copy(out, sizeof *out, options, "mr_dataset_options", error);
    return status < 0 ? status
                      : mr_options_check_reserved(out->reserved, sizeof out->reserved,
                                                  "mr_dataset_options", error);
}

mr_status mr_dataset_open(const char *spec, const mr_dataset_options *options,
                          mr_dataset **dataset_out, mr_error *error)
{
    if (!dataset_out)
        return mr_error_set(error, MR_ERR_INVALID, "dataset_out is NULL");
    *dataset_out = NULL;
    if (!spec || !*spec)
        return mr_error_set(error, MR_ERR_INVALID, "the dataset is not given");
    mr_dataset_options resolved;
    mr_status status = resolve_options(options, &resolved, error);
    struct mr_spec parsed;
    if (status == MR_OK)
        status = mr_spec_parse(spec, mr_kinds, &parsed, error);
    if (status < 0)
        return status;
    mr_dataset *dataset = NULL;
    status = alloc_dataset(&dataset, error);
    if (status == MR_OK) {
        status = open_kind(dataset, &parsed, &resolved, error);
        if (status < 0) {
            mr_dataset_destroy(dataset);
        } else {
            look_for_members(dataset->catalog);
            *dataset_out = dataset;
        }
    }
    mr_spec_fini(&parsed);
    return status;
}

mr_status mr_dataset_from_callbacks(const mr_callbacks *callbacks, mr_dataset **dataset_out,
                                    mr_error *error)
{
    if (!callbacks || !dataset_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL",
                            callbacks ? "dataset_out" : "callbacks");
    *dataset_out = NULL;
    mr_callbacks copy;
    struct mr_sample_kind kind;
    mr_dataset *dataset = NULL;
    mr_status status = mr_options_copy(&copy, sizeof copy, callbacks, "mr_callbacks", error);
    if (status == MR_OK)
        status =
            mr_options_check_reserved(&copy.reserved, sizeof copy.reserved, "mr_callbacks", error);
    if (status == MR_OK)
        status = mr_options_check_reserved(&copy.reserved_end, sizeof copy.reserved_end,
                                           "mr_callbacks", error);
    if (status == MR_OK)
        status = mr_callbacks_check(&copy, &kind, error);
    if (status == MR_OK)
        status = alloc_dataset(&dataset, error);
    if (status < 0)
        return status;
    dataset->has_callbacks = true;
    dataset->callbacks = copy;
    dataset->kind = kind;
    *dataset_out = dataset;
    return MR_OK;
}

/* Attach the catalog that was made with this status. */
static mr_status finish(mr_dataset *dataset, mr_status status, mr_dataset **dataset_out,
                        mr_error *error)
{
    if (status == MR_OK)
        status = mr_catalog_attach(dataset->fds, &dataset->catalog, error);
    if (status < 0)
        mr_dataset_destroy(dataset);
    else
        *dataset_out = dataset;
    return status;
}

mr_status mr_dataset_from_files(const char *const *paths, const int64_t *labels, int64_t n,
                                mr_dataset **dataset_out, mr_error *error)
{
    if (!dataset_out)
        return mr_error_set(error, MR_ERR_INVALID, "dataset_out is NULL");
    *dataset_out = NULL;
    if (!paths)
        return mr_error_set(error, MR_ERR_INVALID, "paths is NULL");
    if (n < 1)
        return mr_error_set(error, MR_ERR_INVALID, "n %" PRId64 " is not positive", n);
    mr_dataset *dataset;
    mr_status status = alloc_dataset(&dataset, error);
    if (status < 0)
        return status;
    status = mr_list_make(paths, labels, n, dataset->fds, error);
    return finish(dataset, status, dataset_out, error);
}

mr_status mr_dataset_from_store(const char *url, const mr_dataset_options *options,
                                mr_dataset **dataset_out, mr_error *error)
{
    if (!dataset_out)
        return mr_error_set(error, MR_ERR_INVALID, "dataset_out is NULL");
    *dataset_out = NULL;
    if (!url || !mr_url_is(url))
        return mr_error_set(error, MR_ERR_INVALID, "'%s' is no URL", url ? url : "");
    mr_dataset_options resolved;
    mr_dataset *dataset = NULL;
    mr_status status = resolve_options(options, &resolved, error);
    if (status == MR_OK)
        status = alloc_dataset(&dataset, error);
    if (status < 0)
        return status;
    status = mr_listing_open(url, &resolved, dataset->fds, error);
    return finish(dataset, status, dataset_out, error);
}

void mr_dataset_retain(mr_dataset *dataset)
{
    atomic_fetch_add_explicit(&dataset->n_refs, 1, memory_order_relaxed);
}

void mr_dataset_destroy(mr_dataset *dataset)
{
    if (!dataset || atomic_fetch_sub_explicit(&dataset->n_refs, 1, memory_order_acq_rel) != 1)
        return;
    mr_catalog_detach(dataset->catalog);
    for (int i = 0; i < MR_CATALOG_N_FDS; i++)
        if (dataset->fds[i] >= 0)
            close(dataset->fds[i]);
    free(dataset);
}

const struct mr_sample_kind *mr_dataset_kind(const mr_dataset *dataset)
{
    return dataset->catalog ? mr_catalog_kind(dataset->catalog) : &dataset->kind;
}

const mr_callbacks *mr_dataset_callbacks(const mr_dataset *dataset)
{
    return dataset->has_callbacks ? &dataset->callbacks : NULL;
}

const int *mr_dataset_fds(const mr_dataset *dataset)
{
    return dataset->fds;
}

const struct mr_catalog *mr_dataset_catalog(const mr_dataset *dataset)
{
    return dataset->catalog;
}

int64_t mr_dataset_n_samples(const mr_dataset *dataset)
{
    if (!dataset)
        return 0;
    return dataset->catalog ? mr_catalog_count(dataset->catalog) : dataset->callbacks.n_samples;
}

uint32_t mr_dataset_n_classes(const mr_dataset *dataset)
{
    return dataset && dataset->catalog ? mr_catalog_n_classes(dataset->catalog) : 0;
}

const char *mr_dataset_class_name(const mr_dataset *dataset, uint32_t i)
{
    return dataset && dataset->catalog ? mr_catalog_class_name(dataset->catalog, i) : NULL;
}

mr_annotations mr_dataset_annotations(const mr_dataset *dataset)
{
    return dataset ? (mr_annotations)mr_dataset_kind(dataset)->annotations : MR_ANNOTATIONS_NONE;
}

static mr_status check_index(const mr_dataset *dataset, int64_t index, mr_error *error)
{
    if (!dataset)
        return mr_error_set(error, MR_ERR_INVALID, "dataset is NULL");
    if (index < 0 || index >= mr_dataset_n_samples(dataset))
        return mr_error_set(error, MR_ERR_INVALID,
                            "index %" PRId64 " is not between 0 and %" PRId64, index,
                            mr_dataset_n_samples(dataset) - 1);
    return MR_OK;
}

static size_t write_name(const mr_dataset *dataset, int64_t index, bool relative, char *text_out,
                         size_t size)
{
    char name[2 * MR_CATALOG_PATH] = "";
    if (check_index(dataset, index, NULL) == MR_OK) {
        if (!dataset->catalog)
            snprintf(name, sizeof name, "sample %" PRId64, index);
        else if (relative)
            mr_catalog_relative_name(dataset->catalog, index, name, sizeof name);
        else
            mr_catalog_name(dataset->catalog, index, name, sizeof name);
    }
    return (size_t)snprintf(text_out, text_out ? size : 0, "%s", name);
}

size_t mr_dataset_name(const mr_dataset *dataset, int64_t index, char *text_out, size_t size)
{
    return write_name(dataset, index, false, text_out, size);
}

size_t mr_dataset_relative_name(const mr_dataset *dataset, int64_t index, char *text_out,
                                size_t size)
{
    return write_name(dataset, index, true, text_out, size);
}

static mr_status read_label(const mr_dataset *dataset, int64_t index,
                            const struct mr_extent *extent, int64_t *label_out, mr_error *error)
{
    uint8_t bytes[sizeof(int64_t)];
    int fd;
    size_t n;
    struct mr_object *object;
    mr_status status = mr_dataset_open_object(dataset->catalog, extent->file, &object, error);
    if (status == MR_OK) {
        status = mr_object_read(object, extent->offset, bytes, extent->len, error);
        mr_object_close(object);
        if (status == MR_OK)
            mr_catalog_widen(dataset->catalog, index, bytes, label_out);
        return status;
    }
    if (status == MR_PENDING)
        status = mr_file_open_sample(dataset->catalog, index, extent->file, &fd, error);
    if (status < 0)
        return status;
    int rc = mr_file_read_at(fd, extent->offset, bytes, extent->len, &n);
    close(fd);
    if (rc < 0)
        return mr_file_error(dataset->catalog, index, -rc, error);
    if (n < extent->len) {
        char name[512];
        mr_catalog_name(dataset->catalog, index, name, sizeof name);
        return mr_error_set(error, MR_ERR_IO, "%s: the file ends before the label", name);
    }
    mr_catalog_widen(dataset->catalog, index, bytes, label_out);
    return MR_OK;
}

mr_status mr_dataset_label(const mr_dataset *dataset, int64_t index, int64_t *label_out,
                           mr_error *error)
{
    mr_status status = check_index(dataset, index, error);
    if (status == MR_OK && !label_out)
        status = mr_error_set(error, MR_ERR_INVALID, "label_out is NULL");
    if (status < 0)
        return status;
    if (!dataset->catalog)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "labels of callbacks are known only after get");
    const struct mr_sample_kind *kind = mr_catalog_kind(dataset->catalog);
    if (kind->label_dtype != MR_I64 || kind->label_ndim != 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "the labels are records of %" PRIu64 " bytes", kind->label_bytes);
    struct mr_extent extent;
    int64_t label;
    status = mr_catalog_label(dataset->catalog, index, &label, &extent, error);
    if (status == MR_PENDING)
        status = read_label(dataset, index, &extent, &label, error);
    if (status == MR_ERR_DAMAGED) {
        status = MR_ERR_IO;
        if (error)
            error->status = status;
    }
    if (status == MR_OK)
        *label_out = label;
    return status;
}
