/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, reads and writes the files of indexes.
 *
 * Invariant: readers see a whole file or none, because it is written under a temporary name.
 */
#include "dataset/index_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/words.h"
#include "base/xxh3.h"
#include "dataset/file.h"
#include "dataset/kind.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

enum { FRESH_S = 2, ABANDONED_S = 60, DAY_S = 86400, UNUSED_S = 60 * DAY_S };

struct mr_index_place_stamp mr_index_place_describe(const struct stat *st)
{
    return (struct mr_index_place_stamp){.len = (uint64_t)st->st_size,
                                         .mtime_s = st->st_mtim.tv_sec,
                                         .mtime_ns = st->st_mtim.tv_nsec};
}

bool mr_index_place_same(const struct mr_index_place_stamp *a, const struct mr_index_place_stamp *b)
{
    return a->len == b->len && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns;
}

bool mr_index_place_is_fresh(const struct mr_index_place_stamp *stamp)
{
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) != 0 || stamp->mtime_s > now.tv_sec - FRESH_S;
}

mr_status mr_index_place_take(struct mr_spec *spec, enum mr_index_place *place_out, mr_error *error)
{
    static const char *const words[] = {[MR_INDEX_AUTO] = "auto",
                                        [MR_INDEX_BESIDE] = "beside",
                                        [MR_INDEX_CACHE] = "cache",
                                        [MR_INDEX_NONE] = "none"};
    const char *text = mr_spec_take(spec, "index");
    *place_out = MR_INDEX_AUTO;
    if (!text)
        return MR_OK;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        *place_out = (enum mr_index_place)i;
        if (mr_word_is(text, words[i]))
            return MR_OK;
    }
    return mr_error_set(error, MR_ERR_INVALID,
                        "index '%s' of %s is none of auto, beside, cache, none", text,
                        spec->kind->name);
}

struct place {
    int folder;
    char path[PATH_MAX];
};

/* The place beside the file. */
static bool find_beside(int root, const char *path, const char *recipe, struct place *place_out)
{
    const char *slash = strrchr(path, '/');
    if (mr_url_is(path))
        return false;
    int folder_len = slash ? (int)(slash - path) + 1 : 0;
    uint32_t hash = (uint32_t)mr_xxh3(recipe, strlen(recipe));
    place_out->folder = root;
    int n = snprintf(place_out->path, sizeof place_out->path, "%.*s.%s.%08" PRIx32 ".millrace",
                     folder_len, path, path + folder_len, hash);
    return n > 0 && n - folder_len <= NAME_MAX && (size_t)n < sizeof place_out->path;
}

/* Remove what has not been used for long: a use renews the time. Once for each folder. */
static void remove_unused(const char *folder)
{
    static _Atomic uint64_t done;
    uint64_t hash = mr_xxh3(folder, strlen(folder));
    DIR *dir = atomic_exchange(&done, hash) == hash ? NULL : opendir(folder);
    time_t limit = time(NULL) - UNUSED_S;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        size_t len = strspn(name, "0123456789abcdef");
        bool is_ours = len == 16 && (strcmp(name + len, ".millrace") == 0 ||
                                     strcmp(name + len, ".millrace.tmp") == 0);
        struct stat st;
        if (is_ours && fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && st.st_mtim.tv_sec < limit)
            (void)unlinkat(dirfd(dir), name, 0);
    }
    if (dir)
        closedir(dir);
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
    if (make) {
        (void)mkdir(folder_out, 0700);
        remove_unused(folder_out);
    }
    return true;
}

/*
 * The place in the cache folder, where the name of the file is a hash of the absolute path of the
 * file and of the recipe. The query of a URL does not count.
 */
static bool find_in_cache(int root, const char *path, const char *recipe, bool make,
                          struct place *place_out)
{
    char link[64], absolute[2 * PATH_MAX], folder[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", root);
    ssize_t len = *path == '/' || mr_url_is(path) ? 0 : readlink(link, absolute, PATH_MAX - 1);
    if (len < 0 || !find_cache_folder(folder, make))
        return false;
    int path_len = (int)(mr_url_is(path) ? mr_url_shown_len(path) : strlen(path));
    size_t all = (size_t)len + (size_t)snprintf(absolute + len, sizeof absolute - (size_t)len,
                                                "/%.*s", path_len, path);
    if (all >= sizeof absolute)
        return false;
    uint64_t hash = mr_xxh3_pair(absolute, all, recipe, strlen(recipe));
    place_out->folder = AT_FDCWD;
    int n = snprintf(place_out->path, sizeof place_out->path, "%s/%016" PRIx64 ".millrace", folder,
                     hash);
    return n > 0 && (size_t)n < sizeof place_out->path;
}

static bool load_place(const struct place *place,
                       bool (*take)(void *user, const uint8_t *bytes, size_t len), void *user)
{
    struct stat st;
    size_t n = 0;
    int fd = mr_regular_file_open(place->folder, place->path, O_RDONLY, &st);
    if (fd < 0)
        return false;
    bool good = st.st_size > 0 && (uint64_t)st.st_size <= MR_INDEX_MAX_BYTES;
    uint8_t *bytes = good ? malloc((size_t)st.st_size) : NULL;
    good =
        bytes && mr_file_read_at(fd, 0, bytes, (size_t)st.st_size, &n) == 0 && take(user, bytes, n);
    if (good && st.st_mtim.tv_sec < time(NULL) - DAY_S)
        (void)futimens(fd, NULL);
    free(bytes);
    close(fd);
    return good;
}

bool mr_index_place_load(const struct mr_index_place_key *key,
                         bool (*take)(void *user, const uint8_t *bytes, size_t len), void *user)
{
    struct place place;
    if (key->place == MR_INDEX_NONE)
        return false;
    if (key->place != MR_INDEX_CACHE && find_beside(key->root, key->path, key->recipe, &place) &&
        load_place(&place, take, user))
        return true;
    return key->place != MR_INDEX_BESIDE &&
           find_in_cache(key->root, key->path, key->recipe, false, &place) &&
           load_place(&place, take, user);
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

void mr_index_place_save(const struct mr_index_place_key *key, const struct mr_bytes *file)
{
    struct place place;
    if (key->place == MR_INDEX_NONE || file->len > MR_INDEX_MAX_BYTES)
        return;
    bool saved = key->place != MR_INDEX_CACHE &&
                 find_beside(key->root, key->path, key->recipe, &place) && save_place(&place, file);
    if (!saved && key->place != MR_INDEX_BESIDE &&
        find_in_cache(key->root, key->path, key->recipe, true, &place))
        (void)save_place(&place, file);
}
