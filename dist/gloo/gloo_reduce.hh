/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction functions that gloo calls: one for each dtype and operation. */
#ifndef DIST_GLOO_GLOO_REDUCE_HH
#define DIST_GLOO_GLOO_REDUCE_HH

#include <cstddef>
#include <cstdint>

/* out[i] = a[i] op b[i]; out may be a. */
using mr_gloo_reduce_function = void (*)(void *out, const void *a, const void *b, size_t count);

/*
 * For MR_MEAN the function that sums; the caller divides at the end. NULL: collectives do not have
 * this dtype or operation.
 */
mr_gloo_reduce_function mr_gloo_reduce_find(uint32_t dtype, uint32_t op);

/*
 * out = in[0] op in[1] op ... for n ranks, in this order. divides: divide by n, for a mean. 16-bit
 * floats are rounded once.
 */
using mr_gloo_reduce_all_function = void (*)(void *out, const uint8_t *const *in, uint32_t n,
                                             size_t count, bool divides);
mr_gloo_reduce_all_function mr_gloo_reduce_find_all(uint32_t dtype, uint32_t op);

/* Convert 16-bit floats to f32; divide f32 by n and convert it back. */
void mr_gloo_reduce_widen(uint32_t dtype, const void *halves, float *out, size_t count);
void mr_gloo_reduce_narrow(uint32_t dtype, const float *in, float n, void *halves, size_t count);

/* Divide sums of f32 or f64 by world_size. False: another dtype. */
bool mr_gloo_reduce_divide(uint32_t dtype, void *data, size_t count, uint32_t world_size);

/* Bytes of an element; 0: collectives do not have this dtype. */
size_t mr_gloo_reduce_size(uint32_t dtype);

#endif
