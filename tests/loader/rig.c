/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig's callbacks. They run in threads and in forked workers, so their counts are in shared
 * memory. A sample's bytes are a new allocation that only release frees.
 */
#include "tests/loader/rig.h"

#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/futex.h"
#include "tests/support/processes.h"

const struct rig_mode rig_modes[] = {
    {"none", MR_NO_WORKERS, MR_START_DEFAULT},
    {"thread", 2, MR_START_THREAD},
#ifndef MR_TEST_TSAN
    {"fork", 2, MR_START_FORK},
#endif
};
const unsigned rig_n_modes = sizeof rig_modes / sizeof *rig_modes;

void rig_needs_fork(void)
{
    if (rig_modes[rig_n_modes - 1].start != MR_START_FORK)
        skip();
}

uint8_t rig_byte(int64_t index, unsigned i)
{
    return (uint8_t)(index * 31 + i * 7 + (index >> 8));
}

int64_t rig_label(int64_t index)
{
    return 1000000007 * index - 5;
}

static void wait_at_gate(struct rig_shared *shared)
{
    atomic_fetch_add(&shared->n_at_gate, 1);
    while (atomic_load(&shared->gate))
        mr_futex_wait(&shared->gate, 1, 20);
    atomic_fetch_sub(&shared->n_at_gate, 1);
}

static void wait_for_others(const struct rig_shared *shared, int64_t index)
{
    while (index == shared->late && atomic_load(&shared->n_gets) < shared->late_gets)
        usleep(200);
}

static int get(void *user, int64_t index, mr_sample *sample)
{
    const struct rig *rig = user;
    atomic_fetch_add(&rig->shared->gets[index], 1);
    atomic_fetch_add(&rig->shared->n_gets, 1);
    atomic_fetch_add(&rig->shared->n_live, 1);
    wait_at_gate(rig->shared);
    wait_for_others(rig->shared, index);
    if (rig->shared->slow_us)
        usleep(rig->shared->slow_us);
    if (sample->struct_size != sizeof *sample)
        abort();
    if (rig->shared->fails[index]) {
        snprintf(sample->error, sizeof sample->error, "sample %lld is broken", (long long)index);
        return 7;
    }
    uint8_t *bytes = malloc(RIG_BYTES);
    if (!bytes)
        abort();
    for (unsigned i = 0; i < RIG_BYTES; i++)
        bytes[i] = rig_byte(index, i);
    sample->bytes = sample->cookie = bytes;
    sample->len_bytes = RIG_BYTES;
    sample->label = rig_label(index);
    return 0;
}

static void release(void *user, mr_sample *sample)
{
    const struct rig *rig = user;
    free(sample->cookie);
    atomic_fetch_sub(&rig->shared->n_live, 1);
}

struct rig *rig_create(int64_t n)
{
    struct rig *rig = calloc(1, sizeof *rig);
    mr_error error;
    assert_true(rig && n <= RIG_MAX);
    rig->n = n;
    rig->shared =
        mmap(NULL, sizeof *rig->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(rig->shared != MAP_FAILED);
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = n;
    callbacks.get = get;
    callbacks.release = release;
    callbacks.user = rig;
    callbacks.ndim = 3;
    callbacks.shape[0] = RIG_CHANNELS;
    callbacks.shape[1] = RIG_HEIGHT;
    callbacks.shape[2] = RIG_WIDTH;
    if (mr_dataset_from_callbacks(&callbacks, &rig->dataset, &error) != MR_OK)
        fail_msg("%s", error.text);
    return rig;
}

void rig_destroy(struct rig *rig)
{
    mr_dataset_destroy(rig->dataset);
    munmap(rig->shared, sizeof *rig->shared);
    free(rig);
}

int rig_setup(void **state)
{
    *state = rig_create(100);
    return 0;
}

int rig_teardown(void **state)
{
    rig_destroy(*state);
    return 0;
}

mr_loader_options rig_options_of(const struct rig_mode *mode)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 8;
    options.no_shuffle = true;
    options.num_workers = mode->num_workers;
    options.start = mode->start;
    return options;
}

mr_loader_options rig_options(void)
{
    return rig_options_of(&rig_modes[1]);
}

mr_loader *rig_loader(struct rig *rig, const mr_loader_options *options)
{
    mr_loader *loader;
    mr_error error;
    mr_loader_options on_device;
    if (options && mr_test_copies()) {
        on_device = *options;
        mr_test_set_devices(&on_device);
        options = &on_device;
    }
    if (mr_loader_create(rig->dataset, NULL, options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    return loader;
}

void rig_refuses(struct rig *rig, const mr_loader_options *options, mr_status status,
                 const char *words)
{
    mr_loader *loader = (void *)rig;
    mr_error error = {0};
    assert_int_equal(mr_loader_create(rig->dataset, NULL, options, &loader, &error), status);
    assert_null(loader);
    assert_int_equal(error.status, status);
    assert_words(error.text, words);
    assert_int_equal(mr_loader_create(rig->dataset, NULL, options, &loader, NULL), status);
}

mr_batch *rig_next(mr_loader *loader)
{
    mr_batch *batch;
    mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
    if (status != MR_OK)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
    assert_non_null(batch);
    return batch;
}

void rig_expect(mr_loader *loader, mr_status expected)
{
    mr_batch *batch = (void *)&loader;
    mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
    if (status != expected)
        fail_msg("%s in place of %s: %s", mr_status_name(status), mr_status_name(expected),
                 mr_loader_error(loader)->text);
    assert_null(batch);
    if (status < 0)
        assert_int_equal(mr_loader_error(loader)->status, status);
}

static void check_part(const mr_batch *batch)
{
    const uint8_t *image = mr_test_data(batch, "image"), *mask = mr_test_data(batch, "mask");
    const int64_t *label = mr_test_data(batch, "label"), *index = mr_test_data(batch, "index");
    uint32_t n_valid = 0;
    for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
        assert_true(mask[i] <= 1);
        n_valid += mask[i];
        if (mask[i])
            assert_int_equal(label[i], rig_label(index[i]));
        else
            assert_int_equal(label[i], 0);
        for (unsigned k = 0; k < RIG_BYTES; k++)
            assert_int_equal(image[i * RIG_BYTES + k], mask[i] ? rig_byte(index[i], k) : 0);
    }
    assert_int_equal(mr_batch_valid(batch), n_valid);
}

void rig_check(mr_batch *batch)
{
    uint32_t n_rows = 0, n_valid = 0;
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
        const mr_batch *part = mr_batch_part(batch, p);
        check_part(part);
        n_rows += mr_batch_size(part);
        n_valid += mr_batch_valid(part);
    }
    assert_int_equal(mr_batch_size(batch), n_rows);
    assert_int_equal(mr_batch_valid(batch), n_valid);
    assert_null(mr_batch_part(batch, mr_batch_n_parts(batch)));
}

/* Append the indices of a batch, -1 for holes; returns the new number. */
static unsigned add_indices(mr_batch *batch, int64_t *indices, unsigned n, unsigned max)
{
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
        const mr_batch *part = mr_batch_part(batch, p);
        const uint8_t *mask = mr_test_data(part, "mask");
        const int64_t *index = mr_test_data(part, "index");
        for (uint32_t i = 0; i < mr_batch_size(part); i++) {
            assert_true(n < max);
            indices[n++] = mask[i] ? index[i] : -1;
        }
    }
    return n;
}

unsigned rig_drain(mr_loader *loader, bool boundaries, int64_t *indices_out, unsigned max)
{
    unsigned n = 0;
    mr_status status;
    mr_batch *batch;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        rig_check(batch);
        n = add_indices(batch, indices_out, n, max);
        if (boundaries) {
            assert_true(n < max);
            indices_out[n++] = -2;
        }
        mr_batch_release(batch);
    }
    if (status != MR_END)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
    return n;
}

/* Log lines may come from any thread. */
static struct {
    pthread_mutex_t lock;
    unsigned n;
    char lines[64][200];
} captured = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    pthread_mutex_lock(&captured.lock);
    if (captured.n < 64)
        snprintf(captured.lines[captured.n++], sizeof captured.lines[0], "%d %s", (int)level, line);
    pthread_mutex_unlock(&captured.lock);
}

void rig_log_capture(void)
{
    captured.n = 0;
    mr_log_set(keep_line, NULL);
}

unsigned rig_log_count(const char *words)
{
    unsigned n = 0;
    pthread_mutex_lock(&captured.lock);
    for (unsigned i = 0; i < captured.n; i++)
        n += strstr(captured.lines[i], words) != NULL;
    pthread_mutex_unlock(&captured.lock);
    return n;
}

void rig_log_end(void)
{
    mr_log_set(NULL, NULL);
}
