/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places the slab and the workers near the GPU on a machine of several NUMA nodes. Nothing here
 * fails: if the kernel refuses or does not know, nothing changes. Also writes the warning about too
 * few CPUs.
 *
 * nodes  is the folder with the list of nodes; NULL for the kernel's. Tests pass their own.
 */
#ifndef LOADER_NUMA_H
#define LOADER_NUMA_H

#include <sched.h>

#include "loader/control.h"

/* The number of nodes that are online; 1 if the kernel does not say. */
uint32_t mr_numa_n_nodes(const char *nodes);

/* The CPUs of a node. False, and an empty set, if there is no such node or it has no CPUs. */
bool mr_numa_node_cpus(const char *nodes, int32_t node, cpu_set_t *cpus_out);

/*
 * Pages of the slab that are touched from now on come from the node while it has free ones. This
 * holds for every process that maps the slab.
 */
void mr_numa_prefer_memory(const char *nodes, const struct mr_slab *slab, int32_t node);

/*
 * Bind workers to the node's CPUs that this process may use, at most one worker per CPU; the others
 * run anywhere. Workers that already have an affinity keep it. Called at most once, at any time:
 * workers that run already move before their next sample.
 */
void mr_numa_place_workers(const char *nodes, const struct mr_shared *shared, int32_t node);

/*
 * Parse a list such as "0-3,8,10-11". "" and a newline at the end are accepted. False if it is
 * malformed.
 */
bool mr_numa_parse_cpus(const char *text, cpu_set_t *cpus_out);

enum { MR_NUMA_TEXT = 640 };

/* Write such a list. If it does not fit, it ends in "...". */
void mr_numa_describe_cpus(const cpu_set_t *cpus, char *text_out, size_t size);

/*
 * Write the warning for n_workers on the CPUs of this mask, with the remedy. If the mask leaves out
 * CPUs that are online, the launcher has set it; otherwise the machine has no more CPUs.
 */
void mr_numa_describe_mask(uint32_t n_workers, const cpu_set_t *mask, const cpu_set_t *online,
                           char text_out[MR_NUMA_TEXT]);

/*
 * The CPUs of this process, and those of the machine that are online. False if the kernel does not
 * say.
 */
bool mr_numa_get_masks(cpu_set_t *mask_out, cpu_set_t *online_out);

#endif
