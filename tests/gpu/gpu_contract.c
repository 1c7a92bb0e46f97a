/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_contract [--device cuda:0] [--data FOLDER] [--only WORD] [--brief]: a loader on a device does
 * everything that a loader on the host does, with the same bytes. With --device host:0 it runs
 * without a GPU.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_contract.h"

#include <stdlib.h>

mr_loader_options gpu_contract_options(const struct gpu_setup *setup)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = setup->brief ? 16 : 32;
    options.num_workers = setup->n_workers;
    options.seed = 7;
    options.allow_same_epoch = true;
    return options;
}

static void run_all(struct gpu_setup *setup, const struct gpu_case *cases)
{
    for (; cases->name; cases++) {
        if (!gpu_report_begin(&setup->report, cases->name))
            continue;
        cases->run(setup);
        gpu_report_end(&setup->report);
    }
}

int gpu_contract_main(int argc, char **argv)
{
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    run_all(&setup, gpu_bytes_cases);
    run_all(&setup, gpu_life_cases);
    run_all(&setup, gpu_place_cases);
    return gpu_setup_end(&setup);
}
