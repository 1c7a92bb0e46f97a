/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads index files of shards: a header, the recipe, the members, the extra members, the
 * names, all under one checksum. The file is a cache: it has native byte order and a version, and
 * is ignored if anything in it is wrong.
 *
 * Invariant: readers see a whole file or none, because it is written under a temporary name. Its
 * content is not trusted: ranges must be inside the shard, and names must end.
 */
#include "dataset/tar/tar_index_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/file.h"
#include "dataset/tar/tar_wds.h"

#define MAGIC 0x31786449726154ddu /* no text begins with these bytes */
enum { VERSION = 3, FRESH_S = 2, MAX_BYTES = 1 << 30, ABANDONED_S = 60 };

/* The size and modification time of a file; zeros: there is no file. */
struct stamp {
    uint64_t len;
    int64_t mtime_s;
    int64_t mtime_ns;
};

/* The files that the samples were found in. */
struct origin {
    struct stamp shard;
    struct stamp wds; /* the index of wds2idx beside the shard, used or not */
};

struct index_header {
    uint64_t magic;
    uint32_t version;
    uint32_t recipe_len;
    struct origin origin;
    uint64_t n;
    uint64_t names_len;
    uint64_t checksum; /* of everything before and after this field */
};

static struct stamp make_stamp(const struct stat *st)
{
    return (struct stamp){.len = (uint64_t)st->st_size,
                          .mtime_s = st->st_mtim.tv_sec,
                          .mtime_ns = st->st_mtim.tv_nsec};
}

static struct origin find_origin(int root, const char *path, const struct stat *shard)
{
    struct stat st;
    struct origin origin = {.shard = make_stamp(shard)};
    if (mr_tar_wds_stat(root, path, &st))
        origin.wds = make_stamp(&st);
    return origin;
}

static bool stamps_equal(const struct stamp *a, const struct stamp *b)
{
    return a->len == b->len && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns;
}

struct place {
    int folder;
    char path[PATH_MAX];
};

/* The place beside the shard. */
static bool find_beside(int root, const char *path, const struct mr_tar_recipe *recipe,
                        struct place *place_out)
{
    const char *slash = strrchr(path, '/');
    int folder_len = slash ? (int)(slash - path) + 1 : 0;
    uint32_t hash = (uint32_t)mr_xxh3(recipe->text, strlen(recipe->text));
    place_out->folder = root;
    int n = snprintf(place_out->path, sizeof place_out->path, "%.*s.%s.%08" PRIx32 ".millrace",
                     folder_len, path, path + folder_len, hash);
    return n > 0 && n - folder_len <= NAME_MAX && (size_t)n < sizeof place_out->path;
}

/* The cache folder of the user for index files. make: create it. */
static bool find_cache_folder(char folder_out[PATH_MAX], bool make)
{
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n;
    if (base && *base == '/')
        n = snprintf(folder_out, PATH_MAX, "%s", base);
    else if (home && *home == '/')
        n = snprintf(folder_out, PATH_MAX, "%s/.cache", home);
    else
        return false;
    if (n < 0 || n > PATH_MAX - 64)
        return false;
    if (make)
        (void)mkdir(folder_out, 0700);
    snprintf(folder_out + n, PATH_MAX - (size_t)n, "/millrace");
    if (make)
        (void)mkdir(folder_out, 0700);
    return true;
}

/*
 * The place in the cache folder, where the name of the file is a hash of the absolute path of the
 * shard and of the recipe.
 */
static bool find_in_cache(int root, const char *path, const struct mr_tar_recipe *recipe, bool make,
                          struct place *place_out)
{
    char link[64], absolute[2 * PATH_MAX], folder[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", root);
    ssize_t len = *path == '/' ? 0 : readlink(link, absolute, PATH_MAX - 1);
    if (len < 0 || !find_cache_folder(folder, make))
        return false;
    size_t all =
        (size_t)len + (size_t)snprintf(absolute + len, sizeof absolute - (size_t)len, "/%s", path);
    if (all >= sizeof absolute)
        return false;
    uint64_t hash = mr_xxh3_pair(absolute, all, recipe->text, strlen(recipe->text));
    place_out->folder = AT_FDCWD;
    int n = snprintf(place_out->path, sizeof place_out->path, "%s/%016" PRIx64 ".millrace", folder,
                     hash);
    return n > 0 && (size_t)n < sizeof place_out->path;
}

static uint64_t compute_checksum(const struct index_header *header, const uint8_t *rest, size_t len)
{
    return mr_xxh3_pair(header, offsetof(struct index_header, checksum), rest, len);
}

/*
 * True if the header is of this shard and recipe, the parts fill the file, and the checksum is
 * right.
 */
static bool header_fits(const struct index_header *header, const uint8_t *rest, size_t len,
                        const struct origin *origin, const struct mr_tar_recipe *recipe)
{
    uint64_t members, all, of_each = sizeof(struct mr_catalog_member);
    of_each += recipe->n_extra * sizeof(struct mr_catalog_extra);
    return header->magic == MAGIC && header->version == VERSION &&
           header->recipe_len == strlen(recipe->text) &&
           stamps_equal(&header->origin.shard, &origin->shard) &&
           stamps_equal(&header->origin.wds, &origin->wds) &&
           mr_checked_mul_u64(header->n, of_each, &members) &&
           mr_checked_add_u64(members, header->names_len, &all) &&
           mr_checked_add_u64(all, header->recipe_len, &all) && all == len &&
           memcmp(rest, recipe->text, header->recipe_len) == 0 &&
           header->checksum == compute_checksum(header, rest, len);
}

/*
 * True if the extra members of a good sample are inside the shard, and as short as the recipe
 * requires.
 */
static bool extra_members_fit(const struct mr_tar_samples *samples, uint64_t i,
                              const struct mr_tar_recipe *recipe, uint64_t shard_bytes)
{
    for (uint32_t k = 0; k < recipe->n_extra; k++) {
        struct mr_catalog_extra extra;
        uint64_t stop;
        memcpy(&extra, samples->extra.data + (i * recipe->n_extra + k) * sizeof extra,
               sizeof extra);
        if (extra.len > recipe->extra[k].max_bytes ||
            !mr_checked_add_u64(extra.offset, extra.len, &stop) || stop > shard_bytes)
            return false;
    }
    return true;
}

/*
 * True if there are as many names as members, none of them empty or too long, and all ranges are
 * inside the shard.
 */
static bool samples_fit(const struct mr_tar_samples *samples, const struct mr_tar_recipe *recipe,
                        uint64_t shard_bytes)
{
    const char *name = (const char *)samples->names.data,
               *end = name ? name + samples->names.len : name;
    for (uint64_t i = 0; i < samples->n; i++) {
        struct mr_catalog_member member;
        uint64_t stop;
        memcpy(&member, samples->members.data + i * sizeof member, sizeof member);
        const char *nul = name < end ? memchr(name, '\0', (size_t)(end - name)) : NULL;
        if (!nul || nul == name || nul - name >= MR_CATALOG_PATH ||
            member.problem >= MR_N_PROBLEMS ||
            !mr_checked_add_u64(member.offset, member.len, &stop) || stop > shard_bytes ||
            (member.problem == MR_PROBLEM_NONE &&
             !extra_members_fit(samples, i, recipe, shard_bytes)))
            return false;
        name = nul + 1;
    }
    return name == end;
}

static bool parse_index(const uint8_t *bytes, size_t len, const struct origin *origin,
                        const struct mr_tar_recipe *recipe, struct mr_tar_samples *samples)
{
    struct index_header header;
    if (len < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    const uint8_t *rest = bytes + sizeof header;
    if (!header_fits(&header, rest, len - sizeof header, origin, recipe))
        return false;
    const uint8_t *members = rest + header.recipe_len;
    size_t members_len = header.n * sizeof(struct mr_catalog_member);
    size_t extra_len = header.n * recipe->n_extra * sizeof(struct mr_catalog_extra);
    const uint8_t *extra = members + members_len;
    samples->n = header.n;
    return mr_bytes_append(&samples->members, members, members_len, NULL) == MR_OK &&
           mr_bytes_append(&samples->extra, extra, extra_len, NULL) == MR_OK &&
           mr_bytes_append(&samples->names, extra + extra_len, header.names_len, NULL) == MR_OK &&
           samples_fit(samples, recipe, header.origin.shard.len);
}

static bool load_place(const struct place *place, const struct origin *origin,
                       const struct mr_tar_recipe *recipe, struct mr_tar_samples *samples_out)
{
    struct stat st;
    size_t n = 0;
    int fd = mr_regular_file_open(place->folder, place->path, O_RDONLY, &st);
    if (fd < 0)
        return false;
    bool good = st.st_size > 0 && st.st_size <= MAX_BYTES;
    uint8_t *bytes = good ? malloc((size_t)st.st_size) : NULL;
    good = bytes && mr_file_read_at(fd, 0, bytes, (size_t)st.st_size, &n) == 0 &&
           parse_index(bytes, n, origin, recipe, samples_out);
    free(bytes);
    close(fd);
    if (!good)
        mr_tar_samples_fini(samples_out);
    return good;
}

bool mr_tar_index_file_load(enum mr_tar_index_place index_place, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            struct mr_tar_samples *samples_out)
{
    struct place place;
    if (index_place == MR_TAR_INDEX_NONE)
        return false;
    struct origin origin = find_origin(root, path, st);
    if (index_place != MR_TAR_INDEX_CACHE && find_beside(root, path, recipe, &place) &&
        load_place(&place, &origin, recipe, samples_out))
        return true;
    return index_place != MR_TAR_INDEX_BESIDE && find_in_cache(root, path, recipe, false, &place) &&
           load_place(&place, &origin, recipe, samples_out);
}

static bool write_index(struct mr_bytes *file, const struct origin *origin,
                        const struct mr_tar_recipe *recipe, const struct mr_tar_samples *samples)
{
    struct index_header header = {.magic = MAGIC,
                                  .version = VERSION,
                                  .recipe_len = (uint32_t)strlen(recipe->text),
                                  .origin = *origin,
                                  .n = samples->n,
                                  .names_len = samples->names.len};
    if (mr_bytes_append(file, &header, sizeof header, NULL) < 0 ||
        mr_bytes_append(file, recipe->text, header.recipe_len, NULL) < 0 ||
        mr_bytes_append(file, samples->members.data, samples->members.len, NULL) < 0 ||
        mr_bytes_append(file, samples->extra.data, samples->extra.len, NULL) < 0 ||
        mr_bytes_append(file, samples->names.data, samples->names.len, NULL) < 0)
        return false;
    header.checksum =
        compute_checksum(&header, file->data + sizeof header, file->len - sizeof header);
    memcpy(file->data, &header, sizeof header);
    return true;
}

/*
 * True if the process that writes the temporary file was killed: writing takes less than a minute.
 */
static bool is_abandoned(int folder, const char *path)
{
    struct stat st;
    time_t now = time(NULL);
    return fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
           st.st_mtim.tv_sec < now - ABANDONED_S || st.st_mtim.tv_sec > now + ABANDONED_S;
}

/* Returns a descriptor, or a negative errno: -EEXIST if another process is writing the file. */
static int create_temporary(int folder, const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL;
    int fd = mr_regular_file_open(folder, path, flags, NULL);
    if (fd == -EEXIST && is_abandoned(folder, path)) {
        (void)unlinkat(folder, path, 0);
        fd = mr_regular_file_open(folder, path, flags, NULL);
    }
    return fd;
}

/*
 * Write the file under a temporary name, then rename it. All processes use the same temporary name
 * for an index. The file is not synced, which would cost a wait for the disk per shard. If a crash
 * of the machine truncates it, its checksum is wrong, and it is written again.
 */
static bool save_place(const struct place *place, const struct mr_bytes *file)
{
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", place->path);
    int fd = create_temporary(place->folder, temporary);
    if (fd < 0)
        return fd == -EEXIST;
    bool good = mr_file_write_at(fd, file->data, file->len, 0) == 0;
    good = close(fd) == 0 && good &&
           renameat(place->folder, temporary, place->folder, place->path) == 0;
    if (!good)
        (void)unlinkat(place->folder, temporary, 0);
    return good;
}

static bool is_fresh(const struct stamp *stamp)
{
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) != 0 || stamp->mtime_s > now.tv_sec - FRESH_S;
}

void mr_tar_index_file_save(enum mr_tar_index_place index_place, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            const struct mr_tar_samples *samples)
{
    struct place place;
    struct mr_bytes file = {0};
    if (index_place == MR_TAR_INDEX_NONE)
        return;
    struct origin origin = find_origin(root, path, st);
    if (is_fresh(&origin.shard) || is_fresh(&origin.wds) ||
        !write_index(&file, &origin, recipe, samples)) {
        mr_bytes_fini(&file);
        return;
    }
    bool saved = index_place != MR_TAR_INDEX_CACHE && find_beside(root, path, recipe, &place) &&
                 save_place(&place, &file);
    if (!saved && index_place != MR_TAR_INDEX_BESIDE &&
        find_in_cache(root, path, recipe, true, &place))
        (void)save_place(&place, &file);
    mr_bytes_fini(&file);
}
