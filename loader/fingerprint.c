/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes a digest of a loader's input, for ranks to compare.
 *
 * Invariant: the digest is the same for the same files in another folder, and for the same batches
 * made in another way. So it contains neither the root's path nor any option for workers and
 * devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "dataset/catalog_mix.h"
#include "dataset/dataset.h"
#include "dataset/file.h"
#include "dataset/pack_index.h"
#include "loader/loader.h"
#include "sampler/sampler.h"
#include "transforms/transform.h"

#include <millrace/run.h>

enum {
    /*
     * file sizes to look up, and labels to read from files: a million would take minutes on a
     * network disk
     */
    MAX_LOOKS = 65536,
    LABEL_BYTES = 4096 /* of a label, from its start */
};

/* "mrfgrpr2"; changes when the contents of the digest change */
#define KEY UINT64_C(0x6d72666772707232)

/* The i-th of at most MAX_LOOKS indices, spread evenly over n. */
static uint64_t spread_index(uint64_t i, uint64_t n)
{
    return n <= MAX_LOOKS ? i : (uint64_t)((unsigned __int128)i * n / MAX_LOOKS);
}

static uint64_t count_looks(uint64_t n)
{
    return n < MAX_LOOKS ? n : MAX_LOOKS;
}

/* Buffers that are too large for the caller's stack. */
struct scratch {
    char path[MR_CATALOG_PATH];
    unsigned char stored[LABEL_BYTES];
    unsigned char label[]; /* label_bytes of the dataset */
};

static void add_kind(struct mr_digest *digest, const struct mr_sample_kind *kind)
{
    const uint64_t words[] = {kind->encoded, kind->picture, kind->dtype,
                              kind->ndim,    kind->layout,  kind->data_bytes};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        mr_digest_add_u64(digest, words[i]);
    for (uint32_t i = 0; i < kind->ndim && i < MR_MAX_NDIM - 1; i++)
        mr_digest_add_u64(digest, (uint64_t)kind->shape[i]);
    if (kind->pack != MR_PACK_NONE)
        mr_digest_add_u64(digest, (uint64_t)kind->pad << 32 | kind->token_columns);
}

/*
 * The path of file i as it goes into the digest. A file of records and the file of a further member
 * are known by the path that they were opened with, so only the name counts, not the folder. Names
 * of classes are left out: they do not change a batch, and where classes are folders, the paths
 * contain them.
 */
static const char *cut_path(const struct mr_catalog *catalog, uint64_t i, const char *path)
{
    bool is_image = mr_catalog_loose_files(catalog) && i < (uint64_t)mr_catalog_count(catalog);
    const char *slash = is_image ? NULL : strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void add_names(struct mr_digest *digest, const struct mr_catalog *catalog,
                      char path[MR_CATALOG_PATH])
{
    uint64_t n = mr_catalog_n_files(catalog);
    mr_digest_add_u64(digest, n);
    for (uint64_t i = 0; i < n; i++)
        mr_digest_add_text(
            digest, mr_catalog_path(catalog, i, path) == 0 ? cut_path(catalog, i, path) : "");
}

/* A file without a size differs from every file with one. */
static void add_sizes(struct mr_digest *digest, const struct mr_catalog *catalog,
                      char path[MR_CATALOG_PATH])
{
    struct stat st;
    struct mr_object_version version;
    uint64_t n = mr_catalog_n_files(catalog);
    for (uint64_t i = 0; i < count_looks(n); i++) {
        bool is_known = mr_catalog_version(catalog, spread_index(i, n), &version);
        uint64_t size = is_known ? version.size : UINT64_MAX;
        if (!is_known && mr_catalog_path(catalog, spread_index(i, n), path) == 0 &&
            fstatat(mr_catalog_root(catalog), path, &st, 0) == 0)
            size = (uint64_t)st.st_size;
        mr_digest_add_u64(digest, size);
    }
}

/* Labels that the catalog knows from the folder, the list or the shards' indexes. */
static void add_known_labels(struct mr_digest *digest, const struct mr_catalog *catalog,
                             void *label)
{
    size_t len = mr_catalog_kind(catalog)->label_bytes;
    struct mr_extent extent;
    for (int64_t i = 0; i < mr_catalog_count(catalog); i++) {
        bool is_known = mr_catalog_label(catalog, i, label, &extent, NULL) == MR_OK;
        mr_digest_add(digest, label, is_known ? len : 0);
    }
}

/* Members whose bytes are in the catalog. */
static void add_known_members(struct mr_digest *digest, const struct mr_catalog *catalog)
{
    struct mr_extent members[MR_MAX_MEMBERS];
    for (int64_t i = 0; i < mr_catalog_count(catalog); i++) {
        mr_catalog_members(catalog, i, members);
        for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++) {
            const uint8_t *bytes = mr_catalog_memory(catalog, &members[k]);
            if (bytes)
                mr_digest_add(digest, bytes, (size_t)members[k].len);
        }
    }
}

struct label_file {
    int fd; /* -1: no file is open */
    uint64_t file;
};

static void add_stored_label(struct mr_digest *digest, const struct mr_catalog *catalog,
                             int64_t index, const struct mr_extent *extent, struct label_file *open,
                             unsigned char bytes[LABEL_BYTES])
{
    size_t n = 0;
    if (open->fd < 0 || open->file != extent->file) {
        if (open->fd >= 0)
            close(open->fd);
        open->file = extent->file;
        if (mr_file_open_sample(catalog, index, extent->file, &open->fd, NULL) != MR_OK)
            open->fd = -1;
    }
    size_t wanted = extent->len < LABEL_BYTES ? (size_t)extent->len : LABEL_BYTES;
    if (open->fd >= 0 && mr_file_read_at(open->fd, extent->offset, bytes, wanted, &n) != 0)
        n = 0;
    mr_digest_add_u64(digest, n);
    mr_digest_add(digest, bytes, n);
}

/* Labels in files of records. Samples without stored labels have label zero. */
static void add_stored_labels(struct mr_digest *digest, const struct mr_catalog *catalog,
                              struct scratch *scratch)
{
    struct label_file open = {.fd = -1};
    uint64_t n = (uint64_t)mr_catalog_count(catalog);
    struct mr_extent extent;
    for (uint64_t i = 0; i < count_looks(n); i++) {
        int64_t index = (int64_t)spread_index(i, n);
        if (mr_catalog_label(catalog, index, scratch->label, &extent, NULL) != MR_PENDING)
            break;
        add_stored_label(digest, catalog, index, &extent, &open, scratch->stored);
    }
    if (open.fd >= 0)
        close(open.fd);
}

static void add_packed_sample(struct mr_digest *digest, const struct mr_pack_index *pack,
                              uint64_t i)
{
    const struct mr_pack_sample *sample;
    struct mr_packed_image image;
    if (!mr_pack_index_sample(pack, i, &sample, &image)) {
        mr_digest_add_u64(digest, UINT64_MAX); /* not the number of an encoding */
        return;
    }
    const uint64_t words[] = {sample->encoding, sample->checksum, sample->width, sample->height,
                              sample->orientation};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        mr_digest_add_u64(digest, words[k]);
    if (image.template)
        mr_digest_add(digest, image.template, sizeof *image.template);
    for (uint32_t k = 0; k < mr_pack_index_n_members(pack); k++) {
        struct mr_pack_member member = {0};
        uint64_t offset;
        mr_pack_index_member(pack, i, k, &member, &offset);
        mr_digest_add_u64(digest, member.checksum);
    }
}

/*
 * What each sample of a pack contains, and its name. This does not depend on the shards that the
 * pack is cut into, or on its folder.
 */
static void add_pack(struct mr_digest *digest, const struct mr_catalog *catalog)
{
    const struct mr_pack_index *pack = mr_catalog_pack(catalog);
    mr_digest_add_text(digest, "pack");
    for (uint64_t i = 0; i < (uint64_t)mr_catalog_count(catalog); i++) {
        const char *name = mr_pack_index_name(pack, i);
        const void *label = mr_pack_index_label(pack, i);
        add_packed_sample(digest, pack, i);
        mr_digest_add_text(digest, name ? name : "");
        mr_digest_add(digest, label ? label : "",
                      label ? mr_catalog_kind(catalog)->label_bytes : 0);
    }
}

/* The sizes and weights of a mixture's sources, and what makes their order. */
static void add_mixture(struct mr_digest *digest, const struct mr_catalog *catalog,
                        const mr_loader_options *o)
{
    uint32_t n = catalog ? mr_catalog_n_sources(catalog) : 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct mr_catalog_source *source = mr_catalog_mix_source(catalog, k);
        mr_digest_add_u64(digest, source->first_sample);
        mr_digest_add(digest, &source->weight, sizeof source->weight);
    }
    const uint64_t words[] = {o->mix_order, o->mix_stop, o->mix_samples};
    mr_digest_add(digest, words, n > 0 ? sizeof words : 0);
}

static bool add_dataset(struct mr_digest *digest, const mr_dataset *dataset)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    add_kind(digest, mr_dataset_kind(dataset));
    mr_digest_add_u64(digest, (uint64_t)mr_dataset_n_samples(dataset));
    if (!catalog) /* callbacks: nothing more is known */
        return true;
    if (mr_catalog_is_pack(catalog)) {
        add_pack(digest, catalog);
        return true;
    }
    struct scratch *scratch = malloc(sizeof *scratch + mr_catalog_kind(catalog)->label_bytes);
    if (!scratch)
        return false;
    add_names(digest, catalog, scratch->path);
    add_sizes(digest, catalog, scratch->path);
    if (mr_catalog_kind(catalog)->boxes > 0)
        add_known_members(digest, catalog);
    if (mr_catalog_loose_files(catalog) || mr_catalog_kind(catalog)->encoded)
        add_known_labels(digest, catalog, scratch->label);
    else
        add_stored_labels(digest, catalog, scratch);
    free(scratch);
    return true;
}

static void add_float(struct mr_digest *digest, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    mr_digest_add_u64(digest, bits);
}

/* The numbers of the last step. The plan has them even if a device does that step. */
static void add_normalize(struct mr_digest *digest, const struct mr_plan *plan)
{
    mr_digest_add_u64(digest, plan->exact);
    for (uint32_t c = 0; c < plan->channels; c++) {
        add_float(digest, plan->scale[c]);
        add_float(digest, plan->bias[c]);
        if (plan->exact) /* the exact orders differ in the table alone */
            mr_digest_add(digest, plan->table[c], sizeof plan->table[c]);
    }
}

/* All bytes of an operation are values: those that a kind does not use are zero. */
static void add_op(struct mr_digest *digest, const struct mr_op *op)
{
    mr_digest_add(digest, op, sizeof *op);
}

static void add_columns(struct mr_digest *digest, const struct mr_columns *columns)
{
    for (uint32_t i = 0; i < columns->n; i++) {
        const struct mr_column *column = &columns->column[i];
        mr_digest_add_text(digest, column->name);
        mr_digest_add_u64(digest, column->dtype);
        mr_digest_add_u64(digest, column->ndim);
        for (uint32_t k = 0; k < column->ndim; k++)
            mr_digest_add_u64(digest, (uint64_t)column->shape[k]);
    }
}

/* The operations, then what the plan keeps apart from them. */
static void add_plan(struct mr_digest *digest, const struct mr_plan *plan)
{
    mr_digest_add_u64(digest, plan->n_ops);
    for (uint32_t i = 0; i < plan->n_ops; i++)
        add_op(digest, &plan->ops[i]);
    add_op(digest, &plan->erase);
    add_op(digest, &plan->mix);
    if (plan->kind.boxes)
        mr_digest_add_u64(digest, plan->kind.boxes);
    if (plan->mask.is_used)
        mr_digest_add(digest, &plan->mask, sizeof plan->mask);
    mr_digest_add_u64(digest, plan->use_exif);
    add_normalize(digest, plan);
    if (plan->view.name[0] || plan->view.n_crops > 0)
        mr_digest_add(digest, &plan->view, sizeof plan->view);
}

/* The plans of all views, then the columns of a batch. */
static void add_transform(struct mr_digest *digest, const struct mr_host *host)
{
    for (uint32_t i = 0; i <= host->shared.control->n_views; i++)
        add_plan(digest, mr_control_mixed(&host->shared, i));
    add_columns(digest, &host->shared.control->layout.columns);
}

static void add_options(struct mr_digest *digest, const mr_loader_options *o)
{
    const uint64_t words[] = {o->batch_size, o->seed,      o->no_shuffle,     o->order,
                              o->tail,       o->drop_last, o->world_size,     o->dtype,
                              o->layout,     o->on_error,  o->max_file_bytes, o->max_pixels};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        mr_digest_add_u64(digest, words[i]);
    if (o->ragged)
        mr_digest_add_u64(digest, o->max_row_bytes);
    if (o->rank_slices)
        mr_digest_add_text(digest, "rank_slices");
    if (o->pad_batch != 0)
        mr_digest_add_u64(digest, o->pad_batch);
}

/* An order that has each sample once adds nothing, so its hash is that of earlier versions. */
static void add_draws(struct mr_digest *digest, const struct mr_host *host)
{
    const mr_loader_options *o = &host->options;
    uint64_t weights = mr_sampler_digest(host->sampler);
    const uint64_t words[] = {o->repeat, o->repeat_form, weights, o->no_replacement};
    for (size_t i = 0; (o->repeat != 0 || weights != 0) && i < sizeof words / sizeof *words; i++)
        mr_digest_add_u64(digest, words[i]);
}

uint64_t mr_loader_fingerprint(const mr_loader *loader)
{
    struct mr_digest digest;
    if (!loader)
        return 0;
    mr_digest_init(&digest, KEY);
    bool is_complete = add_dataset(&digest, loader->dataset);
    add_transform(&digest, loader->host);
    add_options(&digest, &loader->host->options);
    add_draws(&digest, loader->host);
    add_mixture(&digest, mr_dataset_catalog(loader->dataset), &loader->host->options);
    return mr_digest_end(&digest, is_complete);
}
