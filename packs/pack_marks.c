/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to the file of marks, and cuts it when a pack is resumed. */
#include "packs/pack_marks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/file.h"

enum { MARKS_ALIGN = 8 };

static mr_status fail_marks(const struct mr_pack_draft *draft, int os_error, const char *what, mr_error *error)
{
    return mr_pack_draft_fail(draft, os_error, what, MR_PACK_MARKS_FILE, error);
}

static uint64_t next_place(const struct mr_pack_draft *draft)
{
    return mr_align_up(draft->marks_len, MARKS_ALIGN);
}

mr_status mr_pack_marks_append(struct mr_pack_draft *draft, const uint8_t *marks, size_t len,
                               struct mr_pack_record_marks *marks_out, mr_error *error)
{
    uint64_t offset = next_place(draft);
    assert(draft->wants_marks && len > 0);
    if (draft->marks_fd < 0)
        draft->marks_fd = openat(draft->root, MR_PACK_MARKS_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (draft->marks_fd < 0)
        return fail_marks(draft, errno, "create", error);
    int rc = mr_file_write_at(draft->marks_fd, marks, len, offset);
    if (rc < 0) {
        mr_pack_marks_drop(draft);
        return fail_marks(draft, -rc, "write", error);
    }
    *marks_out = (struct mr_pack_record_marks){.place = {offset, len}, .checksum = mr_xxh3(marks, len)};
    return MR_OK;
}

void mr_pack_marks_drop(const struct mr_pack_draft *draft)
{
    if (draft->marks_fd >= 0)
        (void)!ftruncate(draft->marks_fd, (off_t)draft->marks_len);
}

mr_status mr_pack_marks_sync(const struct mr_pack_draft *draft, mr_error *error)
{
    return draft->marks_fd < 0 || fdatasync(draft->marks_fd) == 0 ? MR_OK : fail_marks(draft, errno, "sync", error);
}

bool mr_pack_marks_follow(const struct mr_pack_draft *draft, const struct mr_pack_marks *place)
{
    uint64_t end;
    return draft->wants_marks && place->offset == next_place(draft) && place->len > 0 &&
           mr_checked_add_u64(place->offset, place->len, &end) && end <= INT64_MAX;
}

/* The journal was on the disk before the file was made: where there is none, the file is somebody's, and stays. */
static mr_status remove_marks(const struct mr_pack_draft *draft, bool has_begun, mr_error *error)
{
    if (!has_begun && faccessat(draft->root, MR_PACK_MARKS_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s holds " MR_PACK_MARKS_FILE ", but no index and no journal",
                            draft->dir);
    if (unlinkat(draft->root, MR_PACK_MARKS_FILE, 0) == 0 || errno == ENOENT)
        return MR_OK;
    return fail_marks(draft, errno, "remove", error);
}

mr_status mr_pack_marks_cut(struct mr_pack_draft *draft, bool has_begun, mr_error *error)
{
    struct stat st;
    if (!draft->wants_marks)
        return MR_OK;
    if (draft->marks_len == 0)
        return remove_marks(draft, has_begun, error);
    int fd = mr_regular_file_open(draft->root, MR_PACK_MARKS_FILE, O_RDWR | O_NOFOLLOW, &st);
    if (fd < 0)
        return fail_marks(draft, -fd, "open", error);
    draft->marks_fd = fd;
    if ((uint64_t)st.st_size != draft->marks_len && ftruncate(fd, (off_t)draft->marks_len) != 0)
        return fail_marks(draft, errno, "cut", error);
    return MR_OK;
}
