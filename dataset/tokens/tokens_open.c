/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens tokens:FILE,...?window=T. A sample is T + 1 tokens in a row of one file: T inputs, and the
 * same shifted by one. The catalog has the scheme of tokens (catalog_tokens.c).
 */
#include "dataset/tokens/tokens_open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/words.h"
#include "base/xxh3.h"
#include "dataset/catalog_build.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"
#include "dataset/tokens/mds_index.h"
#include "dataset/tokens/megatron_order.h"
#include "dataset/tokens/order_share.h"
#include "dataset/tokens/token_file.h"
#include "dataset/tokens/token_rows.h"

#define WINDOW_KEYS                                                                                \
    "window, dtype, vocab, eod, eod_mask_loss, reset_position_ids, order, pack, labels"
#define PACKED_KEYS WINDOW_KEYS ", pack_window, pad, mask_first"
#define MEGATRON_KEYS WINDOW_KEYS ", samples, seed, split, part, add_extra_token, last_partial"
enum { MAX_WINDOW = 1 << 24, MEGATRON_SEED = 1234, PACK_WINDOW = 1000 };

struct keys {
    int64_t window, stride, vocab, eod;
    mr_dtype dtype;
    uint32_t columns;           /* of MR_TOKENS_... */
    bool is_megatron, is_whole; /* order=megatron, pack=: samples are documents */
    uint32_t part, pack;
    int64_t pack_window, pad;
    const char *split; /* NULL: all documents */
    struct mr_megatron_order order;
};

/* The index of a value among words; n_words: the key is absent. */
static mr_status take_word(struct mr_spec *spec, const char *key, const char *const *words,
                           uint32_t n_words, uint32_t *word_out, mr_error *error)
{
    char all[100] = "";
    const char *text = mr_spec_take(spec, key);
    for (*word_out = 0; text && *word_out < n_words; ++*word_out) {
        if (mr_word_is(text, words[*word_out]))
            return MR_OK;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? ", " : "",
                 words[*word_out]);
    }
    *word_out = n_words;
    return text ? mr_error_set(error, MR_ERR_INVALID, "%s '%s' is none of %s", key, text, all)
                : MR_OK;
}

static mr_status take_flag(struct mr_spec *spec, const char *key, uint32_t flags, uint32_t *all,
                           mr_error *error)
{
    static const char *const words[] = {"0", "1"};
    uint32_t word;
    mr_status status = take_word(spec, key, words, 2, &word, error);
    if (status == MR_OK && word == 1)
        *all |= flags;
    return status;
}

/* The keys of the order of Megatron-Core; without order=megatron they are refused. */
static mr_status take_order(struct mr_spec *spec, struct keys *keys, mr_error *error)
{
    static const char *const orders[] = {"megatron"}, *const extras[] = {"0", "1"},
                             *const parts[] = {"train", "valid", "test"},
                             *const partials[] = {"drop", "keep"};
    struct mr_megatron_order *order = &keys->order;
    int64_t samples = 0, seed = MEGATRON_SEED;
    uint32_t word, extra, partial;
    if (take_word(spec, "order", orders, 1, &word, error) < 0)
        return MR_ERR_INVALID;
    keys->is_megatron = word == 0;
    if (!keys->is_megatron)
        return MR_OK;
    keys->split = mr_spec_take(spec, "split");
    if (mr_spec_take_int(spec, "samples", 1, UINT32_MAX - 1, &samples, error) < 0 ||
        mr_spec_take_int(spec, "seed", 0, UINT32_MAX, &seed, error) < 0 ||
        take_word(spec, "part", parts, 3, &keys->part, error) < 0 ||
        take_word(spec, "add_extra_token", extras, 2, &extra, error) < 0 ||
        take_word(spec, "last_partial", partials, 2, &partial, error) < 0)
        return MR_ERR_INVALID;
    if (keys->split && keys->part == 3)
        return mr_error_set(error, MR_ERR_INVALID, "split needs part=train, valid or test");
    *order = (struct mr_megatron_order){.window = (uint64_t)keys->window,
                                        .extra_token = extra != 0,
                                        .n_wanted = (uint64_t)samples,
                                        .seed = (uint32_t)seed,
                                        .keeps_partial = partial == 1};
    if (!order->extra_token || order->keeps_partial) /* rows may lack labels */
        keys->columns |= MR_TOKENS_LOSS_MASK;
    return MR_OK;
}

/* pack: samples are documents. Those that are packed have keys of their own. */
static mr_status take_pack(struct mr_spec *spec, struct keys *keys, mr_error *error)
{
    static const char *const packs[] = {[MR_PACK_NONE] = "none",
                                        [MR_PACK_WRAPPED] = "wrapped",
                                        [MR_PACK_FIRST_FIT] = "first_fit",
                                        [MR_PACK_BFD] = "bfd",
                                        [MR_PACK_BFD_SPLIT] = "bfd_split"};
    enum { N_PACKS = sizeof packs / sizeof *packs };
    if (take_word(spec, "pack", packs, N_PACKS, &keys->pack, error) < 0)
        return MR_ERR_INVALID;
    keys->is_whole = keys->pack < N_PACKS;
    if (keys->pack == MR_PACK_NONE)
        keys->columns |= MR_TOKENS_LENGTH;
    if (!keys->is_whole || keys->pack == MR_PACK_NONE) {
        keys->pack = MR_PACK_NONE;
        return MR_OK;
    }
    if (keys->columns & MR_TOKENS_POSITIONS)
        return mr_error_set(error, MR_ERR_INVALID,
                            "reset_position_ids is not for pack=%s: positions begin with 0 in each "
                            "document",
                            packs[keys->pack]);
    keys->columns |= MR_TOKENS_LOSS_MASK | MR_TOKENS_POSITIONS;
    keys->pack_window = PACK_WINDOW;
    keys->pad = keys->eod < 0 ? 0 : keys->eod;
    if (mr_spec_take_int(spec, "pack_window", 0, MR_PACK_MAX_WINDOW, &keys->pack_window, error) <
            0 ||
        mr_spec_take_int(spec, "pad", 0, INT32_MAX, &keys->pad, error) < 0 ||
        take_flag(spec, "mask_first", MR_TOKENS_FIRST_MASKED, &keys->columns, error) < 0)
        return MR_ERR_INVALID;
    if (keys->pack_window == 0 && keys->pack != MR_PACK_WRAPPED)
        return mr_error_set(error, MR_ERR_INVALID, "pack_window=0 needs pack=wrapped, not %s",
                            packs[keys->pack]);
    return MR_OK;
}

static mr_status take_labels(struct mr_spec *spec, struct keys *keys, mr_error *error)
{
    static const char *const labels[] = {"shifted", "same"};
    uint32_t word;
    mr_status status = take_word(spec, "labels", labels, 2, &word, error);
    if (word == 1)
        keys->columns |= MR_TOKENS_SAME_LABELS;
    return status;
}

/* In messages: what the file must have an index for. */
static const char *words_of(const struct keys *keys)
{
    return keys->is_megatron ? "order=megatron" : keys->pack == MR_PACK_NONE ? "pack=none" : "pack";
}

static mr_status check_keys(const struct keys *keys, bool has_stride, mr_error *error)
{
    if (keys->window == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "tokens need window=, the number of tokens of a row");
    const bool resets = keys->columns & MR_TOKENS_POSITIONS && keys->pack == MR_PACK_NONE;
    if (keys->eod < 0 && (resets || keys->columns & MR_TOKENS_EOD_MASKED))
        return mr_error_set(error, MR_ERR_INVALID, "%s needs eod=, the id at the end of a document",
                            resets ? "reset_position_ids" : "eod_mask_loss");
    if (keys->is_megatron && keys->is_whole)
        return mr_error_set(error, MR_ERR_INVALID, "order=megatron and pack exclude each other");
    if (keys->is_megatron && keys->columns & MR_TOKENS_SAME_LABELS)
        return mr_error_set(error, MR_ERR_INVALID, "labels=same is not for order=megatron");
    if (keys->pack != MR_PACK_NONE && keys->vocab > 0 && keys->pad >= keys->vocab)
        return mr_error_set(error, MR_ERR_INVALID, "pad %" PRId64 " is not below vocab %" PRId64,
                            keys->pad, keys->vocab);
    if (has_stride && (keys->is_megatron || keys->is_whole))
        return mr_error_set(error, MR_ERR_INVALID, "stride is not for %s", words_of(keys));
    return MR_OK;
}

static mr_status take_keys(struct mr_spec *spec, struct keys *keys, mr_error *error)
{
    const char *dtype = mr_spec_take(spec, "dtype");
    keys->eod = -1;
    if (mr_spec_take_int(spec, "window", 1, MAX_WINDOW, &keys->window, error) < 0 ||
        mr_spec_take_int(spec, "stride", 1, INT64_MAX / 16, &keys->stride, error) < 0 ||
        mr_spec_take_int(spec, "vocab", 1, INT32_MAX, &keys->vocab, error) < 0 ||
        mr_spec_take_int(spec, "eod", 0, INT32_MAX, &keys->eod, error) < 0 ||
        take_flag(spec, "eod_mask_loss", MR_TOKENS_EOD_MASKED | MR_TOKENS_LOSS_MASK, &keys->columns,
                  error) < 0 ||
        take_flag(spec, "reset_position_ids", MR_TOKENS_POSITIONS, &keys->columns, error) < 0 ||
        take_order(spec, keys, error) < 0 || take_pack(spec, keys, error) < 0 ||
        take_labels(spec, keys, error) < 0 ||
        mr_spec_finish(spec,
                       keys->is_megatron            ? MEGATRON_KEYS
                       : keys->pack != MR_PACK_NONE ? PACKED_KEYS
                                                    : WINDOW_KEYS ", stride",
                       error) < 0 ||
        check_keys(keys, keys->stride > 0, error) < 0)
        return MR_ERR_INVALID;
    if (keys->stride == 0)
        keys->stride = keys->window;
    if (!dtype)
        return MR_OK;
    if (mr_dtype_parse(dtype, &keys->dtype) != MR_OK || !mr_kind_may_be_token(keys->dtype))
        return mr_error_set(error, MR_ERR_INVALID,
                            "dtype '%s' is none of u8, i8, u16, i16, u32, i32, i64", dtype);
    return MR_OK;
}

/* Tokens of a row in its file: with the last label, unless labels are the same or all in the row.
 */
static int64_t row_ids(const struct keys *keys)
{
    const bool is_alone = keys->columns & MR_TOKENS_SAME_LABELS || keys->pack != MR_PACK_NONE;
    return keys->window + !is_alone;
}

static uint64_t count_windows(const struct keys *keys, uint64_t n_tokens)
{
    uint64_t needed = (uint64_t)row_ids(keys);
    return n_tokens < needed ? 0 : 1 + (n_tokens - needed) / (uint64_t)keys->stride;
}

static mr_status add_run(struct mr_catalog_builder *builder, const struct keys *keys,
                         const char *path, const struct mr_token_run *run, uint64_t *n_in_file,
                         mr_error *error)
{
    struct mr_catalog_header *header = &builder->header;
    const struct mr_token_rows rows = {.first_row = header->n_samples,
                                       .file = header->n_files,
                                       .first_in_file = *n_in_file,
                                       .n_each = count_windows(keys, run->n_tokens),
                                       .offset = run->offset,
                                       .distance = run->distance};
    if (rows.n_each == 0)
        return MR_OK;
    *n_in_file += rows.n_each * run->n; /* at most the bytes of the file */
    if (!mr_checked_add_u64(header->n_samples, rows.n_each * run->n, &header->n_samples) ||
        header->n_samples > INT64_MAX)
        return mr_error_set(error, MR_ERR_DAMAGED, "the files up to %.*s have more than 2^63 rows",
                            mr_url_path_len(path), path);
    return mr_bytes_append(&builder->sections[MR_SECTION_ROWS], &rows, sizeof rows, error);
}

/* longest: the most tokens in a row of a file. */
static mr_status add_file(struct mr_catalog_builder *builder, const struct keys *keys,
                          const char *path, const struct mr_token_file *file, uint64_t *longest,
                          mr_error *error)
{
    const struct mr_token_run *runs = (const void *)file->runs.data;
    uint64_t n_in_file = 0;
    mr_status status = mr_catalog_builder_name(builder, path, error);
    for (size_t i = 0; status == MR_OK && i < file->runs.len / sizeof *runs; i++) {
        status = add_run(builder, keys, path, &runs[i], &n_in_file, error);
        *longest = runs[i].n_tokens > *longest ? runs[i].n_tokens : *longest;
    }
    builder->header.n_files++;
    return status;
}

static mr_status add_files(struct mr_spec *spec, struct keys *keys, int root,
                           struct mr_catalog_builder *builder, mr_error *error)
{
    const mr_dtype asked = keys->dtype;
    uint64_t longest = 0;
    mr_status status = mr_mds_index_expand(root, spec, error);
    if (status == MR_OK)
        status = mr_catalog_builder_find_versions(builder, spec->paths, spec->n_paths, error);
    const struct mr_object_version *versions =
        (const void *)builder->sections[MR_SECTION_VERSIONS].data;
    for (size_t i = 0; status == MR_OK && i < spec->n_paths; i++) {
        const char *path = spec->paths[i];
        struct mr_token_file file;
        status =
            mr_token_file_open(root, path, versions ? &versions[i] : NULL, asked, &file, error);
        if (status == MR_OK)
            status = mr_token_file_dtype(path, keys->dtype, file.dtype, error);
        if (status == MR_OK)
            status = add_file(builder, keys, path, &file, &longest, error);
        mr_bytes_fini(&file.runs);
        if (file.dtype != MR_DTYPE_DEFAULT)
            keys->dtype = file.dtype; /* all files have the dtype of the first */
    }
    if (status != MR_OK || builder->header.n_samples > 0)
        return status;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%.*s: no file has the %" PRId64
                        " tokens of a row%s; the longest has %" PRIu64,
                        mr_url_path_len(spec->paths[0]), spec->paths[0], row_ids(keys),
                        row_ids(keys) > keys->window ? " and its last label" : "", longest);
}

static mr_status finish(const struct keys *keys, int64_t n_ids, int *fd_out,
                        struct mr_catalog_builder *builder, mr_error *error)
{
    struct mr_sample_kind *kind = &builder->header.kind;
    mr_kind_set_raw(kind, keys->dtype, 1, &n_ids, MR_NCHW);
    kind->tokens = (uint32_t)keys->window;
    kind->vocab = (uint32_t)keys->vocab;
    kind->eod = (uint32_t)(keys->eod < 0 ? 0 : keys->eod);
    kind->token_columns = keys->columns;
    kind->pack = keys->pack;
    kind->pack_window = (uint32_t)keys->pack_window;
    kind->pad = (uint32_t)keys->pad;
    builder->header.record.stride = (uint64_t)keys->stride * mr_dtype_size(keys->dtype);
    return mr_catalog_builder_finish(builder, fd_out, error);
}

/* Windows of each file. */
static mr_status build_windows(struct mr_spec *spec, struct keys *keys, int fds[MR_CATALOG_N_FDS],
                               struct mr_catalog_builder *builder, mr_error *error)
{
    char absolute[PATH_MAX];
    mr_status status = mr_kind_open_root(".", &fds[MR_CATALOG_FD_ROOT], absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(builder, "", absolute, error);
    if (status == MR_OK)
        status = add_files(spec, keys, fds[MR_CATALOG_FD_ROOT], builder, error);
    return status == MR_OK ? finish(keys, row_ids(keys), &fds[MR_CATALOG_FD_REGION], builder, error)
                           : status;
}

/* A file with its index. */
struct corpus {
    const char *path;
    char absolute[PATH_MAX]; /* the folder that the path starts from */
    struct stat bin;
    struct mr_megatron_index index;
};

/* The dtype of the keys becomes that of the index. */
static mr_status open_corpus(const struct mr_spec *spec, struct keys *keys,
                             int fds[MR_CATALOG_N_FDS], struct corpus *corpus, mr_error *error)
{
    const char *path = corpus->path = spec->paths[0], *words = words_of(keys);
    corpus->index.fd = -1;
    if (mr_url_is(path))
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s reads a local file, not %.*s", words,
                            mr_url_path_len(path), path);
    if (spec->n_paths > 1)
        return mr_error_set(error, MR_ERR_INVALID, "%s reads one file, not %zu", words,
                            spec->n_paths);
    mr_status status = mr_kind_open_root(".", &fds[MR_CATALOG_FD_ROOT], corpus->absolute, error);
    if (status != MR_OK)
        return status;
    if (fstatat(fds[MR_CATALOG_FD_ROOT], path, &corpus->bin, 0) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "%s", path);
    status = mr_megatron_index_open(fds[MR_CATALOG_FD_ROOT], path, path, &corpus->index, error);
    if (status == MR_PENDING)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s needs a file PREFIX.bin with PREFIX.idx beside it, not %s", words,
                            path);
    if (status == MR_OK)
        status = mr_token_file_dtype(path, keys->dtype, corpus->index.dtype, error);
    keys->dtype = corpus->index.dtype;
    return status;
}

/* The catalog keeps the index; otherwise it is closed. */
static void close_corpus(struct corpus *corpus, int fds[MR_CATALOG_N_FDS])
{
    fds[MR_CATALOG_FD_NAMES] = corpus->index.fd;
    corpus->index.fd = -1;
    mr_megatron_index_close(&corpus->index);
}

/* What the catalogs of a corpus have. */
static mr_status describe_corpus(struct corpus *corpus, struct mr_catalog_builder *builder,
                                 mr_error *error)
{
    struct mr_catalog_header *header = &builder->header;
    header->n_files = 1;
    header->names_file_bytes = corpus->index.map_len;
    header->record.part_len[0] = header->n_samples = corpus->index.n_sequences;
    mr_status status = mr_catalog_builder_root(builder, "", corpus->absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_name(builder, corpus->path, error);
    return status == MR_OK ? mr_megatron_index_check(&corpus->index, corpus->path,
                                                     (uint64_t)corpus->bin.st_size, error)
                           : status;
}

/* A name for the catalog, by everything that it is made from. */
static mr_status name_order(const struct corpus *corpus, const struct keys *keys, char *name_out,
                            size_t size, mr_error *error)
{
    char text[2 * PATH_MAX];
    struct stat idx;
    if (fstat(corpus->index.fd, &idx) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "%s", corpus->path);
    const struct mr_megatron_order *o = &keys->order;
    snprintf(text, sizeof text,
             "%s %u %zu %u %s %s %jd %jd %jd.%09ld %jd %" PRId64 " %" PRId64 " %" PRId64
             " %u %" PRIu64 " %" PRIu64 " %u %d %" PRIu64 " %" PRIu64,
             MR_VERSION, MR_CATALOG_VERSION, sizeof(struct mr_catalog_header), geteuid(),
             corpus->absolute, corpus->path, (intmax_t)idx.st_dev, (intmax_t)idx.st_ino,
             (intmax_t)idx.st_mtim.tv_sec, idx.st_mtim.tv_nsec, (intmax_t)corpus->bin.st_size,
             keys->window, keys->vocab, keys->eod, keys->columns, o->extra_token, o->n_wanted,
             o->seed, o->keeps_partial, o->begin, o->end);
    size_t len = strlen(text);
    snprintf(name_out, size, "millrace-order-%016" PRIx64 "%016" PRIx64, mr_xxh3(text, len),
             mr_xxh3_pair("order", 5, text, len));
    return MR_OK;
}

static mr_status build_order(struct corpus *corpus, const struct keys *keys, const char *name,
                             int *fd_out, mr_error *error)
{
    struct mr_catalog_builder builder;
    mr_status status = mr_catalog_builder_init_as(&builder, MR_SCHEME_DOCUMENTS, name, error);
    if (status == MR_OK)
        status = describe_corpus(corpus, &builder, error);
    if (status == MR_OK)
        status = mr_megatron_order_build(
            &corpus->index, &keys->order, &builder.sections[MR_SECTION_DOCUMENTS],
            &builder.sections[MR_SECTION_SHUFFLE], &builder.sections[MR_SECTION_PLACES],
            &builder.header.n_samples, error);
    if (status == MR_OK)
        status =
            finish(keys, keys->window + (int64_t)keys->order.extra_token, fd_out, &builder, error);
    mr_catalog_builder_fini(&builder);
    return status;
}

static mr_status open_order(const struct mr_spec *spec, struct keys *keys,
                            int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    char name[64];
    int lock = -1;
    struct corpus corpus = {0};
    struct mr_megatron_order *order = &keys->order;
    mr_status status = open_corpus(spec, keys, fds, &corpus, error);
    order->end = corpus.index.n_sequences;
    if (status == MR_OK && keys->split)
        status = mr_megatron_split(keys->split, keys->part, order->end, &order->begin, &order->end,
                                   error);
    if (status == MR_OK)
        status = name_order(&corpus, keys, name, sizeof name, error);
    if (status == MR_OK)
        mr_order_share_take(name, &fds[MR_CATALOG_FD_REGION], &lock);
    if (status == MR_OK && fds[MR_CATALOG_FD_REGION] < 0)
        status = build_order(&corpus, keys, name, &fds[MR_CATALOG_FD_REGION], error);
    if (lock >= 0)
        close(lock);
    close_corpus(&corpus, fds);
    return status;
}

/* A sample is a document. */
static mr_status build_whole(const struct mr_spec *spec, struct keys *keys,
                             int fds[MR_CATALOG_N_FDS], struct mr_catalog_builder *builder,
                             mr_error *error)
{
    struct corpus corpus = {0};
    mr_status status = open_corpus(spec, keys, fds, &corpus, error);
    if (status == MR_OK && corpus.index.n_sequences == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s has no documents", corpus.path);
    if (status == MR_OK)
        status = describe_corpus(&corpus, builder, error);
    if (status == MR_OK)
        status = finish(keys, row_ids(keys), &fds[MR_CATALOG_FD_REGION], builder, error);
    close_corpus(&corpus, fds);
    return status;
}

mr_status mr_tokens_open(struct mr_spec *spec, const mr_dataset_options *options,
                         int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct keys keys = {0};
    struct mr_catalog_builder builder;
    mr_status status = take_keys(spec, &keys, error);
    if (status < 0 || keys.is_megatron)
        return status < 0 ? status : open_order(spec, &keys, fds_out, error);
    status = mr_catalog_builder_init(&builder,
                                     keys.is_whole ? MR_SCHEME_SEQUENCES : MR_SCHEME_TOKENS, error);
    if (status == MR_OK)
        status = keys.is_whole ? build_whole(spec, &keys, fds_out, &builder, error)
                               : build_windows(spec, &keys, fds_out, &builder, error);
    mr_catalog_builder_fini(&builder);
    return status;
}
