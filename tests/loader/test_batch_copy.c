/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of batches: they keep their samples, occupy no slot, outlive the loader, and otherwise are
 * like any batch.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/dlpack_abi.h"

enum { N_BATCHES = 13 }; /* 100 samples, 8 per batch */

/* Skip the test if batches are in memory that cannot be copied. */
static void needs_host_memory(void)
{
    if (mr_test_device().kind != MR_DEVICE_HOST)
        skip();
}

static mr_batch *copy_batch(mr_batch *batch)
{
    mr_batch *copy;
    if (mr_batch_copy(batch, &copy) != MR_OK)
        fail_msg("%s", mr_batch_error(batch)->text);
    return copy;
}

static void a_copy_has_its_own_memory_for_the_arrays(void **state)
{
    needs_host_memory();
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    mr_batch *copy = copy_batch(batch);
    assert_int_equal(mr_batch_n_arrays(copy), mr_batch_n_arrays(batch));
    for (uint32_t i = 0; i < mr_batch_n_arrays(batch); i++) {
        const mr_array *a = mr_batch_array_at(batch, i), *b = mr_batch_array(copy, a->name);
        assert_non_null(b);
        assert_int_equal((uintptr_t)b->data % 64, 0);
        assert_memory_equal(b->data, a->data, (size_t)(a->shape[0] * a->strides[0]));
        assert_ptr_not_equal(b->data, a->data);
        assert_int_equal(b->dtype, a->dtype);
        assert_memory_equal(b->shape, a->shape, sizeof a->shape);
        assert_memory_equal(b->strides, a->strides, sizeof a->strides);
    }
    assert_int_equal(mr_batch_size(copy), mr_batch_size(batch));
    assert_int_equal(mr_batch_valid(copy), mr_batch_valid(batch));
    assert_int_equal(mr_batch_channels(copy), 3);
    assert_int_equal(mr_batch_channels(batch), 3);
    assert_int_equal(mr_batch_epoch(copy), mr_batch_epoch(batch));
    assert_int_equal(mr_batch_number(copy), mr_batch_number(batch));
    assert_true(mr_batch_buffer(copy) == MR_NO_BUFFER);
    assert_ptr_equal(mr_batch_part(copy, 0), copy);
    assert_int_equal(mr_batch_use(copy, NULL), MR_OK);
    assert_int_equal(mr_batch_release(batch), MR_OK);
    assert_int_equal(mr_batch_release_on(copy, NULL), MR_OK);
    mr_loader_destroy(loader);
}

static void a_whole_epoch_is_kept_as_copies_after_the_loader(void **state)
{
    needs_host_memory();
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        options.n_slots = 2;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *copies[N_BATCHES];
        for (unsigned i = 0; i < N_BATCHES; i++) {
            mr_batch *batch = rig_next(loader);
            copies[i] = copy_batch(batch);
            assert_int_equal(mr_batch_release(batch), MR_OK);
            assert_int_equal(mr_loader_n_lent(loader), 0);
        }
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
        for (unsigned i = 0; i < N_BATCHES; i++) {
            assert_int_equal(mr_batch_number(copies[i]), i);
            rig_check(copies[i]);
            assert_int_equal(mr_batch_release(copies[i]), MR_OK);
        }
    }
}

static void tensors_keep_a_copy(void **state)
{
    needs_host_memory();
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    mr_batch *copy = copy_batch(batch), *second = copy_batch(copy);
    struct DLManagedTensor *tensor;
    assert_int_equal(mr_batch_to_dlpack(copy, "label", NULL, &tensor), MR_OK);
    mr_batch_release(batch);
    mr_batch_release(copy);
    mr_loader_destroy(loader);
    rig_check(second);
    assert_memory_equal(tensor->dl_tensor.data, mr_batch_data(second, "label"),
                        8 * sizeof(int64_t));
    tensor->deleter(tensor);
    mr_batch_release(second);
}

static void lent_batches_are_counted(void **state)
{
    mr_loader_options options = rig_options();
    struct DLManagedTensor *tensor;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_n_lent(loader), 0);
    mr_batch *first = rig_next(loader), *second = rig_next(loader);
    assert_int_equal(mr_loader_n_lent(loader), 2);
    assert_int_equal(mr_batch_to_dlpack(first, "label", NULL, &tensor), MR_OK);
    mr_batch_release(first);
    mr_batch_release(second);
    assert_int_equal(mr_loader_n_lent(loader), 1);
    tensor->deleter(tensor);
    assert_int_equal(mr_loader_n_lent(loader), 0);
    mr_loader_destroy(loader);
}

static void a_batch_that_cannot_be_copied_is_refused(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader), *copy = batch;
    assert_int_equal(mr_batch_copy(batch, NULL), MR_ERR_INVALID);
    assert_words(mr_batch_error(batch)->text, "copy_out is NULL");
    if (mr_test_device().kind != MR_DEVICE_HOST) {
        assert_int_equal(mr_batch_copy(batch, &copy), MR_ERR_UNSUPPORTED);
        assert_words(mr_batch_error(batch)->text, "is in a GPU's memory");
        assert_null(copy);
    }
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void each_of_several_parts_can_be_copied(void **state)
{
    needs_host_memory();
    static const char *const devices[] = {"host:0", "host:1"};
    mr_loader_options options = rig_options();
    options.device = NULL;
    options.devices = devices;
    options.n_devices = 2;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader), *copy = batch;
    assert_int_equal(mr_batch_copy(batch, &copy), MR_ERR_UNSUPPORTED);
    assert_words(mr_batch_error(batch)->text, "the batch has 2 parts");
    assert_null(copy);
    copy = copy_batch(mr_batch_part(batch, 1));
    assert_int_equal(mr_batch_size(copy), 4);
    mr_batch_release(batch);
    rig_check(copy);
    mr_batch_release(copy);
    mr_loader_destroy(loader);
}

static void a_forked_child_cannot_make_a_copy(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader), *copy = batch;
    int ended = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(mr_batch_copy(batch, &copy) == MR_ERR_STATE && !copy && mr_loader_n_lent(loader) == 0
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_has_its_own_memory_for_the_arrays),
        cmocka_unit_test(a_whole_epoch_is_kept_as_copies_after_the_loader),
        cmocka_unit_test(tensors_keep_a_copy),
        cmocka_unit_test(lent_batches_are_counted),
        cmocka_unit_test(a_batch_that_cannot_be_copied_is_refused),
        cmocka_unit_test(each_of_several_parts_can_be_copied),
        cmocka_unit_test(a_forked_child_cannot_make_a_copy),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
