/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tail of an epoch over several ranks: exact delivers each index once in equal steps, pad
 * repeats indices, drop leaves some out.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"

#include <string.h>

struct outcome {
    unsigned counts[RIG_MAX];
    uint64_t n_steps;
    unsigned n_empty;
    unsigned n_short;
};

static void run_rank(struct rig *rig, const mr_loader_options *options, struct outcome *outcome)
{
    mr_loader *loader = rig_loader(rig, options);
    mr_status status;
    mr_batch *batch;
    uint64_t n = 0;
    int64_t n_samples = 0;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        const int64_t *index = mr_test_data(batch, "index");
        assert_int_equal(mr_batch_number(batch), n++);
        assert_int_equal(mr_batch_array_at(batch, 0)->shape[0], mr_batch_size(batch));
        assert_int_equal(mr_batch_valid(batch), mr_batch_size(batch));
        rig_check(batch);
        for (uint32_t i = 0; i < mr_batch_size(batch); i++)
            outcome->counts[index[i]]++;
        n_samples += mr_batch_size(batch);
        outcome->n_empty += mr_batch_size(batch) == 0;
        outcome->n_short += mr_batch_size(batch) > 0 && mr_batch_size(batch) < options->batch_size;
        mr_batch_release(batch);
    }
    assert_int_equal(status, MR_END);
    assert_int_equal(n, mr_loader_n_batches(loader));
    assert_int_equal(n_samples, mr_loader_n_samples(loader));
    if (outcome->n_steps != 0)
        assert_int_equal(n, outcome->n_steps); /* all ranks have the same number of steps */
    outcome->n_steps = n;
    mr_loader_destroy(loader);
}

static struct outcome run_world(int64_t n, uint32_t world_size, uint32_t batch_size, mr_tail tail,
                                bool shuffle, const struct rig_mode *mode)
{
    struct rig *rig = rig_create(n);
    struct outcome outcome = {.n_steps = 0};
    for (uint32_t rank = 0; rank < world_size; rank++) {
        mr_loader_options options = rig_options_of(mode);
        options.batch_size = batch_size;
        options.world_size = world_size;
        options.rank = rank;
        options.tail = tail;
        options.no_shuffle = !shuffle;
        options.allow_empty_epoch = true;
        run_rank(rig, &options, &outcome);
    }
    rig_destroy(rig);
    return outcome;
}

static void exact_delivers_each_index_once_in_equal_steps(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 2, 3, 5};
    static const int64_t sizes[] = {1, 2, 4, 5, 31, 33, 41};
    for (unsigned m = 0; m < 2; m++)
        for (unsigned w = 0; w < 4; w++)
            for (unsigned s = 0; s < 7; s++)
                for (uint32_t batch = 1; batch <= 8; batch += 7) {
                    struct outcome o =
                        run_world(sizes[s], worlds[w], batch, MR_TAIL_EXACT, s % 2, &rig_modes[m]);
                    for (int64_t i = 0; i < sizes[s]; i++)
                        assert_int_equal(o.counts[i], 1);
                    int64_t longest = (sizes[s] + worlds[w] - 1) / worlds[w];
                    assert_int_equal(o.n_steps, (longest + batch - 1) / batch);
                }
}

static void ranks_without_samples_get_empty_batches(void **state)
{
    (void)state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        struct outcome o = run_world(2, 5, 4, MR_TAIL_EXACT, false, &rig_modes[m]);
        assert_int_equal(o.n_steps, 1);
        assert_int_equal(o.n_empty, 3);
        o = run_world(41, 5, 8, MR_TAIL_EXACT, true, &rig_modes[m]); /* shards of 9, 8, 8, 8, 8 */
        assert_int_equal(o.n_steps, 2);
        assert_int_equal(o.n_empty, 4);
        assert_int_equal(o.n_short, 1);
    }
}

static void pad_repeats_and_drop_leaves_out(void **state)
{
    (void)state;
    struct outcome o = run_world(32, 5, 4, MR_TAIL_PAD, true, &rig_modes[1]);
    unsigned n_twice = 0;
    for (int i = 0; i < 32; i++) {
        assert_true(o.counts[i] == 1 || o.counts[i] == 2);
        n_twice += o.counts[i] == 2;
    }
    assert_int_equal(n_twice, 3);
    o = run_world(33, 5, 4, MR_TAIL_DROP, true, &rig_modes[1]);
    unsigned n_none = 0;
    for (int i = 0; i < 33; i++) {
        assert_true(o.counts[i] <= 1);
        n_none += o.counts[i] == 0;
    }
    assert_int_equal(n_none, 3);
    assert_int_equal(o.n_empty, 0);
}

static void a_world_of_more_ranks_than_samples_drops_everything(void **state)
{
    (void)state;
    struct outcome o = run_world(2, 5, 4, MR_TAIL_DROP, true, &rig_modes[1]);
    assert_int_equal(o.n_steps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_delivers_each_index_once_in_equal_steps),
        cmocka_unit_test(ranks_without_samples_get_empty_batches),
        cmocka_unit_test(pad_repeats_and_drop_leaves_out),
        cmocka_unit_test(a_world_of_more_ranks_than_samples_drops_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
