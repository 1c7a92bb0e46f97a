/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that grows to the largest demand and is kept, so that a worker allocates nothing once it is warm. */
#ifndef TRANSFORMS_SCRATCH_H
#define TRANSFORMS_SCRATCH_H

#include "base/error.h"

/* Starts as zeros. */
struct mr_scratch {
    void *memory;
    size_t len_allocated;
};

/* Room for n elements of size bytes. What was there is lost when it grows. */
mr_status mr_scratch_reserve(struct mr_scratch *scratch, size_t n, size_t size, mr_error *error);
void mr_scratch_fini(struct mr_scratch *scratch);

#endif
