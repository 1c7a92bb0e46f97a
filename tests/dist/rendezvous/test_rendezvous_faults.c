/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do not find each other, and their messages. */
#include "tests/dist/rendezvous/rank_threads.h"

#include "base/clock.h"
#include "dist/rendezvous/agreement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define ENOUGH_MS 20000
#define SHORT_MS 2000

static void expect_words(const struct mr_test_rank *rank, mr_status status, const char *words)
{
    mr_test_ranks_expect_error(rank, 1, status, words);
}

static void all_ranks_name_the_missing_ones(void **state)
{
    (void)state;
    struct mr_test_rank ranks[8];
    char words[128];
    mr_test_ranks_init(ranks, 8, SHORT_MS);
    uint16_t port = mr_test_ranks_address(ranks, 8);
    ranks[2].is_absent = ranks[5].is_absent = ranks[6].is_absent = true;
    mr_test_ranks_join(ranks, 8);
    snprintf(words, sizeof words, "rank 2, 5-6 of 8 did not join within 1500 ms at 127.0.0.1:%u",
             port);
    mr_test_ranks_expect_error(ranks, 8, MR_ERR_TIMEOUT, words);
}

static void without_rank_0_the_address_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[3];
    char words[64];
    mr_test_ranks_init(ranks, 3, SHORT_MS);
    snprintf(words, sizeof words, "%u", mr_test_ranks_address(ranks, 3));
    ranks[0].is_absent = true;
    uint64_t before = mr_clock_now_ns();
    mr_test_ranks_join(ranks, 3);
    assert_in_range((mr_clock_now_ns() - before) / 1000000, SHORT_MS - 100, 10 * SHORT_MS);
    mr_test_ranks_expect_error(ranks, 3, MR_ERR_TIMEOUT, words);
    mr_test_ranks_expect_error(ranks, 3, MR_ERR_TIMEOUT, "127.0.0.1");
}

static void without_rank_0_the_file_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, 300);
    ranks[0].is_absent = true;
    ranks[1].options.init = "file:///nonexistent-folder/store";
    mr_test_ranks_join(ranks, 2);
    expect_words(&ranks[1], MR_ERR_TIMEOUT, "rank 1 read /nonexistent-folder/store ");
    expect_words(&ranks[1], MR_ERR_TIMEOUT, "No such file or directory");
}

static void a_file_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, SHORT_MS);
    ranks[1].is_absent = true;
    ranks[0].options.init = "file:///nonexistent-folder/store";
    mr_test_ranks_join(ranks, 2);
    expect_words(&ranks[0], MR_ERR_IO, "cannot create /nonexistent-folder/store.");
}

static void all_ranks_name_one_with_another_backend(void **state)
{
    (void)state;
    struct mr_test_rank ranks[5];
    mr_test_ranks_init(ranks, 5, ENOUGH_MS);
    mr_test_ranks_address(ranks, 5);
    ranks[3].options.backend = "mpi";
    mr_test_ranks_join(ranks, 5);
    mr_test_ranks_expect_error(ranks, 5, MR_ERR_PEER, "rank 3 wants backend mpi, rank 0 gloo");
}

static void a_rank_with_another_world_size_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[3];
    mr_test_ranks_init(ranks, 3, SHORT_MS);
    mr_test_ranks_address(ranks, 3);
    strcpy(ranks[1].lines[1], "WORLD_SIZE=2");
    mr_test_ranks_join(ranks, 3);
    expect_words(&ranks[1], MR_ERR_PEER, "world size");
    expect_words(&ranks[0], MR_ERR_TIMEOUT, "rank 1 of 3 did not join within 1500 ms");
    expect_words(&ranks[0], MR_ERR_TIMEOUT, "rank 1 was refused: its world size is 2, not 3");
    expect_words(&ranks[2], MR_ERR_TIMEOUT, "rank 1 was refused: its world size is 2, not 3");
}

static void a_wrong_token_is_refused(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, SHORT_MS);
    mr_test_ranks_address(ranks, 2);
    mr_test_rank_set(&ranks[0], "MR_TOKEN", "secret");
    mr_test_rank_set(&ranks[1], "MR_TOKEN", "Secret");
    mr_test_ranks_join(ranks, 2);
    expect_words(&ranks[1], MR_ERR_PEER, "token");
    expect_words(&ranks[0], MR_ERR_TIMEOUT, "rank 1 was refused: its token differs");
    assert_null(strstr(ranks[0].error.text, "ecret"));
    assert_null(strstr(ranks[1].error.text, "ecret"));
}

static void a_token_in_the_options_wins_over_the_environment(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    mr_test_ranks_address(ranks, 2);
    mr_test_rank_set(&ranks[0], "MR_TOKEN", "secret");
    mr_test_rank_set(&ranks[1], "MR_TOKEN", "another");
    ranks[1].options.token = "secret";
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_all(ranks, 2, "gloo");
    mr_test_ranks_leave(ranks, 2);
}

/* Rank 1 of two without a group: writes these bytes as its facts. */
static struct mr_store_client *connect_by_hand(uint16_t port, const void *fact, uint32_t len)
{
    mr_error error = {0};
    struct mr_store_client *client = NULL;
    struct mr_store_connect connect = {.host = "127.0.0.1",
                                       .port = port,
                                       .rank = 1,
                                       .identity = {.world_size = 2},
                                       .deadline_ns =
                                           mr_clock_now_ns() + ENOUGH_MS * UINT64_C(1000000)};
    if (mr_store_connect(&connect, &client, &error) != MR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(mr_store_set(client, "join/fact/1", fact, len, &error), MR_OK);
    return client;
}

static void expect_of_facts(const void *fact, uint32_t len, const char *words)
{
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    uint16_t port = mr_test_ranks_address(ranks, 2);
    ranks[1].is_absent = true;
    mr_test_ranks_start(ranks, 2);
    struct mr_store_client *client = connect_by_hand(port, fact, len);
    mr_store_close(client);
    mr_test_ranks_wait(ranks, 2);
    expect_words(&ranks[0], MR_ERR_PEER, words);
}

static void a_rank_of_another_version_is_named_whatever_its_facts_are(void **state)
{
    (void)state;
    struct mr_agreement_fact fact = {.version = "9.9.9", .backend = "gloo", .world_size = 2};
    expect_of_facts(&fact, sizeof fact, "rank 1 runs millrace 9.9.9, rank 0 " MR_VERSION);
    expect_of_facts(&fact, sizeof fact.version, "rank 1 runs millrace 9.9.9, rank 0 " MR_VERSION);
    char longer[400] = "10.0.0";
    expect_of_facts(longer, sizeof longer, "rank 1 runs millrace 10.0.0, rank 0 " MR_VERSION);
}

static void hostile_facts_are_an_error(void **state)
{
    (void)state;
    char bytes[1000];
    memset(bytes, 'x', sizeof bytes);
    expect_of_facts(bytes, sizeof bytes, "rank 1 runs millrace xxxxxxxxxxxxxxx, rank 0");
    expect_of_facts("", 0, "rank 1 runs millrace , rank 0");
    memcpy(bytes, MR_VERSION, sizeof MR_VERSION);
    expect_of_facts(bytes, 40, "rank 1 wrote 40 bytes of facts, not 84");
    struct mr_agreement_fact fact = {
        .version = MR_VERSION, .backend = "\033[2Jxxx", .world_size = 2};
    expect_of_facts(&fact, sizeof fact, "rank 1 wants backend ?[2Jxxx, rank 0 gloo");
    fact.world_size = 3;
    expect_of_facts(&fact, sizeof fact, "rank 1 has world size 3, rank 0 2");
}

static void a_taken_port_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    char words[64];
    mr_test_ranks_init(ranks, 2, SHORT_MS);
    uint16_t port = mr_test_ranks_address(ranks, 2);
    int fd = mr_test_listen(port);
    assert_true(fd >= 0);
    mr_test_ranks_join(ranks, 2);
    snprintf(words, sizeof words, "%u", port);
    expect_words(&ranks[0], MR_ERR_IO, words);
    expect_words(&ranks[0], MR_ERR_IO, "Address already in use");
    expect_words(&ranks[1], MR_ERR_TIMEOUT, words);
    close(fd);
}

static void rank_0_refuses_an_address_of_another_machine(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, SHORT_MS);
    mr_test_ranks_set(ranks, 2, "MASTER_ADDR",
                      "192.0.2.77"); /* from TEST-NET-1, reserved for documentation */
    mr_test_ranks_set(ranks, 2, "MASTER_PORT", "29500");
    ranks[1].is_absent = true;
    mr_test_ranks_join(ranks, 2);
    expect_words(&ranks[0], MR_ERR_INVALID,
                 "this is rank 0, and 192.0.2.77 is not an address of this machine");
    ranks[0].options.init = "tcp://0.0.0.0:1234";
    mr_test_ranks_join(ranks, 2);
    expect_words(&ranks[0], MR_ERR_INVALID, "0.0.0.0 is not an address of this machine");
    ranks[0].options.init = "tcp://no-such-host.invalid:1234";
    mr_test_ranks_join(ranks, 2);
    expect_words(&ranks[0], MR_ERR_INVALID, "rank 0's host 'no-such-host.invalid': ");
}

static void missing_variables_are_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, SHORT_MS);
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_error(ranks, 2, MR_ERR_INVALID, "MASTER_ADDR is not set");
    mr_test_ranks_set(ranks, 2, "MASTER_ADDR", "127.0.0.1");
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_error(ranks, 2, MR_ERR_INVALID, "MASTER_PORT is not set");
    mr_test_ranks_set(ranks, 2, "MASTER_PORT", "65535");
    mr_test_ranks_set(ranks, 2, "TORCHELASTIC_RUN_ID", "x");
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_error(ranks, 2, MR_ERR_INVALID,
                               "MASTER_PORT=65535 is torchrun's, and there is no higher port");
}

static void expect_of_options(mr_group_options options, const char *words)
{
    struct mr_test_rank one[1];
    mr_test_ranks_init(one, 1, SHORT_MS);
    options.struct_size = sizeof options;
    options.timeout_ms = SHORT_MS;
    one[0].options = options;
    mr_test_ranks_join(one, 1);
    expect_words(one, MR_ERR_INVALID, words);
}

static void contradictory_options_are_named(void **state)
{
    (void)state;
    static const char *const inits[] = {"",
                                        "udp://a:1",
                                        "env",
                                        "env://x",
                                        "tcp://",
                                        "tcp://host",
                                        "tcp://:80",
                                        "tcp://host:",
                                        "tcp://host:0",
                                        "tcp://host:65536",
                                        "tcp://host:-1",
                                        "tcp://host:80x",
                                        "tcp://host: 80",
                                        "tcp://::1:80",
                                        "tcp://[]:80",
                                        "tcp://[::1]",
                                        "tcp://host:80?rank=1",
                                        "file://relative",
                                        "file:///",
                                        "file://"};
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
        char words[128];
        snprintf(words, sizeof words, "init \"%s\" is not env://, tcp://HOST:PORT or file:///PATH",
                 inits[i]);
        expect_of_options((mr_group_options){.init = inits[i], .world_size = 2}, words);
    }
    expect_of_options((mr_group_options){.backend = "ucx"},
                      "backend \"ucx\" is not auto, gloo, mpi or nccl");
    expect_of_options((mr_group_options){.world_size = 2},
                      "world_size 2 is given, but env:// reads it from");
    expect_of_options((mr_group_options){.rank = 2}, "rank 2 is given without world_size");
    expect_of_options((mr_group_options){.init = "tcp://a:1", .rank = 2, .world_size = 2},
                      "rank 2 is not below world_size 2");
    char token[MR_STORE_TOKEN + 2];
    memset(token, 'x', sizeof token - 1);
    token[sizeof token - 1] = '\0';
    expect_of_options((mr_group_options){.token = token},
                      "the token (MR_TOKEN) has 129 bytes, the limit is 128");
    int comm = 0;
    expect_of_options((mr_group_options){.backend = "gloo", .mpi_comm = &comm},
                      "mpi_comm is given, but backend is gloo");
    expect_of_options((mr_group_options){.backend = "mpi", .nccl_comm = &comm},
                      "nccl_comm is given, but backend is mpi");
}

/* A child that greets as rank 1 and is killed before it writes its facts. */
static pid_t fork_rank_1(uint16_t port)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    alarm(30);
    struct mr_store_client *client = NULL;
    struct mr_store_connect connect = {.host = "127.0.0.1",
                                       .port = port,
                                       .rank = 1,
                                       .identity = {.world_size = 2},
                                       .deadline_ns =
                                           mr_clock_now_ns() + ENOUGH_MS * UINT64_C(1000000)};
    mr_status status = mr_store_connect(&connect, &client, NULL);
    _exit(status == MR_OK ? 0 : 1);
}

static void a_rank_that_dies_before_it_writes_facts_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    int how;
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    uint16_t port = mr_test_ranks_address(ranks, 2);
    ranks[1].is_absent = true;
    pid_t child = fork_rank_1(port);
    assert_true(child > 0);
    mr_test_ranks_join(ranks, 2);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    expect_words(&ranks[0], MR_ERR_PEER, "rank 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_name_the_missing_ones),
        cmocka_unit_test(without_rank_0_the_address_is_named),
        cmocka_unit_test(without_rank_0_the_file_is_named),
        cmocka_unit_test(a_file_that_cannot_be_written_is_named),
        cmocka_unit_test(all_ranks_name_one_with_another_backend),
        cmocka_unit_test(a_rank_with_another_world_size_is_named),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(a_token_in_the_options_wins_over_the_environment),
        cmocka_unit_test(a_rank_of_another_version_is_named_whatever_its_facts_are),
        cmocka_unit_test(hostile_facts_are_an_error),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(rank_0_refuses_an_address_of_another_machine),
        cmocka_unit_test(missing_variables_are_named),
        cmocka_unit_test(contradictory_options_are_named),
        cmocka_unit_test(a_rank_that_dies_before_it_writes_facts_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
