/* SPDX-License-Identifier: Apache-2.0 */
/* mr_dataset_check(): damage in folders and packs. */
#include "tests/packs/pack_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/assert_words.h"
#include "tests/support/packs.h"

static mr_pack_report check(struct pack_rig *rig, mr_dataset *dataset)
{
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error;
    rig->n_notices = 0;
    assert_ok(mr_dataset_check(dataset, &options, &report, &error), &error);
    return report;
}

static mr_pack_report check_pack(struct pack_rig *rig, const char *name)
{
    mr_dataset *dataset = pack_rig_open(rig, name);
    mr_pack_report report = check(rig, dataset);
    mr_dataset_destroy(dataset);
    return report;
}

static void check_names_the_damaged_files_of_a_folder(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error;
    assert_ok(mr_dataset_check(rig->dataset, &options, &report, &error), &error);
    assert_int_equal(report.n_samples, rig->n);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD);
    assert_int_equal(rig->n_notices, MR_TEST_PACKS_N_BAD);
    for (unsigned i = 0; i < rig->n_notices; i++) {
        assert_true(strstr(rig->names[i], "_short") || strstr(rig->names[i], "_text") ||
                    strstr(rig->names[i], "_empty"));
        assert_true(rig->texts[i][0] != '\0');
        assert_null(strstr(rig->texts[i], "(index "));
        assert_true(i == 0 || rig->noticed[i] > rig->noticed[i - 1]);
    }
}

static void check_finds_a_file_that_is_missing(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    char path[PACK_RIG_PATH * 2], aside[PACK_RIG_PATH * 3];
    snprintf(path, sizeof path, "%s/%s", rig->photos, pack_rig_name(rig, 0));
    snprintf(aside, sizeof aside, "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    mr_status status = mr_dataset_check(rig->dataset, &options, &report, NULL);
    assert_int_equal(rename(aside, path), 0);
    assert_int_equal(status, MR_OK);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD + 1);
    assert_int_equal(rig->noticed[0], 0);
    assert_null(strstr(rig->texts[0], rig->photos));
}

static void check_finds_one_changed_byte_and_a_shard_cut_short(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    pack_rig_pack(rig, "sound", &options);
    mr_pack_report report = check_pack(rig, "sound");
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD);
    assert_int_equal(report.n_by_encoding[MR_PACK_DCT] + report.n_by_encoding[MR_PACK_JPEG],
                     rig->n);
    struct mr_test_packs_place place = mr_test_packs_find(pack_rig_path(rig, "sound"), 1);
    mr_test_packs_flip(pack_rig_path(rig, "sound"), 1, place.len - 1);
    mr_test_packs_flip(pack_rig_path(rig, "sound"), 2, 0);
    report = check_pack(rig, "sound");
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD + 2);
    assert_true(pack_rig_was_noticed(rig, 1) && pack_rig_was_noticed(rig, 2) &&
                !pack_rig_was_noticed(rig, 0));
    struct mr_test_packs_place last = mr_test_packs_find(pack_rig_path(rig, "sound"), rig->n - 1);
    char path[PACK_RIG_PATH];
    snprintf(path, sizeof path, "%s/%s", pack_rig_path(rig, "sound"), last.shard);
    /* opened now, because after the truncation the whole pack is refused */
    mr_dataset *pack = pack_rig_open(rig, "sound");
    assert_int_equal(truncate(path, (off_t)(last.offset + last.len / 2)), 0);
    report = check(rig, pack);
    mr_dataset_destroy(pack);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD + 3);
    assert_true(pack_rig_was_noticed(rig, rig->n - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PACK_TEST(check_names_the_damaged_files_of_a_folder),
        PACK_TEST(check_finds_a_file_that_is_missing),
        PACK_TEST(check_finds_one_changed_byte_and_a_shard_cut_short),
    };
    return cmocka_run_group_tests(tests, pack_rig_set_up, pack_rig_tear_down);
}
