/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds samples in a cache.
 *
 * Invariant: at every use the record is read again and its key compared, because another process
 * may have cut the log after a torn end. The bytes that a record points to never change.
 */
#include "cache/cache_use.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/xxh3.h"
#include "cache/cache_folder.h"
#include "cache/cache_format.h"
#include "cache/cache_key.h"
#include "cache/cache_log.h"

/* MAX_OPEN limits the open logs: if workers are threads, they share the program's descriptors. */
enum { KNOWN_TEMPLATES = 64, MAX_OPEN = 32 };

/* The numbers of a segment's files among mr_cache_use_files(). */
enum { DATA, LOG, N_FILES };

/* A template that was read. A few templates serve all samples. */
struct known_template {
    struct mr_packed_template template;
    uint64_t at; /* 0: none */
    uint32_t segment;
    uint32_t check;
};

/* What the pointers of a hit point to. */
struct found {
    struct mr_packed_template template;
    _Alignas(8) uint8_t record[MR_CACHE_MAX_RECORD];
};

struct mr_cache_use {
    struct mr_cache_region *region;
    const struct mr_catalog *catalog;
    int folder;
    struct mr_other_files files;
    struct mr_file_cache *logs;
    struct found *found; /* by tag */
    struct known_template known[KNOWN_TEMPLATES];
};

static int open_file(void *user, uint64_t number)
{
    const struct mr_cache_use *use = user;
    uint64_t segment = number / N_FILES;
    if (segment >= MR_CACHE_MAX_SEGMENTS)
        return -ENOENT;
    return mr_cache_folder_open_file(use->folder, use->region->ids[segment],
                                     number % N_FILES == LOG ? MR_CACHE_LOG : MR_CACHE_DATA);
}

mr_status mr_cache_use_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                              uint32_t n_tags, struct mr_cache_use **use_out, mr_error *error)
{
    *use_out = NULL;
    struct mr_cache_use *use = calloc(1, sizeof *use);
    if (!use)
        return mr_error_memory(error, sizeof *use);
    use->region = region;
    use->catalog = catalog;
    use->folder = -1;
    uint32_t max_open = (mr_file_cache_limit() + 1) / 2; /* the other half is for the data */
    if (max_open > MAX_OPEN)
        max_open = MAX_OPEN;
    use->files = (struct mr_other_files){.open = open_file, .user = use, .max_open = max_open};
    use->found = calloc(n_tags, sizeof *use->found);
    mr_status status = MR_OK;
    if (!use->found || mr_file_cache_create(catalog, &use->files, max_open, &use->logs) != 0)
        status = mr_error_memory(error, n_tags * sizeof *use->found);
    if (status == MR_OK)
        status = mr_cache_folder_open(region->path, false, &use->folder, error);
    if (status == MR_OK)
        *use_out = use;
    else
        mr_cache_use_destroy(use);
    return status;
}

void mr_cache_use_destroy(struct mr_cache_use *use)
{
    if (!use)
        return;
    mr_file_cache_destroy(use->logs);
    if (use->folder >= 0)
        close(use->folder);
    free(use->found);
    free(use);
}

const struct mr_other_files *mr_cache_use_files(const struct mr_cache_use *use)
{
    return &use->files;
}

static uint64_t file_number(const struct mr_cache_use *use, uint32_t segment, uint32_t file)
{
    return mr_catalog_n_files(use->catalog) + (uint64_t)segment * N_FILES + file;
}

/* Read a record of a log. Returns 0 or a negative errno: -EINVAL if the record is wrong. */
static int read_log(struct mr_cache_use *use, uint32_t segment, uint64_t at, uint32_t kind,
                    uint8_t *buffer)
{
    uint64_t file = file_number(use, segment, LOG);
    int log = mr_file_cache_acquire(use->logs, file);
    if (log < 0)
        return log;
    bool good = mr_cache_log_read(log, at, kind, buffer);
    mr_file_cache_release(use->logs, file);
    return good ? 0 : -EINVAL;
}

static const struct mr_packed_template *find_template(struct mr_cache_use *use, uint32_t segment,
                                                      const struct mr_cache_sample *sample)
{
    uint64_t at = sample->template_at;
    struct mr_cache_template record;
    _Alignas(8) uint8_t buffer[MR_CACHE_MAX_RECORD];
    struct known_template *known = &use->known[(at / 8 * 31 + segment) % KNOWN_TEMPLATES];
    if (at > 0 && known->at == at && known->segment == segment &&
        known->check == sample->template_check)
        return &known->template;
    if (at == 0 || at % 8 != 0 || read_log(use, segment, at, MR_CACHE_TEMPLATE, buffer) != 0)
        return NULL;
    memcpy(&record, buffer, sizeof record);
    if (mr_cache_template_check(&record) != sample->template_check)
        return NULL;
    *known = (struct known_template){
        .template = record.template, .at = at, .segment = segment, .check = sample->template_check};
    return &known->template;
}

/*
 * Read the record that a word points to. Returns 0 or a negative errno: -EINVAL if it is not the
 * record of this sample.
 */
static int read_record(struct mr_cache_use *use, int64_t index, uint64_t word, uint8_t *record)
{
    uint64_t hash;
    const struct mr_cache_sample *sample = (const void *)record;
    int rc = read_log(use, mr_cache_region_segment(word), mr_cache_region_rest(word) * 8,
                      MR_CACHE_SAMPLE, record);
    if (rc == 0 && (!mr_cache_key_hash(use->catalog, index, &hash) || sample->path_hash != hash ||
                    sample->recipe != MR_CACHE_RECIPE(use->region->encoding)))
        rc = -EINVAL;
    return rc;
}

static void increment(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/*
 * Move the word of an entry at its first use. Another worker may have changed it already; its check
 * of the same record is as good.
 */
static void settle_word(struct mr_cache_use *use, int64_t index, uint64_t word,
                        enum mr_cache_state state)
{
    bool good = state == MR_CACHE_GOOD;
    mr_cache_region_move(use->region, index, word,
                         mr_cache_region_word(state, good ? mr_cache_region_segment(word) : 0,
                                              good ? mr_cache_region_rest(word) : 0));
}

/* Note that the version of a file must be asked for. */
static void ask_version(struct mr_cache_hit *hit, uint64_t file, uint64_t stamp)
{
    hit->asked[hit->n_asked] = file;
    hit->asked_stamps[hit->n_asked++] = stamp;
}

/* True if the files of the members are still the versions that the entry was made from. */
static bool has_same_members(const struct mr_cache_use *use, int64_t index,
                             const struct mr_cache_sample *sample, struct mr_cache_hit *hit)
{
    uint32_t n;
    uint64_t stamps[MR_MAX_MEMBERS];
    struct mr_extent extents[MR_MAX_MEMBERS];
    const struct mr_cache_member *members = mr_cache_log_members(sample, &n);
    bool same = n == 0 || (n == mr_catalog_kind(use->catalog)->n_extra &&
                           mr_cache_key_stamps(use->catalog, index, stamps) == 0);
    mr_catalog_members(use->catalog, index, extents);
    for (uint32_t k = 0; same && k < n; k++) {
        if (stamps[k] == MR_CACHE_STAMP_ASK)
            ask_version(hit, extents[k].file, members[k].stamp);
        same = stamps[k] == MR_CACHE_STAMP_ASK || members[k].stamp == stamps[k];
    }
    return same;
}

/*
 * True if the files of an entry are still the versions that the entry was made from, as far as is
 * known without asking a server.
 */
static bool judge_version(struct mr_cache_use *use, int64_t index, uint64_t word,
                          const struct mr_cache_sample *sample, struct mr_cache_hit *hit)
{
    struct mr_cache_region *region = use->region;
    struct mr_cache_version made = {.file_bytes = sample->file_bytes, .mtime_ns = sample->mtime_ns},
                            version;
    int rc = mr_cache_key_stat(use->catalog, index, &version);
    if (rc == -ENODATA) {
        version = made;
        ask_version(hit, mr_catalog_image(use->catalog, index).file, mr_cache_key_stamp(&made));
    }
    bool readable = (rc == 0 || rc == -ENODATA) &&
                    mr_cache_key_range(use->catalog, index, &version).len <= region->max_file_bytes;
    bool same = readable && version.file_bytes == made.file_bytes &&
                version.mtime_ns == made.mtime_ns && has_same_members(use, index, sample, hit);
    if (same && sample->len > 0)
        return true;
    if (readable && !same)
        increment(&region->n_stale);
    /* if the file cannot be read, reading it will say what is wrong with it */
    settle_word(use, index, word, readable && !same ? MR_CACHE_ABSENT : MR_CACHE_AS_FILE);
    return false;
}

/* why: the counter of such entries. */
static void forget_entry(struct mr_cache_use *use, int64_t index, uint64_t word,
                         _Atomic uint64_t *why)
{
    if (mr_cache_region_move(use->region, index, word, mr_cache_region_word(MR_CACHE_ABSENT, 0, 0)))
        increment(why);
}

/* False: the entry does not have the members that the dataset has. */
static bool describe_members(const struct mr_cache_use *use, const struct mr_cache_sample *sample,
                             struct mr_cache_hit *hit)
{
    const struct mr_cache_member *members = mr_cache_log_members(sample, &hit->n_members);
    uint64_t at = hit->entry.offset + hit->entry.len;
    for (uint32_t k = 0; k < hit->n_members; at += members[k++].len) {
        hit->members[k] = (struct mr_extent){hit->entry.file, at, members[k].len};
        hit->member_sums[k] = members[k].checksum;
    }
    return hit->n_members == (hit->needs_file ? 0 : mr_catalog_kind(use->catalog)->n_extra);
}

/* Describe the image of an entry that has a file or a sample of a pack as it is. */
static bool describe_kept(const struct mr_cache_use *use, int64_t index,
                          const struct mr_cache_sample *sample, struct mr_cache_hit *hit)
{
    struct mr_packed_image *image = &hit->image;
    struct mr_extent marks;
    hit->is_file = !mr_catalog_is_described(use->catalog);
    if (hit->is_file) {
        *image = (struct mr_packed_image){.encoding = MR_PACKED_JPEG, .len = sample->len};
        return true;
    }
    if (mr_catalog_packed(use->catalog, index, image, NULL) != MR_OK || image->len > sample->len)
        return false;
    hit->marks_at = image->len;
    image->marks_len = (size_t)(sample->len - image->len);
    return image->marks_len == 0 ||
           (mr_catalog_marks(use->catalog, index, &marks) && marks.len == image->marks_len);
}

/* Describe the image of an entry with rows. found keeps what the pointers of the hit point to. */
static bool describe_rows(struct mr_cache_use *use, int64_t index, uint64_t word,
                          struct found *found, struct mr_cache_hit *hit)
{
    const struct mr_cache_sample *sample = (const void *)found->record;
    struct mr_cache_version version = {.file_bytes = sample->file_bytes};
    const struct mr_packed_template *template =
        find_template(use, mr_cache_region_segment(word), sample);
    if (!template)
        return false;
    found->template = *template;
    hit->image = (struct mr_packed_image){.encoding = sample->encoding,
                                          .flags = sample->flags,
                                          .width = sample->width,
                                          .height = sample->height,
                                          .orientation = sample->orientation,
                                          .n_rows = sample->n_rows,
                                          .len = sample->len,
                                          .template = &found->template,
                                          .rows = mr_cache_log_rows(sample)};
    if (sample->encoding != MR_PACKED_MARKED)
        return true;
    /* the sample is then the file or its member */
    hit->image.len = mr_cache_key_range(use->catalog, index, &version).len;
    hit->needs_file = !mr_cache_key_is_remote(use->catalog, index);
    hit->marks_at = hit->needs_file ? 0 : hit->image.len;
    hit->image.marks_len = (size_t)(sample->len - hit->marks_at);
    return hit->marks_at < sample->len;
}

/* found has the record. */
static bool describe_hit(struct mr_cache_use *use, int64_t index, uint64_t word,
                         struct found *found, struct mr_cache_hit *hit)
{
    const struct mr_cache_sample *sample = (const void *)found->record;
    uint64_t end;
    if (!mr_checked_add_u64(sample->offset, mr_cache_log_data_bytes(sample), &end) ||
        end > INT64_MAX)
        return false;
    hit->entry = (struct mr_extent){.file = file_number(use, mr_cache_region_segment(word), DATA),
                                    .offset = sample->offset,
                                    .len = sample->len};
    hit->is_checked = mr_cache_region_state(word) == MR_CACHE_GOOD;
    hit->data_checksum = sample->data_checksum;
    hit->word = word;
    hit->file_bytes = sample->file_bytes;
    hit->mtime_ns = sample->mtime_ns;
    return (sample->n_rows > 0 ? describe_rows(use, index, word, found, hit)
                               : describe_kept(use, index, sample, hit)) &&
           describe_members(use, sample, hit);
}

bool mr_cache_use_find(struct mr_cache_use *use, uint32_t tag, int64_t index,
                       struct mr_cache_hit *hit_out)
{
    struct found *found = &use->found[tag];
    uint64_t word = atomic_load_explicit(&use->region->words[index], memory_order_acquire);
    enum mr_cache_state state = mr_cache_region_state(word);
    if (state != MR_CACHE_FOUND && state != MR_CACHE_GOOD)
        return false;
    int rc = read_record(use, index, word, found->record);
    if (rc != 0) {
        if (!mr_cache_folder_is_passing(rc))
            forget_entry(use, index, word, &use->region->n_damaged);
        return false;
    }
    *hit_out = (struct mr_cache_hit){0};
    if (state == MR_CACHE_FOUND &&
        !judge_version(use, index, word, (const void *)found->record, hit_out))
        return false;
    if (describe_hit(use, index, word, found, hit_out))
        return true;
    mr_cache_use_drop(use, index);
    return false;
}

static bool has_right_bytes(const struct mr_cache_hit *hit, const struct mr_read *read)
{
    const struct mr_read_part *image = &read->part[0], *members = mr_read_find(read, MR_FOR_MEMBER),
                              *marks = mr_read_find(read, MR_FOR_MARKS);
    static const struct mr_read_part none;
    if (hit->needs_file)
        image = marks;
    if (hit->needs_file || !marks)
        marks = &none;
    bool good =
        image->len + marks->len == hit->entry.len &&
        mr_xxh3_pair(image->bytes, image->len, marks->bytes, marks->len) == hit->data_checksum;
    for (uint32_t k = 0; good && k < hit->n_members; k++)
        good = members[k].len == hit->members[k].len &&
               (members[k].len == 0 ||
                mr_xxh3(members[k].bytes, members[k].len) == hit->member_sums[k]);
    return good;
}

/* True if the files that were asked for are the versions that the entry was made from. */
static bool has_right_versions(const struct mr_cache_use *use, const struct mr_cache_hit *hit,
                               const struct mr_read *read)
{
    const struct mr_read_part *part = mr_read_find(read, MR_FOR_VERSION);
    struct mr_cache_version version;
    bool same = true;
    for (uint32_t i = 0; same && i < hit->n_asked; i++) {
        bool exists = mr_cache_key_answered(use->catalog, hit->asked[i], part[i].version, &version);
        same = hit->asked_stamps[i] == (exists ? mr_cache_key_stamp(&version) : 0);
    }
    return same;
}

bool mr_cache_use_check(struct mr_cache_use *use, int64_t index, const struct mr_cache_hit *hit,
                        const struct mr_read *read)
{
    bool same = has_right_versions(use, hit, read), good = same && has_right_bytes(hit, read);
    if (!good)
        increment(same ? &use->region->n_damaged : &use->region->n_stale);
    settle_word(use, index, hit->word, good ? MR_CACHE_GOOD : MR_CACHE_ABSENT);
    return good;
}

bool mr_cache_use_is_current(struct mr_cache_use *use, int64_t index,
                             const struct mr_cache_hit *hit)
{
    struct mr_cache_version version;
    if (mr_cache_key_stat(use->catalog, index, &version) != 0)
        return false; /* reading the file will say what is wrong with it */
    if (version.file_bytes == hit->file_bytes && version.mtime_ns == hit->mtime_ns)
        return true;
    forget_entry(use, index, hit->word, &use->region->n_stale);
    return false;
}

void mr_cache_use_drop(struct mr_cache_use *use, int64_t index)
{
    uint64_t word = atomic_load_explicit(&use->region->words[index], memory_order_acquire);
    enum mr_cache_state state = mr_cache_region_state(word);
    if (state == MR_CACHE_GOOD || state == MR_CACHE_FOUND)
        forget_entry(use, index, word, &use->region->n_damaged);
}
