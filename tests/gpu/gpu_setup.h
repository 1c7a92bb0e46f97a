/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every program of tests/gpu/ begins with: its arguments, a dataset of photographs, a folder
 * for its own files, loaders. A failure here ends the program.
 */
#ifndef TESTS_GPU_GPU_SETUP_H
#define TESTS_GPU_GPU_SETUP_H

#include "tests/gpu/gpu_report.h"

#include <millrace/millrace.h>

struct gpu_setup {
    struct gpu_report report;
    const char *device; /* --device; "cuda:0" unless given */
    /* --workers; 0: the loader's default, or all CPUs if a program says so. */
    uint32_t n_workers;
    bool brief; /* --brief: fewer combinations, for slow checkers */
    /* --tiny: like --brief, but with little memory, for the double; figures mean nothing. */
    bool tiny;
    char *folder; /* temporary, removed at the end */
    char *photos; /* SPEC of the photographs: --data, or pictures made in the folder */
};

/* Reads [--device NAME] [--data FOLDER] [--workers N] [--only WORD] [--brief] [--tiny]. */
void gpu_setup_init(struct gpu_setup *setup, int argc, char **argv);
/* Removes the folder; returns the program's exit status. */
int gpu_setup_end(struct gpu_setup *setup);

mr_dataset *gpu_setup_dataset(struct gpu_setup *setup, const char *spec);
/* transform NULL: the default. */
mr_loader *gpu_setup_loader(struct gpu_setup *setup, mr_dataset *dataset, const char *transform,
                            const mr_loader_options *options);

/*
 * Write a list into the folder; returns its SPEC, to be freed. The photographs are repeated `times`
 * times.
 */
char *gpu_setup_list(struct gpu_setup *setup, const char *name, uint32_t times,
                     const char *further_lines);
/* Write n records of n_bytes bytes and an 8-byte label; returns the file's path, to be freed. */
char *gpu_setup_records(struct gpu_setup *setup, const char *name, uint32_t n, uint32_t n_bytes);

/* The text "KIND:N" with another number, to be freed. */
char *gpu_setup_device_name(const struct gpu_setup *setup, uint32_t number);
/* This many images per batch; with --tiny a few. */
uint32_t gpu_setup_batch(const struct gpu_setup *setup, uint32_t n);
bool gpu_setup_on_gpu(const struct gpu_setup *setup);
/* The number of CPUs in this process's mask. */
uint32_t gpu_setup_n_cpus(void);

/* printf into memory, to be freed. */
__attribute__((format(printf, 1, 2))) char *gpu_setup_text(const char *format, ...);

#endif
