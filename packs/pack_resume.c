/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where an interrupted pack stopped. Shards count up to the first one without a part. Later
 * shards are removed, the marks are cut to match, and packing continues as if it had not been
 * interrupted.
 *
 * Invariant: `unfinished` is on the disk before the first shard is created. So a shard in a folder
 * without it is not ours.
 */
#include "packs/pack_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/file.h"
#include "packs/pack_part.h"

/* True if this section of a complete pack's index holds these bytes. */
static bool has_section(int fd, const struct mr_pack_header *header, enum mr_pack_section which,
                        const void *bytes, size_t len)
{
    size_t n = 0;
    char *found = header->sections[which].len == len ? malloc(len + 1) : NULL;
    bool same = found && mr_file_read_at(fd, header->sections[which].off, found, len, &n) == 0 &&
                n == len && memcmp(found, bytes, len) == 0;
    free(found);
    return same;
}

/*
 * True if the complete pack is what this draft would become. The origin says what is packed and
 * how.
 */
static bool matches_draft(int fd, const struct mr_pack_header *header,
                          const struct mr_pack_draft *draft)
{
    const struct mr_pack_begin *begin = mr_pack_draft_begin(draft);
    const char *names = (const char *)(begin + 1), *origin = names + begin->class_names_len;
    return has_section(fd, header, MR_PACK_ORIGIN, origin, strlen(origin) + 1) &&
           has_section(fd, header, MR_PACK_CLASS_NAMES, names, begin->class_names_len) &&
           has_section(fd, header, MR_PACK_MEMBER_KINDS, begin->members,
                       begin->n_members * sizeof *begin->members);
}

/* A complete pack is never changed. MR_END: it is the wanted pack. */
static mr_status check_incomplete(const struct mr_pack_draft *draft, mr_error *error)
{
    struct mr_pack_header header = {0};
    struct stat st;
    size_t n = 0;
    if (fstatat(draft->root, MR_PACK_INDEX, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MR_OK
                               : mr_pack_draft_fail(draft, errno, "stat", MR_PACK_INDEX, error);
    int fd = mr_regular_file_open(draft->root, MR_PACK_INDEX, O_RDONLY, NULL);
    bool is_pack = fd >= 0 && mr_file_read_at(fd, 0, &header, sizeof header, &n) == 0 &&
                   n == sizeof header && header.magic == MR_PACK_MAGIC &&
                   header.version == MR_PACK_VERSION;
    bool is_same = is_pack && matches_draft(fd, &header, draft);
    if (fd >= 0)
        close(fd);
    if (is_pack) /* a process that was killed right after it wrote the index has left them */
        mr_pack_resume_clean(draft);
    if (is_same)
        return MR_END;
    return mr_error_set(
        error, MR_ERR_INVALID,
        is_pack ? "%s holds a complete pack of another dataset, or made with other options"
                : "%s holds a file called index",
        draft->dir);
}

void mr_pack_resume_clean(const struct mr_pack_draft *draft)
{
    (void)mr_pack_part_remove(draft, 0, true,
                              NULL); /* ignored: the pack is complete even if they remain */
    (void)unlinkat(draft->root, MR_PACK_UNFINISHED, 0);
    (void)fsync(draft->root);
}

static mr_status fail_lock(const struct mr_pack_draft *draft, const char *what, mr_error *error)
{
    return mr_pack_draft_fail(draft, errno, what, MR_PACK_UNFINISHED, error);
}

/* Open or create the file and lock it. */
static mr_status lock_folder(struct mr_pack_draft *draft, bool *is_new_out, mr_error *error)
{
    struct stat st;
    const int flags = O_RDWR | O_NOFOLLOW;
    draft->lock_fd =
        mr_regular_file_open(draft->root, MR_PACK_UNFINISHED, flags | O_CREAT | O_EXCL, NULL);
    *is_new_out = draft->lock_fd >= 0;
    if (draft->lock_fd == -EEXIST)
        draft->lock_fd = mr_regular_file_open(draft->root, MR_PACK_UNFINISHED, flags, NULL);
    if (draft->lock_fd < 0)
        return mr_pack_draft_fail(draft, -draft->lock_fd, "open", MR_PACK_UNFINISHED, error);
    bool is_locked = flock(draft->lock_fd, LOCK_EX | LOCK_NB) == 0;
    if (!is_locked && errno != EWOULDBLOCK)
        return fail_lock(draft, "lock", error);
    if (fstat(draft->lock_fd, &st) != 0)
        return fail_lock(draft, "stat", error);
    if (!is_locked || st.st_nlink == 0) /* the other process has just completed the pack */
        return mr_error_set(error, MR_ERR_INVALID, "another process is packing into %s",
                            draft->dir);
    return MR_OK;
}

/* The text after the class names; NULL if these are not the complete bytes of `unfinished`. */
static const char *find_origin(const uint8_t *bytes, size_t len)
{
    struct mr_pack_begin begin;
    if (len < sizeof begin)
        return NULL;
    memcpy(&begin, bytes, sizeof begin);
    uint64_t rest = len - sizeof begin;
    if (begin.magic != MR_PACK_BEGIN_MAGIC ||
        begin.checksum != mr_xxh3(bytes + MR_PACK_BEGIN_CHECKED, len - MR_PACK_BEGIN_CHECKED) ||
        begin.class_names_len >= rest || bytes[len - 1] != '\0')
        return NULL;
    return (const char *)bytes + sizeof begin + begin.class_names_len;
}

/* Compare the interrupted call with this one. */
static mr_status compare_begin(const struct mr_pack_draft *draft, const uint8_t *bytes, size_t len,
                               mr_error *error)
{
    if (len == draft->begin.len && memcmp(bytes, draft->begin.data, len) == 0)
        return MR_OK;
    const struct mr_pack_begin *now = mr_pack_draft_begin(draft);
    const char *origin = find_origin(bytes, len),
               *new_origin = find_origin(draft->begin.data, draft->begin.len);
    struct mr_pack_begin then;
    memcpy(&then, bytes, sizeof then);
    if (strcmp(origin, new_origin) != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s holds a part of another pack: \"%.350s\", now \"%.350s\"",
                            draft->dir, origin, new_origin);
    if (then.n_samples != now->n_samples)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s holds a part of a pack of %" PRIu64
                            " samples, now there are %" PRIu64,
                            draft->dir, then.n_samples, now->n_samples);
    if (then.shard_bytes != now->shard_bytes || then.align != now->align)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s holds a part of a pack with shards of %" PRIu64
                            " bytes, aligned to %" PRIu32 "; now %" PRIu64 " and %" PRIu32,
                            draft->dir, then.shard_bytes, then.align, now->shard_bytes, now->align);
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s holds a part of a pack with other labels, classes or members",
                        draft->dir);
}

/*
 * Compare the file's content, if it is complete, which *has_begun_out says. A crash may leave the
 * file cut off or full of zeros; any other content is not ours.
 */
static mr_status check_begin(const struct mr_pack_draft *draft, bool *has_begun_out,
                             mr_error *error)
{
    struct stat st;
    const uint64_t ours = MR_PACK_BEGIN_MAGIC;
    uint64_t magic = 0;
    size_t len = 0;
    ssize_t n = pread(draft->lock_fd, &magic, sizeof magic, 0);
    if (n < 0 || fstat(draft->lock_fd, &st) != 0)
        return fail_lock(draft, "read", error);
    if (magic != 0 && memcmp(&magic, &ours, (size_t)n) != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s/" MR_PACK_UNFINISHED " does not belong to a pack", draft->dir);
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    if (!bytes)
        return mr_error_memory(error, (size_t)st.st_size);
    int rc = mr_file_read_at(draft->lock_fd, 0, bytes, (size_t)st.st_size, &len);
    *has_begun_out = rc == 0 && find_origin(bytes, len);
    mr_status status = rc < 0 ? mr_pack_draft_fail(draft, -rc, "read", MR_PACK_UNFINISHED, error)
                       : *has_begun_out ? compare_begin(draft, bytes, len, error)
                                        : MR_OK;
    free(bytes);
    return status;
}

static mr_status write_begin(const struct mr_pack_draft *draft, mr_error *error)
{
    int rc = ftruncate(draft->lock_fd, 0) != 0 ? -errno : 0;
    if (rc == 0)
        rc = mr_file_write_at(draft->lock_fd, draft->begin.data, draft->begin.len, 0);
    if (rc == 0 && fsync(draft->lock_fd) != 0)
        rc = -errno;
    if (rc < 0)
        return mr_pack_draft_fail(draft, -rc, "write", MR_PACK_UNFINISHED, error);
    (void)fsync(draft->root);
    return MR_OK;
}

/* If no pack was begun here, shards and marks are not ours and are not removed. */
static mr_status refuse_file(const struct mr_pack_draft *draft, const char *name, mr_error *error)
{
    if (faccessat(draft->root, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s holds %s, but no index and no " MR_PACK_UNFINISHED, draft->dir, name);
}

static mr_status begin_pack(const struct mr_pack_draft *draft, mr_error *error)
{
    char name[MR_PACK_FILE_NAME];
    mr_pack_draft_shard_name(0, name);
    mr_status status = refuse_file(draft, name, error);
    if (status == MR_OK && draft->wants_marks)
        status = refuse_file(draft, MR_PACK_MARKS_FILE, error);
    return status == MR_OK ? write_begin(draft, error) : status;
}

/* Cut the file of marks to the length that counts and leave it open; if that is 0, remove it. */
static mr_status cut_marks(struct mr_pack_draft *draft, mr_error *error)
{
    const char *name = MR_PACK_MARKS_FILE;
    if (!draft->wants_marks)
        return MR_OK;
    if (draft->marks_len == 0)
        return unlinkat(draft->root, name, 0) == 0 || errno == ENOENT
                   ? MR_OK
                   : mr_pack_draft_fail(draft, errno, "remove", name, error);
    draft->marks_fd = mr_regular_file_open(draft->root, name, O_RDWR | O_NOFOLLOW, NULL);
    if (draft->marks_fd < 0)
        return mr_pack_draft_fail(draft, -draft->marks_fd, "open", name, error);
    return ftruncate(draft->marks_fd, (off_t)draft->marks_len) == 0
               ? MR_OK
               : mr_pack_draft_fail(draft, errno, "cut", name, error);
}

static mr_status continue_pack(struct mr_pack_draft *draft, mr_error *error)
{
    mr_status status;
    do
        status = mr_pack_part_load(draft, error);
    while (status == MR_OK);
    if (status == MR_END)
        status = mr_pack_part_remove(draft, mr_pack_draft_n_shards(draft), false, error);
    return status == MR_OK ? cut_marks(draft, error) : status;
}

mr_status mr_pack_resume(struct mr_pack_draft *draft, mr_error *error)
{
    bool is_new = false, has_begun = false;
    mr_status status = check_incomplete(draft, error);
    if (status == MR_OK)
        status = lock_folder(draft, &is_new, error);
    if (status == MR_OK) /* again: with the lock held, no other process can complete the pack */
        status = check_incomplete(draft, error);
    if (status == MR_OK)
        status = check_begin(draft, &has_begun, error);
    if (status == MR_OK)
        status = has_begun ? continue_pack(draft, error) : begin_pack(draft, error);
    if (status != MR_OK && is_new)
        (void)unlinkat(draft->root, MR_PACK_UNFINISHED, 0);
    return status;
}
