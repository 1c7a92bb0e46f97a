/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a cache.
 *
 * Invariant: at every use the record is read again and its key compared, because another process
 * may have cut the log after a torn end. The bytes that a record points to never change.
 */
#include "cache/cache_use.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "dataset/file.h"
#include "dataset/file_cache.h"
#include "cache/cache_folder.h"
#include "cache/cache_format.h"
#include "cache/cache_key.h"
#include "cache/cache_log.h"
#include "transforms/scratch.h"

/*
 * MAX_OPEN limits the open segments: if workers are threads, they share the descriptors of the
 * program.
 */
enum { SLACK = 64, KNOWN_TEMPLATES = 64, MAX_OPEN = 32 };

/* A segment that may be open; the array is by number. */
struct opened {
    struct mr_cache_files files;
    uint64_t used; /* turn of its last use; 0: it is not open */
};

/* A template that was read. A few templates serve all samples. */
struct known_template {
    struct mr_packed_template template;
    uint64_t at; /* 0: none */
    uint32_t segment;
    uint32_t check;
};

struct mr_cache_use {
    struct mr_cache_region *region;
    const struct mr_catalog *catalog;
    int folder;
    uint32_t n_open;
    uint32_t max_open;
    uint64_t turn;
    struct mr_scratch bytes;
    struct opened opened[MR_CACHE_MAX_SEGMENTS];
    struct known_template known[KNOWN_TEMPLATES];
    _Alignas(8) uint8_t record[MR_CACHE_MAX_RECORD];
};

mr_status mr_cache_use_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                              struct mr_cache_use **use_out, mr_error *error)
{
    *use_out = NULL;
    struct mr_cache_use *use = calloc(1, sizeof *use);
    if (!use)
        return mr_error_memory(error, sizeof *use);
    use->region = region;
    use->catalog = catalog;
    use->max_open = (mr_file_cache_limit() + 1) / 2; /* two files each */
    if (use->max_open > MAX_OPEN)
        use->max_open = MAX_OPEN;
    mr_status status = mr_cache_folder_open(region->path, false, &use->folder, error);
    if (status != MR_OK) {
        mr_cache_use_destroy(use);
        return status;
    }
    *use_out = use;
    return MR_OK;
}

static void close_segment(struct mr_cache_use *use, struct opened *opened)
{
    mr_cache_folder_close_segment(&opened->files);
    opened->used = 0;
    use->n_open--;
}

void mr_cache_use_destroy(struct mr_cache_use *use)
{
    if (!use)
        return;
    for (uint32_t i = 0; i < MR_CACHE_MAX_SEGMENTS; i++)
        if (use->opened[i].used > 0)
            close_segment(use, &use->opened[i]);
    if (use->folder >= 0)
        close(use->folder);
    mr_scratch_fini(&use->bytes);
    free(use);
}

static void close_oldest(struct mr_cache_use *use)
{
    struct opened *oldest = NULL;
    for (uint32_t i = 0; i < MR_CACHE_MAX_SEGMENTS; i++) {
        struct opened *opened = &use->opened[i];
        if (opened->used > 0 && (!oldest || opened->used < oldest->used))
            oldest = opened;
    }
    if (oldest)
        close_segment(use, oldest);
}

/* The descriptors of a segment, opened if necessary; or NULL with a negative errno. */
static const struct mr_cache_files *ensure_segment(struct mr_cache_use *use, uint32_t segment,
                                                   int *rc_out)
{
    *rc_out = -ENOENT;
    if (segment >= MR_CACHE_MAX_SEGMENTS)
        return NULL;
    struct opened *opened = &use->opened[segment];
    if (opened->used == 0) {
        if (use->n_open >= use->max_open)
            close_oldest(use);
        *rc_out = mr_cache_folder_open_segment(use->folder, use->region->ids[segment], false,
                                               &opened->files);
        if (*rc_out != 0)
            return NULL;
        use->n_open++;
    }
    opened->used = ++use->turn;
    *rc_out = 0;
    return &opened->files;
}

static const struct mr_packed_template *find_template(struct mr_cache_use *use, uint32_t segment,
                                                      int log, const struct mr_cache_sample *sample)
{
    uint64_t at = sample->template_at;
    struct mr_cache_template record;
    _Alignas(8) uint8_t buffer[MR_CACHE_MAX_RECORD];
    struct known_template *known = &use->known[(at / 8 * 31 + segment) % KNOWN_TEMPLATES];
    if (at > 0 && known->at == at && known->segment == segment &&
        known->check == sample->template_check)
        return &known->template;
    if (at == 0 || at % 8 != 0 || !mr_cache_log_read(log, at, MR_CACHE_TEMPLATE, buffer))
        return NULL;
    memcpy(&record, buffer, sizeof record);
    if (mr_cache_template_check(&record) != sample->template_check)
        return NULL;
    *known = (struct known_template){
        .template = record.template, .at = at, .segment = segment, .check = sample->template_check};
    return &known->template;
}

/*
 * Read the record that a word points to into use->record. NULL with a negative errno if it is not
 * the record of this sample.
 */
static const struct mr_cache_sample *read_record(struct mr_cache_use *use, int64_t index,
                                                 uint64_t word, int *rc_out)
{
    uint64_t hash;
    const struct mr_cache_files *files = ensure_segment(use, mr_cache_region_segment(word), rc_out);
    if (!files)
        return NULL;
    const struct mr_cache_sample *sample = (const void *)use->record;
    *rc_out = -EINVAL;
    if (!mr_cache_log_read(files->log, mr_cache_region_rest(word) * 8, MR_CACHE_SAMPLE,
                           use->record) ||
        !mr_cache_key_hash(use->catalog, index, &hash) || sample->path_hash != hash ||
        sample->recipe != MR_CACHE_RECIPE(use->region->encoding))
        return NULL;
    *rc_out = 0;
    return sample;
}

static bool read_data(struct mr_cache_use *use, uint32_t segment, uint64_t at, uint64_t len)
{
    int rc;
    size_t n;
    const struct mr_cache_files *files = ensure_segment(use, segment, &rc);
    if (!files || at > INT64_MAX || len > INT64_MAX - at || len > SIZE_MAX / 2 ||
        mr_scratch_reserve(&use->bytes, (size_t)len + SLACK, 1, NULL) != MR_OK)
        return false;
    uint8_t *bytes = use->bytes.memory;
    memset(bytes + len, 0, SLACK);
    return mr_file_read_at(files->data, at, bytes, (size_t)len, &n) == 0 && n == len;
}

static void increment(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Check an entry at its first use, and return its next state. */
static enum mr_cache_state judge_entry(struct mr_cache_use *use, int64_t index, uint32_t segment,
                                       const struct mr_cache_sample *sample)
{
    struct mr_cache_region *region = use->region;
    struct mr_cache_version version;
    if (mr_cache_key_stat(use->catalog, index, &version) != 0 ||
        mr_cache_key_range(use->catalog, index, &version).len > region->max_file_bytes)
        return MR_CACHE_AS_FILE; /* reading the file will say what is wrong with it */
    if (version.file_bytes != sample->file_bytes || version.mtime_ns != sample->mtime_ns) {
        increment(&region->n_stale);
        return MR_CACHE_ABSENT;
    }
    if (sample->len == 0)
        return MR_CACHE_AS_FILE;
    if (read_data(use, segment, sample->offset, sample->len) &&
        mr_xxh3(use->bytes.memory, sample->len) == sample->data_checksum)
        return MR_CACHE_GOOD;
    increment(&region->n_damaged);
    return MR_CACHE_ABSENT;
}

static bool check_first_use(struct mr_cache_use *use, int64_t index, uint64_t word,
                            const struct mr_cache_sample *sample)
{
    uint32_t segment = mr_cache_region_segment(word);
    enum mr_cache_state state = judge_entry(use, index, segment, sample);
    uint64_t rest = state == MR_CACHE_GOOD ? mr_cache_region_rest(word) : 0;
    uint64_t next = mr_cache_region_word(state, state == MR_CACHE_GOOD ? segment : 0, rest);
    /* Another worker may have changed the word already; its check of the same record is as good. */
    mr_cache_region_move(use->region, index, word, next);
    return state == MR_CACHE_GOOD;
}

/* why: the counter of such entries. */
static void forget_entry(struct mr_cache_use *use, int64_t index, uint64_t word,
                         _Atomic uint64_t *why)
{
    if (mr_cache_region_move(use->region, index, word, mr_cache_region_word(MR_CACHE_ABSENT, 0, 0)))
        increment(why);
}

static bool describe_hit(struct mr_cache_use *use, int64_t index, uint64_t word,
                         const struct mr_cache_sample *sample, struct mr_cache_hit *hit_out)
{
    struct mr_cache_version version = {.file_bytes = sample->file_bytes};
    int rc;
    uint32_t segment = mr_cache_region_segment(word);
    const struct mr_cache_files *files = ensure_segment(use, segment, &rc);
    const struct mr_packed_template *template =
        files && sample->n_rows > 0 ? find_template(use, segment, files->log, sample) : NULL;
    if (!template)
        return false;
    /* the sample is then the file or its member */
    bool marked = sample->encoding == MR_PACKED_MARKED;
    *hit_out = (struct mr_cache_hit){
        .image = {.encoding = sample->encoding,
                  .flags = sample->flags,
                  .width = sample->width,
                  .height = sample->height,
                  .orientation = sample->orientation,
                  .n_rows = sample->n_rows,
                  .len =
                      marked ? mr_cache_key_range(use->catalog, index, &version).len : sample->len,
                  .template = template,
                  .rows = mr_cache_log_rows(sample),
                  .marks_len = marked ? (size_t)sample->len : 0},
        .segment = segment,
        .offset = sample->offset,
        .len = sample->len,
        .file_bytes = sample->file_bytes,
        .mtime_ns = sample->mtime_ns};
    return true;
}

bool mr_cache_use_find(struct mr_cache_use *use, int64_t index, struct mr_cache_hit *hit_out)
{
    int rc;
    uint64_t word = atomic_load_explicit(&use->region->words[index], memory_order_acquire);
    enum mr_cache_state state = mr_cache_region_state(word);
    if (state != MR_CACHE_FOUND && state != MR_CACHE_GOOD)
        return false;
    const struct mr_cache_sample *sample = read_record(use, index, word, &rc);
    if (!sample) {
        if (!mr_cache_folder_is_passing(rc))
            forget_entry(use, index, word, &use->region->n_damaged);
        return false;
    }
    if (state == MR_CACHE_FOUND && !check_first_use(use, index, word, sample))
        return false;
    if (describe_hit(use, index, word, sample, hit_out))
        return true;
    mr_cache_use_drop(use, index);
    return false;
}

bool mr_cache_use_read(struct mr_cache_use *use, const struct mr_cache_hit *hit, uint64_t offset,
                       uint64_t len, const uint8_t **bytes_out)
{
    if (offset > hit->len || len > hit->len - offset ||
        !read_data(use, hit->segment, hit->offset + offset, len))
        return false;
    *bytes_out = use->bytes.memory;
    return true;
}

void mr_cache_use_prefetch(struct mr_cache_use *use, const struct mr_cache_hit *hit,
                           uint64_t offset, uint64_t len)
{
    int rc;
    const struct mr_cache_files *files = ensure_segment(use, hit->segment, &rc);
    if (files && hit->offset <= INT64_MAX - hit->len && offset <= hit->len &&
        len <= hit->len - offset)
        posix_fadvise(files->data, (off_t)(hit->offset + offset), (off_t)len, POSIX_FADV_WILLNEED);
}

static void drop_entry(struct mr_cache_use *use, int64_t index, _Atomic uint64_t *why)
{
    uint64_t word = atomic_load_explicit(&use->region->words[index], memory_order_acquire);
    enum mr_cache_state state = mr_cache_region_state(word);
    if (state == MR_CACHE_GOOD || state == MR_CACHE_FOUND)
        forget_entry(use, index, word, why);
}

bool mr_cache_use_is_current(struct mr_cache_use *use, int64_t index,
                             const struct mr_cache_hit *hit)
{
    struct mr_cache_version version;
    if (mr_cache_key_stat(use->catalog, index, &version) != 0)
        return false; /* reading the file will say what is wrong with it */
    if (version.file_bytes == hit->file_bytes && version.mtime_ns == hit->mtime_ns)
        return true;
    drop_entry(use, index, &use->region->n_stale);
    return false;
}

void mr_cache_use_drop(struct mr_cache_use *use, int64_t index)
{
    drop_entry(use, index, &use->region->n_damaged);
}
