/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves and loads the parts of finished shards.
 *
 * Invariant: a part is renamed into place after its shard and the marks were synced. So its content
 * can be trusted, even after a power failure.
 */
#include "packs/pack_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/file.h"

#define TEMPORARY "part.tmp"

static void name_part(uint32_t shard, char name_out[MR_PACK_FILE_NAME])
{
    snprintf(name_out, MR_PACK_FILE_NAME, MR_PACK_PART, shard);
}

static uint64_t head_checksum(struct mr_pack_part_head head)
{
    head.checksum = 0;
    return mr_xxh3(&head, sizeof head);
}

/* After this, the shard and the marks survive a power failure. */
static mr_status sync_shard(const struct mr_pack_draft *draft, mr_error *error)
{
    char name[MR_PACK_FILE_NAME];
    mr_pack_draft_shard_name(mr_pack_draft_n_shards(draft) - 1, name);
    if (fdatasync(draft->shard_fd) != 0)
        return mr_pack_draft_fail(draft, errno, "sync", name, error);
    if (draft->marks_fd >= 0 && fdatasync(draft->marks_fd) != 0)
        return mr_pack_draft_fail(draft, errno, "sync", MR_PACK_MARKS_FILE, error);
    return MR_OK;
}

static struct mr_pack_part_head describe_part(const struct mr_pack_draft *draft)
{
    struct mr_pack_part_head head = {.magic = MR_PACK_PART_MAGIC,
                                     .n_samples = draft->sections[MR_PACK_SAMPLES].len /
                                                  sizeof(struct mr_pack_sample),
                                     .shard_bytes = *mr_pack_draft_shard_len(draft),
                                     .marks_bytes = draft->marks_len};
    const struct mr_pack_marks *marks = (const void *)draft->sections[MR_PACK_MARKS].data;
    for (size_t i = 0; i < draft->sections[MR_PACK_MARKS].len / sizeof *marks; i++)
        head.n_marked += marks[i].len > 0;
    for (int which = 0; which < MR_PACK_N_SECTIONS; which++) {
        head.sections[which].len = draft->sections[which].len;
        head.sections[which].checksum =
            mr_xxh3(draft->sections[which].data, draft->sections[which].len);
    }
    head.checksum = head_checksum(head);
    return head;
}

/* Returns 0 or a negative errno. */
static int write_part(const struct mr_pack_draft *draft, int fd)
{
    const struct mr_pack_part_head head = describe_part(draft);
    uint64_t at = sizeof head;
    int rc = mr_file_write_at(fd, &head, sizeof head, 0);
    for (int which = 0; rc == 0 && which < MR_PACK_N_SECTIONS; which++) {
        rc = mr_file_write_at(fd, draft->sections[which].data, draft->sections[which].len, at);
        at += draft->sections[which].len;
    }
    return rc;
}

mr_status mr_pack_part_save(struct mr_pack_draft *draft, mr_error *error)
{
    char name[MR_PACK_FILE_NAME];
    mr_status status = sync_shard(draft, error);
    if (status < 0)
        return status;
    name_part(mr_pack_draft_n_shards(draft) - 1, name);
    int fd = mr_regular_file_open(draft->root, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW,
                                  NULL);
    int rc = fd >= 0 ? write_part(draft, fd) : fd;
    if (rc == 0)
        rc = mr_regular_file_publish(draft->root, fd, TEMPORARY, name);
    else
        (void)unlinkat(draft->root, TEMPORARY, 0);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        return mr_pack_draft_fail(draft, -rc, "write", name, error);
    close(draft->shard_fd);
    draft->shard_fd = -1;
    for (int which = 0; which < MR_PACK_N_SECTIONS; which++)
        draft->sections[which].len = 0;
    return MR_OK;
}

/* The length of a regular file; 0 for anything else. */
static uint64_t file_bytes(const struct mr_pack_draft *draft, const char *name)
{
    struct stat st;
    bool is_file = fstatat(draft->root, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    return is_file ? (uint64_t)st.st_size : 0;
}

/* True if the part continues the draft: the counts and lengths match. */
static bool part_fits(const struct mr_pack_draft *draft, const struct mr_pack_part_head *head)
{
    char shard[MR_PACK_FILE_NAME];
    const struct mr_pack_begin *begin = mr_pack_draft_begin(draft);
    uint64_t n = head->n_samples,
             marks_len = draft->wants_marks ? n * sizeof(struct mr_pack_marks) : 0;
    mr_pack_draft_shard_name(mr_pack_draft_n_shards(draft), shard);
    return n > 0 && n <= begin->n_samples - draft->n_done &&
           head->shard_bytes == file_bytes(draft, shard) && head->marks_bytes >= draft->marks_len &&
           (head->marks_bytes == draft->marks_len ||
            head->marks_bytes <= file_bytes(draft, MR_PACK_MARKS_FILE)) &&
           head->sections[MR_PACK_SAMPLES].len == n * sizeof(struct mr_pack_sample) &&
           head->sections[MR_PACK_LABELS].len == n * begin->label_bytes &&
           head->sections[MR_PACK_MARKS].len == marks_len &&
           head->sections[MR_PACK_MEMBERS].len ==
               n * begin->n_members * sizeof(struct mr_pack_member);
}

/*
 * Read a section's bytes. Ownership: the caller frees *bytes_out. MR_END: length or checksum differ
 * from the head.
 */
static mr_status read_section(int fd, uint64_t at, uint64_t len, uint64_t checksum,
                              uint8_t **bytes_out, mr_error *error)
{
    size_t n = 0;
    *bytes_out = malloc(len > 0 ? (size_t)len : 1);
    if (!*bytes_out)
        return mr_error_memory(error, (size_t)len);
    bool good = mr_file_read_at(fd, at, *bytes_out, (size_t)len, &n) == 0 && n == len;
    return good && mr_xxh3(*bytes_out, n) == checksum ? MR_OK : MR_END;
}

/* Check all sections, then add the templates to the draft. */
static mr_status take_sections(struct mr_pack_draft *draft, int fd,
                               const struct mr_pack_part_head *head, mr_error *error)
{
    struct mr_packed_template *templates = NULL;
    uint64_t at = sizeof *head,
             n_templates = head->sections[MR_PACK_TEMPLATES].len / sizeof *templates;
    mr_status status = MR_OK;
    for (int which = 0; status == MR_OK && which < MR_PACK_N_SECTIONS; which++) {
        uint8_t *bytes;
        status = read_section(fd, at, head->sections[which].len, head->sections[which].checksum,
                              &bytes, error);
        if (which == MR_PACK_TEMPLATES)
            templates = (void *)bytes;
        else
            free(bytes);
        at += head->sections[which].len;
    }
    for (uint64_t i = 0; status == MR_OK && i < n_templates; i++)
        status = mr_pack_templates_add(&draft->templates, &templates[i], error);
    free(templates);
    return status;
}

static mr_status count_part(struct mr_pack_draft *draft, const struct mr_pack_part_head *head,
                            mr_error *error)
{
    mr_status status = mr_bytes_append_u64(&draft->shards, head->shard_bytes, error);
    if (status < 0)
        return status;
    draft->n_done += head->n_samples;
    draft->n_rows += head->sections[MR_PACK_ROWS].len / sizeof(uint32_t);
    draft->n_sums += head->sections[MR_PACK_ROW_SUMS].len / sizeof(uint32_t);
    draft->names_len += head->sections[MR_PACK_NAMES].len;
    draft->n_marked += head->n_marked;
    draft->bytes += head->shard_bytes + (head->marks_bytes - draft->marks_len);
    draft->marks_len = head->marks_bytes;
    return MR_OK;
}

/* True if the file is as long as its head says. */
static bool length_fits(const struct mr_pack_part_head *head, uint64_t file_bytes)
{
    uint64_t len = sizeof *head;
    for (int which = 0; which < MR_PACK_N_SECTIONS; which++)
        if (!mr_checked_add_u64(len, head->sections[which].len, &len))
            return false;
    return file_bytes == len;
}

static int open_part(const struct mr_pack_draft *draft, uint32_t shard,
                     struct mr_pack_part_head *head_out)
{
    char name[MR_PACK_FILE_NAME];
    size_t n = 0;
    name_part(shard, name);
    struct stat st;
    int fd = mr_regular_file_open(draft->root, name, O_RDONLY | O_NOFOLLOW, &st);
    bool good = fd >= 0 && mr_file_read_at(fd, 0, head_out, sizeof *head_out, &n) == 0 &&
                n == sizeof *head_out && head_out->magic == MR_PACK_PART_MAGIC &&
                head_out->checksum == head_checksum(*head_out) &&
                length_fits(head_out, (uint64_t)st.st_size);
    if (fd >= 0 && !good) {
        close(fd);
        fd = -1;
    }
    return fd;
}

mr_status mr_pack_part_load(struct mr_pack_draft *draft, mr_error *error)
{
    struct mr_pack_part_head head;
    int fd = open_part(draft, mr_pack_draft_n_shards(draft), &head);
    if (fd < 0)
        return MR_END;
    mr_status status = part_fits(draft, &head) ? take_sections(draft, fd, &head, error) : MR_END;
    close(fd);
    return status == MR_OK ? count_part(draft, &head, error) : status;
}

mr_status mr_pack_part_open(const struct mr_pack_draft *draft, uint32_t shard,
                            enum mr_pack_section which, int *fd_out, uint64_t *off_out,
                            uint64_t *len_out, mr_error *error)
{
    struct mr_pack_part_head head;
    char name[MR_PACK_FILE_NAME];
    *fd_out = open_part(draft, shard, &head);
    if (*fd_out < 0) {
        name_part(shard, name);
        return mr_error_set(error, MR_ERR_IO, "%s/%s was altered while it was in use", draft->dir,
                            name);
    }
    *off_out = sizeof head;
    for (int before = 0; before < (int)which; before++)
        *off_out += head.sections[before].len;
    *len_out = head.sections[which].len;
    return MR_OK;
}

mr_status mr_pack_part_remove(const struct mr_pack_draft *draft, uint32_t first, bool parts_only,
                              mr_error *error)
{
    for (uint32_t i = first;; i++) {
        char part[MR_PACK_FILE_NAME], shard[MR_PACK_FILE_NAME];
        name_part(i, part);
        mr_pack_draft_shard_name(i, shard);
        /* The part first: a part without its shard would be wrong. */
        bool had_part = unlinkat(draft->root, part, 0) == 0;
        if (!had_part && errno != ENOENT)
            return mr_pack_draft_fail(draft, errno, "remove", part, error);
        bool had_shard = (parts_only ? faccessat(draft->root, shard, F_OK, AT_SYMLINK_NOFOLLOW)
                                     : unlinkat(draft->root, shard, 0)) == 0;
        if (!had_shard && errno != ENOENT)
            return mr_pack_draft_fail(draft, errno, "remove", shard, error);
        if (!had_part && !had_shard)
            return MR_OK;
    }
}
