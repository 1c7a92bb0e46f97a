/* SPDX-License-Identifier: Apache-2.0 */
/* Printing, sections, seeds, time and comparisons of a training loop. */
#include "tests/dist/group/group_double.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"

#include <millrace/run.h>

/* Stdout becomes a socket that keeps the writes apart, so that each recv() is one write(). */
struct capture {
    int stdout_before;
    int reader;
};

static struct capture capture_begin(void)
{
    int sockets[2];
    fflush(stdout);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    struct capture capture = {.stdout_before = dup(STDOUT_FILENO), .reader = sockets[0]};
    assert_true(capture.stdout_before >= 0 && dup2(sockets[1], STDOUT_FILENO) >= 0);
    close(sockets[1]);
    return capture;
}

static void capture_end(const struct capture *capture)
{
    fflush(stdout);
    assert_true(dup2(capture->stdout_before, STDOUT_FILENO) >= 0);
    close(capture->stdout_before);
}

/* The next write; "" after the last. */
static const char *next_write(const struct capture *capture)
{
    static char text[20000];
    ssize_t n = recv(capture->reader, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void each_call_is_one_write_with_the_rank_before_each_line(void **state)
{
    (void)state;
    struct capture capture = capture_begin();
    mr_group_print_rank(NULL, "epoch %d: loss %.2f\nnext\n", 3, 0.25);
    mr_group_print_rank(NULL, "no newline");
    mr_group_print_rank(NULL, "\n\nafter %s", "two");
    mr_group_print_rank(NULL, "%s", "");
    mr_group_print0(NULL, "plain %s\nlines\n", "text");
    mr_group_print0(NULL, "%s", "");
    capture_end(&capture);
    assert_string_equal(next_write(&capture), "[0] epoch 3: loss 0.25\n[0] next\n");
    assert_string_equal(next_write(&capture), "[0] no newline");
    assert_string_equal(next_write(&capture), "[0] \n[0] \n[0] after two");
    assert_string_equal(next_write(&capture), "plain text\nlines\n");
    assert_string_equal(next_write(&capture), "");
    close(capture.reader);
}

static void buffered_stdio_output_comes_first(void **state)
{
    (void)state;
    struct capture capture = capture_begin();
    printf("by printf, ");
    mr_group_print0(NULL, "by print0\n");
    capture_end(&capture);
    assert_string_equal(next_write(&capture), "by printf, ");
    assert_string_equal(next_write(&capture), "by print0\n");
    close(capture.reader);
}

static void long_lines_are_whole(void **state)
{
    (void)state;
    enum { LEN = 9000 };
    static char line[LEN + 1];
    memset(line, 'x', LEN);
    struct capture capture = capture_begin();
    mr_group_print_rank(NULL, "%s\n", line);
    capture_end(&capture);
    const char *text = next_write(&capture);
    assert_int_equal(strlen(text), LEN + strlen("[0] \n"));
    assert_string_equal(text + 4 + LEN, "\n");
    close(capture.reader);
}

static void print_twice(mr_group *group, void *arg)
{
    (void)arg;
    mr_group_print0(group, "once\n");
    mr_group_print_rank(group, "rank %u of %u\n", mr_group_rank(group), mr_group_world_size(group));
}

static void rank_0_prints_once_and_ranks_print_each(void **state)
{
    (void)state;
    struct capture capture = capture_begin();
    struct group_double_run run = {.n_ranks = 4};
    group_double_run(&run, print_twice, NULL);
    capture_end(&capture);
    unsigned seen = 0, n_once = 0;
    for (const char *text; *(text = next_write(&capture));) {
        unsigned prefix, rank;
        if (strcmp(text, "once\n") == 0)
            n_once++;
        else if (sscanf(text, "[%u] rank %u of 4\n", &prefix, &rank) == 2 && prefix == rank &&
                 rank < 4)
            seen |= 1u << rank;
        else
            fail_msg("'%s' was written", text);
    }
    assert_int_equal(n_once, 1);
    assert_int_equal(seen, 15);
    close(capture.reader);
}

struct sections {
    _Atomic unsigned n_first[2]; /* ranks that left the section first, per machine */
    _Atomic unsigned n_later;
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void run_section(mr_group *group, void *arg)
{
    struct sections *sections = arg;
    RANK_CHECK(group, mr_group_rank0_first_begin(group) == MR_OK);
    if (mr_group_rank(group) == 0) {
        nap();
        RANK_CHECK(group, sections->n_later == 0);
        sections->n_first[0]++;
    } else {
        RANK_CHECK(group, sections->n_first[0] == 1);
        sections->n_later++;
    }
    RANK_CHECK(group, mr_group_rank0_first_end(group) == MR_OK);
}

static void run_local_section(mr_group *group, void *arg)
{
    struct sections *sections = arg;
    uint32_t node = mr_group_rank(group) / 3;
    RANK_CHECK(group, mr_group_local_rank0_first_begin(group) == MR_OK);
    if (mr_group_local_rank(group) == 0) {
        nap();
        sections->n_first[node]++;
    } else {
        RANK_CHECK(group, sections->n_first[node] == 1);
        sections->n_later++;
    }
    RANK_CHECK(group, mr_group_local_rank0_first_end(group) == MR_OK);
}

static void rank_0_goes_first(void **state)
{
    (void)state;
    struct sections sections = {0};
    group_double_run_well(4, run_section, &sections);
    assert_int_equal(sections.n_later, 3);
}

static void rank_0_of_each_machine_goes_first(void **state)
{
    (void)state;
    struct sections sections = {0};
    struct group_double_run run = {.n_ranks = 6, .n_nodes = 2};
    group_double_run(&run, run_local_section, &sections);
    assert_int_equal(run.n_failures, 0);
    assert_false(run.differs_by_op);
    assert_int_equal(sections.n_first[0], 1);
    assert_int_equal(sections.n_first[1], 1);
    assert_int_equal(sections.n_later, 4);
}

static void fail_in_section(mr_group *group, void *arg)
{
    (void)arg;
    mr_status begin = mr_group_rank0_first_begin(group), end = mr_group_rank0_first_end(group);
    bool first = mr_group_rank(group) == 0;
    RANK_CHECK(group, (first ? end : begin) == MR_ERR_PEER && (first ? begin : end) == MR_OK);
}

static void sections_of_one_rank_need_no_group_and_failures_are_reported(void **state)
{
    (void)state;
    assert_int_equal(mr_group_rank0_first_begin(NULL), MR_OK);
    assert_int_equal(mr_group_rank0_first_end(NULL), MR_OK);
    assert_int_equal(mr_group_local_rank0_first_begin(NULL), MR_OK);
    assert_int_equal(mr_group_local_rank0_first_end(NULL), MR_OK);
    struct group_double_run run = {.n_ranks = 3, .fails_at = 1};
    group_double_run(&run, fail_in_section, NULL);
    assert_int_equal(run.n_failures, 0);
}

/*
 * Values from another Philox4x64-10 program. They must never change, or runs could not be repeated.
 */
static void seeds_never_change(void **state)
{
    (void)state;
    assert_true(mr_seed(0, "") == UINT64_C(0x16554d9eca36314c)); /* Random123's answer to zeros */
    assert_true(mr_seed(0, NULL) == mr_seed(0, ""));
    assert_true(mr_seed(0, "sampler") == UINT64_C(0xeb915d626e1f6d4c));
    assert_true(mr_seed(1, "sampler") == UINT64_C(0x9aaa8eeb95492e4c));
    assert_true(mr_seed(42, "init") == UINT64_C(0xe0c4e5206a9f26fa));
    assert_true(mr_group_seed(NULL, 42, "init") == UINT64_C(0x3f0c18888ee6fcdc));
    assert_true(mr_seed(UINT64_MAX, "a purpose of exactly 32 bytes...") ==
                UINT64_C(0xa7a6ea07b29b6e45));
    assert_true(mr_seed(42, "a purpose that is longer than one block of 32") ==
                UINT64_C(0x49c561f4c9da6fae));
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void seeds_of_seeds_and_purposes_are_distinct(void **state)
{
    (void)state;
    static const char *const purposes[] = {"",     "sampler", "sample", "samplers",
                                           "init", "dropout", "a",      "b"};
    enum { N_PURPOSES = sizeof purposes / sizeof *purposes, N_SEEDS = 1000 };
    static uint64_t seeds[N_PURPOSES * N_SEEDS];
    size_t n = 0;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++)
        for (int p = 0; p < N_PURPOSES; p++)
            seeds[n++] = mr_seed(seed, purposes[p]);
    qsort(seeds, n, sizeof *seeds, compare_u64);
    for (size_t i = 1; i < n; i++)
        assert_true(seeds[i] != seeds[i - 1]);
}

static void take_seed(mr_group *group, void *arg)
{
    uint64_t *seeds = arg;
    seeds[mr_group_rank(group)] = mr_group_seed(group, 42, "init");
}

static void each_rank_has_a_different_seed(void **state)
{
    (void)state;
    uint64_t seeds[5];
    group_double_run_well(4, take_seed, seeds);
    assert_true(seeds[3] == UINT64_C(0x35c8a3b58a8cb8a0));
    assert_true(seeds[0] == mr_group_seed(NULL, 42, "init"));
    seeds[4] = mr_seed(42, "init");
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            assert_true(seeds[i] != seeds[j]);
}

static void a_digest_does_not_depend_on_its_pieces(void **state)
{
    (void)state;
    unsigned char bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    struct mr_digest whole, pieces;
    for (size_t len = 0; len <= sizeof bytes; len++) {
        for (size_t piece = 1; piece < 40; piece += 6) {
            mr_digest_init(&whole, 1);
            mr_digest_init(&pieces, 1);
            mr_digest_add(&whole, bytes, len);
            for (size_t at = 0; at < len; at += piece)
                mr_digest_add(&pieces, bytes + at, len - at < piece ? len - at : piece);
            assert_true(mr_digest_end(&whole, 9) == mr_digest_end(&pieces, 9));
        }
    }
}

static void a_digest_sees_each_byte_and_the_length(void **state)
{
    (void)state;
    unsigned char bytes[70] = {0};
    uint64_t seen[80];
    size_t n = 0;
    struct mr_digest digest;
    for (size_t len = 0; len < sizeof bytes; len++) { /* zeros only */
        mr_digest_init(&digest, 0);
        mr_digest_add(&digest, bytes, len);
        seen[n++] = mr_digest_end(&digest, 0);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        mr_digest_init(&digest, 0);
        mr_digest_add(&digest, bytes, sizeof bytes - 1);
        assert_true((mr_digest_end(&digest, 0) != seen[n - 1]) == (i < sizeof bytes - 1));
        bytes[i] = 0;
    }
}

static int print_elapsed(double least, double most)
{
    double elapsed = mr_elapsed();
    if (elapsed >= least && elapsed <= most)
        return 0;
    fprintf(stderr, "elapsed is %.3f, not %.3f to %.3f\n", elapsed, least, most);
    return 1;
}

static void time_runs_from_the_start_of_each_process(void **state)
{
    (void)state;
    double before = mr_elapsed();
    assert_true(before >= 0 && before < 60);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    double after = mr_elapsed();
    assert_true(after - before >= 0.3 && after - before < 20);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        /* started later than its parent by what the parent did before */
        _exit(print_elapsed(0, after - 0.2));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(print_elapsed(after, 60), 0);
}

struct compared {
    uint64_t values[4];
    const char *words; /* text of the error; NULL: there is none */
};

static void compare_values(mr_group *group, void *arg)
{
    const struct compared *compared = arg;
    mr_status status = mr_group_same(group, compared->values[mr_group_rank(group)], "the dataset");
    RANK_CHECK(group, status == (compared->words ? MR_ERR_PEER : MR_OK));
    if (compared->words && strcmp(mr_group_error(group)->text, compared->words) != 0) {
        RANK_CHECK(group, !"the words");
        fprintf(stderr, "%s\n", mr_group_error(group)->text);
    }
}

static void a_rank_that_differs_is_named(void **state)
{
    (void)state;
    static const struct compared cases[] = {
        {{7, 7, 7, 7}, NULL},
        {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, NULL},
        {{7, 7, 8, 7},
         "the dataset of rank 2 differs from rank 0's: 0000000000000008 and 0000000000000007; 1 of "
         "4 ranks differ"},
        {{UINT64_MAX, 1, 1, 1},
         "the dataset of rank 1 differs from rank 0's: 0000000000000001 and ffffffffffffffff; 3 of "
         "4 ranks differ"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        group_double_run_well(4, compare_values, (void *)&cases[i]);
    assert_int_equal(mr_group_same(NULL, 1, "the dataset"), MR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_is_one_write_with_the_rank_before_each_line),
        cmocka_unit_test(buffered_stdio_output_comes_first),
        cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(rank_0_prints_once_and_ranks_print_each),
        cmocka_unit_test(rank_0_goes_first),
        cmocka_unit_test(rank_0_of_each_machine_goes_first),
        cmocka_unit_test(sections_of_one_rank_need_no_group_and_failures_are_reported),
        cmocka_unit_test(seeds_never_change),
        cmocka_unit_test(seeds_of_seeds_and_purposes_are_distinct),
        cmocka_unit_test(each_rank_has_a_different_seed),
        cmocka_unit_test(a_digest_does_not_depend_on_its_pieces),
        cmocka_unit_test(a_digest_sees_each_byte_and_the_length),
        cmocka_unit_test(time_runs_from_the_start_of_each_process),
        cmocka_unit_test(a_rank_that_differs_is_named),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
