/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs under test that are ranks or start ranks. Their output is kept in memory, and they end
 * with the test. A failure here ends the test program.
 */
#ifndef TESTS_FAULT_RANK_PROGRAM_H
#define TESTS_FAULT_RANK_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mr_rank_program {
    pid_t pid;   /* also its process group; 0 once it was waited for */
    int said_fd; /* a file without a name: stdout and stderr */
    int end;     /* exit status, or 128 plus the signal */
    uint32_t took_ms;
    uint64_t began_ms;
};

/*
 * The strings of an argv or of an environment ("NAME=value"): at most 31, each shorter than 512
 * bytes.
 */
struct mr_rank_words {
    uint32_t n;
    char text[31][512];
};

void mr_rank_words_add(struct mr_rank_words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For main(): orphaned descendants become children of this program, so that they can be counted. */
void mr_rank_program_init(void);
/*
 * `settings` are added to this program's environment; NULL: none. net_fd: a network namespace, or
 * -1.
 */
void mr_rank_program_start(struct mr_rank_program *program, const struct mr_rank_words *argv,
                           const struct mr_rank_words *settings, int net_fd);
/*
 * Wait until it has ended, for at most limit_ms; then kill it and return false. A sanitizer's
 * report in its output ends the test program.
 */
bool mr_rank_program_wait(struct mr_rank_program *program, uint32_t limit_ms);
/* All its output so far. Ownership: the caller's. */
char *mr_rank_program_said(const struct mr_rank_program *program);
bool mr_rank_program_says(const struct mr_rank_program *program, const char *words);
/*
 * Wait until the words are in its output. False after limit_ms, or when it has ended without them.
 */
bool mr_rank_program_expect(const struct mr_rank_program *program, const char *words,
                            uint32_t limit_ms);
/* Kills the program if it still runs. */
void mr_rank_program_free(struct mr_rank_program *program);

/*
 * The number of descendants that are left after limit_ms, once all programs were waited for; 0 is
 * good. They are killed.
 */
uint32_t mr_rank_program_leftovers(uint32_t limit_ms);
uint64_t mr_rank_program_now_ms(void);
/* A port of 127.0.0.1 that is unused, and that the kernel does not assign to connections. */
uint16_t mr_rank_program_port(void);
/* Is the port unused? */
bool mr_rank_program_is_free(uint16_t port);

#endif
