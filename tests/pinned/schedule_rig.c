/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule from beginning to end, and what workers and the copier's thread do.
 *
 * Invariant: tokens replace the mutex and the words of the real program. A thread releases its
 * token as soon as the other may rely on its work, never later, or the double would assume an order
 * that the program does not have.
 */
#include "tests/pinned/schedule_rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void schedule_fail(struct schedule_rig *rig, const char *format, ...)
{
    if (rig->result->n_failed++ + rig->result->n_wrong > 0)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(rig->result->why, sizeof rig->result->why, format, args);
    va_end(args);
}

void schedule_phase(const struct schedule_rig *rig, enum schedule_phase phase)
{
    if (rig->faults.phase != NULL)
        rig->faults.phase(phase);
}

bool schedule_expect(struct schedule_rig *rig, const char *what, mr_status status,
                     const mr_error *error)
{
    if (status != MR_OK)
        schedule_fail(rig, "%s: %s: %s", what, mr_status_name(status), error->text);
    return status == MR_OK;
}

bool schedule_expect_cuda(struct schedule_rig *rig, const char *what, cudaError_t status)
{
    if (status != cudaSuccess)
        schedule_fail(rig, "%s: %s", what, cudaGetErrorName(status));
    return status == cudaSuccess;
}

static struct mr_slot_view find_view(struct schedule_rig *rig, uint32_t slot)
{
    return mr_slot_at(&rig->plan.oracle.layout, rig->slab, slot);
}

/* ---- workers ---- */

/* Write other bytes into a slot as soon as the workers have it. */
static void spoil(struct schedule_rig *rig, uint32_t slot)
{
    double_as_thread(THREAD_WORKERS);
    double_acquire(&rig->slots[slot].free_token);
    struct mr_slot_view view = find_view(rig, slot);
    double_host_write(view.data, rig->plan.oracle.layout.used_bytes);
    oracle_scribble(&rig->plan.oracle, &view);
}

static void fill(struct schedule_rig *rig)
{
    uint32_t slot = schedule_draw(&rig->plan, rig->plan.n_slots);
    struct schedule_slot *s = &rig->slots[slot];
    if (s->filled || s->copying || rig->n_filled == rig->plan.n_batches)
        return;
    double_as_thread(THREAD_WORKERS);
    double_acquire(&s->free_token);
    struct mr_slot_view view = find_view(rig, slot);
    double_host_write(view.data, rig->plan.oracle.layout.used_bytes);
    oracle_fill(&rig->plan.oracle, &view, rig->n_filled);
    s->filled = true;
    double_release(&s->filled_token);
    rig->slot_of[rig->n_filled++] = slot;
}

/* ---- the copier's thread ---- */

static bool find_buffer(struct schedule_rig *rig, uint32_t *buffer_out)
{
    uint32_t start = schedule_draw(&rig->plan, rig->plan.n_buffers);
    for (uint32_t i = 0; i < rig->plan.n_buffers; i++) {
        *buffer_out = (start + i) % rig->plan.n_buffers;
        if (!rig->buffers[*buffer_out].busy)
            return true;
    }
    return false;
}

static void begin_buffer(struct schedule_rig *rig, uint32_t b, uint32_t slot, uint32_t n_rows)
{
    struct schedule_buffer *buffer = &rig->buffers[b];
    buffer->sequence = rig->n_issued;
    buffer->n_rows = n_rows;
    buffer->slot = slot;
    buffer->busy = true;
    buffer->before_asked = buffer->lanes_wait;
    buffer->awaited = buffer->taken = buffer->released = buffer->lanes_wait = false;
    buffer->n_parts = 0;
    memset(buffer->n_lanes, 0, sizeof buffer->n_lanes);
    rig->buffer_of[rig->n_issued++] = b;
    rig->result->n_issued++;
}

static void issue(struct schedule_rig *rig)
{
    uint32_t b;
    uint32_t batch_size = rig->plan.oracle.layout.batch_size;
    uint32_t n_rows =
        schedule_draw(&rig->plan, 4) == 0 ? schedule_draw(&rig->plan, batch_size + 1) : batch_size;
    if (rig->n_issued == rig->n_filled || !find_buffer(rig, &b))
        return;
    uint32_t slot = rig->slot_of[rig->n_issued];
    struct mr_slot_view view = find_view(rig, slot);
    mr_error error = {0};
    begin_buffer(rig, b, slot, n_rows);
    double_as_thread(THREAD_COPIER);
    double_acquire(&rig->slots[slot].filled_token);
    double_acquire(&rig->buffers[b].released_token);
    schedule_phase(rig, PHASE_ISSUE);
    schedule_expect(rig, "issue", mr_copier_issue(rig->copier, b, &view, n_rows, &error), &error);
    rig->slots[slot].filled = false;
    rig->slots[slot].copying = true;
    double_release(&rig->buffers[b].issued_token);
    if (rig->faults.refill_at_issue) {
        double_release(&rig->slots[slot].free_token);
        spoil(rig, slot);
    }
}

static void check_report(struct schedule_rig *rig, const struct schedule_buffer *buffer,
                         const struct mr_copy_report *report)
{
    bool is_known = report->was_ready == 0 || report->was_ready == 1;
    if (is_known != buffer->before_asked || (!is_known && report->was_ready != -1))
        schedule_fail(rig, "was_ready is %d, and the batch before was %staken for a stream",
                      (int)report->was_ready, buffer->before_asked ? "" : "not ");
    if (buffer->n_rows > 0 && report->bytes < buffer->n_rows * rig->plan.oracle.layout.sample_bytes)
        schedule_fail(rig, "%llu bytes are fewer than %u samples have",
                      (unsigned long long)report->bytes, buffer->n_rows);
}

static void await(struct schedule_rig *rig)
{
    if (rig->n_awaited == rig->n_issued)
        return;
    uint32_t b = rig->buffer_of[rig->n_awaited++];
    struct schedule_buffer *buffer = &rig->buffers[b];
    struct mr_copy_report report = {0};
    mr_error error = {0};
    double_as_thread(THREAD_COPIER);
    schedule_phase(rig, PHASE_AWAIT);
    if (schedule_expect(rig, "await", mr_copier_await(rig->copier, b, &report, &error), &error))
        check_report(rig, buffer, &report);
    buffer->awaited = true;
    buffer->busy = !buffer->released;
    double_release(&buffer->awaited_token);
    double_release(&rig->slots[buffer->slot].free_token);
    rig->slots[buffer->slot].copying = false;
    spoil(rig, buffer->slot);
}

/* ---- from beginning to end ---- */

static bool create(struct schedule_rig *rig)
{
    const struct mr_slot_layout *layout = &rig->plan.oracle.layout;
    const struct mr_device_ops *cuda =
        rig->faults.cuda != NULL ? rig->faults.cuda : &mr_device_cuda;
    mr_error error = {0};
    if (!schedule_expect(rig, "placement",
                         schedule_plan_place(&rig->plan, cuda, &rig->placement, &error), &error))
        return false;
    rig->slab = aligned_alloc(4096, (layout->slab_bytes + 4095) / 4096 * 4096);
    if (rig->slab == NULL) {
        schedule_fail(rig, "no memory");
        return false;
    }
    memset(rig->slab, 0, layout->slab_bytes);
    struct mr_copier_options options = {.layout = layout,
                                        .slab = rig->slab,
                                        .placement = &rig->placement,
                                        .finish = &rig->plan.oracle.finish,
                                        .n_buffers = rig->plan.n_buffers,
                                        .overlaps = rig->plan.overlaps};
    double_as_thread(THREAD_COPIER);
    return schedule_expect(rig, "create", mr_copier_create(&options, &rig->copier, &error), &error);
}

static void act(struct schedule_rig *rig)
{
    switch (schedule_draw(&rig->plan, 8)) {
    case 0: fill(rig); break;
    case 1: fill(rig); break;
    case 2: issue(rig); break;
    case 3: issue(rig); break;
    case 4: await(rig); break;
    case 5: schedule_consumer_take(rig); break;
    case 6: schedule_consumer_read(rig); break;
    default: schedule_consumer_release(rig); break;
    }
}

/*
 * Page-lock the slots. Only these registrations are refused, not the consumer's of labels on the
 * host.
 */
static void lock_slots(struct schedule_rig *rig)
{
    mr_error error = {0};
    if (!rig->plan.pageable) {
        schedule_expect(rig, "pin", mr_copier_pin(rig->copier, &error), &error);
        return;
    }
    double_fail_from("cudaHostRegister", 1, cudaErrorNotSupported);
    mr_status status = mr_copier_pin(rig->copier, &error);
    if (status != MR_ERR_UNSUPPORTED)
        schedule_fail(rig, "pin: %s where it is refused", mr_status_name(status));
    double_fail_never();
}

static void play(struct schedule_rig *rig)
{
    enum { MAX_STEPS = 20000 };
    for (uint32_t i = schedule_draw(&rig->plan, 4); i > 0; i--)
        fill(rig); /* workers begin before the memory is pinned */
    double_as_thread(THREAD_COPIER);
    lock_slots(rig);
    double_release(&rig->created_token);
    schedule_consumer_open(rig);
    uint32_t step = 0;
    while (rig->result->n_failed == 0 && rig->n_released < rig->plan.n_batches &&
           step++ < MAX_STEPS)
        act(rig);
    if (step >= MAX_STEPS)
        schedule_fail(rig, "stuck: %u filled, %u issued, %u awaited, %u taken, %u released of %u",
                      rig->n_filled, rig->n_issued, rig->n_awaited, rig->n_taken, rig->n_released,
                      rig->plan.n_batches);
}

/* The copier is destroyed while the consumer's last reads may still run. */
static void end(struct schedule_rig *rig)
{
    schedule_consumer_leave(rig);
    double_as_thread(THREAD_COPIER);
    double_handoff(THREAD_WORKERS, THREAD_COPIER); /* the workers have ended */
    for (uint32_t b = 0; b < rig->plan.n_buffers; b++)
        double_acquire(&rig->buffers[b].released_token);
    schedule_phase(rig, PHASE_DESTROY);
    mr_copier_destroy(rig->copier);
}

static void judge(struct schedule_rig *rig)
{
    struct schedule_result *r = rig->result;
    r->n_found = double_close();
    r->n_unordered = double_found(DOUBLE_UNORDERED);
    for (uint32_t i = 0; i < rig->n_reads && r->n_failed == 0; i++)
        if (!rig->reads[i].done)
            schedule_fail(rig, "a kernel of the consumer has not run");
    r->n_reads = rig->n_reads;
    r->ok = r->n_found + r->n_wrong + r->n_failed == 0;
    if (r->ok)
        return;
    char plan[256];
    schedule_plan_print(&rig->plan, plan, sizeof plan);
    size_t used = strlen(r->why);
    snprintf(r->why + used, sizeof r->why - used, " [%s] %u found: %.600s", plan, r->n_found,
             double_report());
}

void schedule_run(uint64_t seed, const struct schedule_wish *wish,
                  const struct schedule_faults *faults, struct schedule_result *result_out)
{
    *result_out = (struct schedule_result){0};
    struct schedule_rig *rig = calloc(1, sizeof *rig);
    if (rig == NULL)
        abort();
    rig->result = result_out;
    if (faults != NULL)
        rig->faults = *faults;
    schedule_plan_init(&rig->plan, seed, wish);
    double_open(&(struct double_options){.policy = (enum double_policy)rig->plan.policy,
                                         .threads = DOUBLE_THREADS_DECLARED,
                                         .seed = seed,
                                         .n_devices = SCHEDULE_GPUS});
    schedule_phase(rig, PHASE_OTHER);
    if (create(rig))
        play(rig);
    if (rig->copier != NULL)
        end(rig);
    schedule_consumer_close(rig);
    judge(rig);
    free(rig->slab);
    free(rig);
}
