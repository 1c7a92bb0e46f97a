/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_dataset_pack(): workers read and pack the samples; the caller's thread writes them in the
 * order of the pack.
 *
 * Invariant: only the same call continues an interrupted pack. So the origin text contains
 * everything that changes a byte of the pack: where the samples come from, a digest of their names
 * and labels, every option except the number of workers and the JPEG decoder, and whether marks are
 * made.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/digest.h"
#include "packs/pack_writer.h"
#include "packs/pack_job.h"
#include "packs/pack_sample_name.h"
#include "sampler/keyed.h"

enum { PAGE_BYTES = 4096 };
#define ORIGIN_KEY UINT64_C(0x6d7270616b6f7267) /* "mrpakorg" */

static_assert((int)MR_PACK_JPEG == MR_PACKED_JPEG && (int)MR_PACK_RAW == MR_PACKED_RAW &&
                  (int)MR_PACK_DCT == MR_PACKED_DCT,
              "the numbers of files and of the interface");

struct packing {
    struct mr_pack_job job; /* first: mr_pack_job_run() requires it */
    struct mr_packer_options packer;
    struct mr_keyed keyed; /* used with shuffle */
    struct mr_pack_writer *writer;
    uint64_t written_before; /* bytes that an interrupted call wrote */
};

struct worker {
    struct packing *packing;
    struct mr_packer *packer;
    struct mr_packer *restorer; /* if the dataset is a pack. Separate, because packer's result may
                                   still be in use */
    void *label;
};

/*
 * A worker's result. The item's bytes hold the row table, the checksums of rows, the label, the
 * sample's bytes, those of its members, and its marks, in this order.
 */
struct packed {
    struct mr_packed_image image;
    struct mr_packed_template template;
    size_t label_at;
    size_t bytes_at;
    size_t marks_at;
    uint64_t member_lens[MR_MAX_MEMBERS];
    bool made_anew;
    bool damaged;
    char why[200];
};

/* Workers. */

static mr_status open_worker(void *user, void **worker_out, mr_error *error)
{
    struct packing *packing = user;
    size_t label_bytes = (size_t)packing->job.kind->label_bytes;
    struct worker *w = calloc(1, sizeof *w);
    *worker_out = w;
    if (!w)
        return mr_error_memory(error, sizeof *w);
    w->packing = packing;
    w->label = calloc(1, label_bytes > 0 ? label_bytes : 1);
    if (!w->label)
        return mr_error_memory(error, label_bytes);
    mr_status status = mr_packer_create(&packing->packer, &w->packer, error);
    if (status == MR_OK && mr_catalog_is_pack(packing->job.catalog))
        status = mr_pack_job_packer(&packing->job, &w->restorer, error);
    return status;
}

static void close_worker(void *worker)
{
    struct worker *w = worker;
    mr_packer_destroy(w->packer);
    mr_packer_destroy(w->restorer);
    free(w->label);
    free(w);
}

/* Find the file's bytes, and copy its label to w->label. */
static mr_status find_file(struct worker *w, const struct mr_read *read, const uint8_t **bytes_out,
                           size_t *len_out, mr_error *error)
{
    const struct mr_pack_job *job = &w->packing->job;
    struct mr_packed_image image;
    mr_status status = mr_read_split(job->catalog, read, bytes_out, len_out, w->label, error);
    if (status != MR_OK || !w->restorer)
        return status;
    status = mr_pack_job_verify(job, read, &image, error);
    if (status == MR_OK)
        status = mr_pack_job_restore(w->restorer, &image, read, bytes_out, len_out, error);
    return status;
}

/* Compute where each part begins in the item's bytes. False: the sum overflows. */
static bool place_parts(struct packed *packed, size_t rows_len, size_t label_len, size_t *len_out)
{
    bool good = mr_checked_add(rows_len, label_len, &packed->bytes_at) &&
                mr_checked_add(packed->bytes_at, (size_t)packed->image.len, &packed->marks_at);
    for (uint32_t k = 0; k < MR_MAX_MEMBERS; k++)
        good = good &&
               mr_checked_add(packed->marks_at, (size_t)packed->member_lens[k], &packed->marks_at);
    return good && mr_checked_add(packed->marks_at, packed->image.marks_len, len_out);
}

static mr_status fill_item(const struct worker *w, const struct mr_packed_sample *sample,
                           const struct mr_read_part *members, struct mr_pipeline_item *item)
{
    struct packed *packed = item->result;
    uint32_t n_members = w->packing->job.kind->n_extra;
    size_t label_len = (size_t)w->packing->job.kind->label_bytes;
    size_t rows_len =
        sample->image.rows ? ((size_t)sample->image.n_rows + 1) * sizeof(uint32_t) : 0;
    size_t sums_len = sample->image.sums ? sample->image.n_rows * sizeof(uint32_t) : 0;
    size_t len;
    *packed = (struct packed){.image = sample->image,
                              .template = sample->template,
                              .label_at = rows_len + sums_len,
                              .made_anew = sample->made_anew,
                              .damaged = sample->damaged};
    snprintf(packed->why, sizeof packed->why, "%s", sample->why);
    for (uint32_t k = 0; k < n_members; k++)
        packed->member_lens[k] = members[k].len;
    if (!place_parts(packed, rows_len + sums_len, label_len, &len))
        return mr_error_memory(&item->error, SIZE_MAX);
    if (mr_pipeline_reserve(item, len) != MR_OK)
        return MR_ERR_NO_MEMORY;
    if (rows_len > 0)
        memcpy(item->bytes, sample->image.rows, rows_len);
    if (sums_len > 0)
        memcpy(item->bytes + rows_len, sample->image.sums, sums_len);
    memcpy(item->bytes + packed->label_at, w->label, label_len);
    if (sample->image.len > 0)
        memcpy(item->bytes + packed->bytes_at, sample->bytes, (size_t)sample->image.len);
    uint8_t *at = item->bytes + packed->bytes_at + sample->image.len;
    for (uint32_t k = 0; k < n_members; at += members[k++].len)
        if (members[k].len > 0)
            memcpy(at, members[k].bytes, members[k].len);
    if (sample->image.marks_len > 0)
        memcpy(item->bytes + packed->marks_at, sample->image.marks, sample->image.marks_len);
    return MR_OK;
}

static mr_status pack_sample(void *worker, const struct mr_read *read,
                             struct mr_pipeline_item *item)
{
    struct worker *w = worker;
    struct mr_packed_sample sample;
    const uint8_t *bytes;
    size_t len;
    mr_status status = find_file(w, read, &bytes, &len, &item->error);
    if (status == MR_OK)
        status = mr_packer_pack(w->packer, bytes, len, &sample, &item->error);
    return status == MR_OK ? fill_item(w, &sample, mr_read_find(read, MR_FOR_MEMBER), item)
                           : status;
}

/* The caller's thread. */

static int64_t index_at(const void *user, uint64_t position)
{
    const struct packing *packing = user;
    return (int64_t)(packing->job.options.shuffle ? mr_keyed_at(&packing->keyed, position)
                                                  : position);
}

/*
 * A re-encoded sample gets the ending of a JPEG: its name may be that of a PNG, and its encoding
 * does not show the difference.
 */
static const char *choose_ending(const struct packed *packed)
{
    return packed->made_anew && mr_packed_image_is_file(packed->image.encoding)
               ? MR_PACK_SAMPLE_NAME_JPEG
               : NULL;
}

static mr_status write_sample(struct packing *packing, const struct mr_pipeline_item *item,
                              mr_error *error)
{
    const struct packed *packed = item->result;
    char name[MR_CATALOG_PATH];
    struct mr_pack_entry entry = {.image = packed->image,
                                  .bytes = item->bytes + packed->bytes_at,
                                  .name = name,
                                  .label = item->bytes + packed->label_at};
    memcpy(entry.member_lens, packed->member_lens, sizeof entry.member_lens);
    bool has_rows = mr_packed_image_has_rows(packed->image.encoding);
    entry.image.template = has_rows ? &packed->template : NULL;
    entry.image.rows = has_rows ? (const uint32_t *)(const void *)item->bytes : NULL;
    entry.image.sums = packed->image.sums ? entry.image.rows + packed->image.n_rows + 1 : NULL;
    entry.image.marks = item->bytes + packed->marks_at;
    mr_pack_sample_name_in_pack(packing->job.catalog, item->index, choose_ending(packed), name);
    return mr_pack_writer_add(packing->writer, &entry, error);
}

static mr_status take_sample(void *user, struct mr_pipeline_item *item, mr_error *error)
{
    struct packing *packing = user;
    struct mr_pack_job *job = &packing->job;
    const struct packed *packed = item->result;
    if (item->status < 0) {
        mr_pack_job_name(job->catalog, item->index, &item->error);
        mr_error_copy(error, &item->error);
        return item->status;
    }
    mr_status status = write_sample(packing, item, error);
    if (status != MR_OK)
        return status;
    mr_pack_job_count(job, item);
    job->progress.bytes_written = mr_pack_writer_bytes(packing->writer) - packing->written_before;
    if (packed->damaged)
        mr_pack_job_damage(job, item->index, packed->why);
    else if (packed->why[0])
        mr_pack_job_notice(job, item->index, packed->why);
    job->report.n_as_files += packed->why[0] && packed->image.encoding != job->options.encoding;
    return MR_OK;
}

/* The origin. */

/* Where the members of a sample are, as far as the dataset knows before they are read. */
static void digest_members(const struct mr_pack_job *job, int64_t index, struct mr_digest *digest)
{
    char path[MR_CATALOG_PATH];
    struct mr_extent members[MR_MAX_MEMBERS];
    mr_catalog_members(job->catalog, index, members);
    for (uint32_t k = 0; k < job->kind->n_extra; k++) {
        bool is_file = members[k].len == MR_LEN_UNKNOWN &&
                       mr_catalog_path(job->catalog, members[k].file, path) == 0;
        mr_digest_add_u64(digest, members[k].len);
        mr_digest_add_text(digest, is_file ? path : "");
        const uint8_t *memory = mr_catalog_memory(job->catalog, &members[k]);
        if (memory)
            mr_digest_add(digest, memory, (size_t)members[k].len);
    }
}

static uint64_t digest_samples(const struct mr_pack_job *job, void *label)
{
    struct mr_digest digest;
    char name[MR_CATALOG_PATH];
    struct mr_extent unused;
    mr_error ignored;
    mr_digest_init(&digest, ORIGIN_KEY);
    mr_digest_add_u64(&digest, job->kind->label_bytes);
    for (int64_t i = 0; i < mr_catalog_count(job->catalog); i++) {
        mr_pack_sample_name_in_pack(job->catalog, i, NULL, name);
        mr_digest_add_text(&digest, name);
        if (mr_catalog_label(job->catalog, i, label, &unused, &ignored) == MR_OK)
            mr_digest_add(&digest, label, (size_t)job->kind->label_bytes);
        digest_members(job, i, &digest);
    }
    return mr_digest_end(&digest, (uint64_t)mr_catalog_count(job->catalog));
}

static void print_options(FILE *out, const mr_pack_options *o, bool marks)
{
    static const char *const encodings[] = {"default", "jpeg", "raw", "dct"};
    fprintf(out,
            "encoding %s%s, align %d, max_side %" PRIu32 ", resize %" PRIu32 ", quality %" PRIu32,
            encodings[o->encoding], marks ? " with marks" : "", o->align, o->max_side, o->resize,
            o->quality);
    fprintf(out, ", shard_size %" PRIu64 ", max_pixels %" PRIu64 ", arrange ", o->shard_size,
            o->max_pixels);
    if (o->shuffle)
        fprintf(out, "shuffle seed %" PRIu64, o->seed);
    else
        fprintf(out, "keep");
}

static mr_status describe_origin(const struct packing *packing, char **origin_out, mr_error *error)
{
    const struct mr_pack_job *job = &packing->job;
    size_t label_bytes = (size_t)job->kind->label_bytes, len;
    void *label = calloc(1, label_bytes > 0 ? label_bytes : 1);
    FILE *out = label ? open_memstream(origin_out, &len) : NULL;
    if (!out) {
        free(label);
        return mr_error_memory(error, label_bytes);
    }
    /* the path comes last: a message may cut it off */
    print_options(out, &job->options, packing->packer.marks);
    fprintf(out, "; %" PRId64 " samples (names and labels %016" PRIx64 ") of %s",
            mr_catalog_count(job->catalog), digest_samples(job, label),
            mr_catalog_absolute_root(job->catalog));
    free(label);
    if (fclose(out) == 0)
        return MR_OK;
    free(*origin_out);
    *origin_out = NULL;
    return mr_error_memory(error, label_bytes);
}

static const char *class_name(void *user, uint32_t i)
{
    return mr_catalog_class_name(user, i);
}

/* MR_END: the pack is already complete. */
static mr_status open_writer(struct packing *packing, const char *dir, mr_error *error)
{
    struct mr_pack_job *job = &packing->job;
    char *origin = NULL;
    mr_status status = describe_origin(packing, &origin, error);
    if (status != MR_OK)
        return status;
    const struct mr_pack_writer_options options = {.kind = job->kind,
                                                   .n_samples = job->progress.n_samples,
                                                   .shard_bytes = job->options.shard_size,
                                                   .align = job->options.align ? PAGE_BYTES : 1,
                                                   .marks = packing->packer.marks,
                                                   .origin = origin,
                                                   .n_classes = mr_catalog_n_classes(job->catalog),
                                                   .class_name = class_name,
                                                   .user = (void *)job->catalog};
    uint64_t n_done = 0;
    status = mr_pack_writer_open(dir, &options, &packing->writer, &n_done, error);
    free(origin);
    if (status < 0)
        return status;
    job->progress.n_done = job->progress.n_resumed =
        status == MR_END ? job->progress.n_samples : n_done;
    if (status == MR_OK)
        packing->written_before = mr_pack_writer_bytes(packing->writer);
    return status;
}

/* The whole job. */

/*
 * Count from the new index, because samples of interrupted calls count too. This also tests that
 * the index can be opened.
 */
static mr_status count_pack(struct packing *packing, const char *dir, mr_error *error)
{
    mr_dataset *pack = NULL;
    char *spec = mr_pack_sample_name_spec(dir);
    if (!spec)
        return mr_error_memory(error, strlen(dir));
    mr_status status = mr_dataset_open(spec, NULL, &pack, error);
    free(spec);
    if (status != MR_OK)
        return status;
    const struct mr_catalog *catalog = mr_dataset_catalog(pack);
    struct mr_packed_image image;
    for (int64_t i = 0; status == MR_OK && i < mr_catalog_count(catalog); i++) {
        status = mr_catalog_packed(catalog, i, &image, error);
        if (status == MR_OK)
            mr_pack_job_count_image(&packing->job.report, &image);
    }
    mr_dataset_destroy(pack);
    return status;
}

static mr_status run_packing(struct packing *packing, const char *dir, mr_error *error)
{
    struct mr_pipeline_work work = {.result_bytes = sizeof(struct packed),
                                    .user = packing,
                                    .index_at = index_at,
                                    .open = open_worker,
                                    .close = close_worker,
                                    .run = pack_sample,
                                    .take = take_sample};
    mr_status status = open_writer(packing, dir, error);
    if (status == MR_OK)
        status = mr_pack_job_run(&packing->job, &work, error);
    if (status == MR_OK)
        status = mr_pack_writer_finish(packing->writer, error);
    mr_pack_writer_close(packing->writer);
    return status >= 0 ? count_pack(packing, dir, error) : status;
}

/* Marks are part of the origin, so this is decided before the pack begins, for all workers. */
static mr_status decide_marks(struct packing *packing, mr_error *error)
{
    const mr_pack_options *o = &packing->job.options;
    struct mr_packer *packer;
    packing->packer.marks = o->encoding == MR_PACK_JPEG && !o->no_index;
    if (!packing->packer.marks)
        return MR_OK;
    mr_status status = mr_packer_create(&packing->packer, &packer, error);
    packing->packer.marks = status == MR_OK && mr_packer_makes_marks(packer);
    mr_packer_destroy(packer);
    return status;
}

mr_status mr_dataset_pack(const mr_dataset *dataset, const char *dir,
                          const mr_pack_options *options, mr_pack_report *report_out,
                          mr_error *error)
{
    struct packing packing = {0};
    const mr_pack_options *o = &packing.job.options;
    if (!dir || !*dir)
        return mr_error_set(error, MR_ERR_INVALID, "the folder of the pack is not given");
    mr_status status = mr_pack_job_begin(&packing.job, dataset, options, report_out, error);
    if (status == MR_OK && !packing.job.kind->encoded && !mr_catalog_is_pack(packing.job.catalog))
        status = mr_error_set(error, MR_ERR_INVALID, "the dataset's samples are not image files");
    if (status == MR_OK && packing.job.kind->sources)
        status = mr_error_set(error, MR_ERR_UNSUPPORTED,
                              "a mixture is not packed as one: pack each of its sources");
    if (status == MR_OK && packing.job.kind->boxes && (o->max_side > 0 || o->resize > 0))
        status = mr_error_set(error, MR_ERR_INVALID,
                              "images with boxes are packed with their own sizes: max_side and "
                              "resize would move the boxes");
    if (status != MR_OK)
        return status;
    packing.packer = (struct mr_packer_options){.encoding = (uint32_t)o->encoding,
                                                .max_side = o->max_side,
                                                .resize = o->resize,
                                                .quality = o->quality,
                                                .limits = {.max_pixels = o->max_pixels},
                                                .stock_jpeg = o->jpeg_decoder == MR_JPEG_STOCK};
    if (o->shuffle)
        mr_keyed_init(&packing.keyed, packing.job.progress.n_samples, o->seed, 0);
    status = decide_marks(&packing, error);
    if (status == MR_OK)
        status = run_packing(&packing, dir, error);
    if (status == MR_OK)
        mr_pack_job_end(&packing.job, report_out);
    return status;
}
