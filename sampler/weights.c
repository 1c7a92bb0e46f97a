/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks weights and makes the tables for drawing.
 *
 * Invariant: sums and quotients are computed as in torch.multinomial on the CPU, one after the
 * other in f64, because a drawn index depends on their last bits.
 */
#include "sampler/weights.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/xxh3.h"
#include "sampler/weights_file.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, MAX_GUIDE_BITS = 27 };

/* Advise large pages for those that are completely inside the table. */
static void advise_large(void *table, size_t len)
{
    uintptr_t first = ((uintptr_t)table + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)table + len) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (first < end)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
}

static void *allocate_table(uint64_t n, size_t element, bool zeros, mr_error *error)
{
    size_t len;
    if (!mr_checked_mul(n ? n : 1, element, &len) || len > SIZE_MAX / 2) {
        mr_error_set(error, MR_ERR_NO_MEMORY,
                     "%llu numbers of %zu bytes are more than memory can hold",
                     (unsigned long long)n, element);
        return NULL;
    }
    bool is_large = len >= 4 * (size_t)HUGE_PAGE;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    /* an overcommitting kernel would not refuse */
    if (pages > 0 && page > 0 && len / (size_t)page >= (size_t)pages) {
        mr_error_memory(error, len);
        return NULL;
    }
    void *table = zeros      ? calloc(1, len)
                  : is_large ? aligned_alloc(HUGE_PAGE, mr_align_up(len, HUGE_PAGE))
                             : malloc(len);
    if (!table)
        mr_error_memory(error, len);
    else if (is_large) /* only advice: small pages work too, but slower */
        advise_large(table, len);
    return table;
}

void *mr_weights_allocate(uint64_t n, size_t element, mr_error *error)
{
    return allocate_table(n, element, false, error);
}

void *mr_weights_allocate_zeros(uint64_t n, size_t element, mr_error *error)
{
    return allocate_table(n, element, true, error);
}

static mr_status check_values(struct mr_weights *weights, mr_error *error)
{
    for (uint64_t i = 0; i < weights->n; i++) {
        double value = weights->values[i];
        if (!(value >= 0) || isinf(value))
            return mr_error_set(error, MR_ERR_INVALID,
                                "weight %g of sample %llu is not a finite number of 0 or more",
                                value, (unsigned long long)i);
        weights->n_positive += value > 0;
    }
    weights->digest = mr_xxh3(weights->values, weights->n * sizeof *weights->values);
    if (weights->n_positive == 0 && weights->n > 0)
        return mr_error_set(error, MR_ERR_INVALID, "all of the %llu weights are 0",
                            (unsigned long long)weights->n);
    return MR_OK;
}

static mr_status sum_values(struct mr_weights *weights, mr_error *error)
{
    double *values = weights->values, sum = 0;
    for (uint64_t i = 0; i < weights->n; i++)
        values[i] = sum += values[i];
    if (isinf(sum))
        return mr_error_set(error, MR_ERR_INVALID,
                            "the sum of the weights is above the largest f64");
    for (uint64_t i = 0; i < weights->n; i++)
        values[i] /= sum;
    if (weights->n > 0)
        values[weights->n - 1] = 1;
    weights->cumulative = values;
    weights->values = NULL;
    return MR_OK;
}

/* Make the guide, with which a search looks at only a few adjacent sums. */
static mr_status make_guide(struct mr_weights *weights, mr_error *error)
{
    while (weights->guide_bits < MAX_GUIDE_BITS && UINT64_C(2) << weights->guide_bits <= weights->n)
        weights->guide_bits++;
    uint64_t n_buckets = UINT64_C(1) << weights->guide_bits;
    weights->guide = mr_weights_allocate(n_buckets + 1, sizeof *weights->guide, error);
    if (!weights->guide)
        return MR_ERR_NO_MEMORY;
    double width = 1.0 / (double)n_buckets; /* exact, and so is every multiple */
    uint32_t at = 0;
    for (uint64_t b = 0; b <= n_buckets; b++) {
        while (at + 1 < weights->n && weights->cumulative[at] < (double)b * width)
            at++;
        weights->guide[b] = at;
    }
    return MR_OK;
}

/* Takes ownership of the values, also on failure. */
static mr_status make_weights(double *values, uint64_t n, bool cumulate,
                              struct mr_weights **weights_out, mr_error *error)
{
    struct mr_weights *weights = calloc(1, sizeof *weights);
    if (!weights) {
        free(values);
        return mr_error_memory(error, sizeof *weights);
    }
    *weights = (struct mr_weights){.n_refs = 1, .n = n, .values = values};
    mr_status status = check_values(weights, error);
    if (status == MR_OK && cumulate)
        status = sum_values(weights, error);
    if (status == MR_OK && cumulate)
        status = make_guide(weights, error);
    if (status == MR_OK)
        *weights_out = weights;
    else
        mr_weights_unref(weights);
    return status;
}

static mr_status check_count(uint64_t n, mr_error *error)
{
    return n <= UINT32_MAX ? MR_OK
                           : mr_error_set(error, MR_ERR_INVALID,
                                          "weights of %llu samples are above the limit of %u",
                                          (unsigned long long)n, UINT32_MAX);
}

mr_status mr_weights_create(const double *values, uint64_t n, bool cumulate,
                            struct mr_weights **weights_out, mr_error *error)
{
    mr_status status = check_count(n, error);
    double *copy = status == MR_OK ? mr_weights_allocate(n, sizeof *copy, error) : NULL;
    if (!copy)
        return status == MR_OK ? MR_ERR_NO_MEMORY : status;
    if (n > 0)
        memcpy(copy, values, n * sizeof *copy);
    return make_weights(copy, n, cumulate, weights_out, error);
}

mr_status mr_weights_load(const char *path, uint64_t n, bool cumulate,
                          struct mr_weights **weights_out, mr_error *error)
{
    mr_status status = check_count(n, error);
    double *values = status == MR_OK ? mr_weights_allocate(n, sizeof *values, error) : NULL;
    if (!values)
        return status == MR_OK ? MR_ERR_NO_MEMORY : status;
    status = mr_weights_file_read(path, "weights", values, n, error);
    if (status == MR_OK)
        return make_weights(values, n, cumulate, weights_out, error);
    free(values);
    return status;
}

struct mr_weights *mr_weights_ref(struct mr_weights *weights)
{
    atomic_fetch_add_explicit(&weights->n_refs, 1, memory_order_relaxed);
    return weights;
}

void mr_weights_unref(struct mr_weights *weights)
{
    if (!weights || atomic_fetch_sub_explicit(&weights->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    free(weights->values);
    free(weights->cumulative);
    free(weights->guide);
    free(weights);
}
