/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the built `millrace` in tests, in a temporary folder of the test's own. An error here ends
 * the program.
 */
#ifndef TESTS_TOOLS_RUN_COMMAND_H
#define TESTS_TOOLS_RUN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_run {
    int status; /* exit status, or 128 + signal */
    char *out;  /* stdout, with a NUL after it */
    size_t out_len;
    char *err; /* stderr */
};

/*
 * Run with these arguments, NULL-terminated, and wait for the end. If run was used before, it is
 * freed first.
 */
void mr_run_command(struct mr_run *run, ...) __attribute__((sentinel));
/* As above with stdout to a file; after the milliseconds a signal is sent (0: none). */
void mr_run_command_signal(struct mr_run *run, const char *stdout_path, int signal_number,
                           unsigned after_ms, const char *const *args);
/* The same, but the signal is sent when that file exists, or after a minute. */
void mr_run_command_signal_at(struct mr_run *run, const char *stdout_path, int signal_number,
                              const char *path, const char *const *args);
/* As above with SIGINT, if interrupt_ms is not 0. */
void mr_run_command_to(struct mr_run *run, const char *stdout_path, unsigned interrupt_ms,
                       const char *const *args);
void mr_run_free(struct mr_run *run);

/*
 * Make a new folder and change to it; remove it. For cmocka's group fixtures.
 */
int mr_run_enter_folder(void **state);
int mr_run_leave_folder(void **state);

/*
 * An image folder NAME in the working directory: n_classes folders "class_0", "class_1", ... of
 * n_images JPEGs each, "0.jpg" and so on, of different sizes from 40 x 30 pixels.
 */
void mr_run_make_images(const char *name, unsigned n_classes, unsigned n_images);
void mr_run_write_file(const char *path, const void *bytes, size_t len);
/* The whole file with a NUL after it. */
char *mr_run_read_file(const char *path, size_t *len_out);
bool mr_run_exists(const char *path);
/* Entries of the working directory whose names contain part. */
unsigned mr_run_count_entries(const char *part);
/* Fail unless both files hold the same bytes. */
void mr_run_assert_same_files(const char *a, const char *b);

#endif
