/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader's trace in Chrome's trace event format: a row per worker and device, one for the copier,
 * one for the consumer. A thread of the host empties the rings into the file every 10 ms.
 *
 * Everything here accepts a trace of NULL, which is a loader without one.
 */
#ifndef LOADER_TRACE_H
#define LOADER_TRACE_H

#include "base/error.h"
#include "loader/trace_ring.h"

struct mr_trace;

/*
 * Rows of the host. Each is one producer's: the consumer's under the host's lock, the others the
 * copying thread's.
 */
enum { MR_TRACE_CONSUMER, MR_TRACE_COPIER, MR_TRACE_DEVICE /* and the devices after it */ };

/*
 * Make the file, if one is asked for.
 *
 * path  of the options; NULL: the environment's MR_TRACE; "": none.
 * Returns MR_OK, with *trace_out NULL when there is to be none; MR_ERR_IO when path cannot be made,
 * where the environment's only warns; MR_ERR_NO_MEMORY.
 */
mr_status mr_trace_create(const char *path, struct mr_trace **trace_out, mr_error *error);

struct mr_trace_rows {
    struct mr_trace_ring *workers; /* zeros at first; they must outlive the trace */
    uint32_t n_workers;
    const char *const *devices; /* names of those that batches are copied to, "cuda:0" */
    uint32_t n_devices;         /* 0: no copier */
};

/* Begin to write. Returns MR_OK, MR_ERR_NO_MEMORY, MR_ERR_WORKER. */
mr_status mr_trace_start(struct mr_trace *trace, const struct mr_trace_rows *rows, mr_error *error);

/* The ring of a row of the host, for mr_trace_ring_put(); NULL without a trace or such a row. */
struct mr_trace_ring *mr_trace_row(const struct mr_trace *trace, uint32_t row);

/* The file that is written; NULL without a trace. Valid until the trace is destroyed. */
const char *mr_trace_path(const struct mr_trace *trace);

/* Write what the rings still hold and close the file. Nobody may put any more. */
void mr_trace_destroy(struct mr_trace *trace);

#endif
