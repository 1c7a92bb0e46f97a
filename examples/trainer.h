/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the training examples share apart from the loop itself: how a run is started, recorded,
 * continued and reported.
 */
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
    mr_loader *test; /* NULL where --eval rank0 leaves it to rank 0 */
    struct train_model model;
    void *numbers; /* weights and velocities on the host, for checkpoints */
    struct checkpoint state;
    int stop_signal; /* SIGTERM or SIGUSR1 that some rank has received; 0: none yet */
    bool terminal;   /* rank 0 has a terminal for the progress line */
    bool reported;   /* what the devices hold has been printed */
};

/*
 * Print a message and end the program, trainer_check() only if status is a failure. The group tells
 * the other ranks.
 */
void trainer_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void trainer_check(mr_status status, const mr_error *error);

/* Choose the devices and join the group. */
void trainer_join(struct trainer *t);
/* The network, with n_classes classes. */
void trainer_open(struct trainer *t, uint32_t n_classes);
/*
 * Forward and loss of one batch, and trainer_count(). Ends the program if the batch does not fit.
 */
void trainer_forward(struct trainer *t, mr_batch *batch, const char *loss, const char *accuracy);
/*
 * Add the last batch's loss and correct answers to the metrics; on GPUs over nccl this does not
 * wait for them.
 */
void trainer_count(struct trainer *t, const mr_batch *batch, const char *loss,
                   const char *accuracy);
/*
 * Has any rank received a signal? Asked only every few steps on GPUs, because the answer waits for
 * the GPU.
 */
void trainer_agree(struct trainer *t, uint64_t step);
/*
 * Load weights and the state of a resumed run. Rank 0 reads and broadcasts, so no other machine
 * needs the file.
 */
void trainer_share(struct trainer *t);
/* Write a checkpoint to --out, if given; rank 0 only. */
void trainer_save(struct trainer *t, const char *name);
/* Print the results of the epoch that has ended, on rank 0; log.tsv gets them with all digits. */
void trainer_report(const struct trainer *t);
/* One line that is overwritten, where rank 0 has a terminal. */
void trainer_progress(const struct trainer *t, const char *what, const mr_batch *batch,
                      const mr_loader *loader);
/*
 * The learning rate of a step, counted from the run's start: linear warm-up over the first tenth of
 * all, then half a cosine to zero.
 */
double trainer_rate(const struct trainer *t, uint64_t step);
void trainer_fini(struct trainer *t);

#endif
