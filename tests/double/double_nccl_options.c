/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the communicators of this process, set by a call or by the environment, and counts of
 * calls.
 */
#include "tests/double/double_nccl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_FUNCTIONS = 32, MAX_WORD = 32 };

static struct {
    pthread_mutex_t lock;
    bool known;
    struct double_nccl_options options;
    char fail[MAX_WORD], hang[MAX_WORD]; /* from the environment */
    struct {
        const char *function;
        uint64_t n;
    } tallies[MAX_FUNCTIONS];
    uint32_t calls_of_fail;
    uint32_t n_failed;
} set = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t double_nccl_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* splitmix64 */
uint64_t double_nccl_random(uint64_t *state, uint64_t below)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below > 0 ? (x ^ (x >> 31)) % below : 0;
}

static void wrong_part(const char *part)
{
    (void)fprintf(stderr, "MR_NCCL_DOUBLE: '%s' is not understood\n", part);
    abort();
}

static ncclResult_t parse_result(const char *word, ncclResult_t otherwise)
{
    static const struct {
        const char *word;
        ncclResult_t result;
    } words[] = {{"cuda", ncclUnhandledCudaError}, {"system", ncclSystemError},
                 {"internal", ncclInternalError},  {"argument", ncclInvalidArgument},
                 {"usage", ncclInvalidUsage},      {"remote", ncclRemoteError}};
    if (!word)
        return otherwise;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].result;
    wrong_part(word);
    return otherwise;
}

static uint32_t parse_microseconds(const char *value)
{
    char *unit;
    unsigned long n = strtoul(value, &unit, 10);
    if (strcmp(unit, "ms") == 0)
        return (uint32_t)n * 1000;
    if (strcmp(unit, "us") != 0)
        wrong_part(value);
    return (uint32_t)n;
}

/* Parse "word:n[:error]", which is split in place. */
static void read_nth(char *value, char word_out[MAX_WORD], uint32_t *nth_out,
                     ncclResult_t *result_out)
{
    char *rest = NULL;
    (void)snprintf(word_out, MAX_WORD, "%s", strtok_r(value, ":", &rest));
    const char *nth = strtok_r(NULL, ":", &rest);
    *nth_out = nth ? (uint32_t)strtoul(nth, NULL, 10) : 1;
    if (result_out)
        *result_out = parse_result(strtok_r(NULL, ":", &rest), ncclInternalError);
}

static void read_async(char *value, struct double_nccl_options *o)
{
    char *rest = NULL;
    o->async_after = (uint32_t)strtoul(strtok_r(value, ":", &rest), NULL, 10);
    o->async = parse_result(strtok_r(NULL, ":", &rest), ncclRemoteError);
}

static void read_part(char *part, struct double_nccl_options *o)
{
    char *value = strchr(part, '=');
    if (!value || value[1] == '\0')
        wrong_part(part);
    *value++ = '\0';
    if (strcmp(part, "seed") == 0)
        o->seed = strtoull(value, NULL, 10);
    else if (strcmp(part, "delay") == 0)
        o->delay_us = parse_microseconds(value);
    else if (strcmp(part, "progress") == 0)
        o->progress_us = parse_microseconds(value);
    else if (strcmp(part, "death") == 0)
        o->silent = strcmp(value, "silent") == 0, o->strict = strcmp(value, "strict") == 0;
    else if (strcmp(part, "mismatch") == 0)
        o->crash = strcmp(value, "crash") == 0;
    else if (strcmp(part, "leave") == 0)
        o->together = strcmp(value, "together") == 0;
    else if (strcmp(part, "rank") == 0)
        o->only_rank = (int)strtoul(value, NULL, 10) + 1;
    else if (strcmp(part, "fail") == 0)
        read_nth(value, set.fail, &o->fail_at, &o->fail_with), o->fail = set.fail;
    else if (strcmp(part, "hang") == 0)
        read_nth(value, set.hang, &o->hang_at, NULL), o->hang = set.hang;
    else if (strcmp(part, "async") == 0)
        read_async(value, o);
    else
        wrong_part(part);
}

/* The lock is held. */
static void read_environment(void)
{
    const char *text = getenv("MR_NCCL_DOUBLE");
    char *copy = text ? strdup(text) : NULL;
    char *rest = NULL;
    set.known = true;
    for (char *part = copy ? strtok_r(copy, ",", &rest) : NULL; part;
         part = strtok_r(NULL, ",", &rest))
        read_part(part, &set.options);
    free(copy);
}

struct double_nccl_options double_nccl_options(void)
{
    pthread_mutex_lock(&set.lock);
    if (!set.known)
        read_environment();
    struct double_nccl_options options = set.options;
    pthread_mutex_unlock(&set.lock);
    if (options.fail_with == ncclSuccess)
        options.fail_with = ncclInternalError;
    if (options.async == ncclSuccess)
        options.async = ncclRemoteError;
    return options;
}

void double_nccl_set(const struct double_nccl_options *options)
{
    pthread_mutex_lock(&set.lock);
    set.options = options ? *options : (struct double_nccl_options){0};
    set.known = true;
    memset(set.tallies, 0, sizeof set.tallies);
    set.calls_of_fail = 0;
    set.n_failed = 0;
    pthread_mutex_unlock(&set.lock);
}

/* The lock is held. NULL if the table is full. */
static uint64_t *find_tally(const char *function)
{
    for (uint32_t i = 0; i < MAX_FUNCTIONS; i++) {
        if (set.tallies[i].function && strcmp(set.tallies[i].function, function) != 0)
            continue;
        set.tallies[i].function = function;
        return &set.tallies[i].n;
    }
    return NULL;
}

ncclResult_t double_nccl_call_error(const char *function, int rank)
{
    struct double_nccl_options options = double_nccl_options();
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&set.lock);
    uint64_t *n = find_tally(function);
    if (n)
        ++*n;
    bool here = options.only_rank == 0 || rank + 1 == options.only_rank;
    if (here && options.fail && strcmp(options.fail, function + strlen("nccl")) == 0 &&
        ++set.calls_of_fail == options.fail_at)
        result = options.fail_with;
    set.n_failed += result != ncclSuccess;
    pthread_mutex_unlock(&set.lock);
    return result;
}

void double_nccl_count_failed(void)
{
    pthread_mutex_lock(&set.lock);
    set.n_failed++;
    pthread_mutex_unlock(&set.lock);
}

uint32_t double_nccl_n_failed(void)
{
    pthread_mutex_lock(&set.lock);
    uint32_t n = set.n_failed;
    pthread_mutex_unlock(&set.lock);
    return n;
}

uint64_t double_nccl_calls(const char *function)
{
    pthread_mutex_lock(&set.lock);
    const uint64_t *n = find_tally(function);
    uint64_t calls = n ? *n : 0;
    pthread_mutex_unlock(&set.lock);
    return calls;
}
