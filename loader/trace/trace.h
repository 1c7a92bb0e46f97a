/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader's trace in Chrome's trace event format: one row per worker and per device, one for the
 * copier, one for the consumer. A thread of the host writes the rings to the file every 10 ms.
 *
 * Every function here accepts a trace of NULL: a loader without a trace.
 */
#ifndef LOADER_TRACE_H
#define LOADER_TRACE_H

#include "base/error.h"
#include "loader/trace/trace_ring.h"

struct mr_trace;

/*
 * Rows of the host. Each has one producer: the consumer's under the host's lock, the others the
 * copying thread.
 */
enum { MR_TRACE_CONSUMER, MR_TRACE_COPIER, MR_TRACE_DEVICE /* and the other devices after it */ };

/*
 * Make the file, if a trace is requested.
 *
 * path  from the options; NULL: the environment's MR_TRACE; "": no trace.
 * Returns MR_OK, with *trace_out NULL if there is no trace; MR_ERR_IO if path cannot be made (for
 * MR_TRACE that is a warning and MR_OK); MR_ERR_NO_MEMORY.
 */
mr_status mr_trace_create(const char *path, struct mr_trace **trace_out, mr_error *error);

struct mr_trace_rows {
    struct mr_trace_ring *workers; /* zeros at first; they must outlive the trace */
    uint32_t n_workers;
    /* names of the devices that batches are copied to, such as "cuda:0" */
    const char *const *devices;
    uint32_t n_devices; /* 0: no copier */
};

/* Begin to write. Returns MR_OK, MR_ERR_NO_MEMORY, MR_ERR_WORKER. */
mr_status mr_trace_start(struct mr_trace *trace, const struct mr_trace_rows *rows, mr_error *error);

/*
 * The ring of a row of the host, for mr_trace_ring_put(). NULL without a trace or without this row.
 */
struct mr_trace_ring *mr_trace_row(const struct mr_trace *trace, uint32_t row);

/* The path of the file; NULL without a trace. Valid until the trace is destroyed. */
const char *mr_trace_path(const struct mr_trace *trace);

/* Write what is left in the rings and close the file. No thread puts spans any more. */
void mr_trace_destroy(struct mr_trace *trace);

#endif
