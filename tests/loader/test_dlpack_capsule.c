/* SPDX-License-Identifier: Apache-2.0 */
/* The destructor of Python's capsules, with a double of the two functions that it looks up. */
#include "tests/loader/rig.h"

#include <string.h>

#include "loader/dlpack_abi.h"

struct capsule {
    const char *name;
    void *pointer;
};

static unsigned n_pointers; /* how often a capsule's pointer was requested */

/* Like Python's: if the capsule has another name, that is not an error. */
MR_API int PyCapsule_IsValid(void *object, const char *name);
int PyCapsule_IsValid(void *object, const char *name)
{
    const struct capsule *capsule = object;
    return capsule && strcmp(capsule->name, name) == 0;
}

MR_API void *PyCapsule_GetPointer(void *object, const char *name);
void *PyCapsule_GetPointer(void *object, const char *name)
{
    const struct capsule *capsule = object;
    assert_string_equal(capsule->name, name);
    n_pointers++;
    return capsule->pointer;
}

/* Of two slots one is lent. Is the other one free? */
static bool has_free_slot(mr_loader *loader)
{
    mr_batch *batch;
    mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
    if (status == MR_OK)
        mr_batch_release(batch);
    else
        assert_int_equal(status, MR_ERR_STATE);
    return status == MR_OK;
}

static void *export_index(mr_batch *batch, bool versioned)
{
    struct DLManagedTensorVersioned *new = NULL;
    struct DLManagedTensor *old = NULL;
    mr_status status = versioned ? mr_batch_to_dlpack_versioned(batch, "index", NULL, &new)
                                 : mr_batch_to_dlpack(batch, "index", NULL, &old);
    assert_int_equal(status, MR_OK);
    return versioned ? (void *)new : (void *)old;
}

static void delete_tensor(void *tensor, bool versioned)
{
    if (versioned)
        ((struct DLManagedTensorVersioned *)tensor)->deleter(tensor);
    else
        ((struct DLManagedTensor *)tensor)->deleter(tensor);
}

static void a_capsule_that_was_not_consumed_frees_its_tensor(void **state)
{
    for (int versioned = 0; versioned < 2; versioned++) {
        mr_loader_options options = rig_options();
        options.n_slots = 2;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *held = rig_next(loader), *batch = rig_next(loader);
        struct capsule capsule = {versioned ? "dltensor_versioned" : "dltensor",
                                  export_index(batch, versioned)};
        mr_batch_release(batch);
        assert_false(has_free_slot(loader));
        mr_dlpack_capsule_destroy(&capsule);
        assert_true(has_free_slot(loader));
        mr_batch_release(held);
        mr_loader_destroy(loader);
    }
}

static void a_capsule_that_was_consumed_keeps_its_tensor(void **state)
{
    for (int versioned = 0; versioned < 2; versioned++) {
        mr_loader_options options = rig_options();
        options.n_slots = 2;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *held = rig_next(loader), *batch = rig_next(loader);
        void *tensor = export_index(batch, versioned);
        struct capsule capsule = {versioned ? "used_dltensor_versioned" : "used_dltensor", tensor};
        mr_batch_release(batch);
        n_pointers = 0;
        mr_dlpack_capsule_destroy(&capsule);
        assert_int_equal(n_pointers, 0);
        assert_false(has_free_slot(loader));
        delete_tensor(tensor, versioned);
        assert_true(has_free_slot(loader));
        mr_batch_release(held);
        mr_loader_destroy(loader);
    }
}

static void other_capsules_are_left_alone(void **state)
{
    (void)state;
    struct capsule capsule = {"numpy.something", NULL};
    n_pointers = 0;
    mr_dlpack_capsule_destroy(&capsule);
    mr_dlpack_capsule_destroy(NULL);
    assert_int_equal(n_pointers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_capsule_that_was_not_consumed_frees_its_tensor),
        RIG_TEST(a_capsule_that_was_consumed_keeps_its_tensor),
        cmocka_unit_test(other_capsules_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
