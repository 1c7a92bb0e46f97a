/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places the slab and the workers near the GPU on a machine of several NUMA nodes. Nothing here can
 * fail: if the kernel refuses or does not know, all stays as it is. Also the warning about too few
 * CPUs.
 *
 * nodes  is the folder that says which nodes there are; NULL for the kernel's own. Tests have one
 *        of theirs.
 */
#ifndef LOADER_NUMA_H
#define LOADER_NUMA_H

#include <sched.h>

#include "loader/control.h"

/* Nodes that are online; 1 where the kernel does not say. */
uint32_t mr_numa_n_nodes(const char *nodes);

/* The CPUs of a node. False, and an empty set, when there is no such node or it has none. */
bool mr_numa_node_cpus(const char *nodes, int32_t node, cpu_set_t *cpus_out);

/*
 * Pages of this memory that are touched from now on come from the node while it has some. For all
 * who map the slab.
 */
void mr_numa_prefer_memory(const char *nodes, const struct mr_slab *slab, int32_t node);

/*
 * As many workers as the node has CPUs that this process may use go to those CPUs, any further ones
 * run where they like. Workers with an affinity of their own stay. Once, at any time: workers that
 * run already move before their next sample.
 */
void mr_numa_place_workers(const char *nodes, const struct mr_shared *shared, int32_t node);

/* Read "0-3,8,10-11" (also "" and a newline at the end). False when it is no such list. */
bool mr_numa_parse_cpus(const char *text, cpu_set_t *cpus_out);

enum { MR_NUMA_TEXT = 640 };

/* Write the same; what does not fit ends in "...". */
void mr_numa_describe_cpus(const cpu_set_t *cpus, char *text_out, size_t size);

/*
 * What to say to n_workers on the CPUs of this mask, with the cure: when the mask leaves out CPUs
 * that are online it is the launcher's, otherwise the machine has no more.
 */
void mr_numa_describe_mask(uint32_t n_workers, const cpu_set_t *mask, const cpu_set_t *online,
                           char text_out[MR_NUMA_TEXT]);

/*
 * The CPUs of this process, and those of the machine that are online. False when the kernel does
 * not say.
 */
bool mr_numa_get_masks(cpu_set_t *mask_out, cpu_set_t *online_out);

#endif
