/* SPDX-License-Identifier: Apache-2.0 */
/* The places of ranks, by the boot ids of their machines, and how lists of ranks are written. */
#include "dist/rendezvous/agreement.h"
#include "dist/rendezvous/rank_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* machines: one letter for each rank, its machine. */
static void make_facts(const char *machines, struct mr_agreement_fact *facts)
{
    for (uint32_t r = 0; machines[r]; r++) {
        facts[r] = (struct mr_agreement_fact){.version = MR_VERSION,
                                              .backend = "gloo",
                                              .world_size = (uint32_t)strlen(machines),
                                              .local_rank = MR_AGREEMENT_UNKNOWN,
                                              .local_world_size = MR_AGREEMENT_UNKNOWN,
                                              .node = MR_AGREEMENT_UNKNOWN};
        facts[r].boot[0] = machines[r] == '?' ? '\0' : machines[r];
    }
}

static void place(const struct mr_agreement_fact *facts, uint32_t n,
                  struct mr_agreement_place *places)
{
    memset(places, 0xff, n * sizeof *places);
    assert_int_equal(mr_agreement_place(facts, n, places, NULL), MR_OK);
}

static void expect_places(const char *machines, const char *local_ranks, const char *local_sizes,
                          const char *nodes)
{
    struct mr_agreement_fact facts[16];
    struct mr_agreement_place places[16];
    uint32_t n = (uint32_t)strlen(machines);
    make_facts(machines, facts);
    place(facts, n, places);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(places[r].local_rank, local_ranks[r] - '0');
        assert_int_equal(places[r].local_world_size, local_sizes[r] - '0');
        assert_int_equal(places[r].node, nodes[r] - '0');
    }
}

static void machines_and_places_are_counted_in_the_order_of_ranks(void **state)
{
    (void)state;
    expect_places("aaaa", "0123", "4444", "0000");
    expect_places("aabb", "0101", "2222", "0011");
    expect_places("abab", "0011", "2222", "0101");
    expect_places("bca", "000", "111", "012");
    expect_places("abbca", "00101", "22212", "01120");
}

static void a_rank_without_a_boot_id_counts_as_a_separate_machine(void **state)
{
    (void)state;
    expect_places("a??a", "0001", "2112", "0120");
}

static void values_from_the_launcher_are_kept(void **state)
{
    (void)state;
    struct mr_agreement_fact facts[4];
    struct mr_agreement_place places[4];
    make_facts("aaaa", facts);
    facts[2].local_rank = 0;
    facts[2].local_world_size = 2;
    facts[2].node = 1;
    facts[3].local_rank = 5;
    place(facts, 4, places);
    assert_int_equal(places[1].local_rank, 1);
    assert_int_equal(places[1].local_world_size, 4);
    assert_int_equal(places[1].node, 0);
    assert_int_equal(places[2].local_rank, 0);
    assert_int_equal(places[2].local_world_size, 2);
    assert_int_equal(places[2].node, 1);
    /* A local rank is below the local world size, whichever of them was given. */
    assert_int_equal(places[3].local_rank, 5);
    assert_int_equal(places[3].local_world_size, 6);
}

static void the_boot_id_of_this_machine_is_constant(void **state)
{
    (void)state;
    char a[40], b[40];
    memset(a, 1, sizeof a);
    mr_agreement_boot(a);
    mr_agreement_boot(b);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(a[39], 0);
    if (!a[0])
        print_message("no boot id here\n");
    else
        assert_int_equal(strlen(a), 36);
}

static void values_that_a_launcher_did_not_set_are_unknown(void **state)
{
    (void)state;
    struct mr_agreement_fact fact;
    struct mr_rank_identity who = {.world_size = 4, .rank = 1};
    mr_agreement_describe(&who, "gloo", &fact);
    assert_string_equal(fact.version, MR_VERSION);
    assert_string_equal(fact.backend, "gloo");
    assert_int_equal(fact.world_size, 4);
    assert_int_equal(fact.local_rank, MR_AGREEMENT_UNKNOWN);
    assert_int_equal(fact.local_world_size, MR_AGREEMENT_UNKNOWN);
    assert_int_equal(fact.node, MR_AGREEMENT_UNKNOWN);
    who.knows_local = who.knows_node = true;
    who.local_world_size = 2;
    mr_agreement_describe(&who, "gloo", &fact);
    assert_int_equal(fact.local_rank, 0);
    assert_int_equal(fact.local_world_size, 2);
    assert_int_equal(fact.node, 0);
}

static void the_first_rank_that_differs_is_named(void **state)
{
    (void)state;
    struct mr_agreement_fact facts[4];
    mr_error error = {0};
    make_facts("aaaa", facts);
    assert_int_equal(mr_agreement_compare(facts, 4, &error), MR_OK);
    strcpy(facts[2].backend, "mpi");
    strcpy(facts[3].version, "0.0.1");
    assert_int_equal(mr_agreement_compare(facts, 4, &error), MR_ERR_PEER);
    assert_string_equal(error.text, "rank 2 wants backend mpi, rank 0 gloo");
    facts[1].world_size = 7;
    assert_int_equal(mr_agreement_compare(facts, 4, &error), MR_ERR_PEER);
    assert_string_equal(error.text, "rank 1 has world size 7, rank 0 4");
    strcpy(facts[1].version, "0.2.0");
    assert_int_equal(mr_agreement_compare(facts, 4, &error), MR_ERR_PEER);
    assert_string_equal(error.text, "rank 1 runs millrace 0.2.0, rank 0 " MR_VERSION);
}

static void adjacent_ranks_are_written_as_a_range(void **state)
{
    (void)state;
    char text[64];
    const uint8_t some[] = {0xf4, 0x81, 0x02}; /* 2 4 5 6 7 | 8 15 | 17 */
    mr_rank_list_spell(some, 24, text, sizeof text);
    assert_string_equal(text, "2, 4-8, 15, 17");
    mr_rank_list_spell(some, 6, text, sizeof text);
    assert_string_equal(text, "2, 4-5");
    mr_rank_list_spell(some, 2, text, sizeof text);
    assert_string_equal(text, "");
}

static void a_long_list_is_cut_between_two_ranks(void **state)
{
    (void)state;
    uint8_t bits[128];
    char text[32];
    memset(bits, 0x55, sizeof bits);
    mr_rank_list_spell(bits, 1024, text, sizeof text);
    assert_string_equal(text, "0, 2, 4, 6, 8, 10, 12, 14, ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_and_places_are_counted_in_the_order_of_ranks),
        cmocka_unit_test(a_rank_without_a_boot_id_counts_as_a_separate_machine),
        cmocka_unit_test(values_from_the_launcher_are_kept),
        cmocka_unit_test(the_boot_id_of_this_machine_is_constant),
        cmocka_unit_test(values_that_a_launcher_did_not_set_are_unknown),
        cmocka_unit_test(the_first_rank_that_differs_is_named),
        cmocka_unit_test(adjacent_ranks_are_written_as_a_range),
        cmocka_unit_test(a_long_list_is_cut_between_two_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
