/* SPDX-License-Identifier: Apache-2.0 */
/* Page-locked pieces of the slab. */
#ifndef PINNED_CUDA_PIN_H
#define PINNED_CUDA_PIN_H

#include "base/error.h"

struct mr_cuda_pins {
    void **pieces; /* start of each registered piece */
    uint32_t n;
};

/*
 * Register n_slots x slot_bytes from base for all devices, with the ordinal's context: as a whole,
 * or else in pieces of whole slots. MR_ERR_UNSUPPORTED names the size and place of the smallest
 * piece that was refused. After any failure nothing is registered.
 */
mr_status mr_cuda_pin_slots(struct mr_cuda_pins *pins, int32_t ordinal, void *base,
                            uint64_t slot_bytes, uint32_t n_slots, mr_error *error);
/* Each piece is tried once. */
void mr_cuda_pin_undo(struct mr_cuda_pins *pins, int32_t ordinal);

#endif
