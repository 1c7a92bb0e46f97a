/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the training examples as programs, on pictures made here in CIFAR-10's file format. All
 * weights of the checkpoint are compared, because losses can agree by chance.
 */
#ifndef TESTS_SYSTEM_TRAINING_RIG_H
#define TESTS_SYSTEM_TRAINING_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "examples/checkpoint.h"

enum { TRAINING_MAX_ARGS = 32, TRAINING_ANY = -1 };

/* The arguments of a run, and where its files are. */
struct training_run {
    const char *name;
    uint32_t n_ranks;
    char out[300]; /* the folder for its checkpoints and log.tsv */
    char log[300]; /* the file with what it prints */
    char data_option[320];
    char out_option[320];
    char options[700];
    char *argv[TRAINING_MAX_ARGS]; /* argv[0]: train_cifar10, unless the test says otherwise */
    int argc;
};

/* A line of log.tsv. */
struct training_line {
    long epoch;
    double loss, accuracy, test_loss, test_accuracy, seconds;
};

/* Make pictures of stripes in ten classes, in the folder of the current test. */
const char *training_pictures(int n_train, int n_test);
const char *training_folder(void); /* made if it does not exist */
int training_teardown(void **state);

/* options: separated by single spaces. Ownership: the caller's, for free(). */
struct training_run *training_new(const char *name, uint32_t n_ranks, const char *options);
pid_t training_start(const struct training_run *run);
/* Wait for the run. Returns its exit status. */
int training_finish(pid_t pid);
void training_show(const struct training_run *run);
/* Start the run; it must end with status 0. */
void training_run(const struct training_run *run);
/* Has it printed these words? */
bool training_said(const struct training_run *run, const char *words);

/* The last line of log.tsv, which must have n lines; TRAINING_ANY: any number. */
struct training_line training_last_line(const struct training_run *run, int n);
/* Was last.ckpt written in the middle of an epoch? */
bool training_is_in_epoch(const struct training_run *run);
/*
 * Start, and stop by a signal when the first epoch has ended. True: it stopped in the middle of an
 * epoch.
 */
bool training_stop(const struct training_run *run, int signal_number);
/* The largest difference between the weights, or velocities, of two runs. */
double training_difference(const struct training_run *a, const struct training_run *b);

#endif
