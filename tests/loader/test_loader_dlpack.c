/* SPDX-License-Identifier: Apache-2.0 */
/* Batches as DLPack tensors: their fields, and how long the batch's memory stays valid. */
#include "tests/loader/rig.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <millrace/millrace.h>

#include "loader/dlpack_abi.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/assert_words.h"

static struct DLManagedTensor *export_array(mr_batch *batch, const char *name)
{
    struct DLManagedTensor *tensor;
    if (mr_batch_to_dlpack(batch, name, NULL, &tensor) != MR_OK)
        fail_msg("%s", mr_batch_error(batch)->text);
    assert_non_null(tensor);
    return tensor;
}

static struct DLManagedTensorVersioned *export_versioned(mr_batch *batch, const char *name)
{
    struct DLManagedTensorVersioned *tensor;
    if (mr_batch_to_dlpack_versioned(batch, name, NULL, &tensor) != MR_OK)
        fail_msg("%s", mr_batch_error(batch)->text);
    assert_non_null(tensor);
    return tensor;
}

static void assert_tensor(const struct mr_dl_tensor *t, const mr_array *array,
                          enum mr_dl_type_code code, unsigned bits)
{
    assert_ptr_equal(t->data, array->data);
    assert_int_equal(t->byte_offset, 0);
    assert_int_equal(t->device.device_type, MR_DL_CPU);
    assert_int_equal(t->device.device_id, 0);
    assert_int_equal(t->dtype.code, code);
    assert_int_equal(t->dtype.bits, bits);
    assert_int_equal(t->dtype.lanes, 1);
    assert_int_equal(t->ndim, array->ndim);
    int64_t stride = 1;
    for (int i = t->ndim; i-- > 0;) {
        assert_int_equal(t->shape[i], array->shape[i]);
        assert_int_equal(t->strides[i], stride);
        stride *= t->shape[i];
    }
}

static void every_array_is_a_tensor_over_the_same_memory(void **state)
{
    static const struct {
        const char *name;
        enum mr_dl_type_code code;
        unsigned bits;
    } arrays[] = {{"data", MR_DL_UINT, 8},  {"image", MR_DL_UINT, 8}, {"label", MR_DL_INT, 64},
                  {"index", MR_DL_INT, 64}, {"mask", MR_DL_UINT, 8},  {"geometry", MR_DL_INT, 32}};
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const mr_array *array = mr_batch_array(batch, arrays[i].name);
        if (!array)
            continue;
        struct DLManagedTensor *tensor = export_array(batch, arrays[i].name);
        assert_tensor(&tensor->dl_tensor, array, arrays[i].code, arrays[i].bits);
        tensor->deleter(tensor);
        struct DLManagedTensorVersioned *versioned = export_versioned(batch, arrays[i].name);
        assert_int_equal(versioned->version.major, 1);
        assert_int_equal(versioned->version.minor, 0);
        assert_int_equal(versioned->flags, 0);
        assert_tensor(&versioned->dl_tensor, array, arrays[i].code, arrays[i].bits);
        versioned->deleter(versioned);
        n++;
    }
    assert_int_equal(n, mr_batch_n_arrays(batch));
    rig_check(batch); /* the deleters have not released the batch */
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void floats_of_every_kind_are_known(void **state)
{
    (void)state;
    static const struct {
        mr_dtype dtype;
        enum mr_dl_type_code code;
        unsigned bits;
    } kinds[] = {{MR_F32, MR_DL_FLOAT, 32}, {MR_F16, MR_DL_FLOAT, 16}, {MR_BF16, MR_DL_BFLOAT, 16}};
    char *folder = mr_test_folder_create(), spec[600];
    mr_test_folder_fill(folder, 1, 4);
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    for (unsigned i = 0; i < 3; i++) {
        mr_loader_options options = rig_options();
        options.batch_size = 4;
        options.dtype = kinds[i].dtype;
        mr_loader *loader = mr_test_loader(dataset, "eval:20:16", &options);
        mr_batch *batch = rig_next(loader);
        struct DLManagedTensor *tensor = export_array(batch, "image");
        assert_tensor(&tensor->dl_tensor, mr_batch_array(batch, "image"), kinds[i].code,
                      kinds[i].bits);
        tensor->deleter(tensor);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

static void an_array_that_cannot_be_exported_is_refused(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    struct DLManagedTensor *tensor = (void *)&options;
    assert_int_equal(mr_batch_to_dlpack(batch, "picture", NULL, &tensor), MR_ERR_INVALID);
    assert_null(tensor);
    assert_words(mr_batch_error(batch)->text, "'picture'");
    assert_int_equal(mr_batch_to_dlpack(batch, NULL, NULL, &tensor), MR_ERR_INVALID);
    assert_int_equal(mr_batch_to_dlpack(batch, "label", NULL, NULL), MR_ERR_INVALID);
    tensor = (void *)&options;
    assert_int_equal(mr_batch_to_dlpack(NULL, "label", NULL, &tensor), MR_ERR_INVALID);
    assert_null(tensor);
    struct DLManagedTensorVersioned *versioned = (void *)&options;
    assert_int_equal(mr_batch_to_dlpack_versioned(batch, "picture", NULL, &versioned),
                     MR_ERR_INVALID);
    assert_null(versioned);
    assert_int_equal(mr_batch_to_dlpack_versioned(batch, "label", NULL, NULL), MR_ERR_INVALID);
    assert_words(mr_batch_error(batch)->text, "tensor_out");
    versioned = (void *)&options;
    assert_int_equal(mr_batch_to_dlpack_versioned(NULL, "label", NULL, &versioned), MR_ERR_INVALID);
    assert_null(versioned);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void *delete_tensor(void *tensor)
{
    ((struct DLManagedTensor *)tensor)->deleter(tensor);
    return NULL;
}

/* Two slots, one held by tensors. Every further batch uses the other one. */
static void the_slot_is_not_reused_before_the_last_deleter(void **state)
{
    mr_loader_options options = rig_options();
    pthread_t thread;
    options.n_slots = 2;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *held = rig_next(loader);
    uint32_t buffer = mr_batch_buffer(held);
    struct DLManagedTensor *index = export_array(held, "index"),
                           *label = export_array(held, "label");
    const int64_t *indices = index->dl_tensor.data, *labels = label->dl_tensor.data;
    assert_int_equal(mr_batch_release(held), MR_OK);
    for (int i = 0; i < 8; i++) {
        if (i == 4)
            index->deleter(index);
        mr_batch *batch = rig_next(loader);
        assert_int_not_equal(mr_batch_buffer(batch), buffer);
        mr_batch_release(batch);
        for (int64_t k = 0; k < 8; k++) {
            assert_int_equal(labels[k], rig_label(k));
            if (i < 4)
                assert_int_equal(indices[k], k);
        }
    }
    assert_int_equal(pthread_create(&thread, NULL, delete_tensor, label), 0);
    pthread_join(thread, NULL);
    bool seen = false;
    for (int i = 0; i < 4; i++) {
        mr_batch *batch = rig_next(loader);
        seen |= mr_batch_buffer(batch) == buffer;
        rig_check(batch);
        mr_batch_release(batch);
    }
    assert_true(seen);
    mr_loader_destroy(loader);
}

static void with_every_slot_in_tensors_next_says_so(void **state)
{
    mr_loader_options options = rig_options();
    struct DLManagedTensor *tensors[2];
    options.n_slots = 2;
    mr_loader *loader = rig_loader(*state, &options);
    for (int i = 0; i < 2; i++) {
        mr_batch *batch = rig_next(loader);
        tensors[i] = export_array(batch, "index");
        mr_batch_release(batch);
    }
    rig_expect(loader, MR_ERR_STATE);
    tensors[1]->deleter(tensors[1]);
    mr_batch_release(rig_next(loader));
    tensors[0]->deleter(tensors[0]);
    mr_loader_destroy(loader);
}

static void a_tensor_may_outlive_the_loader(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    struct DLManagedTensor *index = export_array(batch, "index");
    struct DLManagedTensorVersioned *label = export_versioned(batch, "label");
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(((const int64_t *)index->dl_tensor.data)[i], i);
        assert_int_equal(((const int64_t *)label->dl_tensor.data)[i], rig_label(i));
    }
    index->deleter(index);
    label->deleter(label);
}

static void a_release_after_the_deleters_is_the_last_one(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    for (int i = 0; i < 100; i++) {
        struct DLManagedTensor *tensor = export_array(batch, "mask");
        tensor->deleter(tensor);
    }
    rig_check(batch);
    mr_loader_destroy(loader);
    rig_check(batch);
    mr_batch_release(batch);
}

static void buffers_of_a_device_are_held_too(void **state)
{
    mr_loader_options options = rig_options();
    options.device = "host:1";
    options.n_buffers = 2;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    uint32_t buffer = mr_batch_buffer(batch);
    const char *name = mr_batch_array_at(batch, 0)->name;
    struct DLManagedTensor *tensor = export_array(batch, name);
    /* host:1 is this CPU */
    assert_tensor(&tensor->dl_tensor, mr_batch_array_at(batch, 0), MR_DL_UINT, 8);
    mr_batch_release(batch);
    for (int i = 0; i < 6; i++) {
        batch = rig_next(loader);
        assert_int_not_equal(mr_batch_buffer(batch), buffer);
        mr_batch_release(batch);
    }
    const uint8_t *bytes = tensor->dl_tensor.data;
    for (unsigned i = 0; i < RIG_BYTES; i++)
        assert_int_equal(bytes[RIG_BYTES + i], rig_byte(1, i));
    tensor->deleter(tensor);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(every_array_is_a_tensor_over_the_same_memory),
        RIG_TEST(floats_of_every_kind_are_known),
        RIG_TEST(an_array_that_cannot_be_exported_is_refused),
        RIG_TEST(the_slot_is_not_reused_before_the_last_deleter),
        RIG_TEST(with_every_slot_in_tensors_next_says_so),
        RIG_TEST(a_tensor_may_outlive_the_loader),
        RIG_TEST(a_release_after_the_deleters_is_the_last_one),
        RIG_TEST(buffers_of_a_device_are_held_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
