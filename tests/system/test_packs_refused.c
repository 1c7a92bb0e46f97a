/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine whose libjpeg cannot take coefficients: a loader over a pack ends with that error under
 * every policy and does not report each sample as damaged. The linker redirects the codec's call to
 * this file (--wrap), so workers are threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/packs.h"
#include "transforms/codec_packed.h"

enum { N_IMAGES = 24, PATH = 600 };

static _Atomic bool refuses;
static char *work;
static char spec[2][PATH];

mr_status __real_mr_codec_packed_open(void *state, const struct mr_packed_image *image,
                                      const uint8_t *bytes, size_t len, uint64_t offset,
                                      struct mr_image_head *head_out, mr_error *error);
mr_status __wrap_mr_codec_packed_open(void *state, const struct mr_packed_image *image,
                                      const uint8_t *bytes, size_t len, uint64_t offset,
                                      struct mr_image_head *head_out, mr_error *error);

mr_status __wrap_mr_codec_packed_open(void *state, const struct mr_packed_image *image,
                                      const uint8_t *bytes, size_t len, uint64_t offset,
                                      struct mr_image_head *head_out, mr_error *error)
{
    if (refuses)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "this libjpeg takes no coefficients");
    return __real_mr_codec_packed_open(state, image, bytes, len, offset, head_out, error);
}

static mr_loader *make_loader(mr_dataset *dataset, uint32_t workers, mr_on_error policy)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 4;
    o.num_workers = workers;
    o.start = MR_START_THREAD;
    o.on_error = policy;
    return mr_test_loader(dataset, "train:32", &o);
}

static void loader_ends_with_the_error(void **state)
{
    (void)state;
    mr_dataset *dataset = mr_test_dataset(spec[0]);
    refuses = true;
    for (int policy = MR_ON_ERROR_FAIL; policy <= MR_ON_ERROR_ZERO; policy++) {
        for (int i = 0; i < 2; i++) {
            mr_batch *batch;
            mr_loader *loader = make_loader(dataset, i ? 2 : MR_NO_WORKERS, (mr_on_error)policy);
            assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_ERR_UNSUPPORTED);
            const char *text = mr_loader_error(loader)->text;
            if (!strstr(text, "this libjpeg takes no coefficients") || !strstr(text, "shard-00000"))
                fail_msg("%s", text);
            assert_int_equal(mr_loader_set_epoch(loader, 1), MR_ERR_UNSUPPORTED);
            mr_loader_destroy(loader);
        }
    }
    refuses = false;
    mr_dataset_destroy(dataset);
}

static void unchanged_files_do_not_need_coefficients(void **state)
{
    (void)state;
    mr_dataset *dataset = mr_test_dataset(spec[1]);
    refuses = true;
    mr_loader *loader = make_loader(dataset, 2, MR_ON_ERROR_FAIL);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    refuses = false;
    assert_int_equal(epoch.status, MR_END);
    assert_int_equal(epoch.n_valid, N_IMAGES);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static int set_up(void **state)
{
    static const mr_pack_encoding encodings[] = {MR_PACK_DCT, MR_PACK_JPEG};
    char folder[PATH], pack[PATH];
    (void)state;
    work = mr_test_folder_create();
    snprintf(folder, sizeof folder, "%s/folder", work);
    if (mkdir(folder, 0777) != 0)
        return -1;
    mr_test_folder_fill(folder, 1, N_IMAGES);
    for (int i = 0; i < 2; i++) {
        snprintf(pack, sizeof pack, "%s/pack-%d", work, i);
        snprintf(spec[i], sizeof spec[i], "pack:%s/pack-%d", work, i);
        mr_test_packs_make(folder, pack, encodings[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loader_ends_with_the_error),
        cmocka_unit_test(unchanged_files_do_not_need_coefficients),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
