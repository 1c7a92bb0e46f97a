/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_check PROGRAM [ARGUMENTS]: runs one of the programs of this folder. */
#include "tests/gpu/gpu_check.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } programs[] = {
        {"contract", gpu_contract_main}, {"facts", gpu_facts_main}, {"graph", gpu_graph_main},
        {"h2d", gpu_h2d_main},           {"nccl", gpu_nccl_main},   {"order", gpu_order_main},
        {"register", gpu_register_main}, {"start", gpu_start_main}, {"step", gpu_step_main},
        {"train", gpu_train_main},
    };
    size_t n = sizeof programs / sizeof *programs;
    for (size_t i = 0; argc > 1 && i < n; i++)
        if (strcmp(argv[1], programs[i].name) == 0)
            return programs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "usage: gpu_check PROGRAM [ARGUMENTS]; programs:");
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, " %s", programs[i].name);
    fprintf(stderr, "\n");
    return 2;
}
