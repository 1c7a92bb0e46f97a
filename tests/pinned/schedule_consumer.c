/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer of a schedule: takes batches for streams or for the host, reads them with kernels
 * that compare every byte when they run, and releases them in one of the ways that the interface
 * allows.
 *
 * Invariant: its current device is random, and must be the same after each call of the copier.
 */
#include "tests/pinned/schedule_rig.h"

#include <stdio.h>
#include <string.h>

static void choose_device(struct schedule_rig *rig, int gpu)
{
    schedule_expect_cuda(rig, "cudaSetDevice", cudaSetDevice(gpu));
}

/* Make any device current: between calls the caller's device is arbitrary. */
static void choose_any_device(struct schedule_rig *rig)
{
    choose_device(rig, (int)schedule_draw(&rig->plan, SCHEDULE_GPUS));
}

/*
 * Page-lock labels on the host, so that kernels can read them. Their addresses stay the same for
 * the copier's lifetime.
 */
static void register_labels(struct schedule_rig *rig)
{
    for (uint32_t b = 0; b < rig->plan.n_buffers; b++)
        schedule_expect_cuda(rig, "cudaHostRegister",
                             cudaHostRegister(mr_copier_part(rig->copier, b, 0).small,
                                              rig->plan.oracle.layout.small_bytes,
                                              cudaHostRegisterPortable));
}

void schedule_consumer_leave(struct schedule_rig *rig)
{
    double_as_thread(THREAD_CONSUMER);
    if (rig->plan.labels != LABELS_ON_HOST || rig->streams[0][1] == NULL)
        return;
    for (int gpu = 0; gpu < SCHEDULE_GPUS; gpu++) {
        choose_device(rig, gpu);
        schedule_expect_cuda(rig, "cudaDeviceSynchronize", cudaDeviceSynchronize());
    }
    for (uint32_t b = 0; b < rig->plan.n_buffers; b++)
        schedule_expect_cuda(rig, "cudaHostUnregister",
                             cudaHostUnregister(mr_copier_part(rig->copier, b, 0).small));
}

void schedule_consumer_open(struct schedule_rig *rig)
{
    double_as_thread(THREAD_CONSUMER);
    double_acquire(&rig->created_token);
    if (rig->plan.labels == LABELS_ON_HOST)
        register_labels(rig);
    for (int gpu = 0; gpu < SCHEDULE_GPUS; gpu++) {
        choose_device(rig, gpu);
        for (uint32_t i = 1; i < SCHEDULE_STREAMS; i++)
            schedule_expect_cuda(
                rig, "cudaStreamCreateWithFlags",
                cudaStreamCreateWithFlags(&rig->streams[gpu][i],
                                          i == 1 ? cudaStreamDefault : cudaStreamNonBlocking));
    }
    choose_any_device(rig);
}

void schedule_consumer_close(struct schedule_rig *rig)
{
    double_as_thread(THREAD_CONSUMER);
    for (int gpu = 0; gpu < SCHEDULE_GPUS; gpu++)
        for (uint32_t i = 1; i < SCHEDULE_STREAMS; i++)
            if (rig->streams[gpu][i] != NULL) {
                choose_device(rig, gpu);
                schedule_expect_cuda(rig, "cudaStreamDestroy",
                                     cudaStreamDestroy(rig->streams[gpu][i]));
            }
}

/* ---- reading ---- */

static void compare(void *user, void *const *views)
{
    struct schedule_read *read = user;
    struct schedule_rig *rig = read->rig;
    char why[160];
    bool right = read->small
                     ? oracle_check_small(&rig->plan.oracle, read->sequence, read->n, views[0], why)
                     : oracle_check_image(&rig->plan.oracle, read->sequence, read->first, read->n,
                                          views[0], why);
    read->done = true;
    if (!right && rig->result->n_wrong++ + rig->result->n_failed == 0)
        snprintf(rig->result->why, sizeof rig->result->why, "%s", why);
}

/* From the labels to the end of the geometry. */
static size_t small_len(const struct schedule_rig *rig, uint32_t n_rows)
{
    const struct mr_slot_layout *l = &rig->plan.oracle.layout;
    return l->columns.column[MR_COLUMN_GEOMETRY].off - l->small_off + n_rows * 8 * sizeof(int32_t);
}

static void launch(struct schedule_rig *rig, const struct schedule_lane *lane,
                   const struct schedule_read *what, void *memory, size_t len)
{
    if (rig->n_reads == SCHEDULE_MAX_READS || len == 0)
        return;
    struct schedule_read *read = &rig->reads[rig->n_reads++];
    *read = *what;
    read->rig = rig;
    struct double_kernel kernel = {.name = "compare",
                                   .accesses = {{.memory = memory, .len = len}},
                                   .n_accesses = 1,
                                   .run = compare,
                                   .user = read};
    choose_device(rig, lane->gpu);
    if (!schedule_expect_cuda(rig, "a kernel", double_launch(lane->stream, &kernel)))
        read->done = true;
    choose_any_device(rig);
}

/* Read a part by a lane, as far as its device can reach the part. */
static void read_part(struct schedule_rig *rig, uint32_t b, uint32_t p,
                      const struct schedule_lane *lane)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    struct mr_copied_part part = mr_copier_part(rig->copier, b, p);
    uint32_t what = 1 + schedule_draw(&rig->plan, 3);
    struct schedule_read read = {
        .sequence = buffer->sequence, .first = part.first_row, .n = part.n_rows};
    if (lane->gpu == part.image_device.id && what & 1)
        launch(rig, lane, &read, part.image, part.n_rows * rig->plan.oracle.row_bytes);
    read.small = true;
    read.n = buffer->n_rows;
    bool reaches = part.label_device.kind == MR_DEVICE_HOST || part.label_device.id == lane->gpu;
    if (reaches && (what & 2 || lane->gpu != part.image_device.id) && buffer->n_rows > 0)
        launch(rig, lane, &read, part.small, small_len(rig, buffer->n_rows));
}

/* ---- taking ---- */

static void check_unmoved(struct schedule_rig *rig, int before)
{
    int after = -1;
    schedule_expect_cuda(rig, "cudaGetDevice", cudaGetDevice(&after));
    if (after != before)
        schedule_fail(rig, "the caller's device was %d and is %d", before, after);
    schedule_expect_cuda(rig, "cudaPeekAtLastError", cudaPeekAtLastError());
}

static void use(struct schedule_rig *rig, uint32_t b, uint32_t p, struct schedule_lane *lane,
                bool arrives)
{
    int device = -1;
    mr_error error = {0};
    schedule_expect_cuda(rig, "cudaGetDevice", cudaGetDevice(&device));
    schedule_phase(rig, PHASE_USE);
    schedule_expect(rig, "use", mr_copier_use(rig->copier, b, p, lane->stream, arrives, &error),
                    &error);
    check_unmoved(rig, device);
    lane->named = true;
}

static struct schedule_lane *add_lane(struct schedule_rig *rig, uint32_t b, uint32_t p, int gpu,
                                      uint32_t stream)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    struct schedule_lane *lane = &buffer->lanes[p][buffer->n_lanes[p]++];
    *lane = (struct schedule_lane){.gpu = gpu, .stream = rig->streams[gpu][stream]};
    return lane;
}

/* Order `to` after the work that `from` has so far, with an event of the consumer's. */
static void order_lanes(struct schedule_rig *rig, const struct schedule_lane *from,
                        const struct schedule_lane *to)
{
    cudaEvent_t event = NULL;
    choose_device(rig, from->gpu);
    if (!schedule_expect_cuda(rig, "cudaEventCreateWithFlags",
                              cudaEventCreateWithFlags(&event, cudaEventDisableTiming)))
        return;
    schedule_expect_cuda(rig, "cudaEventRecord", cudaEventRecord(event, from->stream));
    choose_device(rig, to->gpu);
    schedule_expect_cuda(rig, "cudaStreamWaitEvent", cudaStreamWaitEvent(to->stream, event, 0));
    schedule_expect_cuda(rig, "cudaEventDestroy", cudaEventDestroy(event));
    choose_any_device(rig);
}

static void take_part(struct schedule_rig *rig, uint32_t b, uint32_t p)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    struct mr_copied_part part = mr_copier_part(rig->copier, b, p);
    for (uint32_t i = 1 + schedule_draw(&rig->plan, 2); i > 0; i--) {
        struct schedule_lane *lane =
            add_lane(rig, b, p, part.image_device.id, schedule_draw(&rig->plan, SCHEDULE_STREAMS));
        if (buffer->lanes_wait)
            use(rig, b, p, lane, p == 0 && buffer->n_lanes[p] == 1);
    }
    if (rig->plan.labels == LABELS_ON_ANOTHER_GPU) {
        struct schedule_lane *lane = add_lane(rig, b, p, part.label_device.id,
                                              1 + schedule_draw(&rig->plan, SCHEDULE_STREAMS - 1));
        if (buffer->lanes_wait)
            use(rig, b, p, lane, false);
    }
    /* one more lane, ordered only by the consumer's event */
    if (schedule_draw(&rig->plan, 3) == 0) {
        uint32_t stream = 1 + schedule_draw(&rig->plan, SCHEDULE_STREAMS - 1);
        struct schedule_lane *lane = add_lane(rig, b, p, part.image_device.id, stream);
        if (!rig->faults.read_without_use)
            order_lanes(rig, &buffer->lanes[p][0], lane);
    }
    for (uint32_t i = 0; i < buffer->n_lanes[p]; i++)
        read_part(rig, b, p, &buffer->lanes[p][i]);
}

/* Parts are split like torch.chunk. */
static void check_parts(struct schedule_rig *rig, uint32_t b)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    uint32_t chunk = (buffer->n_rows + rig->plan.n_parts - 1) / rig->plan.n_parts;
    uint32_t n_parts = chunk == 0 ? 1 : (buffer->n_rows + chunk - 1) / chunk;
    if (buffer->n_parts != n_parts) {
        schedule_fail(rig, "%u rows are %u parts, not %u", buffer->n_rows, buffer->n_parts,
                      n_parts);
        buffer->n_parts = 0;
    }
    for (uint32_t p = 0; p < buffer->n_parts; p++) {
        struct mr_copied_part part = mr_copier_part(rig->copier, b, p);
        uint32_t n = buffer->n_rows - p * chunk < chunk ? buffer->n_rows - p * chunk : chunk;
        if (part.first_row != p * chunk || part.n_rows != n ||
            part.image_device.id != rig->plan.gpus[p])
            schedule_fail(rig, "part %u of %u rows: rows %u to %u on %d", p, buffer->n_rows,
                          part.first_row, part.first_row + part.n_rows, (int)part.image_device.id);
    }
}

static void check_host_labels(struct schedule_rig *rig, uint32_t b)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    char why[160];
    for (uint32_t p = 0; p < buffer->n_parts; p++) {
        struct mr_copied_part part = mr_copier_part(rig->copier, b, p);
        if (part.label_device.kind == MR_DEVICE_HOST &&
            !oracle_check_small(&rig->plan.oracle, buffer->sequence, buffer->n_rows, part.small,
                                why))
            schedule_fail(rig, "on the host: %s", why);
    }
}

void schedule_consumer_take(struct schedule_rig *rig)
{
    bool for_streams = schedule_draw(&rig->plan, 3) != 0;
    if (rig->n_taken == rig->n_issued)
        return;
    uint32_t b = rig->buffer_of[rig->n_taken];
    struct schedule_buffer *buffer = &rig->buffers[b];
    if (!for_streams && !buffer->awaited && !rig->faults.take_early)
        return;
    rig->n_taken++;
    buffer->taken = true;
    buffer->lanes_wait = for_streams;
    double_as_thread(THREAD_CONSUMER);
    double_acquire(&buffer->issued_token);
    if (!for_streams)
        double_acquire(&buffer->awaited_token);
    buffer->n_parts = mr_copier_n_parts(rig->copier, b);
    check_parts(rig, b);
    for (uint32_t p = 0; p < buffer->n_parts; p++)
        take_part(rig, b, p);
    check_host_labels(rig, b);
}

/* Find any lent batch; false if there is none. */
static bool find_lent(struct schedule_rig *rig, uint32_t *buffer_out)
{
    uint32_t start = schedule_draw(&rig->plan, rig->plan.n_buffers);
    for (uint32_t i = 0; i < rig->plan.n_buffers; i++) {
        *buffer_out = (start + i) % rig->plan.n_buffers;
        const struct schedule_buffer *buffer = &rig->buffers[*buffer_out];
        if (buffer->busy && buffer->taken && !buffer->released)
            return true;
    }
    return false;
}

void schedule_consumer_read(struct schedule_rig *rig)
{
    uint32_t b;
    if (!find_lent(rig, &b) || rig->buffers[b].n_parts == 0)
        return;
    double_as_thread(THREAD_CONSUMER);
    uint32_t p = schedule_draw(&rig->plan, rig->buffers[b].n_parts);
    uint32_t lane = schedule_draw(&rig->plan, rig->buffers[b].n_lanes[p]);
    read_part(rig, b, p, &rig->buffers[b].lanes[p][lane]);
}

/* ---- releasing ---- */

static void sync_lane(struct schedule_rig *rig, const struct schedule_lane *lane)
{
    if (rig->faults.release_unsynced)
        return;
    choose_device(rig, lane->gpu);
    schedule_expect_cuda(rig, "cudaStreamSynchronize", cudaStreamSynchronize(lane->stream));
    choose_any_device(rig);
}

static void remember(struct schedule_rig *rig, uint32_t b, uint32_t p,
                     const struct schedule_lane *lane)
{
    int device = -1;
    mr_error error = {0};
    schedule_expect_cuda(rig, "cudaGetDevice", cudaGetDevice(&device));
    schedule_phase(rig, PHASE_USE);
    schedule_expect(rig, "remember", mr_copier_remember(rig->copier, b, p, lane->stream, &error),
                    &error);
    check_unmoved(rig, device);
}

/*
 * For a lane that the copier does not know: the host waits for it, a known lane waits for it, or
 * the copier is told to remember it.
 */
static void settle_lane(struct schedule_rig *rig, uint32_t b, uint32_t p, uint32_t i)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    struct schedule_lane *lane = &buffer->lanes[p][i];
    uint32_t way = schedule_draw(&rig->plan, 3);
    if (lane->named || rig->faults.forget_reader)
        return;
    if (way == 0)
        sync_lane(rig, lane);
    else if (way == 1 && buffer->lanes[p][0].named)
        order_lanes(rig, lane, &buffer->lanes[p][0]);
    else
        remember(rig, b, p, lane);
}

/* Release the batch in the consumer's thread, or in another thread. */
static void give_back(struct schedule_rig *rig, uint32_t b)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    mr_error error = {0};
    if (schedule_draw(&rig->plan, 4) == 0) {
        double_handoff(THREAD_CONSUMER, THREAD_RELEASER);
        double_as_thread(THREAD_RELEASER);
    }
    int device = -1;
    schedule_expect_cuda(rig, "cudaGetDevice", cudaGetDevice(&device));
    schedule_phase(rig, PHASE_RELEASE);
    if (!rig->faults.reissue_unreleased)
        schedule_expect(rig, "release", mr_copier_release(rig->copier, b, &error), &error);
    check_unmoved(rig, device);
    double_release(&buffer->released_token);
}

void schedule_consumer_release(struct schedule_rig *rig)
{
    uint32_t b;
    if (!find_lent(rig, &b))
        return;
    struct schedule_buffer *buffer = &rig->buffers[b];
    double_as_thread(THREAD_CONSUMER);
    for (uint32_t p = 0; p < buffer->n_parts; p++)
        for (uint32_t i = 0; i < buffer->n_lanes[p]; i++)
            settle_lane(rig, b, p, i);
    give_back(rig, b);
    buffer->released = true;
    buffer->busy = !buffer->awaited;
    rig->n_released++;
}
