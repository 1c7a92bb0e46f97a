/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's part of the CPUs that the ranks of its machine share.
 *
 * The ranks share the CPUs of their launcher, or fewer if a cgroup limits the time. Each rank has
 * an equal part of them, but no more than its own mask. So a rank that its launcher has bound uses
 * the CPUs of its mask, even if other ranks have the same mask. Ranks that are not bound divide the
 * machine. The launcher is assumed to be the rank's parent. If a script between them already has
 * the rank's mask, the result is too small, never too large.
 */
#ifndef BASE_CPU_SHARE_H
#define BASE_CPU_SHARE_H

#include <stdint.h>

struct mr_cpu_share {
    uint32_t n_own;      /* CPUs that this process may run on */
    uint32_t n_launcher; /* CPUs that the ranks share: the launcher's, or those that Slurm gave the
                            job */
    uint32_t n_quota;    /* CPUs' worth of time that the cgroup allows, rounded up; 0: no limit */
    uint32_t n_ranks;    /* ranks of this machine, with this one; 0: unknown, counts as 1 */
};

/* The rank's part, at least 1. */
uint32_t mr_cpu_share_count(const struct mr_cpu_share *share);

/* Read the numbers for this process. */
void mr_cpu_share_read(struct mr_cpu_share *share_out);

/*
 * The smallest cpu.max (version 2) or cpu.cfs_quota_us (version 1) of a process's cgroups and of
 * the cgroups above them, in CPUs, rounded up; 0: no limit.
 *
 * cgroup  "/proc/self/cgroup"
 * mount   "/sys/fs/cgroup"
 */
uint32_t mr_cpu_share_quota(const char *cgroup, const char *mount);

/*
 * Number of ranks of this machine, from the first variable that is a number: LOCAL_WORLD_SIZE
 * (torchrun, millrace launch), OMPI_COMM_WORLD_LOCAL_SIZE (Open MPI), MPI_LOCALNRANKS,
 * PMI_LOCAL_SIZE, PALS_LOCAL_SIZE (MPICH and others), SLURM_STEP_TASKS_PER_NODE (srun). Of Slurm's
 * list "2(x3),1" the first number counts. 0: no variable is a number. The rendezvous reads the same
 * variables, but refuses values that are not numbers.
 */
uint32_t mr_cpu_share_ranks(void);

#endif
