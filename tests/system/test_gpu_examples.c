/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The examples of the GPU path as programs, linked with the double of the CUDA runtime. They must
 * print the results of a loader on host:0, in any order in which the double runs the queued work.
 * The double ends a program with status 86 if two accesses to memory are unordered or something is
 * not freed.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <millrace/millrace.h>

#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/assert_words.h"

/*
 * 66 images: two batches of 32 and one of 2, too few for four GPUs; or eight batches of 8 and one
 * of 2.
 */
enum { N_CLASSES = 2, N_EACH = 33, SEEN = 256, N_EPOCHS = 2, TEXT = 4000 };

static const char *const schedules[] = {"policy=late", "policy=early", "policy=random,seed=1",
                                        "policy=random,seed=2"};
enum { N_SCHEDULES = sizeof schedules / sizeof *schedules };

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(N_CLASSES, N_EACH);
    return 0;
}

/*
 * Run a program over the folder. Returns its exit status. text gets its stdout, or what redirect
 * selects.
 */
static int run_program(const char *program, const char *double_options, const char *arguments,
                       const char *redirect, char *text)
{
    char command[3 * TEXT];
    size_t len;
    int status;

    snprintf(command, sizeof command, "MR_CUDA_DOUBLE='%s' '%s' '%s' %s %s", double_options,
             program, folder, arguments, redirect);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    len = fread(text, 1, TEXT - 1, pipe);
    text[len] = '\0';
    status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- what they should print ---- */

/* An epoch's images and their checksum, which does not depend on their order. */
struct sums {
    int64_t n;
    uint64_t checksum;
};

static void add_batch(const mr_batch *batch, struct sums *sums)
{
    const mr_array *image = mr_batch_array(batch, "image");
    const int64_t *labels = mr_batch_data(batch, "label");

    for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
        const uint8_t *pixels =
            (const uint8_t *)image->data + (size_t)i * (size_t)image->strides[0];
        uint64_t sample = (uint64_t)labels[i];
        for (int j = 0; j < SEEN; j++)
            sample = sample * 31 + pixels[j];
        sums->checksum += sample;
        sums->n++;
    }
}

static struct sums sum_epoch(mr_loader *loader, uint64_t epoch)
{
    struct sums sums = {0};
    mr_batch *batch = NULL;
    mr_status status;

    assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        add_batch(batch, &sums);
        assert_int_equal(mr_batch_release(batch), MR_OK);
    }
    assert_int_equal(status, MR_END);
    return sums;
}

/* The lines that a program with these options must print. */
static void expect_lines(mr_loader_options options, char *text_out)
{
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_error error;
    size_t len = 0;

    options.device = "host:0";
    options.n_epochs = N_EPOCHS;
    assert_int_equal(mr_dataset_open(folder, NULL, &dataset, &error), MR_OK);
    assert_ok(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    for (uint64_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        struct sums sums = sum_epoch(loader, epoch);
        len += (size_t)snprintf(text_out + len, TEXT - len,
                                "epoch %" PRIu64 ": %" PRId64 " images, checksum %016" PRIx64 "\n",
                                epoch, sums.n, sums.checksum);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* Remove the lines that contain a word. */
static void drop_lines(char *text, const char *word)
{
    char *to = text;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t len = (size_t)(end + 1 - line);
        bool stays = !memmem(line, len, word, strlen(word));
        memmove(to, line, len);
        to += stays ? len : 0;
    }
    *to = '\0';
}

/* Run the program under every schedule. */
static void compare_schedules(const char *program, uint32_t n_devices, const char *arguments,
                              const char *expected)
{
    for (int i = 0; i < N_SCHEDULES; i++) {
        char options[100], text[TEXT];

        snprintf(options, sizeof options, "devices=%u,%s", n_devices, schedules[i]);
        int status = run_program(program, options, arguments, "", text);
        if (status != 0)
            fail_msg("%s %s, %s: status %d", program, arguments, options, status);
        drop_lines(text, "cuda"); /* the lines of single GPUs */
        assert_string_equal(text, expected);
    }
}

/* ---- the tests ---- */

static void two_streams_get_the_hosts_batches(void **state)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    char expected[TEXT];

    (void)state;
    options.dtype = MR_F16;
    options.batch_size = 32;
    expect_lines(options, expected);
    assert_words(expected, "epoch 1: 66 images");
    compare_schedules(MR_TEST_GPU_BATCH, 2, "1", expected);
}

static void a_graph_for_each_buffer_gets_the_hosts_batches(void **state)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    char expected[TEXT];

    (void)state;
    options.dtype = MR_BF16;
    options.layout = MR_NHWC;
    options.pad_channels = 4;
    options.batch_size = 8;
    options.drop_last = true;
    expect_lines(options, expected);
    assert_words(expected, "epoch 1: 64 images");
    compare_schedules(MR_TEST_GRAPH_BATCH, 1, "", expected);
}

static void parts_on_several_gpus_make_the_whole_batch(void **state)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    char expected[TEXT];

    (void)state;
    options.dtype = MR_F32;
    options.batch_size = 32;
    expect_lines(options, expected);
    compare_schedules(MR_TEST_MULTI_GPU, 2, "0 1", expected);
    compare_schedules(MR_TEST_MULTI_GPU, 4, "3 1 0 2", expected);
}

/*
 * Of each 32 images each of two GPUs gets 16, each of four 8. Of the last 2 images, the first two
 * GPUs get one each.
 */
static void each_gpu_gets_its_chunk(void **state)
{
    char text[TEXT];

    (void)state;
    assert_int_equal(run_program(MR_TEST_MULTI_GPU, "devices=2", "0 1", "", text), 0);
    assert_words(text, "epoch 0, cuda:0: 33 images");
    assert_words(text, "epoch 1, cuda:1: 33 images");
    assert_int_equal(run_program(MR_TEST_MULTI_GPU, "devices=4", "3 1 0 2", "", text), 0);
    assert_words(text, "epoch 0, cuda:3: 17 images");
    assert_words(text, "epoch 0, cuda:1: 17 images");
    assert_words(text, "epoch 1, cuda:0: 16 images");
    assert_words(text, "epoch 1, cuda:2: 16 images");
}

static void labels_on_another_gpu_or_the_host_are_those_of_the_images(void **state)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    char expected[TEXT];

    (void)state;
    options.dtype = MR_F16;
    options.batch_size = 32;
    expect_lines(options, expected);
    compare_schedules(MR_TEST_MODEL_PARALLEL, 2, "0 1", expected);
    compare_schedules(MR_TEST_MODEL_PARALLEL, 2, "1 host", expected);
}

static void a_missing_gpu_is_an_error_of_one_line(void **state)
{
    static const struct {
        const char *program;
        const char *arguments;
    } calls[] = {{MR_TEST_GPU_BATCH, "5"},
                 {MR_TEST_GRAPH_BATCH, "5"},
                 {MR_TEST_MULTI_GPU, "0 5"},
                 {MR_TEST_MODEL_PARALLEL, "0 5"},
                 {MR_TEST_MODEL_PARALLEL, "5 host"}};
    char text[TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_int_equal(
            run_program(calls[i].program, "devices=2", calls[i].arguments, "2>&1 >/dev/null", text),
            1);
        drop_lines(text, "usable CPU"); /* a warning on small machines */
        assert_words(text, "cuda:5");
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    }
}

#ifdef MR_TEST_REAL_GPU_BATCH
/*
 * The program as it is built for users, with the real CUDA runtime. GPUs of the machine are hidden
 * from it.
 */
static void without_a_gpu_the_real_program_reports_it(void **state)
{
    char text[TEXT];

    (void)state;
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
    assert_int_equal(run_program(MR_TEST_REAL_GPU_BATCH, "", "", "2>&1", text), 1);
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    drop_lines(text, "usable CPU");
    if (strcmp(text, "no NVIDIA driver\n") != 0 &&
        strcmp(text, "no CUDA device is visible (CUDA_VISIBLE_DEVICES=)\n") != 0)
        fail_msg("it prints \"%s\"", text);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef MR_TEST_REAL_GPU_BATCH
        cmocka_unit_test(without_a_gpu_the_real_program_reports_it),
#endif
        cmocka_unit_test(two_streams_get_the_hosts_batches),
        cmocka_unit_test(a_graph_for_each_buffer_gets_the_hosts_batches),
        cmocka_unit_test(parts_on_several_gpus_make_the_whole_batch),
        cmocka_unit_test(each_gpu_gets_its_chunk),
        cmocka_unit_test(labels_on_another_gpu_or_the_host_are_those_of_the_images),
        cmocka_unit_test(a_missing_gpu_is_an_error_of_one_line),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
