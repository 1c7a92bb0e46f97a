/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads index files of shards: a header, the recipe, the members, the extra members, the
 * names, all under one checksum. The file is a cache: it has native byte order and a version, and
 * is ignored if anything in it is wrong.
 *
 * Invariant: the content of the file is not trusted: ranges must be inside the shard, and names
 * must end.
 */
#include "dataset/tar/tar_index_file.h"

#include <string.h>

#include "base/checked.h"
#include "base/xxh3.h"
#include "dataset/tar/tar_wds.h"

#define MAGIC 0x31786449726154ddu /* no text begins with these bytes */
enum { VERSION = 3 };

/* The files that the samples were found in. */
struct origin {
    struct mr_index_place_stamp shard;
    struct mr_index_place_stamp wds; /* the index of wds2idx beside the shard, used or not */
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

static struct origin find_origin(int root, const char *path, const struct stat *shard)
{
    struct stat st;
    struct origin origin = {.shard = mr_index_place_describe(shard)};
    if (mr_tar_wds_stat(root, path, &st))
        origin.wds = mr_index_place_describe(&st);
    return origin;
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
           mr_index_place_same(&header->origin.shard, &origin->shard) &&
           mr_index_place_same(&header->origin.wds, &origin->wds) &&
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

struct loading {
    struct origin origin;
    const struct mr_tar_recipe *recipe;
    struct mr_tar_samples *samples;
};

static bool take_index(void *user, const uint8_t *bytes, size_t len)
{
    struct loading *loading = user;
    bool good = parse_index(bytes, len, &loading->origin, loading->recipe, loading->samples);
    if (!good)
        mr_tar_samples_fini(loading->samples);
    return good;
}

bool mr_tar_index_file_load(enum mr_index_place index_place, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            struct mr_tar_samples *samples_out)
{
    struct mr_index_place_key key = {index_place, root, path, recipe->text};
    if (index_place == MR_INDEX_NONE)
        return false;
    struct loading loading = {find_origin(root, path, st), recipe, samples_out};
    return mr_index_place_load(&key, take_index, &loading);
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

void mr_tar_index_file_save(enum mr_index_place index_place, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            const struct mr_tar_samples *samples)
{
    struct mr_index_place_key key = {index_place, root, path, recipe->text};
    struct mr_bytes file = {0};
    if (index_place == MR_INDEX_NONE)
        return;
    struct origin origin = find_origin(root, path, st);
    if (!mr_index_place_is_fresh(&origin.shard) && !mr_index_place_is_fresh(&origin.wds) &&
        write_index(&file, &origin, recipe, samples))
        mr_index_place_save(&key, &file);
    mr_bytes_fini(&file);
}
