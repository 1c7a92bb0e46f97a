/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of gpu_contract, by file. */
#ifndef TESTS_GPU_GPU_CONTRACT_H
#define TESTS_GPU_GPU_CONTRACT_H

#include "tests/gpu/gpu_lockstep.h"

struct gpu_case {
    const char *name;
    void (*run)(struct gpu_setup *setup);
};

/* End with a name of NULL. */
extern const struct gpu_case gpu_bytes_cases[];
extern const struct gpu_case gpu_life_cases[];
extern const struct gpu_case gpu_place_cases[];

/* Batches of 32 (brief: 16), seed 7, labels and all on setup's device. */
mr_loader_options gpu_contract_options(const struct gpu_setup *setup);

#endif
