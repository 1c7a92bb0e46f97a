/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps whole objects: a head, then the bytes, under one checksum.
 *
 * Invariant: the content of the file is not trusted.
 */
#include "dataset/remote/object_keep.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "base/xxh3.h"
#include "dataset/file.h"

#define MAGIC UINT64_C(0x317470654b726d) /* "mrKept1" */

struct kept_head {
    uint64_t magic;
    struct mr_index_place_stamp stamp; /* of the object */
    uint64_t checksum;                 /* of everything before and after this field */
};

struct keeping {
    const char *name;
    struct mr_index_place_stamp stamp;
    int fd; /* the bytes in shared memory; -1: not kept */
};

static uint64_t compute_checksum(const struct kept_head *head, const uint8_t *bytes, size_t len)
{
    return mr_xxh3_pair(head, offsetof(struct kept_head, checksum), bytes, len);
}

static bool take_kept(void *user, const uint8_t *bytes, size_t len)
{
    struct keeping *keeping = user;
    struct kept_head head;
    if (len < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    bytes += sizeof head;
    len -= sizeof head;
    if (head.magic != MAGIC || !mr_index_place_same(&head.stamp, &keeping->stamp) ||
        head.stamp.len != len || head.checksum != compute_checksum(&head, bytes, len) ||
        mr_shared_memory_create(keeping->name, len, &keeping->fd, NULL) != MR_OK)
        return false;
    if (mr_file_write_at(keeping->fd, bytes, len, 0) == 0 &&
        mr_shared_memory_seal_content(keeping->fd) == 0)
        return true;
    close(keeping->fd);
    keeping->fd = -1;
    return false;
}

static void keep(const struct mr_index_place_key *key, const struct keeping *keeping)
{
    struct kept_head head = {.magic = MAGIC, .stamp = keeping->stamp};
    struct mr_bytes file = {0};
    size_t len = (size_t)head.stamp.len;
    uint8_t *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, keeping->fd, 0);
    if (map == MAP_FAILED)
        return;
    head.checksum = compute_checksum(&head, map, len);
    if (mr_bytes_append(&file, &head, sizeof head, NULL) == MR_OK &&
        mr_bytes_append(&file, map, len, NULL) == MR_OK)
        mr_index_place_save(key, &file);
    mr_bytes_fini(&file);
    munmap(map, len);
}

mr_status mr_object_keep_load(struct mr_object *object, enum mr_index_place place, const char *name,
                              int *fd_out, mr_error *error)
{
    struct stat st;
    struct mr_index_place_key key = {place, -1, mr_object_url(object), name};
    struct keeping keeping = {.name = name, .fd = -1};
    if (!mr_object_stat(object, &st))
        key.place = MR_INDEX_NONE; /* another version might look the same */
    keeping.stamp = mr_index_place_describe(&st);
    bool is_kept = mr_index_place_load(&key, take_kept, &keeping);
    mr_status status = is_kept ? MR_OK : mr_object_load(object, name, &keeping.fd, error);
    if (status != MR_OK)
        return status;
    if (!is_kept && key.place != MR_INDEX_NONE)
        keep(&key, &keeping);
    *fd_out = keeping.fd;
    return MR_OK;
}
