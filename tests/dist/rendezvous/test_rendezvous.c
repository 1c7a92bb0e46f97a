/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that find each other by the environment, by an address, or by a file. */
#include "tests/dist/rendezvous/rank_threads.h"

#include "base/clock.h"
#include "dist/rendezvous/address_file.h"
#include "dist/rendezvous/agreement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define ENOUGH_MS 20000

static void a_world_of_one_needs_no_other_rank(void **state)
{
    (void)state;
    struct mr_test_rank one[1];
    mr_test_ranks_init(one, 1, ENOUGH_MS);
    mr_test_ranks_join(one, 1);
    mr_test_ranks_expect_all(one, 1, "none");
    mr_test_ranks_leave(one, 1);
    memset(one[0].environment, 0, sizeof one[0].environment);
    mr_test_ranks_join(one, 1);
    mr_test_ranks_expect_all(one, 1, "none");
    one[0].options.backend = "gloo";
    mr_test_ranks_join(one, 1);
    mr_test_ranks_expect_all(one, 1, "gloo");
    mr_test_ranks_leave(one, 1);
}

static void the_environment_of_the_process_is_read(void **state)
{
    (void)state;
    struct mr_rendezvous alone;
    mr_error error = {0};
    assert_int_equal(clearenv(), 0);
    assert_int_equal(mr_rendezvous_join(NULL, &alone, &error), MR_OK);
    assert_string_equal(alone.who.source, "none");
    assert_int_equal(alone.who.world_size, 1);
    mr_rendezvous_leave(&alone);
    assert_int_equal(setenv("RANK", "x", 1), 0);
    assert_int_equal(mr_rendezvous_join(NULL, &alone, &error), MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "WORLD_SIZE is not"));
}

static void two_and_eight_ranks_meet_by_the_environment(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n += 6) {
        struct mr_test_rank ranks[MR_TEST_RANKS];
        mr_test_ranks_init(ranks, n, ENOUGH_MS);
        mr_test_ranks_address(ranks, n);
        mr_test_ranks_join(ranks, n);
        mr_test_ranks_expect_all(ranks, n, "gloo");
        /* They share one store. */
        char text[8] = "";
        uint32_t len = 0;
        assert_int_equal(mr_store_set(ranks[1].rendezvous.client, "k", "abc", 4, NULL), MR_OK);
        assert_int_equal(mr_store_get(ranks[n - 1].rendezvous.client, "k", text, sizeof text, &len,
                                      mr_clock_now_ns() + UINT64_C(5000000000), NULL),
                         MR_OK);
        assert_string_equal(text, "abc");
        mr_test_ranks_leave(ranks, n);
    }
}

static void the_deadline_follows_from_the_timeout(void **state)
{
    (void)state;
    struct mr_test_rank one[1];
    mr_test_ranks_init(one, 1, 0);
    uint64_t before = mr_clock_now_ns();
    mr_test_ranks_join(one, 1);
    uint64_t ns = one[0].rendezvous.deadline_ns - before;
    assert_in_range(ns / 1000000, 600000, 660000);
}

static void a_late_rank_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 3; late++) {
        struct mr_test_rank ranks[3];
        mr_test_ranks_init(ranks, 3, ENOUGH_MS);
        mr_test_ranks_address(ranks, 3);
        ranks[late].delay_ms = 300;
        mr_test_ranks_join(ranks, 3);
        mr_test_ranks_expect_all(ranks, 3, "gloo");
        mr_test_ranks_leave(ranks, 3);
    }
}

static void meet_by_tcp(const char *host)
{
    struct mr_test_rank ranks[3];
    char init[64];
    mr_test_ranks_init(ranks, 3, ENOUGH_MS);
    snprintf(init, sizeof init, "tcp://%s:%u", host, mr_test_free_ports(1));
    for (uint32_t r = 0; r < 3; r++) {
        memset(ranks[r].environment, 0, sizeof ranks[r].environment);
        ranks[r].options.init = init;
        ranks[r].options.rank = r;
        ranks[r].options.world_size = 3;
    }
    mr_test_ranks_join(ranks, 3);
    mr_test_ranks_expect_all(ranks, 3, "gloo");
    mr_test_ranks_leave(ranks, 3);
}

static void ranks_meet_at_a_given_address(void **state)
{
    (void)state;
    meet_by_tcp("127.0.0.1");
    meet_by_tcp("localhost");
}

static bool has_ipv6(void)
{
    FILE *file = fopen("/proc/net/if_inet6", "re");
    char line[128];
    bool found = false;
    while (file && fgets(line, sizeof line, file))
        found = found || strncmp(line, "00000000000000000000000000000001", 32) == 0;
    if (file)
        fclose(file);
    return found;
}

static void an_ipv6_address_is_in_brackets(void **state)
{
    (void)state;
    if (!has_ipv6()) {
        print_message("no ::1 here\n");
        skip();
    }
    meet_by_tcp("[::1]");
}

static void a_given_address_works_with_ranks_from_the_environment(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    char init[64];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    snprintf(init, sizeof init, "tcp://127.0.0.1:%u", mr_test_free_ports(1));
    ranks[0].options.init = ranks[1].options.init = init;
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_all(ranks, 2, "gloo");
    mr_test_ranks_leave(ranks, 2);
}

/* A temporary folder, and a file:// path in it. */
static void make_path(char folder[64], char init[96], const char **path_out)
{
    strcpy(folder, "/tmp/mr_rendezvous_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(init, 96, "file://%s/store", folder);
    *path_out = init + 7;
}

static void meet_by_file(const char *init)
{
    struct mr_test_rank ranks[3];
    mr_test_ranks_init(ranks, 3, ENOUGH_MS);
    for (uint32_t r = 0; r < 3; r++)
        ranks[r].options.init = init;
    ranks[0].delay_ms = 150; /* so that the old file is read first */
    mr_test_ranks_join(ranks, 3);
    mr_test_ranks_expect_all(ranks, 3, "gloo");
    mr_test_ranks_leave(ranks, 3);
}

static void a_file_holds_the_address_and_is_removed_afterwards(void **state)
{
    (void)state;
    char folder[64], init[96];
    const char *path;
    make_path(folder, init, &path);
    meet_by_file(init);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(folder), 0); /* no temporary file was left */
}

static void write_stale(const char *path, uint16_t port)
{
    struct mr_address_file stale = {.host = "127.0.0.1", .port = port, .run = 7};
    mr_agreement_boot(stale.boot);
    assert_int_equal(mr_address_file_write(path, &stale, NULL), MR_OK);
}

/* As in a restarted container, where run id and process id repeat. */
static void a_temporary_file_of_a_crashed_run_is_overwritten(void **state)
{
    (void)state;
    char folder[64], init[96], aside[160];
    const char *path;
    make_path(folder, init, &path);
    struct mr_address_file file = {.host = "127.0.0.1", .port = 1, .run = 7}, back;
    snprintf(aside, sizeof aside, "%s.%016x.%ld", path, 7u, (long)getpid());
    FILE *half = fopen(aside, "w");
    assert_non_null(half);
    fputs("millrace-st", half);
    fclose(half);
    assert_int_equal(mr_address_file_write(path, &file, NULL), MR_OK);
    assert_int_equal(mr_address_file_read(path, &back, NULL), MR_OK);
    mr_address_file_remove(path, &file);
    assert_int_equal(rmdir(folder), 0);
}

static void a_stale_file_without_a_server_is_retried(void **state)
{
    (void)state;
    char folder[64], init[96];
    const char *path;
    make_path(folder, init, &path);
    write_stale(path, mr_test_free_ports(1));
    meet_by_file(init);
    assert_int_equal(rmdir(folder), 0);
}

static void a_stale_file_of_a_silent_program_is_retried(void **state)
{
    (void)state;
    char folder[64], init[96];
    const char *path;
    make_path(folder, init, &path);
    uint16_t port = mr_test_free_ports(1);
    int fd = mr_test_listen(port);
    write_stale(path, port);
    meet_by_file(init);
    close(fd);
    assert_int_equal(rmdir(folder), 0);
}

static void a_stale_file_of_another_run_is_retried(void **state)
{
    (void)state;
    char folder[64], init[96];
    const char *path;
    make_path(folder, init, &path);
    struct mr_store *store = NULL;
    struct mr_store_identity identity = {.run = 12345, .world_size = 3};
    assert_int_equal(mr_store_start("127.0.0.1", 0, &identity, &store, NULL), MR_OK);
    write_stale(path, mr_store_port(store));
    meet_by_file(init);
    uint8_t present[1] = {0};
    assert_int_equal(mr_store_present(store, present), 0);
    mr_store_stop(store);
    assert_int_equal(rmdir(folder), 0);
}

static void a_file_without_an_address_is_not_changed(void **state)
{
    (void)state;
    char folder[64], init[96], text[32] = "";
    const char *path;
    make_path(folder, init, &path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("my thesis\n", file);
    fclose(file);
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    ranks[0].options.init = init;
    ranks[1].is_absent = true;
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_error(ranks, 2, MR_ERR_INVALID, "exists and is not a store's address");
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "my thesis\n");
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void auto_is_nccl_for_a_cuda_device(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    mr_test_ranks_address(ranks, 2);
    ranks[0].options.device = "cuda:0";
    ranks[1].options.device = "cuda:local";
    ranks[1].options.backend = "auto";
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_all(ranks, 2, "nccl");
    mr_test_ranks_leave(ranks, 2);
}

static void expect_backend(mr_group_options options, uint32_t n, const char *backend)
{
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, n, ENOUGH_MS);
    mr_test_ranks_address(ranks, n);
    for (uint32_t r = 0; r < n; r++) {
        options.struct_size = ranks[r].options.struct_size;
        options.timeout_ms = ranks[r].options.timeout_ms;
        ranks[r].options = options;
    }
    mr_test_ranks_join(ranks, n);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(ranks[r].status, MR_OK);
        assert_string_equal(ranks[r].rendezvous.backend, backend);
    }
    mr_test_ranks_leave(ranks, n);
}

static void auto_depends_on_the_given_communicator(void **state)
{
    (void)state;
    int comm;
    expect_backend((mr_group_options){.nccl_comm = &comm}, 2, "nccl");
    expect_backend((mr_group_options){.nccl_comm = &comm, .device = "cuda:0"}, 1, "nccl");
    expect_backend((mr_group_options){.device = "cuda:0"}, 1, "nccl");
    expect_backend((mr_group_options){.device = "host:0"}, 2, "gloo");
    expect_backend((mr_group_options){.device = "cuda:0", .backend = "gloo"}, 2, "gloo");
    expect_backend((mr_group_options){.mpi_comm = &comm, .device = "cuda:0"}, 2, "mpi");
    expect_backend((mr_group_options){.backend = "auto"}, 1, "none");
}

static void two_groups_at_once_do_not_meet(void **state)
{
    (void)state;
    struct mr_test_rank a[4], b[4];
    mr_test_ranks_init(a, 4, ENOUGH_MS);
    mr_test_ranks_init(b, 4, ENOUGH_MS);
    mr_test_ranks_address(a, 4);
    mr_test_ranks_address(b, 4);
    mr_test_ranks_set(a, 4, "MR_RUN_ID", "a");
    mr_test_ranks_set(b, 4, "MR_RUN_ID", "b");
    mr_test_ranks_start(a, 4);
    mr_test_ranks_start(b, 4);
    mr_test_ranks_wait(a, 4);
    mr_test_ranks_wait(b, 4);
    mr_test_ranks_expect_all(a, 4, "gloo");
    mr_test_ranks_expect_all(b, 4, "gloo");
    mr_test_ranks_leave(a, 4);
    mr_test_ranks_leave(b, 4);
}

static void *join_and_leave(void *arg)
{
    struct mr_test_rank *rank = arg;
    for (uint32_t i = 0; i < 20 && rank->status == MR_OK; i++) {
        rank->status =
            mr_rendezvous_join_by(&rank->means, &rank->options, &rank->rendezvous, &rank->error);
        mr_rendezvous_leave(&rank->rendezvous);
    }
    return NULL;
}

static void group_after_group_meets_at_the_same_address(void **state)
{
    (void)state;
    struct mr_test_rank ranks[4];
    mr_test_ranks_init(ranks, 4, ENOUGH_MS);
    mr_test_ranks_address(ranks, 4);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, join_and_leave, &ranks[r]), 0);
    mr_test_ranks_wait(ranks, 4);
    for (uint32_t r = 0; r < 4; r++)
        if (ranks[r].status != MR_OK)
            fail_msg("rank %u: %s", r, ranks[r].error.text);
}

static void rank_0_leaves_within_a_bounded_time(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    mr_test_ranks_address(ranks, 2);
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_all(ranks, 2, "gloo");
    uint64_t before = mr_clock_now_ns();
    mr_rendezvous_leave(&ranks[0].rendezvous);
    assert_in_range((mr_clock_now_ns() - before) / 1000000, 0, 10000);
    mr_rendezvous_leave(&ranks[1].rendezvous);
    mr_rendezvous_leave(&ranks[1].rendezvous); /* the second call does nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_world_of_one_needs_no_other_rank),
        cmocka_unit_test(two_and_eight_ranks_meet_by_the_environment),
        cmocka_unit_test(the_deadline_follows_from_the_timeout),
        cmocka_unit_test(a_late_rank_is_waited_for),
        cmocka_unit_test(ranks_meet_at_a_given_address),
        cmocka_unit_test(an_ipv6_address_is_in_brackets),
        cmocka_unit_test(a_given_address_works_with_ranks_from_the_environment),
        cmocka_unit_test(a_file_holds_the_address_and_is_removed_afterwards),
        cmocka_unit_test(a_temporary_file_of_a_crashed_run_is_overwritten),
        cmocka_unit_test(a_stale_file_without_a_server_is_retried),
        cmocka_unit_test(a_stale_file_of_a_silent_program_is_retried),
        cmocka_unit_test(a_stale_file_of_another_run_is_retried),
        cmocka_unit_test(a_file_without_an_address_is_not_changed),
        cmocka_unit_test(auto_is_nccl_for_a_cuda_device),
        cmocka_unit_test(auto_depends_on_the_given_communicator),
        cmocka_unit_test(two_groups_at_once_do_not_meet),
        cmocka_unit_test(group_after_group_meets_at_the_same_address),
        cmocka_unit_test(rank_0_leaves_within_a_bounded_time),
        cmocka_unit_test(
            the_environment_of_the_process_is_read), /* last, because it clears the environment */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
