/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a mixture. R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32
 * (1980): at every position the number of draws of a source differs from weight x positions by at
 * most 1 - 1 / (2K - 2), with K sources. Or Megatron's build_blending_indices(), whose difference
 * is up to 1.6.
 *
 * Invariant: doubles are computed without fused multiply-adds (the build's -ffp-contract=off), so
 * that all machines have the same order.
 */
#include "sampler/mixture.h"

#include "base/error.h"
#include "sampler/keyed.h"
#include "sampler/randperm.h"
#include "sampler/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_EVERY = 65536 };
#define NO_PASS UINT64_MAX

/* A place in the sequence: the draws of each source since the position `from`. */
struct cursor {
    uint64_t from; /* 0, or the origin */
    uint64_t position;
    uint64_t drawn[MR_MIXTURE_MAX];
};

/* A source's own order for its present pass. */
struct own_order {
    uint64_t pass;   /* NO_PASS: not made yet */
    uint64_t first;  /* its index 0 in the concatenated sources */
    uint32_t *table; /* with the torch order, of up to 2^32 samples */
    uint64_t *wide;  /* with the torch order, of more */
    struct mr_keyed keyed;
};

/* The last places first: two of the reads, one of the saves. */
enum { KEPT_NEW, KEPT_OLD, KEPT_SAVED, N_KEPT };

struct mr_mixture {
    _Atomic uint32_t n_refs;
    struct mr_mixture_options options;
    uint64_t length;
    struct mr_mixture_source sources[MR_MIXTURE_MAX];
    double inverse[MR_MIXTURE_MAX];  /* 1 / weight */
    uint64_t origin;                 /* position from which the weights hold */
    uint64_t before[MR_MIXTURE_MAX]; /* draws of each source before it */
    uint64_t anchor_epoch;           /* this epoch begins at the position `anchor` */
    uint64_t anchor;
    struct cursor cursor;
    struct cursor kept[N_KEPT];
    uint64_t last; /* the position, index and pass of the last answer */
    int64_t last_index;
    uint64_t last_pass;
    struct own_order orders[MR_MIXTURE_MAX];
};

/* numpy.sum() of fewer than 128 numbers: Megatron divides weights by it. */
static double sum_weights(const struct mr_mixture_source *sources, uint32_t n)
{
    double part[8] = {0}, sum = 0;
    uint32_t in_parts = n < 8 ? 0 : n / 8 * 8;
    for (uint32_t k = 0; k < in_parts; k++)
        part[k % 8] += sources[k].weight;
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (uint32_t k = in_parts; k < n; k++)
        sum += sources[k].weight;
    return sum;
}

/*
 * With `first` no source is used twice, with `all` each is used whole. The weights' rounding must
 * not add or remove a sample.
 */
static double stop_length(const struct mr_mixture *mixture)
{
    bool first = mixture->options.stop == MR_MIX_STOP_FIRST;
    double length = first ? INFINITY : 0;
    for (uint32_t k = 0; k < mixture->options.n_sources; k++) {
        double n = (double)mixture->sources[k].n / mixture->sources[k].weight;
        length = first ? fmin(length, floor(n * (1 + 1e-12))) : fmax(length, ceil(n * (1 - 1e-12)));
    }
    return length;
}

static mr_status set_length(struct mr_mixture *mixture, mr_error *error)
{
    const struct mr_mixture_options *o = &mixture->options;
    double length = (double)MR_MIXTURE_MAX_SAMPLES;
    if (o->n_samples != 0)
        length = (double)o->n_samples;
    else if (o->stop != MR_MIX_STOP_NONE)
        length = stop_length(mixture);
    if (length > (double)MR_MIXTURE_MAX_SAMPLES)
        return mr_error_set(error, MR_ERR_INVALID,
                            "an epoch of the mixture has %.0f samples, above the limit of 2^40",
                            length);
    mixture->length = (uint64_t)length;
    return MR_OK;
}

static mr_status make_tables(struct mr_mixture *mixture, mr_error *error)
{
    const struct mr_mixture_options *o = &mixture->options;
    uint64_t first = 0;
    for (uint32_t k = 0; k < o->n_sources; k++) {
        uint64_t n = mixture->sources[k].n;
        struct own_order *own = &mixture->orders[k];
        own->pass = NO_PASS;
        own->first = first;
        first += n;
        if (o->no_shuffle || o->order == MR_ORDER_KEYED)
            continue;
        bool wide = n > UINT64_C(1) << 32;
        void *table = mr_weights_allocate(n, wide ? sizeof *own->wide : sizeof *own->table, error);
        if (!table)
            return MR_ERR_NO_MEMORY;
        own->wide = wide ? table : NULL;
        own->table = wide ? NULL : table;
    }
    return MR_OK;
}

static mr_status check_sources(const struct mr_mixture_options *options, mr_error *error)
{
    if (options->n_sources < 1 || options->n_sources > MR_MIXTURE_MAX)
        return mr_error_set(error, MR_ERR_INVALID, "a mixture of %u sources: 1 to %d are possible",
                            options->n_sources, MR_MIXTURE_MAX);
    for (uint32_t k = 0; k < options->n_sources; k++) {
        const struct mr_mixture_source *source = &options->sources[k];
        if (!isfinite(source->weight) || source->weight <= 0)
            return mr_error_set(error, MR_ERR_INVALID, "the weight %g of source %u is not above 0",
                                source->weight, k);
        if (source->n < 1 || source->n > MR_KEYED_MAX_N)
            return mr_error_set(error, MR_ERR_INVALID,
                                "source %u of the mixture has %" PRIu64 " samples", k, source->n);
    }
    return MR_OK;
}

mr_status mr_mixture_create(const struct mr_mixture_options *options,
                            struct mr_mixture **mixture_out, mr_error *error)
{
    *mixture_out = NULL;
    mr_status status = check_sources(options, error);
    if (status != MR_OK)
        return status;
    double sum = sum_weights(options->sources, options->n_sources);
    if (!isfinite(sum))
        return mr_error_set(error, MR_ERR_INVALID, "the weights of the mixture are too large");
    struct mr_mixture *mixture = calloc(1, sizeof *mixture);
    if (!mixture)
        return mr_error_memory(error, sizeof *mixture);
    mixture->n_refs = 1;
    mixture->options = *options;
    mixture->last = UINT64_MAX;
    for (uint32_t k = 0; k < options->n_sources; k++) {
        mixture->sources[k] = options->sources[k];
        mixture->sources[k].weight /= sum;
        mixture->inverse[k] = 1 / mixture->sources[k].weight;
    }
    mixture->options.sources = mixture->sources;
    status = set_length(mixture, error);
    if (status == MR_OK)
        status = make_tables(mixture, error);
    if (status == MR_OK)
        *mixture_out = mixture;
    else
        mr_mixture_unref(mixture);
    return status;
}

struct mr_mixture *mr_mixture_ref(struct mr_mixture *mixture)
{
    atomic_fetch_add_explicit(&mixture->n_refs, 1, memory_order_relaxed);
    return mixture;
}

void mr_mixture_unref(struct mr_mixture *mixture)
{
    if (!mixture || atomic_fetch_sub_explicit(&mixture->n_refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t k = 0; k < mixture->options.n_sources; k++) {
        free(mixture->orders[k].table);
        free(mixture->orders[k].wide);
    }
    free(mixture);
}

uint32_t mr_mixture_n_sources(const struct mr_mixture *mixture)
{
    return mixture->options.n_sources;
}

bool mr_mixture_is_megatron(const struct mr_mixture *mixture)
{
    return mixture->options.mix_order == MR_MIX_ORDER_MEGATRON;
}

uint64_t mr_mixture_length(const struct mr_mixture *mixture)
{
    return mixture->length;
}

mr_status mr_mixture_check_epoch(const struct mr_mixture *mixture, uint64_t epoch, mr_error *error)
{
    if (epoch <= (MR_MIXTURE_MAX_SAMPLES - 1) / mixture->length)
        return MR_OK;
    if (mixture->length == MR_MIXTURE_MAX_SAMPLES)
        return mr_error_set(error, MR_ERR_INVALID,
                            "a mixture without mix_stop and mix_samples has no end, and no epoch "
                            "%" PRIu64,
                            epoch);
    return mr_error_set(error, MR_ERR_INVALID,
                        "epoch %" PRIu64 " of the mixture begins after 2^40 samples", epoch);
}

/* Where an epoch begins. An epoch that began before the anchor's sequence begins as if at 0. */
static uint64_t epoch_start(const struct mr_mixture *mixture, uint64_t epoch)
{
    uint64_t length = mixture->length, anchor = mixture->anchor;
    if (epoch >= mixture->anchor_epoch)
        return anchor + (epoch - mixture->anchor_epoch) * length;
    uint64_t back = (mixture->anchor_epoch - epoch) * length;
    return back <= anchor ? anchor - back : epoch * length;
}

/*
 * The source with the earliest deadline among those that may be drawn now: each must be drawn
 * before it lags behind by 1 - slack. There is always one; the first is for rounding.
 */
static uint32_t choose_even(const struct mr_mixture *mixture, const struct cursor *cursor)
{
    uint32_t n = mixture->options.n_sources, best = UINT32_MAX;
    double step = (double)(cursor->position - cursor->from + 1);
    double slack = n > 1 ? 1.0 / (2.0 * n - 2.0) : 0, earliest = 0;
    for (uint32_t k = 0; k < n; k++) {
        double lag = mixture->sources[k].weight * step - (double)cursor->drawn[k];
        double deadline = (1 - slack - lag) * mixture->inverse[k];
        if (lag >= slack && (best == UINT32_MAX || deadline < earliest)) {
            best = k;
            earliest = deadline;
        }
    }
    return best == UINT32_MAX ? 0 : best;
}

/* The source that lags behind most. */
static uint32_t choose_megatron(const struct mr_mixture *mixture, const struct cursor *cursor)
{
    double step = (double)(cursor->position - cursor->from), most = 0;
    uint32_t best = 0;
    if (step < 1)
        step = 1;
    for (uint32_t k = 0; k < mixture->options.n_sources; k++) {
        double lag = mixture->sources[k].weight * step - (double)cursor->drawn[k];
        if (k == 0 || lag > most) {
            best = k;
            most = lag;
        }
    }
    return best;
}

/* Go one position on. Returns the source that is drawn. */
static uint32_t step_cursor(const struct mr_mixture *mixture, struct cursor *cursor)
{
    uint32_t k = mr_mixture_is_megatron(mixture) ? choose_megatron(mixture, cursor)
                                                 : choose_even(mixture, cursor);
    cursor->drawn[k]++;
    cursor->position++;
    return k;
}

/*
 * Set the cursor to a place before the position, the nearest that is known. Positions before the
 * origin are those of a mixture that began with the present weights.
 */
static void choose_start(const struct mr_mixture *mixture, uint64_t position, struct cursor *cursor)
{
    uint64_t from = position >= mixture->origin ? mixture->origin : 0;
    const struct cursor *best = cursor;
    bool is_before = cursor->from == from && cursor->position <= position;
    if (is_before && cursor == &mixture->cursor)
        return;
    struct cursor start = {.from = from, .position = from};
    if (!is_before)
        best = &start;
    for (int i = 0; i < N_KEPT; i++) {
        const struct cursor *kept = &mixture->kept[i];
        if (kept->from == from && kept->position <= position && kept->position > best->position)
            best = kept;
    }
    if (best != cursor)
        *cursor = *best;
}

/* Go to a position, and keep places on the way if the cursor is that of the reads. */
static void seek(struct mr_mixture *mixture, uint64_t position, struct cursor *cursor)
{
    choose_start(mixture, position, cursor);
    while (cursor->position < position) {
        step_cursor(mixture, cursor);
        if (cursor == &mixture->cursor && cursor->position % KEPT_EVERY == 0) {
            mixture->kept[KEPT_OLD] = mixture->kept[KEPT_NEW];
            mixture->kept[KEPT_NEW] = *cursor;
        }
    }
}

static uint64_t count_draws(const struct mr_mixture *mixture, const struct cursor *cursor,
                            uint32_t k)
{
    return cursor->drawn[k] + (cursor->from == mixture->origin ? mixture->before[k] : 0);
}

/* Position i of a source's own order for a pass. */
static uint64_t look_up(struct mr_mixture *mixture, uint32_t k, uint64_t pass, uint64_t i)
{
    const struct mr_mixture_options *o = &mixture->options;
    struct own_order *own = &mixture->orders[k];
    uint64_t n = mixture->sources[k].n;
    if (o->no_shuffle)
        return i;
    if (own->pass != pass) {
        if (own->table)
            mr_randperm_u32(own->table, n, o->seed + pass, n >= MR_RANDPERM_WIDE);
        else if (own->wide)
            mr_randperm_u64(own->wide, n, o->seed + pass);
        else
            mr_keyed_init(&own->keyed, n, o->seed, pass);
        own->pass = pass;
    }
    return own->table ? own->table[i] : own->wide ? own->wide[i] : mr_keyed_at(&own->keyed, i);
}

int64_t mr_mixture_at(struct mr_mixture *mixture, uint64_t epoch, uint64_t position,
                      uint64_t *pass_out)
{
    uint64_t at = epoch_start(mixture, epoch) + position;
    if (at != mixture->last) {
        struct cursor *cursor = &mixture->cursor;
        seek(mixture, at, cursor);
        uint32_t k = step_cursor(mixture, cursor);
        uint64_t draw = count_draws(mixture, cursor, k) - 1, n = mixture->sources[k].n;
        uint64_t i = look_up(mixture, k, draw / n, draw % n);
        mixture->last = at;
        mixture->last_index = (int64_t)(mixture->orders[k].first + i);
        mixture->last_pass = draw / n;
    }
    *pass_out = mixture->last_pass;
    return mixture->last_index;
}

void mr_mixture_save(struct mr_mixture *mixture, uint64_t epoch, uint64_t position,
                     struct mr_mixture_count counts_out[MR_MIXTURE_MAX])
{
    struct cursor *cursor = &mixture->kept[KEPT_SAVED];
    seek(mixture, epoch_start(mixture, epoch) + position, cursor);
    for (uint32_t k = 0; k < mixture->options.n_sources; k++)
        counts_out[k] = (struct mr_mixture_count){
            .n = mixture->sources[k].n,
            .weight = mixture->sources[k].weight,
            .first = cursor->from == mixture->origin ? mixture->before[k] : 0,
            .count = count_draws(mixture, cursor, k)};
}

static mr_status check_counts(const struct mr_mixture *mixture,
                              const struct mr_mixture_count *counts, uint32_t n, uint64_t position,
                              mr_error *error)
{
    uint32_t n_sources = mixture->options.n_sources;
    uint64_t sum = 0;
    if (n > n_sources)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the position was saved with %u sources, this mixture has %u: sources "
                            "can only be added, at the end",
                            n, n_sources);
    for (uint32_t k = 0; k < n; k++) {
        if (counts[k].n != mixture->sources[k].n)
            return mr_error_set(error, MR_ERR_INVALID,
                                "the position was saved with %" PRIu64
                                " samples in source %u, this mixture has %" PRIu64,
                                counts[k].n, k, mixture->sources[k].n);
        if (counts[k].first > counts[k].count || counts[k].count > 2 * MR_MIXTURE_MAX_SAMPLES)
            return mr_error_set(error, MR_ERR_INVALID,
                                "the saved position has %" PRIu64 " draws of source %u, %" PRIu64
                                " of them before its weight",
                                counts[k].count, k, counts[k].first);
        sum += counts[k].count;
    }
    if (position > sum)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the saved position has %" PRIu64 " draws in an epoch of %" PRIu64
                            " in all",
                            position, sum);
    return MR_OK;
}

mr_status mr_mixture_restore(struct mr_mixture *mixture, uint64_t epoch, uint64_t position,
                             const struct mr_mixture_count *counts, uint32_t n, bool same_order,
                             mr_error *error)
{
    mr_status status = check_counts(mixture, counts, n, position, error);
    if (status == MR_OK)
        status = mr_mixture_check_epoch(mixture, epoch, error);
    if (status != MR_OK)
        return status;
    bool same = same_order && n == mixture->options.n_sources;
    for (uint32_t k = 0; k < n; k++)
        same = same && counts[k].weight == mixture->sources[k].weight;
    struct cursor cursor = {0};
    mixture->origin = 0;
    for (uint32_t k = 0; k < mixture->options.n_sources; k++) {
        uint64_t count = k < n ? counts[k].count : 0;
        mixture->before[k] = same ? counts[k].first : count;
        mixture->origin += mixture->before[k];
        cursor.drawn[k] = count - mixture->before[k];
        cursor.position += count;
    }
    cursor.from = mixture->origin;
    mixture->anchor_epoch = epoch;
    mixture->anchor = cursor.position - position;
    mixture->cursor = cursor;
    mixture->last = UINT64_MAX;
    for (int i = 0; i < N_KEPT; i++)
        mixture->kept[i] = cursor;
    return MR_OK;
}
