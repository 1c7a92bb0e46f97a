/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked host batches (pin_memory): the program copies from them on its own streams. A slot is
 * written again only after the streams that its batch was released on have finished.
 */
#include "tests/loader/stream_rig.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum { N_ROWS = 8, N_BATCHES = 13, LONG_MS = 20000, QUIET_MS = 30 };

/* What the GPU saw of one batch. */
struct copied {
    uint64_t number;
    uint32_t n_rows;
    uint8_t image[N_ROWS * RIG_BYTES];
    int64_t index[N_ROWS];
};

/* A trainer: its memory on a device, and what arrived there. */
struct trainer {
    int device;
    cudaStream_t stream;
    uint8_t *image;
    int64_t *index;
    struct copied *copied;
    unsigned n;
    unsigned max;
};

static void trainer_open(struct trainer *trainer, int device, unsigned max)
{
    int before;
    *trainer = (struct trainer){
        .device = device, .max = max, .copied = calloc(max, sizeof *trainer->copied)};
    assert_non_null(trainer->copied);
    trainer->stream = stage_stream(device, cudaStreamNonBlocking);
    assert_int_equal(cudaGetDevice(&before), cudaSuccess);
    assert_int_equal(cudaSetDevice(device), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&trainer->image, N_ROWS * RIG_BYTES), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&trainer->index, sizeof trainer->copied->index),
                     cudaSuccess);
    assert_int_equal(cudaSetDevice(before), cudaSuccess);
}

static void keep_image(void *user, const uint8_t *bytes, size_t len)
{
    memcpy(((struct copied *)user)->image, bytes, len);
}

static void keep_index(void *user, const uint8_t *bytes, size_t len)
{
    memcpy(((struct copied *)user)->index, bytes, len);
}

/*
 * One step: the program's own copies, each followed by a kernel. The double chooses when they run.
 */
static void trainer_copy(struct trainer *trainer, const mr_batch *batch)
{
    int before;
    assert_true(trainer->n < trainer->max);
    struct copied *copied = &trainer->copied[trainer->n++];
    size_t n = mr_batch_size(batch);
    copied->number = mr_batch_number(batch);
    copied->n_rows = (uint32_t)n;
    assert_int_equal(cudaMemcpyAsync(trainer->image, mr_batch_data(batch, "image"), n * RIG_BYTES,
                                     cudaMemcpyHostToDevice, trainer->stream),
                     cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(trainer->index, mr_batch_data(batch, "index"),
                                     n * sizeof(int64_t), cudaMemcpyHostToDevice, trainer->stream),
                     cudaSuccess);
    assert_int_equal(cudaGetDevice(&before), cudaSuccess);
    assert_int_equal(cudaSetDevice(trainer->device), cudaSuccess);
    assert_int_equal(
        double_launch_read(trainer->stream, trainer->image, n * RIG_BYTES, keep_image, copied),
        cudaSuccess);
    assert_int_equal(double_launch_read(trainer->stream, trainer->index, n * sizeof(int64_t),
                                        keep_index, copied),
                     cudaSuccess);
    assert_int_equal(cudaSetDevice(before), cudaSuccess);
}

/* In sequence: batch k has the samples 8 k, 8 k + 1, ... */
static void expect_own_bytes(const struct copied *copied)
{
    for (uint32_t r = 0; r < copied->n_rows; r++) {
        int64_t index = (int64_t)(N_ROWS * copied->number + r);
        assert_int_equal(copied->index[r], index);
        for (unsigned b = 0; b < RIG_BYTES; b++)
            assert_int_equal(copied->image[r * RIG_BYTES + b], rig_byte(index, b));
    }
}

/* Expect that every batch arrived with the bytes it had when it was lent. */
static void trainer_close(struct trainer *trainer)
{
    stage_sync(trainer->stream);
    for (unsigned i = 0; i < trainer->n; i++)
        expect_own_bytes(&trainer->copied[i]);
    assert_int_equal(cudaFree(trainer->image), cudaSuccess);
    assert_int_equal(cudaFree(trainer->index), cudaSuccess);
    stage_end_stream(trainer->stream);
    free(trainer->copied);
}

/* The ways to say which stream reads a batch. */
enum naming { BY_RELEASE_ON, BY_NEXT_ON, BY_USE, N_NAMINGS };

static mr_status take(mr_loader *loader, enum naming naming, cudaStream_t stream,
                      mr_batch **batch_out)
{
    if (naming == BY_NEXT_ON)
        return mr_loader_next_on(loader, MR_FOREVER, stream, batch_out);
    return mr_loader_next(loader, MR_FOREVER, batch_out);
}

static void train_epoch(mr_loader *loader, struct trainer *trainer, enum naming naming)
{
    mr_batch *batch;
    mr_status status;
    while ((status = take(loader, naming, trainer->stream, &batch)) == MR_OK) {
        assert_int_equal(mr_batch_array(batch, "image")->device.kind, MR_DEVICE_HOST);
        if (naming == BY_USE)
            stage_use(batch, trainer->stream, MR_OK);
        trainer_copy(trainer, batch);
        if (naming == BY_RELEASE_ON)
            stage_release_on(batch, trainer->stream, MR_OK);
        else
            stage_release(batch, MR_OK);
    }
    assert_int_equal(status, MR_END);
}

static void own_copies_see_every_batch_whatever_the_schedule(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++)
        for (unsigned naming = 0; naming < N_NAMINGS; naming++)
            for (unsigned m = 0; m < rig_n_modes; m++) {
                struct trainer trainer;
                stage_open(&options);
                mr_loader_options wanted = stage_pin_options();
                wanted.num_workers = rig_modes[m].num_workers;
                wanted.start = rig_modes[m].start;
                mr_loader *loader = stage_pinned_loader(*state, &wanted);
                trainer_open(&trainer, 0, 2 * N_BATCHES);
                train_epoch(loader, &trainer, naming);
                assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
                train_epoch(loader, &trainer, naming);
                assert_int_equal(trainer.n, 2 * N_BATCHES);
                assert_int_equal(double_count(DOUBLE_ALL_THREADS).pageable, 0);
                mr_loader_destroy(loader);
                trainer_close(&trainer);
                stage_close();
            }
}

/*
 * A batch may be copied to several GPUs. Streams belong to their GPU, whatever the current device.
 */
static void streams_of_several_devices_may_read_a_batch(void **state)
{
    struct double_options options = {.n_devices = 2};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        struct trainer trainers[2];
        mr_batch *batch;
        stage_open(&options);
        mr_loader_options wanted = stage_pin_options();
        mr_loader *loader = stage_pinned_loader(*state, &wanted);
        for (int d = 0; d < 2; d++)
            trainer_open(&trainers[d], d, N_BATCHES);
        for (unsigned k = 0; k < N_BATCHES; k++) {
            const struct trainer *last = &trainers[k % 2];
            batch = rig_next(loader);
            for (int d = 0; d < 2; d++) {
                trainer_copy(&trainers[d], batch);
                assert_int_equal(cudaSetDevice(CUDART_VERSION < 12080 ? d : (int)(k / 2 % 2)),
                                 cudaSuccess);
                if (&trainers[d] != last)
                    stage_use(batch, trainers[d].stream, MR_OK);
            }
            assert_int_equal(cudaSetDevice(CUDART_VERSION < 12080 ? last->device : 0), cudaSuccess);
            stage_release_on(batch, last->stream, MR_OK);
        }
        mr_loader_destroy(loader);
        for (int d = 0; d < 2; d++)
            trainer_close(&trainers[d]);
        stage_close();
    }
}

/* Before CUDA 12.8 a stream's device cannot be queried. */
static void without_a_query_a_stream_is_assumed_on_the_current_device(void **state)
{
    stage_open(&(struct double_options){.n_devices = 2});
    double_fail_from("cudaStreamGetDevice", 1, cudaErrorNotSupported);
    mr_loader_options wanted = stage_pin_options();
    mr_loader *loader = stage_pinned_loader(*state, &wanted);
    cudaStream_t stream = stage_stream(1, cudaStreamNonBlocking);
    mr_batch *batch = rig_next(loader);
    stage_use(batch, stream, MR_ERR_INVALID);
    assert_words(mr_batch_error(batch)->text, "not one of cuda:0");
    stage_release_on(batch, stream, MR_ERR_INVALID);
    rig_check(batch); /* still lent */
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    stage_use(batch, stream, MR_OK);
    stage_use(batch, NULL, MR_OK);
    stage_release_on(batch, stream, MR_OK);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_close();
}

static bool is_readable(int fd)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

static void expect_pending(mr_loader *loader, int fd)
{
    mr_batch *batch;
    assert_int_equal(mr_loader_next(loader, QUIET_MS, &batch), MR_PENDING);
    assert_true(fd < 0 || !is_readable(fd));
}

static void expect_number(mr_loader *loader, uint64_t number)
{
    mr_batch *batch;
    assert_int_equal(mr_loader_next(loader, LONG_MS, &batch), MR_OK);
    assert_int_equal(mr_batch_number(batch), number);
    rig_check(batch);
    stage_release(batch, MR_OK);
}

/*
 * Slots whose copies are under way become free without a call, so next() waits for them. It would
 * not wait for lent slots.
 */
static void next_waits_for_slots_whose_copies_are_under_way(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++)
        for (unsigned waits = 0; waits < 2; waits++) {
            stage_open(&(struct double_options){.policy = (enum double_policy)(m % 3)});
            mr_loader_options wanted = stage_pin_options();
            mr_batch *lent[3], *batch;
            int fd = -1;
            wanted.num_workers = rig_modes[m].num_workers;
            wanted.start = rig_modes[m].start;
            wanted.wait_when_lent = waits;
            mr_loader *loader = stage_pinned_loader(*state, &wanted);
            if (m > 0)
                assert_int_equal(mr_loader_fd(loader, &fd), MR_OK);
            cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
            assert_int_equal(double_launch_gate(stream, 1), cudaSuccess);
            for (unsigned i = 0; i < 3; i++)
                lent[i] = rig_next(loader);
            assert_int_equal(mr_loader_next(loader, 0, &batch), waits ? MR_PENDING : MR_ERR_STATE);
            for (unsigned i = 0; i < 3; i++) {
                stage_release_on(lent[i], stream, MR_OK);
                expect_pending(loader, fd);
            }
            assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
            expect_pending(loader, fd);
            double_open_gate(1);
            for (unsigned i = 0; i < 4; i++)
                expect_number(loader, i);
            mr_loader_destroy(loader);
            stage_end_stream(stream);
            stage_close();
        }
}

/* A release without a stream frees the slot at once, as on a loader that is not pinned. */
static void a_release_without_streams_waits_for_nothing(void **state)
{
    stage_open(&(struct double_options){0});
    mr_loader_options wanted = stage_pin_options();
    mr_loader *loader = stage_pinned_loader(*state, &wanted);
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    assert_int_equal(double_launch_gate(stream, 1), cudaSuccess);
    for (unsigned i = 0; i < N_BATCHES; i++)
        expect_number(loader, i);
    assert_int_equal(double_calls("cudaEventRecord"), 0);
    double_open_gate(1);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_close();
}

static void inside_a_capture_it_stays_lent(void **state)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    for (unsigned m = 0; m < 3; m++)
        for (unsigned by_default = 0; by_default < 2; by_default++) {
            cudaGraph_t graph;
            mr_batch *none = NULL;
            stage_open(&(struct double_options){.policy = DOUBLE_EARLY});
            mr_loader_options wanted = stage_pin_options();
            mr_loader *loader = stage_pinned_loader(*state, &wanted);
            cudaStream_t stream = stage_stream(0, cudaStreamDefault);
            cudaStream_t named = by_default ? NULL : stream;
            mr_batch *known = stage_next_on(loader, named), *batch = rig_next(loader);
            assert_int_equal(cudaStreamBeginCapture(stream, modes[m]), cudaSuccess);
            assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, named, &none), MR_ERR_STATE);
            assert_words(mr_loader_error(loader)->text, "capture");
            assert_null(none);
            stage_use(batch, named, MR_ERR_STATE);
            stage_release_on(batch, named, MR_ERR_STATE);
            stage_release(known, MR_ERR_STATE);
            assert_words(mr_batch_error(known)->text, "capture");
            /* the capture stayed valid */
            assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
            assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
            rig_check(known);
            rig_check(batch);
            stage_release(known, MR_OK);
            stage_release_on(batch, named, MR_OK);
            batch = stage_next_on(loader, named); /* the batch that was refused */
            assert_int_equal(mr_batch_number(batch), 2);
            stage_release(batch, MR_OK);
            mr_loader_destroy(loader);
            stage_end_stream(stream);
            stage_close();
        }
}

static void more_streams_than_the_limit_are_refused(void **state)
{
    cudaStream_t streams[9];
    stage_open(&(struct double_options){0});
    mr_loader_options wanted = stage_pin_options();
    mr_loader *loader = stage_pinned_loader(*state, &wanted);
    mr_batch *batch = rig_next(loader);
    for (unsigned i = 0; i < 9; i++) {
        streams[i] = stage_stream(0, cudaStreamNonBlocking);
        stage_use(batch, streams[i], i < 8 ? MR_OK : MR_ERR_STATE);
        stage_use(batch, streams[i / 2], MR_OK); /* known already */
    }
    stage_release_on(batch, streams[8], MR_ERR_STATE);
    stage_release_on(batch, streams[0], MR_OK);
    mr_loader_destroy(loader);
    for (unsigned i = 0; i < 9; i++)
        stage_end_stream(streams[i]);
    stage_close();
}

/* Opens gate 1 some time later. */
struct opener {
    pthread_t thread;
    _Atomic bool opened;
};

static void *open_later(void *arg)
{
    struct opener *opener = arg;
    mr_test_sleep_ms(60);
    atomic_store(&opener->opened, true);
    double_open_gate(1);
    return NULL;
}

static void begin_opener(struct opener *opener)
{
    atomic_store(&opener->opened, false);
    assert_int_equal(pthread_create(&opener->thread, NULL, open_later, opener), 0);
}

static void the_last_release_after_destroy_waits_for_its_streams(void **state)
{
    for (unsigned p = 0; p < 3; p++) {
        struct trainer trainer;
        struct opener opener;
        stage_open(&(struct double_options){.policy = (enum double_policy)p});
        mr_loader_options wanted = stage_pin_options();
        mr_loader *loader = stage_pinned_loader(*state, &wanted);
        trainer_open(&trainer, 0, 2);
        mr_batch *lent[2] = {rig_next(loader), rig_next(loader)};
        mr_loader_destroy(loader);
        assert_int_equal(double_launch_gate(trainer.stream, 1), cudaSuccess);
        for (unsigned i = 0; i < 2; i++)
            trainer_copy(&trainer, lent[i]);
        begin_opener(&opener);
        stage_release_on(lent[1], trainer.stream, MR_OK);
        stage_release_on(lent[0], trainer.stream, MR_OK);
        assert_true(atomic_load(&opener.opened));
        pthread_join(opener.thread, NULL);
        trainer_close(&trainer);
        stage_close();
    }
}

static void destroy_waits_for_streams_that_batches_were_released_on(void **state)
{
    for (unsigned p = 0; p < 3; p++) {
        struct trainer trainer;
        struct opener opener;
        stage_open(&(struct double_options){.policy = (enum double_policy)p});
        mr_loader_options wanted = stage_pin_options();
        mr_loader *loader = stage_pinned_loader(*state, &wanted);
        trainer_open(&trainer, 0, 2);
        assert_int_equal(double_launch_gate(trainer.stream, 1), cudaSuccess);
        for (unsigned i = 0; i < 2; i++) {
            mr_batch *batch = rig_next(loader);
            trainer_copy(&trainer, batch);
            stage_release_on(batch, trainer.stream, MR_OK);
        }
        begin_opener(&opener);
        mr_loader_destroy(loader);
        assert_true(atomic_load(&opener.opened));
        pthread_join(opener.thread, NULL);
        trainer_close(&trainer);
        stage_close();
    }
}

/* Streams and events of the first batches are reused: later steps create none. */
static void later_steps_create_no_events(void **state)
{
    struct trainer trainer;
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM});
    mr_loader_options wanted = stage_pin_options();
    mr_loader *loader = stage_pinned_loader(*state, &wanted);
    trainer_open(&trainer, 0, 2 * N_BATCHES);
    train_epoch(loader, &trainer, BY_RELEASE_ON);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    double_mark();
    train_epoch(loader, &trainer, BY_RELEASE_ON);
    assert_int_equal(double_count(DOUBLE_ALL_THREADS).allocations, 0);
    mr_loader_destroy(loader);
    trainer_close(&trainer);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(own_copies_see_every_batch_whatever_the_schedule),
        RIG_TEST(streams_of_several_devices_may_read_a_batch),
        RIG_TEST(without_a_query_a_stream_is_assumed_on_the_current_device),
        RIG_TEST(next_waits_for_slots_whose_copies_are_under_way),
        RIG_TEST(a_release_without_streams_waits_for_nothing),
        RIG_TEST(inside_a_capture_it_stays_lent),
        RIG_TEST(more_streams_than_the_limit_are_refused),
        RIG_TEST(the_last_release_after_destroy_waits_for_its_streams),
        RIG_TEST(destroy_waits_for_streams_that_batches_were_released_on),
        RIG_TEST(later_steps_create_no_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
