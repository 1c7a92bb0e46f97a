/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many CPUs a rank can count on beside the other ranks of its machine.
 *
 * What is shared are the CPUs of the launcher, or fewer where a cgroup limits the time; each rank
 * has its part of them, and no rank more than its own mask. So a rank that its launcher has bound
 * keeps what it was bound to, whether that is its own or a socket's that several ranks share, and
 * ranks that are not bound divide the machine. A rank's parent stands for its launcher: where a
 * script is between them that is bound as the rank is, the rank counts with less, never more.
 */
#ifndef BASE_CPU_SHARE_H
#define BASE_CPU_SHARE_H

#include <stdint.h>

struct mr_cpu_share {
    uint32_t n_own;      /* CPUs that this process may run on */
    uint32_t n_launcher; /* that the ranks share: its launcher's, or those that Slurm gave the
                            job */
    uint32_t n_quota;    /* CPUs' worth of time that the cgroup allows, rounded up; 0: no limit */
    uint32_t n_ranks;    /* of this machine, with this one; 0: unknown, it is alone */
};

/* At least 1. */
uint32_t mr_cpu_share_count(const struct mr_cpu_share *share);

/* Of this process. */
void mr_cpu_share_read(struct mr_cpu_share *share_out);

/*
 * The least cpu.max (version 2) or cpu.cfs_quota_us (version 1) of a process's cgroups and those
 * above them, as CPUs, rounded up; 0: none.
 *
 * cgroup  "/proc/self/cgroup"
 * mount   "/sys/fs/cgroup"
 */
uint32_t mr_cpu_share_quota(const char *cgroup, const char *mount);

/*
 * Ranks of this machine, by the first of LOCAL_WORLD_SIZE (torchrun, millrace launch),
 * OMPI_COMM_WORLD_LOCAL_SIZE (Open MPI), MPI_LOCALNRANKS, PMI_LOCAL_SIZE, PALS_LOCAL_SIZE (MPICH
 * and others), SLURM_STEP_TASKS_PER_NODE (srun) that is a number; of Slurm's list "2(x3),1" the
 * first. 0: none is. The rendezvous reads the same variables, but is strict.
 */
uint32_t mr_cpu_share_ranks(void);

#endif
