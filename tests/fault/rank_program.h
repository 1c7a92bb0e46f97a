/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs under test that are ranks, or start ranks: what they say is kept in memory, and they end
 * with the test. What fails here ends the test program.
 */
#ifndef TESTS_FAULT_RANK_PROGRAM_H
#define TESTS_FAULT_RANK_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mr_rank_program {
    pid_t pid;   /* also of its process group; 0 when it has been waited for */
    int said_fd; /* a file without a name: stdout and stderr */
    int end;     /* exit status, or 128 and the signal */
    uint32_t took_ms;
    uint64_t began_ms;
};

/*
 * The words of an argv, or of an environment ("NAME=value"): up to 31, each shorter than 512 bytes.
 */
struct mr_rank_words {
    uint32_t n;
    char text[31][512];
};

void mr_rank_words_add(struct mr_rank_words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * For main(): what descendants leave behind becomes this program's child, so that it can be
 * counted.
 */
void mr_rank_program_init(void);
/*
 * settings are added to this program's environment, NULL: none. net_fd: a network namespace, or -1.
 */
void mr_rank_program_start(struct mr_rank_program *program, const struct mr_rank_words *argv,
                           const struct mr_rank_words *settings, int net_fd);
/*
 * Until it has ended, or until limit_ms after now: then it is killed and this returns false. What a
 * sanitizer has to say of it ends the test program.
 */
bool mr_rank_program_wait(struct mr_rank_program *program, uint32_t limit_ms);
/* All it has said so far. Ownership: the caller's. */
char *mr_rank_program_said(const struct mr_rank_program *program);
bool mr_rank_program_says(const struct mr_rank_program *program, const char *words);
/* Wait until words are said; false after limit_ms, or when it has ended without. */
bool mr_rank_program_expect(const struct mr_rank_program *program, const char *words,
                            uint32_t limit_ms);
/* Kills what still runs. */
void mr_rank_program_free(struct mr_rank_program *program);

/*
 * Processes below this program that are there after limit_ms, all programs having been waited for:
 * 0 is good. They are killed then.
 */
uint32_t mr_rank_program_leftovers(uint32_t limit_ms);
uint64_t mr_rank_program_now_ms(void);
/* A port of 127.0.0.1 that nobody has now, and that the kernel gives to no connection by itself. */
uint16_t mr_rank_program_port(void);
/* Nobody listens on it. */
bool mr_rank_program_is_free(uint16_t port);

#endif
