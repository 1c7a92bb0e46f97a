/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the sums over a pack that is being written. */
#include "packs/pack_draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/regular_file.h"

void mr_pack_draft_init(struct mr_pack_draft *draft)
{
    *draft = (struct mr_pack_draft){.root = -1, .shard_fd = -1, .marks_fd = -1, .journal = {.fd = -1}};
}

void mr_pack_draft_fini(struct mr_pack_draft *draft)
{
    mr_pack_journal_close(&draft->journal);
    if (draft->shard_fd >= 0)
        close(draft->shard_fd);
    if (draft->marks_fd >= 0)
        close(draft->marks_fd);
    if (draft->root >= 0)
        close(draft->root);
    mr_pack_templates_fini(&draft->templates);
    mr_bytes_fini(&draft->begin);
    mr_bytes_fini(&draft->shards);
    free(draft->dir);
}

const struct mr_pack_begin *mr_pack_draft_begin(const struct mr_pack_draft *draft)
{
    return (const void *)draft->begin.data;
}

uint32_t mr_pack_draft_n_shards(const struct mr_pack_draft *draft)
{
    return (uint32_t)(draft->shards.len / sizeof(uint64_t));
}

static uint64_t *last_shard(const struct mr_pack_draft *draft)
{
    uint32_t n = mr_pack_draft_n_shards(draft);
    return n > 0 ? (uint64_t *)(void *)draft->shards.data + (n - 1) : NULL;
}

uint64_t mr_pack_draft_shard_len(const struct mr_pack_draft *draft)
{
    const uint64_t *last = last_shard(draft);
    return last ? *last : 0;
}

void mr_pack_draft_shard_name(uint32_t shard, char name_out[MR_PACK_SHARD_NAME])
{
    snprintf(name_out, MR_PACK_SHARD_NAME, MR_PACK_SHARD, shard);
}

mr_status mr_pack_draft_fail(const struct mr_pack_draft *draft, int os_error, const char *what, const char *name,
                             mr_error *error)
{
    return mr_regular_file_fail(error, os_error, "cannot %s %s/%s", what, draft->dir, name);
}

static void count_marks(struct mr_pack_draft *draft, const struct mr_pack_record_marks *marks)
{
    uint64_t end = marks->place.offset + marks->place.len;
    draft->bytes += end - draft->marks_len;
    draft->unsynced += end - draft->marks_len;
    draft->marks_len = end;
    draft->n_marked++;
}

mr_status mr_pack_draft_count(struct mr_pack_draft *draft, const struct mr_pack_noted *noted, mr_error *error)
{
    const struct mr_pack_sample *sample = &noted->sample;
    mr_status status = MR_OK;
    if (sample->shard == mr_pack_draft_n_shards(draft))
        status = mr_bytes_append_u64(&draft->shards, 0, error);
    if (status < 0)
        return status;
    uint64_t end = sample->offset + sample->len + sample->beside_len;
    uint64_t *shard_len = last_shard(draft);
    draft->bytes += end - *shard_len;
    draft->unsynced += end - *shard_len;
    *shard_len = end;
    if (noted->marks.place.len > 0)
        count_marks(draft, &noted->marks);
    draft->n_done++;
    draft->n_rows += noted->n_rows;
    draft->names_len += noted->name_len;
    return MR_OK;
}
