/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves and restores a loader's position in an epoch. The saved number is that of the samples that
 * all ranks together have used, because it has the same meaning with another world size.
 *
 * Invariant: the end of an epoch is saved as a flag and not as a number of samples, because the
 * last batch may be short and the last round padded.
 */
#include "sampler/position.h"

#include "base/error.h"
#include "sampler/sampler.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

static_assert(sizeof(struct mr_position) == 80, "it has no holes, and its form is saved");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a saved position is little-endian");

/* A position with all sources that it can have. */
union any_position {
    struct mr_position position;
    uint8_t bytes[sizeof(struct mr_position) + MR_MIXTURE_MAX * sizeof(struct mr_mixture_count)];
};

enum {
    NO_SHUFFLE = 1,
    DROP_LAST = 2,
    TAIL_SHIFT = 2,
    ORDER_SHIFT = 4,
    ENDED = 64,
    WEIGHTS = 128,
    NO_REPLACEMENT = 256,
    TIMM = 512,
    GROUPS = 1024,
    MIXTURE = 2048,
    MEGATRON = 4096,
    BUCKETS = 8192,
    PACKED = 16384,
    ALL_FLAGS = 32767,
    REPEAT_SHIFT = 16 /* repeat has the upper half */
};

static uint32_t compute_check(const struct mr_position *position)
{
    size_t from = offsetof(struct mr_position, flags);
    return (uint32_t)crc32(0, (const unsigned char *)position + from, (uInt)(position->len - from));
}

size_t mr_position_size(uint32_t n_sources)
{
    return sizeof(struct mr_position) + n_sources * sizeof(struct mr_mixture_count);
}

static uint32_t make_flags(const mr_sampler *sampler, bool drop_last, bool ended)
{
    const mr_sampler_options *options = mr_sampler_resolved(sampler);
    const struct mr_sampler_parts *parts = mr_sampler_get_parts(sampler);
    const struct mr_mixture *mixture = parts->mixture;
    return (options->no_shuffle ? NO_SHUFFLE : 0u) | (drop_last ? DROP_LAST : 0u) |
           (uint32_t)options->tail << TAIL_SHIFT | (uint32_t)options->order << ORDER_SHIFT |
           (ended ? ENDED : 0u) | (options->weights || options->weight_values ? WEIGHTS : 0u) |
           (options->no_replacement ? NO_REPLACEMENT : 0u) | (parts->groups ? GROUPS : 0u) |
           (parts->buckets ? BUCKETS : 0u) | (mixture ? MIXTURE : 0u) |
           (mixture && mr_mixture_is_megatron(mixture) ? MEGATRON : 0u) |
           (parts->packing ? PACKED : 0u) |
           (options->repeat != 0 && options->repeat_form == MR_REPEAT_TIMM ? TIMM : 0u) |
           options->repeat << REPEAT_SHIFT;
}

/* With max_tokens, the position counts batches. */
static uint64_t units_of_step(const mr_sampler *sampler, uint32_t batch_size)
{
    uint64_t units = mr_sampler_cuts_batches(sampler) ? 1 : batch_size;
    return units * mr_sampler_resolved(sampler)->world_size;
}

void mr_position_save(const mr_sampler *sampler, uint32_t batch_size, bool drop_last,
                      uint64_t batches, struct mr_position *position_out)
{
    assert(!mr_sampler_has_order(sampler));
    const mr_sampler_options *options = mr_sampler_resolved(sampler);
    uint64_t steps = mr_sampler_own_steps(sampler, batch_size, drop_last);
    bool ended = batches >= steps && !mr_sampler_is_begun(sampler); /* of which rows are left */
    uint64_t used = (ended ? steps : batches) * units_of_step(sampler, batch_size);
    uint64_t length = mr_sampler_order_length(sampler);
    struct mr_mixture *mixture = mr_sampler_get_parts(sampler)->mixture;
    uint32_t n_sources = mixture ? mr_mixture_n_sources(mixture) : 0;
    *position_out = (struct mr_position){
        .magic = MR_POSITION_MAGIC,
        .version = mixture ? MR_POSITION_MIXED : MR_POSITION_VERSION,
        .len = (uint32_t)mr_position_size(n_sources),
        .flags = make_flags(sampler, drop_last, ended),
        .seed = options->seed,
        .epoch = options->epoch,
        .n_samples = (uint64_t)options->n_samples,
        .n_used = 1,
        .used = {used < length ? used : length},
        .world_size = options->world_size,
        .batch_size = batch_size,
        .rank = options->rank,
        .digest = mr_sampler_digest(sampler),
        .n_sources = n_sources,
    };
    if (mixture) /* after its end an epoch's last samples, too, are behind */
        mr_mixture_save(mixture, options->epoch, ended ? length : position_out->used[0],
                        position_out->sources);
    position_out->check = compute_check(position_out);
}

/* Load a position from bytes that may be cut, altered, or something else. */
static mr_status load_position(const void *bytes, size_t len, union any_position *any,
                               mr_error *error)
{
    const struct mr_position *position = &any->position;
    memset(any, 0, sizeof *any);
    memcpy(any, bytes, len < sizeof *any ? len : sizeof *any);
    if (len < offsetof(struct mr_position, check) || position->magic != MR_POSITION_MAGIC)
        return mr_error_set(error, MR_ERR_INVALID,
                            "these %zu bytes are not a saved position: they begin with 0x%08x, "
                            "not 0x%08x",
                            len, position->magic, MR_POSITION_MAGIC);
    bool is_mixed = position->version == MR_POSITION_MIXED;
    if (position->version != MR_POSITION_VERSION && !is_mixed)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the saved position has version %u, this library reads versions %d and "
                            "%d",
                            position->version, MR_POSITION_VERSION, MR_POSITION_MIXED);
    uint32_t n_sources = position->n_sources <= MR_MIXTURE_MAX ? position->n_sources : 0;
    size_t size = mr_position_size(is_mixed ? n_sources : 0);
    if (len != position->len || len != size)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the saved position has %zu bytes, not %u; was it cut?", len,
                            position->len == len ? (uint32_t)size : position->len);
    bool has_weights = (position->flags & WEIGHTS) != 0,
         is_packed = (position->flags & PACKED) != 0,
         has_digest = has_weights || (position->flags & (GROUPS | BUCKETS | PACKED));
    uint64_t repeat = position->flags >> REPEAT_SHIFT,
             longest =
                 is_mixed || is_packed ? UINT64_MAX : position->n_samples * (repeat ? repeat : 1);
    if (position->check != compute_check(position) || has_digest != (position->digest != 0) ||
        (position->flags & 0xffff) > ALL_FLAGS || position->n_used != 1 ||
        is_mixed != (position->n_sources > 0) || is_mixed != ((position->flags & MIXTURE) != 0) ||
        (!has_weights && position->used[0] > longest))
        return mr_error_set(error, MR_ERR_INVALID,
                            "the saved position was altered: its checksum is 0x%08x, not 0x%08x",
                            position->check, compute_check(position));
    return MR_OK;
}

static const char *tail_name(uint32_t tail)
{
    static const char *const names[] = {"pad", "drop", "exact", "?"};
    return names[tail & 3];
}

static const char *order_name(uint32_t order)
{
    static const char *const names[] = {"torch", "keyed", "?", "?"};
    return names[order & 3];
}

static mr_status compare_flags(uint32_t saved, uint32_t mine, mr_error *error)
{
    uint32_t differ = saved ^ mine;
    if (differ & NO_SHUFFLE)
        return mr_error_set(
            error, MR_ERR_INVALID, "the position was saved %s shuffling, this loader is %s it",
            saved & NO_SHUFFLE ? "without" : "with", mine & NO_SHUFFLE ? "without" : "with");
    if (differ >> REPEAT_SHIFT || (differ & TIMM))
        return mr_error_set(
            error, MR_ERR_INVALID,
            "the position was saved with repeat %u%s, this loader has %u%s; 0 is none",
            saved >> REPEAT_SHIFT, saved & TIMM ? " of timm" : "", mine >> REPEAT_SHIFT,
            mine & TIMM ? " of timm" : "");
    if (differ & WEIGHTS)
        return mr_error_set(
            error, MR_ERR_INVALID, "the position was saved %s weights, this loader is %s them",
            saved & WEIGHTS ? "with" : "without", mine & WEIGHTS ? "with" : "without");
    if (differ & MIXTURE)
        return mr_error_set(
            error, MR_ERR_INVALID, "the position was saved %s a mixture, this loader is %s one",
            saved & MIXTURE ? "with" : "without", mine & MIXTURE ? "with" : "without");
    if (differ & GROUPS)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved %s groups of samples, this loader is %s them",
                            saved & GROUPS ? "with" : "without",
                            mine & GROUPS ? "with" : "without");
    if (differ & BUCKETS)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "the position was saved %s group_by_length or max_tokens, this loader is %s them",
            saved & BUCKETS ? "with" : "without", mine & BUCKETS ? "with" : "without");
    if (differ & PACKED)
        return mr_error_set(
            error, MR_ERR_INVALID, "the position was saved %s packing, this loader is %s it",
            saved & PACKED ? "with" : "without", mine & PACKED ? "with" : "without");
    if (differ & NO_REPLACEMENT)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with no_replacement %s, this loader has %s",
                            saved & NO_REPLACEMENT ? "true" : "false",
                            mine & NO_REPLACEMENT ? "true" : "false");
    if (differ & DROP_LAST)
        return mr_error_set(
            error, MR_ERR_INVALID, "the position was saved with drop_last %s, this loader has %s",
            saved & DROP_LAST ? "true" : "false", mine & DROP_LAST ? "true" : "false");
    if (differ >> TAIL_SHIFT & 3)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with tail %s, this loader has %s",
                            tail_name(saved >> TAIL_SHIFT), tail_name(mine >> TAIL_SHIFT));
    if ((differ >> ORDER_SHIFT & 3) && !(mine & NO_SHUFFLE))
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with order %s, this loader has %s",
                            order_name(saved >> ORDER_SHIFT), order_name(mine >> ORDER_SHIFT));
    return MR_OK;
}

static mr_status compare_options(const struct mr_position *position, const mr_sampler *sampler,
                                 bool drop_last, mr_error *error)
{
    const mr_sampler_options *options = mr_sampler_resolved(sampler);
    bool is_mixed = (position->flags & MIXTURE) || mr_sampler_get_parts(sampler)->mixture;
    if (position->n_samples != (uint64_t)options->n_samples && !is_mixed)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with %" PRIu64
                            " samples, this loader has %" PRId64,
                            position->n_samples, options->n_samples);
    if (position->seed != options->seed)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with seed %" PRIu64
                            ", this loader has %" PRIu64,
                            position->seed, options->seed);
    return compare_flags(position->flags, make_flags(sampler, drop_last, false), error);
}

/* Set the mixture to the saved counts. What was the end of its epoch is the start of the next. */
static mr_status restore_mixture(const struct mr_position *position, struct mr_mixture *mixture,
                                 bool ended, uint32_t flags, mr_error *error)
{
    return mr_mixture_restore(mixture, position->epoch + ended, ended ? 0 : position->used[0],
                              position->sources, position->n_sources,
                              ((position->flags ^ flags) & MEGATRON) == 0, error);
}

mr_status mr_position_restore(const void *bytes, size_t len, const mr_sampler *sampler,
                              uint32_t batch_size, bool drop_last, uint64_t *epoch_out,
                              uint64_t *batches_out, mr_error *error)
{
    const mr_sampler_options *options = mr_sampler_resolved(sampler);
    const struct mr_sampler_parts *parts = mr_sampler_get_parts(sampler);
    union any_position any;
    mr_status status = load_position(bytes, len, &any, error);
    const struct mr_position position = any.position;
    if (status == MR_OK)
        status = compare_options(&position, sampler, drop_last, error);
    if (status != MR_OK)
        return status;
    if (position.digest != mr_sampler_digest(sampler))
        return mr_error_set(
            error, MR_ERR_INVALID,
            parts->packing
                ? "the position was saved with another pack, window or pack_window, or with other "
                  "documents"
            : parts->groups
                ? "the position was saved with other groups of samples than this loader's"
            : parts->buckets
                ? "the position was saved with other lengths, or another batch_size, "
                  "group_by_length, max_tokens or batch_multiple than this loader's"
                : "the position was saved with other weights or another n_draws than this "
                  "loader's");
    bool ended = (position.flags & ENDED) != 0;
    if (!ended && parts->groups &&
        (position.world_size != options->world_size || position.batch_size != batch_size))
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with world_size %u and batch_size %u, this "
                            "loader has %u and %u: each rank makes batches of one group from its "
                            "own samples",
                            position.world_size, position.batch_size, options->world_size,
                            batch_size);
    const bool cuts = mr_sampler_cuts_batches(sampler);
    uint64_t step = units_of_step(sampler, batch_size);
    if (!ended && cuts && position.used[0] % step != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%" PRIu64
                            " batches were used, which is not a multiple of world_size %u",
                            position.used[0], options->world_size);
    if (!ended && position.used[0] % step != 0)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "%" PRIu64
            " samples were used, which is not a multiple of world_size %u x batch_size %u",
            position.used[0], options->world_size, batch_size);
    struct mr_mixture *mixture = parts->mixture;
    if (mixture) {
        ended = ended || position.used[0] >= mr_mixture_length(mixture);
        status = restore_mixture(&any.position, mixture, ended,
                                 make_flags(sampler, drop_last, false), error);
        if (status != MR_OK)
            return status;
    }
    *epoch_out = position.epoch;
    *batches_out = ended && (cuts || parts->packing)
                       ? UINT64_MAX /* another epoch has another number of batches */
                   : ended ? mr_sampler_own_steps(sampler, batch_size, drop_last)
                           : position.used[0] / step;
    return MR_OK;
}
