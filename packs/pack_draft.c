/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a pack that is being written. */
#include "packs/pack_draft.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/regular_file.h"

void mr_pack_draft_init(struct mr_pack_draft *draft)
{
    *draft = (struct mr_pack_draft){.root = -1, .lock_fd = -1, .shard_fd = -1, .marks_fd = -1};
}

void mr_pack_draft_fini(struct mr_pack_draft *draft)
{
    const int fds[] = {draft->lock_fd, draft->shard_fd, draft->marks_fd, draft->root};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    for (int which = 0; which < MR_PACK_N_SECTIONS; which++)
        mr_bytes_fini(&draft->sections[which]);
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

uint64_t *mr_pack_draft_shard_len(const struct mr_pack_draft *draft)
{
    uint32_t n = mr_pack_draft_n_shards(draft);
    assert(n > 0);
    return (uint64_t *)(void *)draft->shards.data + (n - 1);
}

void mr_pack_draft_shard_name(uint32_t shard, char name_out[MR_PACK_FILE_NAME])
{
    snprintf(name_out, MR_PACK_FILE_NAME, MR_PACK_SHARD, shard);
}

mr_status mr_pack_draft_fail(const struct mr_pack_draft *draft, int os_error, const char *what,
                             const char *name, mr_error *error)
{
    return mr_regular_file_fail(error, os_error, "cannot %s %s/%s", what, draft->dir, name);
}
