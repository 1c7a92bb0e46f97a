/* SPDX-License-Identifier: Apache-2.0 */
/* The reduce functions that gloo is given: one for each dtype and operation. */
#ifndef COMM_GLOO_REDUCE_HH
#define COMM_GLOO_REDUCE_HH

#include <cstddef>
#include <cstdint>

/* out[i] = a[i] op b[i]; out may be a. */
using mr_gloo_reduce_function = void (*)(void *out, const void *a, const void *b, size_t count);

/* MR_MEAN is the sum, to be divided at the end. NULL: not a dtype or an operation of collectives. */
mr_gloo_reduce_function mr_gloo_reduce_find(uint32_t dtype, uint32_t op);

/* Sums become means. False: dtype has none. */
bool mr_gloo_reduce_divide(uint32_t dtype, void *data, size_t count, uint32_t world_size);

/* Bytes of an element, 0 where it is not a dtype of collectives. */
size_t mr_gloo_reduce_size(uint32_t dtype);

#endif
