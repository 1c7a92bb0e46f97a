/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs in gpu_check: one file for all, so that the library and its kernels are copied once.
 * Each program takes its own arguments, with its name in argv[0], and returns the exit status. The
 * file of the same name says what it does.
 */
#ifndef TESTS_GPU_GPU_CHECK_H
#define TESTS_GPU_GPU_CHECK_H

int gpu_contract_main(int argc, char **argv);
int gpu_facts_main(int argc, char **argv);
int gpu_graph_main(int argc, char **argv);
int gpu_h2d_main(int argc, char **argv);
int gpu_nccl_main(int argc, char **argv);
int gpu_order_main(int argc, char **argv);
int gpu_register_main(int argc, char **argv);
int gpu_start_main(int argc, char **argv);
int gpu_step_main(int argc, char **argv);
int gpu_train_main(int argc, char **argv);

#endif
