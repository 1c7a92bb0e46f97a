/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the parts that one sample is read from, and passes their bytes to the codec. Files are read
 * whole, records as the catalog describes them. The size of a packed sample is known before the
 * read, so only the rows of a crop are read.
 *
 * Invariant: a limit on bytes does not depend on the crop. It is compared with everything that the
 * pack stores for the sample.
 */
#include "loader/workers/sample_fetch.h"

#include <string.h>

void mr_sample_fetch_name(const struct mr_catalog *catalog, int64_t index, mr_error *error)
{
    char which[MR_CATALOG_DESCRIPTION];
    mr_error words = *error;
    mr_catalog_describe(catalog, index, which);
    mr_error_set(error, (mr_status)words.status, "%s: %s", which, words.text);
    error->os_error = words.os_error;
    error->index = index;
}

/* The bytes of a packed sample that the candidate's draws need. */
static mr_status find_range(const struct mr_sample_source *source, const struct mr_sample_job *job,
                            uint64_t *offset_out, uint64_t *len_out, mr_error *error)
{
    const struct mr_packed_image *image = &job->hit.image;
    if (image->len > source->max_bytes)
        return mr_error_set(error, MR_ERR_DAMAGED, "%llu bytes are above the limit of %llu",
                            (unsigned long long)image->len, (unsigned long long)source->max_bytes);
    return mr_plan_runner_range(source->runner, image, &job->draws, offset_out, len_out, error);
}

/* Replace the image of the list by the part that is needed. Without marks, all of it is needed. */
static mr_status list_packed(const struct mr_sample_source *source, struct mr_sample_job *job,
                             bool no_index, bool whole, struct mr_part_list *list, mr_error *error)
{
    uint64_t offset, len;
    struct mr_extent marks;
    job->is_packed = true;
    mr_status status = mr_catalog_packed(source->catalog, job->index, &job->hit.image, error);
    if (status != MR_OK) {
        error->index = job->index;
        return status;
    }
    status = find_range(source, job, &offset, &len, error);
    if (status != MR_OK) {
        mr_sample_fetch_name(source->catalog, job->index, error);
        return status;
    }
    bool marked = mr_catalog_marks(source->catalog, job->index, &marks);
    job->has_marks = marked && !no_index;
    if (source->verifies || whole || (marked && no_index)) {
        offset = 0;
        len = job->hit.image.len;
    }
    job->offset = offset;
    if (job->has_marks)
        mr_part_list_add(list, marks, marks.len, MR_FOR_MARKS);
    return mr_catalog_restrict(source->catalog, job->index, offset, len, list, error);
}

mr_status mr_sample_fetch_list(const struct mr_sample_source *source, struct mr_sample_job *job,
                               bool no_index, bool whole, struct mr_part_list *list_out,
                               mr_error *error)
{
    job->is_packed = job->is_from_cache = job->has_marks = false;
    mr_status status = mr_catalog_check(source->catalog, job->index, error);
    if (status != MR_OK) {
        error->index = job->index;
        return status;
    }
    if (source->rows) {
        mr_packed_rows_list(source->rows, job, mr_catalog_kind(source->catalog), list_out);
        return MR_OK;
    }
    mr_catalog_parts(source->catalog, job->index, source->max_bytes, list_out);
    if (!mr_catalog_is_described(source->catalog))
        return MR_OK;
    return list_packed(source, job, no_index || source->no_index, whole, list_out, error);
}

mr_status mr_sample_fetch_take(const struct mr_sample_source *source,
                               const struct mr_sample_job *job, const struct mr_read *read,
                               void *label_out, struct mr_fetched *fetched_out, mr_error *error)
{
    if (read->status != MR_OK) {
        *error = *read->error;
        return read->status;
    }
    const struct mr_read_part *marks = mr_read_find(read, MR_FOR_MARKS);
    *fetched_out = (struct mr_fetched){.encoded = mr_catalog_kind(source->catalog)->encoded,
                                       .is_packed = job->is_packed,
                                       .offset = job->offset};
    mr_status status = mr_read_split(source->catalog, read, &fetched_out->bytes, &fetched_out->len,
                                     label_out, error);
    if (job->is_packed)
        fetched_out->packed = job->hit.image;
    fetched_out->packed.marks = marks ? marks->bytes : NULL;
    fetched_out->packed.marks_len = marks ? marks->len : 0;
    bool is_checked = job->is_from_cache && !mr_catalog_is_described(source->catalog);
    if (status == MR_OK && job->is_packed && !is_checked && source->verifies)
        status = mr_read_verify(source->catalog, read, error);
    error->index = read->index;
    return status;
}

mr_status mr_sample_fetch_run(const struct mr_sample_source *source,
                              const struct mr_sample_job *job, const struct mr_fetched *fetched,
                              void *out, struct mr_plan_runner_report *report_out, mr_error *error)
{
    struct mr_rng draws = job->draws;
    memset(report_out, 0, sizeof *report_out);
    if (!fetched->is_packed)
        return mr_plan_runner_run(source->runner, fetched->bytes, fetched->len, fetched->encoded,
                                  &draws, out, report_out, error);
    return mr_plan_runner_run_packed(source->runner, &fetched->packed, fetched->bytes, fetched->len,
                                     fetched->offset, &draws, out, report_out, error);
}

void mr_sample_fetch_source(const struct mr_catalog *catalog, const struct mr_sample_job *job,
                            uint32_t column, int64_t index)
{
    if (column != MR_NO_COLUMN)
        *(int32_t *)mr_slot_row(&job->view, column, job->place) =
            (int32_t)mr_catalog_source_of(catalog, index);
}
