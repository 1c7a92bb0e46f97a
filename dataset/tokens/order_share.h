/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An order that one process of a machine has computed is used by the others: the ranks of a node
 * share one region. Nothing is written to a disk and nothing is left behind: a sealed memfd is
 * found by its name among the descriptors of this user's processes.
 */
#ifndef DATASET_TOKENS_ORDER_SHARE_H
#define DATASET_TOKENS_ORDER_SHARE_H

/*
 * Find the region with this name. If another process is making it, wait for that. *region_out is
 * its descriptor, which the caller closes; or -1: the caller makes the region, in a memfd of this
 * name, seals it, and then closes *lock_out. *lock_out may be -1: others do not wait for it.
 * Blocks: at most a minute.
 */
void mr_order_share_take(const char *name, int *region_out, int *lock_out);

#endif
