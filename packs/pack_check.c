/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_dataset_check(): decodes every sample of any dataset, with its boxes or its mask. Of a pack it
 * also compares every byte with the checksums, and the marks with newly made ones.
 *
 * A damaged sample is a result, not a failure: it is reported and counted. Only other failures end
 * the call.
 */
#include <stdlib.h>

#include "dataset/annotations/box_member.h"
#include "dataset/tokens/token_ids.h"
#include "packs/pack_job.h"
#include "transforms/codec_png.h"

struct checking {
    struct mr_pack_job job; /* first: mr_pack_job_run() requires it */
    const mr_dataset *dataset;
};

struct worker {
    const struct mr_pack_job *job;
    const mr_dataset *dataset;
    struct mr_packer *packer;
    void *label;
    struct mr_box_list boxes;
    struct mr_mask_pixels mask;
};

struct checked {
    struct mr_packed_image
        image; /* zeros if the dataset is not a pack; the pointers are not used */
};

static mr_status open_worker(void *user, void **worker_out, mr_error *error)
{
    const struct checking *checking = user;
    size_t label_bytes = (size_t)checking->job.kind->label_bytes;
    struct worker *w = calloc(1, sizeof *w);
    *worker_out = w;
    if (!w)
        return mr_error_memory(error, sizeof *w);
    w->job = &checking->job;
    w->dataset = checking->dataset;
    w->label = calloc(1, label_bytes > 0 ? label_bytes : 1);
    if (!w->label)
        return mr_error_memory(error, label_bytes);
    return mr_pack_job_packer(w->job, &w->packer, error);
}

static void close_worker(void *worker)
{
    struct worker *w = worker;
    mr_packer_destroy(w->packer);
    mr_box_list_fini(&w->boxes);
    mr_mask_inflate_fini(&w->mask);
    free(w->label);
    free(w);
}

static mr_status check_packed(struct worker *w, const struct mr_read *read, struct checked *checked,
                              mr_error *error)
{
    struct mr_packed_image image;
    mr_status status = mr_pack_job_verify(w->job, read, &image, error);
    if (status != MR_OK)
        return status;
    checked->image = image;
    status = mr_packer_try(w->packer, &image, read->part[0].bytes, error);
    const struct mr_read_part *marks = mr_read_find(read, MR_FOR_MARKS);
    if (status == MR_OK && marks)
        status = mr_packer_check_marks(w->packer, &image, read->part[0].bytes, marks->bytes,
                                       marks->len, error);
    return status;
}

/*
 * A record without an encoded image is complete if its length is right; of tokens, if all are ids.
 */
static mr_status check_file(struct worker *w, const struct mr_read *read, mr_error *error)
{
    const uint8_t *bytes;
    size_t len;
    mr_status status = mr_read_split(w->job->catalog, read, &bytes, &len, w->label, error);
    const struct mr_sample_kind *kind = w->job->kind;
    if (status == MR_OK && kind->tokens > 0)
        return mr_token_ids_check(kind, MR_I64, bytes, len / mr_dtype_size(kind->dtype), error);
    if (status != MR_OK || !kind->encoded)
        return status;
    const struct mr_packed_image image = {.encoding = MR_PACKED_JPEG, .orientation = 1, .len = len};
    return mr_packer_try(w->packer, &image, bytes, error);
}

static mr_status check_mask(struct worker *w, const struct mr_read *read,
                            const struct mr_read_part *mask, mr_error *error)
{
    const struct mr_codec_limits limits = mr_codec_limits_resolve(
        &(struct mr_codec_limits){.max_pixels = w->job->options.max_pixels});
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_status status = mr_dataset_inspect(w->dataset, read->index, &info, error);
    return status < 0 ? status
                      : mr_codec_png_read_indices(&limits, mask->bytes, mask->len, info.width,
                                                  info.height, &w->mask, error);
}

/* Of other members it is not known what they are. */
static mr_status check_annotation(struct worker *w, const struct mr_read *read, mr_error *error)
{
    const struct mr_sample_kind *kind = w->job->kind;
    const struct mr_read_part *member = mr_read_find(read, MR_FOR_MEMBER);
    if (kind->annotations == MR_ANNOTATIONS_MASKS)
        return check_mask(w, read, member, error);
    if (kind->boxes == 0)
        return MR_OK;
    member += kind->boxes - 1;
    return mr_box_member_read(w->job->catalog, read->index, member->bytes, member->len, &w->boxes,
                              error);
}

static mr_status check_sample(void *worker, const struct mr_read *read,
                              struct mr_pipeline_item *item)
{
    struct worker *w = worker;
    mr_status status = mr_catalog_is_pack(w->job->catalog)
                           ? check_packed(w, read, item->result, &item->error)
                           : check_file(w, read, &item->error);
    return status < 0 ? status : check_annotation(w, read, &item->error);
}

static int64_t index_at(const void *user, uint64_t position)
{
    (void)user;
    return (int64_t)position;
}

static mr_status take_sample(void *user, struct mr_pipeline_item *item, mr_error *error)
{
    struct checking *checking = user;
    struct mr_pack_job *job = &checking->job;
    const struct checked *checked = item->result;
    if (item->status < 0 && item->status != MR_ERR_DAMAGED) {
        mr_pack_job_name(job->catalog, item->index, &item->error);
        mr_error_copy(error, &item->error);
        return item->status;
    }
    mr_pack_job_count(job, item);
    if (item->status == MR_ERR_DAMAGED)
        mr_pack_job_damage(job, item->index, item->error.text);
    if (checked->image.encoding > 0)
        mr_pack_job_count_image(&job->report, &checked->image);
    return MR_OK;
}

mr_status mr_dataset_check(const mr_dataset *dataset, const mr_pack_options *options,
                           mr_pack_report *report_out, mr_error *error)
{
    struct checking checking = {.dataset = dataset};
    struct mr_pipeline_work work = {.marks = true,
                                    .result_bytes = sizeof(struct checked),
                                    .user = &checking,
                                    .index_at = index_at,
                                    .open = open_worker,
                                    .close = close_worker,
                                    .run = check_sample,
                                    .take = take_sample};
    mr_status status = mr_pack_job_begin(&checking.job, dataset, options, report_out, error);
    if (status == MR_OK)
        status = mr_pack_job_run(&checking.job, &work, error);
    if (status == MR_OK)
        mr_pack_job_end(&checking.job, report_out);
    return status;
}
