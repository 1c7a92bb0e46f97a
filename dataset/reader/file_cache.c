/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps shards open: a hash table by file number. Entries that are not in use are also in a list,
 * ordered by last use. An entry is named by its position + 1, so zeroed memory means "none".
 *
 * Invariant: a descriptor stays open while a read in flight uses it, because the system could give
 * its number to another file at once. So an entry counts its users, and the list holds only entries
 * without users.
 */
#include "dataset/reader/file_cache.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/xxh3.h"

#define MAX_OPEN 1024
#define MAX_MAPPED ((uint64_t)64 << 30) /* bytes of files, whose page tables take 0.2 % of that */

struct entry {
    uint64_t file;
    int fd;
    uint32_t n_users;
    void *map; /* all of the file; NULL: not mapped; MAP_FAILED: it cannot be */
    size_t map_len;
    uint32_t chain;        /* next entry in the same bucket, or in the chain of free entries */
    uint32_t newer, older; /* neighbours in the list of entries without users */
};

struct mr_file_cache {
    const struct mr_catalog *catalog;
    const struct mr_other_files *other;
    uint64_t n_files; /* of the catalog */
    uint32_t capacity;
    uint32_t n_open;
    uint64_t mapped; /* bytes of files */
    uint32_t n_used; /* entries ever used: the first n_used of the array */
    uint32_t free;   /* chain of closed entries below n_used */
    uint32_t newest, oldest;
    uint32_t mask;     /* number of buckets - 1 */
    uint32_t *buckets; /* entry + 1 */
    struct entry *entries;
};

uint32_t mr_file_cache_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    rlim_t share = limit.rlim_cur / 4;
    if (share > MAX_OPEN)
        return MAX_OPEN;
    return share > 0 ? (uint32_t)share : 1;
}

uint64_t mr_file_cache_stamp(const struct stat *st)
{
    const int64_t parts[3] = {st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec};
    return mr_xxh3(parts, sizeof parts);
}

int mr_file_cache_open(const struct mr_catalog *catalog, uint64_t file, uint64_t *size_out)
{
    char path[MR_CATALOG_PATH];
    int err = mr_catalog_path(catalog, file, path);
    if (err)
        return err;
    struct stat st;
    int fd = mr_regular_file_open(mr_catalog_root(catalog), path, O_RDONLY, &st);
    if (fd < 0)
        return fd;
    if (!mr_catalog_is_file(catalog, file, &st)) {
        close(fd);
        return -ESTALE;
    }
    if (size_out)
        *size_out = (uint64_t)st.st_size;
    return fd;
}

int mr_file_cache_open_apart(const struct mr_file_cache *cache, uint64_t file, uint64_t *size_out)
{
    struct stat st;
    if (file < cache->n_files)
        return mr_file_cache_open(cache->catalog, file, size_out);
    int fd = cache->other->open(cache->other->user, file - cache->n_files);
    if (fd >= 0 && size_out)
        *size_out = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

int mr_file_cache_create(const struct mr_catalog *catalog, const struct mr_other_files *other,
                         uint32_t capacity, struct mr_file_cache **cache_out)
{
    assert(capacity > 0 && capacity <= MAX_OPEN);
    struct mr_file_cache *cache = calloc(1, sizeof *cache);
    uint32_t n_buckets = 4;
    while (n_buckets < capacity)
        n_buckets *= 2;
    if (cache) {
        cache->catalog = catalog;
        cache->other = other;
        cache->n_files = mr_catalog_n_files(catalog);
        cache->capacity = capacity;
        cache->mask = n_buckets - 1;
        cache->buckets = calloc(n_buckets, sizeof *cache->buckets);
        cache->entries = calloc(capacity, sizeof *cache->entries);
    }
    if (!cache || !cache->buckets || !cache->entries) {
        mr_file_cache_destroy(cache);
        *cache_out = NULL;
        return -ENOMEM;
    }
    *cache_out = cache;
    return 0;
}

static void close_entry(struct mr_file_cache *cache, struct entry *entry)
{
    if (entry->map && entry->map != MAP_FAILED) {
        munmap(entry->map, entry->map_len);
        cache->mapped -= entry->map_len;
    }
    entry->map = NULL;
    close(entry->fd);
    entry->fd = -1;
}

void mr_file_cache_destroy(struct mr_file_cache *cache)
{
    if (!cache)
        return;
    for (uint32_t i = 0; i < cache->n_used; i++)
        if (cache->entries[i].fd >= 0)
            close_entry(cache, &cache->entries[i]);
    free(cache->entries);
    free(cache->buckets);
    free(cache);
}

uint32_t mr_file_cache_n_open(const struct mr_file_cache *cache)
{
    return cache->n_open;
}

static struct entry *entry_at(struct mr_file_cache *cache, uint32_t name)
{
    return name ? &cache->entries[name - 1] : NULL;
}

static uint32_t entry_name(const struct mr_file_cache *cache, const struct entry *entry)
{
    return (uint32_t)(entry - cache->entries) + 1;
}

static uint32_t *find_bucket(struct mr_file_cache *cache, uint64_t file)
{
    return &cache->buckets[(file * 0x9e3779b97f4a7c15u >> 32) & cache->mask];
}

static struct entry *find_file(struct mr_file_cache *cache, uint64_t file)
{
    struct entry *entry = entry_at(cache, *find_bucket(cache, file));
    while (entry && entry->file != file)
        entry = entry_at(cache, entry->chain);
    return entry;
}

static void add_idle(struct mr_file_cache *cache, struct entry *entry)
{
    uint32_t name = entry_name(cache, entry);
    entry->newer = 0;
    entry->older = cache->newest;
    if (cache->newest)
        entry_at(cache, cache->newest)->newer = name;
    else
        cache->oldest = name;
    cache->newest = name;
}

static void remove_idle(struct mr_file_cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry_at(cache, entry->newer)->older : &cache->newest) = entry->older;
    *(entry->older ? &entry_at(cache, entry->older)->newer : &cache->oldest) = entry->newer;
}

bool mr_file_cache_shed(struct mr_file_cache *cache)
{
    struct entry *entry = entry_at(cache, cache->oldest);
    if (!entry)
        return false;
    remove_idle(cache, entry);
    uint32_t *link = find_bucket(cache, entry->file);
    while (*link != entry_name(cache, entry))
        link = &entry_at(cache, *link)->chain;
    *link = entry->chain;
    close_entry(cache, entry);
    entry->chain = cache->free;
    cache->free = entry_name(cache, entry);
    cache->n_open--;
    return true;
}

/*
 * If the process has too few descriptors, close the idle files of the cache first. O_NONBLOCK
 * prevents blocking on a fifo at open. It is removed then, because kernels before 5.18 would not
 * wait for the disk when io_uring reads with it.
 */
static int open_for_cache(struct mr_file_cache *cache, uint64_t file)
{
    int fd;
    do
        fd = mr_file_cache_open_apart(cache, file, NULL);
    while ((fd == -EMFILE || fd == -ENFILE) && mr_file_cache_shed(cache));
    if (fd >= 0 && fcntl(fd, F_SETFL, 0) != 0) {
        close(fd);
        return -EIO;
    }
    return fd;
}

static int insert_file(struct mr_file_cache *cache, uint64_t file)
{
    if (cache->n_open == cache->capacity && !mr_file_cache_shed(cache))
        return -EBUSY;
    int fd = open_for_cache(cache, file);
    if (fd < 0)
        return fd;
    uint32_t name = cache->free;
    if (name)
        cache->free = entry_at(cache, name)->chain;
    else
        name = ++cache->n_used;
    uint32_t *bucket = find_bucket(cache, file);
    *entry_at(cache, name) = (struct entry){.file = file, .fd = fd, .n_users = 1, .chain = *bucket};
    *bucket = name;
    cache->n_open++;
    return fd;
}

int mr_file_cache_acquire(struct mr_file_cache *cache, uint64_t file)
{
    struct entry *entry = find_file(cache, file);
    if (!entry)
        return insert_file(cache, file);
    if (entry->n_users++ == 0)
        remove_idle(cache, entry);
    return entry->fd;
}

void mr_file_cache_release(struct mr_file_cache *cache, uint64_t file)
{
    struct entry *entry = find_file(cache, file);
    assert(entry && entry->n_users > 0);
    if (--entry->n_users == 0)
        add_idle(cache, entry);
}

/* Samples are often read in random order, so a fault should read no more than its page. */
static void map_entry(struct mr_file_cache *cache, struct entry *entry)
{
    struct stat st;
    entry->map = MAP_FAILED;
    if (fstat(entry->fd, &st) != 0 || st.st_size <= 0 ||
        (uint64_t)st.st_size > MAX_MAPPED - cache->mapped)
        return;
    entry->map_len = (size_t)st.st_size;
    entry->map = mmap(NULL, entry->map_len, PROT_READ, MAP_SHARED, entry->fd, 0);
    if (entry->map == MAP_FAILED)
        return;
    cache->mapped += entry->map_len;
    (void)madvise(entry->map, entry->map_len, MADV_RANDOM);
}

bool mr_file_cache_map(struct mr_file_cache *cache, uint64_t file, struct mr_file_map *map_out)
{
    struct entry *entry = find_file(cache, file);
    if (!entry)
        return false;
    if (entry->n_users == 0) { /* it is now the one that was used last */
        remove_idle(cache, entry);
        add_idle(cache, entry);
    }
    if (!entry->map)
        map_entry(cache, entry);
    *map_out = (struct mr_file_map){entry->fd, entry->map, entry->map_len};
    return entry->map != MAP_FAILED;
}
