/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the training examples: starting a run, logging, checkpoints, signals. */
#ifndef EXAMPLES_TRAINER_H
#define EXAMPLES_TRAINER_H

#include <millrace/dist.h>
#include <millrace/millrace.h>

#include "checkpoint.h"
#include "train_options.h"

struct trainer {
    struct train_options options;
    mr_group *group;
    mr_metrics *metrics;
    mr_dataset *train_data, *test_data;
    mr_loader *train;
    mr_loader *test; /* NULL: another rank tests (--eval rank0) */
    struct train_model model;
    void *numbers; /* weights and velocities on the host, for checkpoints */
    struct checkpoint state;
    int stop_signal; /* SIGTERM or SIGUSR1 that any rank has received; 0: none yet */
    bool terminal;   /* rank 0 has a terminal for the progress line */
    bool reported;   /* the devices' memory has been printed */
};

/*
 * Print a message and end the program. trainer_check() does so only if status is a failure. The
 * group reports the end to the other ranks.
 */
void trainer_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void trainer_check(mr_status status, const mr_error *error);

/* Choose the devices and join the group. */
void trainer_join(struct trainer *t);
/* Create the network. */
void trainer_open(struct trainer *t, uint32_t n_classes);
/*
 * Forward pass and loss of one batch, then trainer_count(). Ends the program if the batch does not
 * fit.
 */
void trainer_forward(struct trainer *t, mr_batch *batch, const char *loss, const char *accuracy);
/*
 * Add the last batch's loss and correct answers to the metrics. On GPUs over nccl this does not
 * wait.
 */
void trainer_count(struct trainer *t, const mr_batch *batch, const char *loss,
                   const char *accuracy);
/*
 * Set stop_signal if any rank has received a signal. On GPUs only every few steps, because this
 * waits for the GPU.
 */
void trainer_agree(struct trainer *t, uint64_t step);
/*
 * Load weights and the state of a resumed run. Rank 0 reads and broadcasts, so other machines do
 * not need the file.
 */
void trainer_share(struct trainer *t);
/* Write a checkpoint to --out, if given; rank 0 only. */
void trainer_save(struct trainer *t, const char *name);
/* Print the results of the epoch that has ended, on rank 0; log.tsv gets them with all digits. */
void trainer_report(const struct trainer *t);
/* A progress line that is overwritten, if rank 0 has a terminal. */
void trainer_progress(const struct trainer *t, const char *what, const mr_batch *batch,
                      const mr_loader *loader);
/*
 * The learning rate of a step, counted from the start of the run: a linear warm-up over the first
 * tenth of all steps, then half a cosine to zero.
 */
double trainer_rate(const struct trainer *t, uint64_t step);
void trainer_fini(struct trainer *t);

#endif
