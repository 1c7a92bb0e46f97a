/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the lengths of documents from the catalog, and those of other samples from a file. */
#include "loader/length_buckets.h"

#include "base/error.h"
#include "dataset/dataset.h"
#include "sampler/weights_file.h"

#include <stdlib.h>

mr_status mr_length_buckets_check(const mr_loader_options *o, bool is_mixture, mr_error *error)
{
    const bool groups = o->group_by_length != 0, cuts = o->max_tokens != 0;
    const char *either = cuts ? "max_tokens" : "group_by_length";
    const struct {
        bool is_wrong;
        const char *option, *other;
    } pairs[] = {
        {groups && o->no_shuffle, "group_by_length", "no_shuffle"},
        {groups && o->order != MR_ORDER_TORCH, "group_by_length", "the keyed order"},
        {cuts && o->drop_last, "max_tokens", "drop_last"},
        {cuts && o->rank_slices && !is_mixture, "max_tokens", "rank_slices"},
        {is_mixture, either, "a mixture"},
        {o->repeat != 0, either, "repeat"},
        {o->weights || o->weight_values, either, "weights"},
        {o->aspect_ratio_groups != 0, either, "aspect_ratio_groups"},
    };
    if (o->batch_multiple > 1 && !cuts)
        return mr_error_set(error, MR_ERR_INVALID, "batch_multiple needs max_tokens");
    if (o->lengths && !groups && !cuts)
        return mr_error_set(error, MR_ERR_INVALID, "lengths needs group_by_length or max_tokens");
    for (size_t i = 0; (groups || cuts) && i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].is_wrong)
            return mr_error_set(error, MR_ERR_INVALID, "%s and %s exclude each other",
                                pairs[i].option, pairs[i].other);
    return MR_OK;
}

static mr_status read_lengths(const char *path, struct mr_buckets *buckets, mr_error *error)
{
    const uint64_t n = buckets->options.n;
    double *values = malloc((n + 1) * sizeof *values);
    if (!values)
        return mr_error_memory(error, (n + 1) * sizeof *values);
    mr_status status = mr_weights_file_read(path, "lengths", values, n, error);
    for (uint64_t i = 0; status == MR_OK && i < n; i++) {
        if (values[i] >= 0 && values[i] <= UINT32_MAX && values[i] == (uint32_t)values[i])
            buckets->lengths[i] = (uint32_t)values[i];
        else
            status = mr_error_set(error, MR_ERR_INVALID,
                                  "%s: the length %g of sample %llu is not an integer from 0 to "
                                  "2^32 - 1",
                                  path, values[i], (unsigned long long)i);
    }
    free(values);
    return status;
}

mr_status mr_length_buckets_make(const mr_dataset *dataset, const mr_loader_options *o,
                                 struct mr_buckets **buckets_out, mr_error *error)
{
    const struct mr_buckets_options options = {.n = (uint64_t)mr_dataset_n_samples(dataset),
                                               .group = o->group_by_length * o->batch_size,
                                               .batch_size = o->batch_size,
                                               .multiple = o->batch_multiple,
                                               .max_tokens = o->max_tokens};
    *buckets_out = NULL;
    if (o->group_by_length == 0 && o->max_tokens == 0)
        return MR_OK;
    if (mr_dataset_kind(dataset)->pack != MR_PACK_NONE)
        return mr_error_set(error, MR_ERR_INVALID, "%s and packed documents exclude each other",
                            o->max_tokens != 0 ? "max_tokens" : "group_by_length");
    if (!o->lengths && !(mr_dataset_kind(dataset)->token_columns & MR_TOKENS_LENGTH))
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s needs the lengths of the samples: a dataset "
                            "tokens:FILE.bin?pack=none, or lengths=FILE.npy",
                            o->max_tokens != 0 ? "max_tokens" : "group_by_length");
    struct mr_buckets *buckets;
    mr_status status = mr_buckets_create(&options, &buckets, error);
    if (status == MR_OK)
        status = o->lengths ? read_lengths(o->lengths, buckets, error)
                            : mr_catalog_check(mr_dataset_catalog(dataset), 0, error);
    for (uint64_t i = 0; status == MR_OK && !o->lengths && i < options.n; i++)
        buckets->lengths[i] = (uint32_t)mr_catalog_length(mr_dataset_catalog(dataset), (int64_t)i);
    if (status == MR_OK)
        status = mr_buckets_check(buckets, error);
    if (status == MR_OK)
        *buckets_out = buckets;
    else
        mr_buckets_unref(buckets);
    return status;
}
