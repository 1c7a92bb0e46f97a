/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_pack_unpack(): workers verify and restore the samples; the caller's thread writes the files.
 *
 * A damaged sample does not end the call: it is reported, and the other files are written.
 *
 * Invariant: names come from the index, which may come from an untrusted source, so each is checked
 * before a file is made.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "dataset/imagefolder.h"
#include "dataset/pack_index.h"
#include "packs/pack_job.h"
#include "packs/pack_sample_name.h"
#include "packs/pack_unpack_file.h"

struct unpacking {
    struct mr_pack_job job; /* first: mr_pack_job_run() requires it */
    struct mr_pack_unpack_folder folder;
    mr_error first; /* about the first damaged sample */
};

struct worker {
    const struct mr_pack_job *job;
    struct mr_packer *packer;
};

/* A worker's result. The item's bytes hold the file and the members. */
struct unpacked {
    struct mr_packed_image image; /* the pointers are not used */
    size_t file_len;
    size_t member_lens[MR_MAX_MEMBERS];
};

static mr_status open_worker(void *user, void **worker_out, mr_error *error)
{
    const struct unpacking *unpacking = user;
    struct worker *w = calloc(1, sizeof *w);
    *worker_out = w;
    if (!w)
        return mr_error_memory(error, sizeof *w);
    w->job = &unpacking->job;
    return mr_pack_job_packer(w->job, &w->packer, error);
}

static void close_worker(void *worker)
{
    struct worker *w = worker;
    mr_packer_destroy(w->packer);
    free(w);
}

static mr_status fill_item(const struct worker *w, const uint8_t *file, size_t file_len,
                           const struct mr_read_part *members, struct mr_pipeline_item *item)
{
    struct unpacked *unpacked = item->result;
    uint32_t n_members = w->job->kind->n_extra;
    size_t len = unpacked->file_len = file_len;
    for (uint32_t k = 0; k < n_members; k++) {
        unpacked->member_lens[k] = members[k].len;
        if (!mr_checked_add(len, members[k].len, &len))
            return mr_error_memory(&item->error, SIZE_MAX);
    }
    mr_status status = mr_pipeline_reserve(item, len);
    if (status != MR_OK)
        return status;
    if (file_len > 0)
        memcpy(item->bytes, file, file_len);
    uint8_t *at = item->bytes + file_len;
    for (uint32_t k = 0; k < n_members; at += members[k++].len)
        if (members[k].len > 0)
            memcpy(at, members[k].bytes, members[k].len);
    return MR_OK;
}

static mr_status restore_sample(void *worker, const struct mr_read *read,
                                struct mr_pipeline_item *item)
{
    struct worker *w = worker;
    struct unpacked *unpacked = item->result;
    const uint8_t *file;
    size_t len;
    mr_status status = mr_pack_job_verify(w->job, read, &unpacked->image, &item->error);
    if (status == MR_OK)
        status = mr_pack_job_restore(w->packer, &unpacked->image, read, &file, &len, &item->error);
    return status == MR_OK ? fill_item(w, file, len, mr_read_find(read, MR_FOR_MEMBER), item)
                           : status;
}

static int64_t index_at(const void *user, uint64_t position)
{
    (void)user;
    return (int64_t)position;
}

static mr_status make_file_name(const struct unpacking *unpacking,
                                const struct mr_pipeline_item *item, char name_out[MR_CATALOG_PATH],
                                mr_error *error)
{
    const struct unpacked *unpacked = item->result;
    const char *name =
        mr_pack_index_name(mr_catalog_pack(unpacking->job.catalog), (uint64_t)item->index);
    if (!name)
        return mr_error_set(error, MR_ERR_DAMAGED, "the sample has no name");
    if (!mr_pack_sample_name_is_safe(name))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "'%s' is not the name of a file inside the folder", name);
    const char *ending = mr_pack_sample_name_ending(name, &unpacked->image);
    if (strlen(name) + strlen(ending) >= MR_CATALOG_PATH)
        return mr_error_set(error, MR_ERR_DAMAGED, "the name '%s' is too long for another ending",
                            name);
    strcpy(stpcpy(name_out, name), ending);
    return MR_OK;
}

static void note_damage(struct unpacking *unpacking, struct mr_pipeline_item *item)
{
    struct mr_pack_job *job = &unpacking->job;
    mr_pack_job_name(job->catalog, item->index, &item->error);
    if (job->report.n_damaged == 0)
        unpacking->first = item->error;
    mr_pack_job_damage(job, item->index, item->error.text);
}

/*
 * The name of a member's file: in place of the ending of the sample's name it has that of the
 * member, and one more if it would be taken for an image.
 */
static mr_status make_member_name(const struct unpacking *unpacking,
                                  const struct mr_pipeline_item *item, uint32_t k,
                                  char name_out[MR_CATALOG_PATH], mr_error *error)
{
    const struct mr_pack_job *job = &unpacking->job;
    const char *name = mr_pack_index_name(mr_catalog_pack(job->catalog), (uint64_t)item->index);
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    size_t stem = dot ? (size_t)(dot - name) : strlen(name);
    int len =
        snprintf(name_out, MR_CATALOG_PATH, "%.*s.%s", (int)stem, name, job->kind->extra[k].name);
    if (len > 0 && len < MR_CATALOG_PATH && mr_imagefolder_is_image(name_out))
        len += snprintf(name_out + len, (size_t)(MR_CATALOG_PATH - len), ".member");
    if (len < 0 || len >= MR_CATALOG_PATH || !mr_pack_sample_name_is_safe(name_out))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "its member '%s' cannot have the name of a file beside '%s'",
                            job->kind->extra[k].name, name);
    return MR_OK;
}

/* Write a file inside the folder. MR_ERR_DAMAGED: no file can have that name. */
static mr_status write_file(struct unpacking *unpacking, const char *name, const uint8_t *bytes,
                            size_t len, mr_error *error)
{
    bool written = false;
    mr_status status =
        mr_pack_unpack_file_write(&unpacking->folder, name, bytes, len, &written, error);
    unpacking->job.progress.bytes_written += written ? len : 0;
    return status;
}

/* Write the file of a sample, and a file for each member that it has. */
static mr_status write_sample(struct unpacking *unpacking, struct mr_pipeline_item *item)
{
    char name[MR_CATALOG_PATH];
    const struct unpacked *unpacked = item->result;
    const uint8_t *at = item->bytes + unpacked->file_len;
    mr_status status = make_file_name(unpacking, item, name, &item->error);
    if (status == MR_OK)
        status = write_file(unpacking, name, item->bytes, unpacked->file_len, &item->error);
    for (uint32_t k = 0; status == MR_OK && k < unpacking->job.kind->n_extra; k++) {
        size_t len = unpacked->member_lens[k];
        if (len > 0)
            status = make_member_name(unpacking, item, k, name, &item->error);
        if (status == MR_OK && len > 0)
            status = write_file(unpacking, name, at, len, &item->error);
        at += len;
    }
    return status;
}

static mr_status take_sample(void *user, struct mr_pipeline_item *item, mr_error *error)
{
    struct unpacking *unpacking = user;
    struct mr_pack_job *job = &unpacking->job;
    const struct unpacked *unpacked = item->result;
    if (item->status == MR_OK)
        item->status = write_sample(unpacking, item);
    if (item->status < 0 && item->status != MR_ERR_DAMAGED) {
        mr_pack_job_name(job->catalog, item->index, &item->error);
        mr_error_copy(error, &item->error);
        return item->status;
    }
    if (item->status == MR_ERR_DAMAGED)
        note_damage(unpacking, item);
    mr_pack_job_count(job, item);
    if (item->status == MR_OK)
        mr_pack_job_count_image(&job->report, &unpacked->image);
    return MR_OK;
}

static mr_status run_unpacking(struct unpacking *unpacking, const char *dir, mr_error *error)
{
    struct mr_pack_job *job = &unpacking->job;
    struct mr_pipeline_work work = {.result_bytes = sizeof(struct unpacked),
                                    .user = unpacking,
                                    .index_at = index_at,
                                    .open = open_worker,
                                    .close = close_worker,
                                    .run = restore_sample,
                                    .take = take_sample};
    mr_status status = mr_pack_unpack_file_begin(dir, &unpacking->folder, error);
    if (status == MR_OK)
        status = mr_pack_job_run(job, &work, error);
    if (status == MR_OK)
        status = mr_pack_unpack_file_sync(&unpacking->folder, error);
    mr_pack_unpack_file_end(&unpacking->folder);
    if (status == MR_OK && job->report.n_damaged > 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%" PRIu64 " of %" PRIu64 " samples cannot be unpacked; the first: %s",
                            job->report.n_damaged, job->progress.n_samples, unpacking->first.text);
    return status;
}

mr_status mr_pack_unpack(const mr_dataset *pack, const char *dir, const mr_pack_options *options,
                         mr_pack_report *report_out, mr_error *error)
{
    struct unpacking unpacking = {.folder.fd = -1};
    if (!dir || !*dir)
        return mr_error_set(error, MR_ERR_INVALID, "the folder to unpack into is not given");
    mr_status status = mr_pack_job_begin(&unpacking.job, pack, options, report_out, error);
    if (status == MR_OK && !mr_catalog_is_pack(unpacking.job.catalog))
        status = mr_error_set(error, MR_ERR_INVALID, "the dataset of %s is not a pack",
                              mr_catalog_absolute_root(unpacking.job.catalog));
    if (status == MR_OK)
        status = run_unpacking(&unpacking, dir, error);
    if (status == MR_OK)
        mr_pack_job_end(&unpacking.job, report_out);
    return status;
}
