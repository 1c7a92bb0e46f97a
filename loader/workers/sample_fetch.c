/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one sample and passes its bytes to the codec. Files are read whole, records as the catalog
 * describes them. The size of a packed sample is known before the read, so only the rows of a crop
 * are read.
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

/*
 * Find the bytes of a packed sample that the candidate's draws need. Without its marks, a sample is
 * read whole.
 */
static mr_status find_range(const struct mr_sample_source *source, const struct mr_sample_job *job,
                            bool no_index, uint64_t *offset_out, uint64_t *len_out, mr_error *error)
{
    struct mr_packed_image image;
    struct mr_extent whole;
    mr_status status = mr_catalog_packed(source->catalog, job->index, &image, error);
    if (status != MR_OK) {
        error->index = job->index;
        return status;
    }
    mr_catalog_extent_whole(source->catalog, job->index, &whole);
    if (whole.len > source->max_bytes)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%llu bytes are above the limit of %llu",
                              (unsigned long long)whole.len, (unsigned long long)source->max_bytes);
    else
        status =
            mr_plan_runner_range(source->runner, &image, &job->draws, offset_out, len_out, error);
    if (status != MR_OK) {
        mr_sample_fetch_name(source->catalog, job->index, error);
        return status;
    }
    if (source->verifies || (no_index && image.encoding == MR_PACKED_MARKED)) {
        *offset_out = 0;
        *len_out = whole.len;
    }
    return MR_OK;
}

mr_status mr_sample_fetch_submit(const struct mr_sample_source *source,
                                 const struct mr_sample_job *job, bool no_index,
                                 struct mr_reader *reader, mr_error *error)
{
    uint64_t offset, len;
    if (!mr_catalog_is_described(source->catalog)) {
        mr_reader_submit(reader, job->tag, job->index);
        return MR_OK;
    }
    mr_status status = find_range(source, job, no_index, &offset, &len, error);
    if (status == MR_OK)
        mr_reader_submit_range(reader, job->tag, job->index, offset, len);
    return status;
}

/*
 * Describe a packed sample that was read. If it was read whole, the bytes after the image serve to
 * restore its file, not to decode it.
 */
static mr_status describe_packed(const struct mr_sample_source *source, const struct mr_read *read,
                                 struct mr_fetched *fetched, mr_error *error)
{
    mr_status status = mr_catalog_packed(source->catalog, read->index, &fetched->packed, error);
    fetched->is_packed = true;
    fetched->offset = read->offset;
    if (status != MR_OK)
        return status;
    fetched->packed.marks = read->marks;
    fetched->packed.marks_len = read->marks_len;
    if (read->offset == 0 && fetched->len > fetched->packed.len)
        fetched->len = (size_t)fetched->packed.len;
    if (!source->verifies)
        return MR_OK;
    return mr_catalog_verify(source->catalog, read->index, read->bytes, read->len, error);
}

mr_status mr_sample_fetch_take(const struct mr_sample_source *source, const struct mr_read *read,
                               void *label_out, struct mr_fetched *fetched_out, mr_error *error)
{
    if (read->status != MR_OK) {
        *error = *read->error;
        return read->status;
    }
    *fetched_out = (struct mr_fetched){.encoded = mr_catalog_kind(source->catalog)->encoded};
    mr_status status = mr_catalog_split(source->catalog, read->index, read->bytes, read->len,
                                        &fetched_out->bytes, &fetched_out->len, label_out, error);
    if (status == MR_OK && mr_catalog_is_described(source->catalog))
        status = describe_packed(source, read, fetched_out, error);
    error->index = read->index;
    return status;
}

bool mr_sample_fetch_has_marks(const struct mr_sample_source *source, int64_t index)
{
    struct mr_packed_image image;
    return mr_catalog_is_described(source->catalog) &&
           mr_catalog_packed(source->catalog, index, &image, NULL) == MR_OK &&
           image.encoding == MR_PACKED_MARKED;
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
