/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locks the slots. Some machines refuse one registration of many gigabytes but accept it in
 * pieces.
 *
 * Invariant: a copy across two registrations fails, so every piece ends where a slot ends.
 */
#include "pinned/cuda_pin.h"

#include "pinned/cuda_call.h"

#include <stdlib.h>

struct pin_job {
    struct mr_cuda_pins *pins;
    int32_t ordinal;
    uint8_t *base;
    uint64_t slot_bytes;
    uint32_t n_slots;
    mr_error *error;
};

/* True if the failure is about this memory, not about a device or system that has failed. */
static bool is_refusal(const struct mr_cuda_call *call)
{
    return !call->failed &&
           (call->code == cudaErrorMemoryAllocation || call->code == cudaErrorInvalidValue ||
            call->code == cudaErrorOperatingSystem || call->code == cudaErrorNotPermitted ||
            call->code == cudaErrorNotSupported ||
            call->code == cudaErrorHostMemoryAlreadyRegistered);
}

static mr_status pin_piece(const struct pin_job *job, uint32_t first, uint32_t n, bool *refused_out)
{
    uint64_t off = first * job->slot_bytes;
    uint64_t len = n * job->slot_bytes;
    struct mr_cuda_call call = mr_cuda_call_begin(job->ordinal);
    if (call.code == cudaSuccess)
        call.code = cudaHostRegister(job->base + off, len, cudaHostRegisterPortable);
    if (call.code == cudaSuccess)
        job->pins->pieces[job->pins->n++] = job->base + off;
    *refused_out = is_refusal(&call);
    mr_status status = mr_cuda_call_end(
        &call, job->ordinal, job->error,
        "cudaHostRegister of %llu bytes at %llu of the slots' %llu bytes", (unsigned long long)len,
        (unsigned long long)off, (unsigned long long)(job->n_slots * job->slot_bytes));
    if (!*refused_out)
        return status;
    if (job->error)
        job->error->status = MR_ERR_UNSUPPORTED;
    return MR_ERR_UNSUPPORTED;
}

/*
 * At most log2(n_slots) deep. The left half goes first: if single slots are refused, it ends after
 * that many calls.
 */
static mr_status pin_range(const struct pin_job *job, uint32_t first, uint32_t n)
{
    bool refused;
    mr_status status = pin_piece(job, first, n, &refused);
    if (status == MR_OK || n == 1 || !refused)
        return status;
    status = pin_range(job, first, n / 2);
    return status == MR_OK ? pin_range(job, first + n / 2, n - n / 2) : status;
}

mr_status mr_cuda_pin_slots(struct mr_cuda_pins *pins, int32_t ordinal, void *base,
                            uint64_t slot_bytes, uint32_t n_slots, mr_error *error)
{
    pins->n = 0;
    pins->pieces = calloc(n_slots, sizeof *pins->pieces);
    if (!pins->pieces)
        return mr_error_memory(error, n_slots * sizeof *pins->pieces);
    struct pin_job job = {.pins = pins,
                          .ordinal = ordinal,
                          .base = base,
                          .slot_bytes = slot_bytes,
                          .n_slots = n_slots,
                          .error = error};
    mr_status status = pin_range(&job, 0, n_slots);
    if (status != MR_OK)
        mr_cuda_pin_undo(pins, ordinal);
    return status;
}

void mr_cuda_pin_undo(struct mr_cuda_pins *pins, int32_t ordinal)
{
    for (uint32_t i = 0; i < pins->n; i++) {
        struct mr_cuda_call call = mr_cuda_call_begin(ordinal);
        call.code = cudaHostUnregister(pins->pieces[i]);
        (void)mr_cuda_call_end(&call, ordinal, NULL, "cudaHostUnregister");
    }
    free(pins->pieces);
    *pins = (struct mr_cuda_pins){0};
}
