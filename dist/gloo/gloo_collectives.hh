/* SPDX-License-Identifier: Apache-2.0 */
/* The engine, and its collectives. */
#ifndef DIST_GLOO_GLOO_COLLECTIVES_HH
#define DIST_GLOO_GLOO_COLLECTIVES_HH

#include "dist/group/engine_table.h"
#include "dist/gloo/gloo_exchange.hh"
#include "dist/gloo/gloo_mesh.hh"
#include "dist/gloo/gloo_reduce.hh"
#include "dist/gloo/gloo_watch.hh"

#include <chrono>
#include <memory>

/* One engine; a group has one. */
struct mr_gloo_engine {
    uint32_t rank;
    uint32_t world_size;
    decltype(mr_engine_setup::fail) fail;
    mr_gloo_mesh mesh; /* empty in a world of one */
    std::unique_ptr<mr_gloo_exchange> exchange;
    /*
     * Counts the collectives that all ranks take part in. Sends and receives do not count: two
     * ranks match them by their order.
     */
    uint32_t tag = 0;
    bool closed = false;
    mr_gloo_watch watch;
};

/* One collective whose arguments are checked, and what is needed to run it. */
struct mr_gloo_job {
    mr_gloo_engine &e;
    const struct mr_collective &c;
    size_t size;    /* of an element */
    size_t n_bytes; /* count * size */
    mr_gloo_reduce_function reduce;
    std::chrono::milliseconds timeout;
};

/* Is c a reduction, so that c.op is used? */
bool mr_gloo_collectives_is_reduction(const struct mr_collective &c);

/* Run one collective; world_size is at least 2. Throws mr_gloo_failure and gloo's exceptions. */
void mr_gloo_collectives_do(mr_gloo_job &j);

#endif
