/* SPDX-License-Identifier: Apache-2.0 */
/* Overwrites boxes in a tensor, row by row. Normal numbers are computed eight at a time. */
#include "base/erasing.h"

/* The part of a box that is inside the tensor. */
struct part {
    uint32_t top, bottom, left, right;
};

/* The random words of one block of box k. */
struct words {
    const struct mr_erase *erase;
    uint32_t k;
    uint64_t block;
    uint32_t words[MR_RNG_BLOCK_WORDS];
};

static uint32_t clip_index(int64_t at, uint32_t limit)
{
    if (at < 0)
        return 0;
    return at < limit ? (uint32_t)at : limit;
}

static struct part clip_box(const struct mr_erase_box *box, const struct mr_erasing_tensor *tensor)
{
    return (struct part){.top = clip_index(box->i, tensor->height),
                         .bottom = clip_index((int64_t)box->i + box->h, tensor->height),
                         .left = clip_index(box->j, tensor->width),
                         .right = clip_index((int64_t)box->j + box->w, tensor->width)};
}

static uint32_t encode_float(mr_dtype dtype, float value)
{
    switch (dtype) {
    case MR_F16: return mr_half_f16(value);
    case MR_BF16: return mr_half_bf16(value);
    default: return mr_half_bits(value);
    }
}

static void put_element(const struct mr_erasing_tensor *tensor, size_t at, uint32_t bits)
{
    if (tensor->dtype == MR_F32)
        ((uint32_t *)tensor->data)[at] = bits;
    else
        ((uint16_t *)tensor->data)[at] = (uint16_t)bits;
}

/* True for adjacent elements of 4 bytes, the usual tensor: the compiler can vectorise the loop. */
static bool is_contiguous(const struct mr_erasing_tensor *tensor)
{
    return tensor->dtype == MR_F32 && tensor->pixel_stride == 1;
}

static const uint32_t *find_words(struct words *words, uint64_t block)
{
    if (words->block != block) {
        words->block = block;
        mr_erasing_words(words->erase, words->k, block, words->words);
    }
    return words->words;
}

/*
 * Write n columns of one row and channel. The first one is at `at` in the tensor and has the number
 * `element` in the box.
 */
static void put_normals(const struct mr_erasing_tensor *tensor, size_t at, struct words *words,
                        uint64_t element, uint32_t n)
{
    bool plain = is_contiguous(tensor);
    for (uint32_t x = 0; x < n;) {
        const uint32_t *block = find_words(words, (element + x) / MR_RNG_BLOCK_WORDS);
        uint32_t k = (uint32_t)((element + x) % MR_RNG_BLOCK_WORDS);
        for (; k < MR_RNG_BLOCK_WORDS && x < n; k++, x++, at += tensor->pixel_stride) {
            float normal = mr_normal_of(mr_normal_nodes, block[k]);
            if (plain)
                ((float *)tensor->data)[at] = normal;
            else
                put_element(tensor, at, encode_float(tensor->dtype, normal));
        }
    }
}

static void put_value(const struct mr_erasing_tensor *tensor, size_t at, uint32_t bits, uint32_t n)
{
    if (is_contiguous(tensor)) {
        uint32_t *row = (uint32_t *)tensor->data + at;
        for (uint32_t x = 0; x < n; x++)
            row[x] = bits;
        return;
    }
    for (uint32_t x = 0; x < n; x++, at += tensor->pixel_stride)
        put_element(tensor, at, bits);
}

static void run_box(const struct mr_erase *erase, uint32_t k,
                    const struct mr_erasing_tensor *tensor)
{
    const struct mr_erase_box *box = &erase->boxes[k];
    struct part part = clip_box(box, tensor);
    struct words words = {.erase = erase, .k = k, .block = UINT64_MAX};
    if (part.left >= part.right)
        return;
    for (uint32_t c = 0; c < tensor->channels; c++) {
        uint32_t bits = encode_float(tensor->dtype, box->values[c]);
        for (uint32_t y = part.top; y < part.bottom; y++) {
            size_t pixel = (size_t)y * tensor->width + part.left;
            size_t at = c * tensor->channel_stride + pixel * tensor->pixel_stride;
            if (erase->is_random)
                put_normals(tensor, at, &words, mr_erasing_element(box, c, y, part.left),
                            part.right - part.left);
            else
                put_value(tensor, at, bits, part.right - part.left);
        }
    }
}

void mr_erasing_run(const struct mr_erase *erase, const struct mr_erasing_tensor *tensor)
{
    for (uint32_t k = 0; k < mr_erasing_count(erase); k++)
        run_box(erase, k, tensor);
}
