/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills a cache. The bytes that were just decoded are not used. Instead the file is read again, and
 * its size and times are compared before and after: only this proves that the entry is of the
 * version that its key names. The bytes of a file at a URL are used, because their answer states
 * their version.
 *
 * Invariant: a file that changes twice within one tick of the clock keeps its times. So a file that
 * changed very recently is not packed yet.
 */
#include "cache/cache_fill.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xxh3.h"
#include "dataset/file.h"
#include "dataset/reader/file_cache.h"
#include "cache/cache_append.h"
#include "cache/cache_folder.h"
#include "cache/cache_key.h"
#include "packs/packer.h"
#include "transforms/scratch.h"

enum { N_MET = 1024 }; /* a power of two */
#define SETTLED_NS INT64_C(50000000)
/*
 * If times are whole seconds, the clock of the file system has a tick of one second, or of two on
 * some file systems.
 */
#define SETTLED_COARSE_NS INT64_C(2050000000)
#define CLAIM_SECONDS 120
/* The most workers that may die while packing one sample in a run. */
#define MAX_CLAIMS 2
/*
 * Packing also slows other work: it evicts the data of the decoder from the CPU's caches, and pages
 * are written back.
 */
#define COST_PERCENT 150
/* Limit of saved-up time, so a long pause is not followed by a long standstill. */
#define MAX_CREDIT_NS INT64_C(50000000)

/*
 * Packing needs about ten bytes per pixel. Buffers for larger images and files are freed after use.
 */
#define MAX_IDLE_PIXELS (UINT64_C(1) << 24)
#define MAX_IDLE_BYTES ((size_t)1 << 24)

struct mr_cache_fill {
    struct mr_cache_region *region;
    const struct mr_catalog *catalog;
    int folder;
    struct mr_cache_append *append;
    struct mr_packer *packer; /* created when first needed, like the codec */
    struct mr_codec *codec;   /* makes the marks of files */
    bool broken;              /* no memory for packer or codec */
    int64_t credit_ns;
    struct mr_scratch file;                    /* bytes of the file that is packed */
    struct mr_scratch members[MR_MAX_MEMBERS]; /* bytes of its further members */
    int64_t met[N_MET];                        /* a stack that drops its oldest elements */
    uint32_t top;
    uint32_t n_met;
};

mr_status mr_cache_fill_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                               struct mr_cache_fill **fill_out, mr_error *error)
{
    *fill_out = NULL;
    struct mr_cache_fill *fill = calloc(1, sizeof *fill);
    if (!fill)
        return mr_error_memory(error, sizeof *fill);
    fill->region = region;
    fill->catalog = catalog;
    mr_status status = mr_cache_folder_open(region->path, false, &fill->folder, error);
    if (status == MR_OK && !(fill->append = mr_cache_append_create(fill->folder)))
        status = mr_error_set(error, MR_ERR_NO_MEMORY, "no memory for writing the cache %s",
                              region->path);
    if (status != MR_OK) {
        mr_cache_fill_destroy(fill);
        return status;
    }
    *fill_out = fill;
    return MR_OK;
}

static void free_buffers(struct mr_cache_fill *fill)
{
    if (fill->packer)
        mr_packer_destroy(fill->packer);
    if (fill->codec)
        mr_codec_destroy(fill->codec);
    fill->packer = NULL;
    fill->codec = NULL;
    mr_scratch_fini(&fill->file);
    for (uint32_t k = 0; k < MR_MAX_MEMBERS; k++)
        mr_scratch_fini(&fill->members[k]);
}

void mr_cache_fill_destroy(struct mr_cache_fill *fill)
{
    if (!fill)
        return;
    mr_cache_append_destroy(fill->append);
    free_buffers(fill);
    if (fill->folder >= 0)
        close(fill->folder);
    free(fill);
}

static uint64_t now_s(void)
{
    return mr_clock_now_ns() / UINT64_C(1000000000);
}

/* True if the sample may be packed. The claim of a worker that died expires. */
static bool is_wanted(const struct mr_cache_region *region, int64_t index, uint64_t *word_out)
{
    uint64_t word = atomic_load_explicit(&region->words[index], memory_order_acquire);
    enum mr_cache_state state = mr_cache_region_state(word);
    *word_out = word;
    return state == MR_CACHE_ABSENT ||
           (state == MR_CACHE_CLAIMED && mr_cache_region_rest(word) + CLAIM_SECONDS < now_s());
}

static bool may_write(const struct mr_cache_fill *fill)
{
    return !fill->broken &&
           atomic_load_explicit(&fill->region->stopped, memory_order_relaxed) == MR_CACHE_WRITING;
}

void mr_cache_fill_met(struct mr_cache_fill *fill, int64_t index)
{
    uint64_t word;
    if (!may_write(fill) || !is_wanted(fill->region, index, &word))
        return;
    fill->met[fill->top++ % N_MET] = index;
    if (fill->n_met < N_MET)
        fill->n_met++;
}

/* The next word of a wanted sample: a claim, unless too many workers have died while packing it. */
static uint64_t next_claim(uint64_t seen)
{
    uint32_t n_before =
        mr_cache_region_state(seen) == MR_CACHE_CLAIMED ? mr_cache_region_segment(seen) : 0;
    if (n_before >= MAX_CLAIMS)
        return mr_cache_region_word(MR_CACHE_AS_FILE, 0, 0);
    return mr_cache_region_word(MR_CACHE_CLAIMED, n_before + 1, now_s());
}

/* Claim a sample that is still wanted, and write its word to *word_out. */
static bool claim(struct mr_cache_fill *fill, int64_t index, uint64_t *word_out)
{
    uint64_t seen;
    if (!is_wanted(fill->region, index, &seen))
        return false;
    *word_out = next_claim(seen);
    return mr_cache_region_move(fill->region, index, seen, *word_out) &&
           mr_cache_region_state(*word_out) == MR_CACHE_CLAIMED;
}

/*
 * Claim the sample met last that is still wanted, and write its word to *word_out. -1: there is
 * none.
 */
static int64_t claim_sample(struct mr_cache_fill *fill, uint64_t *word_out)
{
    while (fill->n_met > 0) {
        int64_t index = fill->met[--fill->top % N_MET];
        fill->n_met--;
        if (claim(fill, index, word_out))
            return index;
    }
    return -1;
}

static bool has_settled(const struct mr_cache_version *version)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ns = (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    int64_t settled_ns =
        version->ctime_ns % INT64_C(1000000000) == 0 ? SETTLED_COARSE_NS : SETTLED_NS;
    return version->ctime_ns <= now_ns - settled_ns;
}

static bool is_same(const struct mr_cache_version *a, const struct mr_cache_version *b)
{
    return a->file_bytes == b->file_bytes && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

/*
 * Read an extent of an open file, at most limit bytes, and find the version of the file. Returns
 * MR_CACHE_GOOD, or the next state of the sample.
 */
static enum mr_cache_state read_open_file(int fd, const struct mr_extent *extent, uint64_t limit,
                                          struct mr_scratch *bytes,
                                          struct mr_cache_version *version_out, size_t *len_out)
{
    struct mr_cache_version after;
    size_t n;
    if (mr_cache_key_fstat(fd, version_out) != 0)
        return MR_CACHE_AS_FILE;
    uint64_t len = extent->len == MR_LEN_UNKNOWN ? version_out->file_bytes : extent->len;
    if (len > limit || len > SIZE_MAX / 2)
        return MR_CACHE_AS_FILE;
    *len_out = (size_t)len;
    if (!has_settled(version_out) || mr_scratch_reserve(bytes, *len_out, 1, NULL) != MR_OK)
        return MR_CACHE_ABSENT;
    if (mr_file_read_at(fd, extent->offset, bytes->memory, *len_out, &n) != 0)
        return MR_CACHE_AS_FILE;
    if (n != *len_out || mr_cache_key_fstat(fd, &after) != 0 || !is_same(&after, version_out))
        return MR_CACHE_ABSENT;
    return MR_CACHE_GOOD;
}

static enum mr_cache_state read_extent(const struct mr_cache_fill *fill,
                                       const struct mr_extent *extent, uint64_t limit,
                                       struct mr_scratch *bytes,
                                       struct mr_cache_version *version_out, size_t *len_out)
{
    int fd = mr_file_cache_open(fill->catalog, extent->file, NULL);
    if (fd < 0)
        return fd == -EMFILE || fd == -ENFILE ? MR_CACHE_ABSENT : MR_CACHE_AS_FILE;
    enum mr_cache_state state = read_open_file(fd, extent, limit, bytes, version_out, len_out);
    close(fd);
    return state;
}

/*
 * Read the further members into the entry. version: that of the image's file, in which members of a
 * shard are too.
 */
static enum mr_cache_state read_members(struct mr_cache_fill *fill, int64_t index,
                                        const struct mr_cache_version *version,
                                        struct mr_cache_entry *entry)
{
    const struct mr_sample_kind *kind = mr_catalog_kind(fill->catalog);
    bool in_shard = mr_catalog_has_members(fill->catalog);
    struct mr_extent extents[MR_MAX_MEMBERS];
    uint64_t stamps[MR_MAX_MEMBERS];
    if (mr_cache_key_stamps(fill->catalog, index, stamps) != 0)
        return MR_CACHE_AS_FILE;
    mr_catalog_members(fill->catalog, index, extents);
    for (; entry->n_members < kind->n_extra; entry->n_members++) {
        uint32_t k = entry->n_members;
        struct mr_cache_version own;
        size_t len;
        entry->members[k] = (struct mr_cache_member){.stamp = stamps[k]};
        if (extents[k].len == 0 || (!in_shard && stamps[k] == 0))
            continue;
        entry->member_bytes[k] = mr_catalog_memory(fill->catalog, &extents[k]);
        if (entry->member_bytes[k]) {
            entry->members[k].len = extents[k].len;
            entry->members[k].checksum = mr_xxh3(entry->member_bytes[k], (size_t)extents[k].len);
            continue;
        }
        enum mr_cache_state state =
            read_extent(fill, &extents[k], kind->extra[k].max_bytes, &fill->members[k], &own, &len);
        if (state != MR_CACHE_GOOD)
            return state;
        if (in_shard ? !is_same(&own, version) : mr_cache_key_stamp(&own) != stamps[k])
            return MR_CACHE_ABSENT;
        entry->member_bytes[k] = fill->members[k].memory;
        entry->members[k].len = len;
        entry->members[k].checksum = len > 0 ? mr_xxh3(entry->member_bytes[k], len) : 0;
    }
    return MR_CACHE_GOOD;
}

static bool ensure_packer(struct mr_cache_fill *fill)
{
    struct mr_packer_options options = {.encoding = fill->region->encoding,
                                        .limits = fill->region->limits,
                                        .stock_jpeg = fill->region->stock_jpeg};
    if (!fill->packer)
        fill->broken = mr_packer_create(&options, &fill->packer, NULL) != MR_OK;
    return !fill->broken;
}

static bool ensure_codec(struct mr_cache_fill *fill)
{
    if (!fill->codec)
        fill->broken = mr_codec_create(&fill->region->limits, &fill->codec, NULL) != MR_OK;
    return !fill->broken;
}

/* The result of packing or marking. bytes is NULL if the file cannot be packed or marked. */
struct made {
    struct mr_packed_image image;
    const uint8_t *bytes;
    size_t len;
};

/* Pack a file as coefficients. Returns MR_CACHE_GOOD, or the next state of the sample. */
static enum mr_cache_state pack_file(struct mr_cache_fill *fill, const uint8_t *bytes, size_t len,
                                     struct made *made_out)
{
    struct mr_packed_sample packed;
    if (!ensure_packer(fill))
        return MR_CACHE_ABSENT;
    if (mr_packer_pack(fill->packer, bytes, len, &packed, NULL) != MR_OK)
        return MR_CACHE_AS_FILE;
    bool fits = mr_packed_image_has_tiles(packed.image.encoding) && !packed.made_anew;
    *made_out = (struct made){packed.image, fits ? packed.bytes : NULL, (size_t)packed.image.len};
    return MR_CACHE_GOOD;
}

/* The same for marks. A file that cannot have marks is read as a file. */
static enum mr_cache_state mark_file(struct mr_cache_fill *fill, const uint8_t *bytes, size_t len,
                                     struct made *made_out)
{
    if (!ensure_codec(fill))
        return MR_CACHE_ABSENT;
    mr_status status = mr_codec_mark(fill->codec, bytes, len, &made_out->image, NULL);
    if (status == MR_OK) {
        made_out->bytes = made_out->image.marks;
        made_out->len = made_out->image.marks_len;
    }
    return status == MR_OK || status == MR_ERR_UNSUPPORTED || status == MR_ERR_DAMAGED
               ? MR_CACHE_GOOD
               : MR_CACHE_AS_FILE;
}

/*
 * Fill in the entry. A file that cannot be packed or marked has an entry too, so that no worker
 * tries again.
 */
static void describe_entry(const struct made *made, struct mr_cache_entry *entry)
{
    const struct mr_packed_image *image = &made->image;
    struct mr_cache_sample *sample = &entry->sample;
    sample->encoding = MR_PACKED_JPEG;
    if (!made->bytes || made->len == 0 || image->n_rows == 0 || image->n_rows > MR_CACHE_MAX_ROWS)
        return;
    sample->encoding = (uint16_t)image->encoding;
    sample->flags = (uint8_t)image->flags;
    sample->orientation = (uint8_t)image->orientation;
    sample->width = image->width;
    sample->height = image->height;
    sample->n_rows = image->n_rows;
    sample->len = made->len;
    entry->template = image->template;
    entry->rows = image->rows;
    entry->bytes = made->bytes;
}

static bool is_within_budget(struct mr_cache_fill *fill, uint64_t len)
{
    struct mr_cache_region *region = fill->region;
    uint64_t bytes = atomic_load_explicit(&region->bytes, memory_order_relaxed);
    if (bytes <= region->budget_bytes && len <= region->budget_bytes - bytes)
        return true;
    mr_cache_region_stop(region, MR_CACHE_AT_BUDGET, 0);
    return false;
}

/* The word of an entry that was written. */
static uint64_t entry_word(struct mr_cache_region *region, const struct mr_cache_entry *entry,
                           const struct mr_cache_place *place)
{
    int number = mr_cache_region_number(region, place->id);
    if (entry->sample.len == 0 || number < 0 || place->at >= MR_CACHE_MAX_LOG)
        return mr_cache_region_word(MR_CACHE_AS_FILE, 0, 0);
    return mr_cache_region_word(MR_CACHE_GOOD, (uint32_t)number, place->at / 8);
}

static uint64_t write_entry(struct mr_cache_fill *fill, const struct mr_cache_entry *entry)
{
    struct mr_cache_region *region = fill->region;
    struct mr_cache_place place;
    uint64_t absent = mr_cache_region_word(MR_CACHE_ABSENT, 0, 0);
    if (!is_within_budget(fill,
                          mr_cache_append_bytes(entry) +
                              mr_cache_log_sample_bytes(entry->sample.n_rows, entry->n_members)))
        return absent;
    int rc = mr_cache_append_add(fill->append, entry, &place);
    if (rc != 0) {
        if (!mr_cache_folder_is_passing(rc))
            mr_cache_region_stop(region, MR_CACHE_REFUSED, -rc);
        return absent;
    }
    atomic_fetch_add_explicit(&region->bytes, place.grown, memory_order_relaxed);
    atomic_fetch_add_explicit(entry->sample.len > 0 ? &region->n_made : &region->n_as_files, 1,
                              memory_order_relaxed);
    return entry_word(region, entry, &place);
}

/* Read, pack and write a claimed sample, and return its next word. *made_out must be zeros. */
static uint64_t add_entry(struct mr_cache_fill *fill, int64_t index, struct made *made_out)
{
    struct mr_cache_version version;
    size_t len = 0;
    bool marks = fill->region->encoding == MR_PACKED_MARKED;
    struct mr_cache_entry entry = {.sample = {.recipe = MR_CACHE_RECIPE(fill->region->encoding)}};
    if (!mr_cache_key_hash(fill->catalog, index, &entry.sample.path_hash))
        return mr_cache_region_word(MR_CACHE_AS_FILE, 0, 0);
    const struct mr_extent image = mr_catalog_image(fill->catalog, index);
    enum mr_cache_state state =
        read_extent(fill, &image, fill->region->max_file_bytes, &fill->file, &version, &len);
    if (state == MR_CACHE_GOOD && len == 0)
        state = MR_CACHE_AS_FILE;
    if (state == MR_CACHE_GOOD)
        state = (marks ? mark_file : pack_file)(fill, fill->file.memory, len, made_out);
    if (state != MR_CACHE_GOOD)
        return mr_cache_region_word(state, 0, 0);
    entry.sample.file_bytes = version.file_bytes;
    entry.sample.mtime_ns = version.mtime_ns;
    describe_entry(made_out, &entry);
    if (entry.sample.len > 0 && !marks)
        state = read_members(fill, index, &version, &entry);
    return state == MR_CACHE_GOOD ? write_entry(fill, &entry) : mr_cache_region_word(state, 0, 0);
}

/*
 * Add an entry. Free the buffers after a huge image, so that not every worker occupies memory for
 * one.
 */
static uint64_t make_entry(struct mr_cache_fill *fill, int64_t index)
{
    struct made made = {0};
    uint64_t word = add_entry(fill, index, &made);
    if (fill->file.len_allocated > MAX_IDLE_BYTES ||
        (uint64_t)made.image.width * made.image.height > MAX_IDLE_PIXELS)
        free_buffers(fill);
    return word;
}

/* The bytes of a sample that was read, and its marks if it is of a pack. */
static void describe_kept(const struct mr_read *read, struct mr_cache_entry *entry)
{
    const struct mr_read_part *marks = mr_read_find(read, MR_FOR_MARKS);
    entry->sample.encoding = MR_PACKED_JPEG;
    entry->bytes = read->part[0].bytes;
    entry->tail = marks ? marks->bytes : NULL;
    entry->tail_len = marks ? marks->len : 0;
    entry->sample.len = read->part[0].len + entry->tail_len;
}

/* Pack or mark the file that was read. False: it is kept as it is. */
static bool pack_kept(struct mr_cache_fill *fill, const struct mr_read_part *file,
                      struct mr_cache_entry *entry, struct made *made)
{
    uint32_t encoding = fill->region->encoding;
    bool marks = encoding == MR_PACKED_MARKED;
    if (encoding == MR_PACKED_JPEG ||
        (marks ? mark_file : pack_file)(fill, file->bytes, file->len, made) != MR_CACHE_GOOD)
        return false;
    describe_entry(made, entry);
    if (marks && entry->sample.len > 0) {
        entry->tail = entry->bytes;
        entry->tail_len = (size_t)entry->sample.len;
        entry->bytes = file->bytes;
        entry->sample.len += file->len;
    }
    return entry->sample.len > 0;
}

/* False: the version of a member is not known, so the sample cannot be kept. */
static bool describe_members(const struct mr_cache_fill *fill, const struct mr_read *read,
                             struct mr_cache_entry *entry)
{
    const struct mr_catalog *catalog = fill->catalog;
    const struct mr_read_part *parts = mr_read_find(read, MR_FOR_MEMBER);
    struct mr_extent extents[MR_MAX_MEMBERS];
    struct mr_cache_version version;
    uint64_t stamps[MR_MAX_MEMBERS];
    entry->n_members = mr_catalog_kind(catalog)->n_extra;
    mr_catalog_members(catalog, read->index, extents);
    if (mr_cache_key_stamps(catalog, read->index, stamps) != 0)
        return false;
    for (uint32_t k = 0; k < entry->n_members; k++) {
        bool is_asked = stamps[k] == MR_CACHE_STAMP_ASK;
        bool exists = is_asked && parts[k].version;
        if (exists && !mr_cache_key_answered(catalog, extents[k].file, parts[k].version, &version))
            return false;
        if (stamps[k] != 0 && !is_asked && !parts[k].version && parts[k].len > 0 &&
            !mr_catalog_memory(catalog, &extents[k]))
            return false; /* a local file may have changed since it was read */
        if (is_asked)
            stamps[k] = exists ? mr_cache_key_stamp(&version) : 0;
        entry->member_bytes[k] = parts[k].bytes;
        entry->members[k] = (struct mr_cache_member){
            .len = parts[k].len,
            .checksum = parts[k].len > 0 ? mr_xxh3(parts[k].bytes, parts[k].len) : 0,
            .stamp = stamps[k]};
    }
    return true;
}

/* Write a claimed sample, and return its next word. */
static uint64_t keep_entry(struct mr_cache_fill *fill, const struct mr_read *read)
{
    struct made made = {0};
    struct mr_cache_version version;
    struct mr_cache_entry entry = {.sample = {.recipe = MR_CACHE_RECIPE(fill->region->encoding)}};
    if (!mr_cache_key_hash(fill->catalog, read->index, &entry.sample.path_hash) ||
        !mr_cache_key_answered(fill->catalog, mr_catalog_image(fill->catalog, read->index).file,
                               read->part[0].version, &version) ||
        (mr_catalog_loose_files(fill->catalog) && version.file_bytes != read->part[0].len) ||
        !describe_members(fill, read, &entry))
        return mr_cache_region_word(MR_CACHE_AS_FILE, 0, 0);
    entry.sample.file_bytes = version.file_bytes;
    entry.sample.mtime_ns = version.mtime_ns;
    if (!pack_kept(fill, &read->part[0], &entry, &made))
        describe_kept(read, &entry);
    uint64_t word = write_entry(fill, &entry);
    if ((uint64_t)made.image.width * made.image.height > MAX_IDLE_PIXELS)
        free_buffers(fill);
    return word;
}

bool mr_cache_fill_wants(const struct mr_cache_fill *fill, int64_t index)
{
    uint64_t word;
    return may_write(fill) && is_wanted(fill->region, index, &word);
}

void mr_cache_fill_keep(struct mr_cache_fill *fill, int64_t index, const struct mr_read *read)
{
    uint64_t word;
    if (may_write(fill) && claim(fill, index, &word))
        mr_cache_region_move(fill->region, index, word, keep_entry(fill, read));
}

static bool fill_one(struct mr_cache_fill *fill)
{
    uint64_t word;
    int64_t index = may_write(fill) ? claim_sample(fill, &word) : -1;
    if (index < 0)
        return false;
    mr_cache_region_move(fill->region, index, word, make_entry(fill, index));
    return true;
}

bool mr_cache_fill_worked(struct mr_cache_fill *fill, uint64_t worked_ns)
{
    uint32_t percent = fill->region->slowdown_percent;
    if (percent == 0)
        return false;
    if (percent >= 100)
        return fill_one(fill);
    uint64_t ns =
        worked_ns < (uint64_t)MAX_CREDIT_NS * 100 ? worked_ns : (uint64_t)MAX_CREDIT_NS * 100;
    fill->credit_ns += (int64_t)(ns * percent / (100 - percent));
    if (fill->credit_ns > MAX_CREDIT_NS)
        fill->credit_ns = MAX_CREDIT_NS;
    if (fill->credit_ns <= 0)
        return false;
    uint64_t begin = mr_clock_now_ns();
    bool made = fill_one(fill);
    fill->credit_ns -= (int64_t)(mr_clock_now_ns() - begin) * COST_PERCENT / 100;
    return made;
}

bool mr_cache_fill_idle(struct mr_cache_fill *fill)
{
    return fill_one(fill);
}
