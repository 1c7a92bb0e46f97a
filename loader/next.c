/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer's side: the next batch, epochs, positions. Waiting for a batch ends by the batch, the time, a cancel, or
 * the loader's end; each of them changes filled_word.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "dataset/dataset.h"
#include "loader/loader.h"

/* Leaves the error in the loader and returns its status. */
static mr_status fail(mr_loader *loader, const mr_error *error)
{
    loader->error = *error;
    return (mr_status)error->status;
}

static mr_status refuse_fork(mr_loader *loader)
{
    return mr_error_set(&loader->error, MR_ERR_STATE, "a loader cannot be used in a forked child");
}

/* With the lock held: MR_OK when the head batch is filled, MR_PENDING when it is worth waiting, else the outcome. */
static mr_status look(mr_loader *loader)
{
    struct mr_core *core = loader->core;
    if (core->canceled) {
        core->canceled = false;
        return mr_error_set(&loader->error, MR_ERR_CANCELED, "mr_loader_cancel() was called");
    }
    if (core->n_returned >= core->n_batches)
        return MR_END;
    mr_core_publish(core);
    if (mr_core_head_is_published(core) && mr_core_head_is_filled(core))
        return MR_OK;
    if (core->fatal.status)
        return fail(loader, &core->fatal);
    if (mr_core_head_is_published(core) || mr_core_awaits_slot(core))
        return MR_PENDING;
    return mr_error_set(&loader->error, MR_ERR_STATE, "all %u slots are lent; release a batch or raise n_slots",
                        core->options.n_slots);
}

/* Without the lock: sleep until something may have changed since `seen`, or work for it in this thread. */
static void wait_or_work(mr_loader *loader, uint32_t seen, uint64_t left_ms)
{
    struct mr_control *control = loader->core->shared.control;
    if (loader->worker)
        mr_worker_step(loader->worker);
    else if (left_ms > 0)
        mr_futex_wait(&control->filled_word, seen, left_ms < MR_FOREVER ? (uint32_t)left_ms : MR_FOREVER);
}

/* Wait, with the lock held on entry and on return, until look() has more to say than MR_PENDING. */
static mr_status wait_for_head(mr_loader *loader, uint32_t timeout_ms)
{
    struct mr_core *core = loader->core;
    struct mr_control *control = core->shared.control;
    uint64_t begin = mr_clock_now_ns();
    uint64_t left_ms = timeout_ms == MR_FOREVER ? UINT64_MAX : timeout_ms;
    mr_status status = MR_PENDING;
    do {
        atomic_store(&control->host_waits, 1);
        uint32_t seen = atomic_load(&control->filled_word);
        status = look(loader);
        if (status != MR_PENDING)
            break;
        pthread_mutex_unlock(&core->lock);
        wait_or_work(loader, seen, left_ms);
        pthread_mutex_lock(&core->lock);
        status = look(loader);
        uint64_t passed_ms = (mr_clock_now_ns() - begin) / 1000000;
        if (timeout_ms != MR_FOREVER)
            left_ms = passed_ms < timeout_ms ? timeout_ms - passed_ms : 0;
    } while (status == MR_PENDING && left_ms > 0);
    atomic_store(&control->host_waits, 0);
    loader->consumer_wait_ns += mr_clock_now_ns() - begin;
    return status;
}

/* With the lock held: take the filled head batch out of the queue, and lend it or report its failure. */
static mr_status take_head(mr_loader *loader, mr_batch **batch_out)
{
    struct mr_core *core = loader->core;
    uint32_t slot = atomic_load(&core->shared.ring[core->head & core->shared.control->ring_mask]);
    struct mr_slot_view view = mr_core_slot(core, slot);
    mr_error error;
    mr_slot_move(view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_core_move_head(core, core->head + 1);
    core->n_returned++;
    mr_damage_collect(&loader->damage, &view);
    loader->n_warnings += atomic_load_explicit(&view.slot->n_warnings, memory_order_relaxed);
    loader->n_batches++;
    if (mr_damage_first_failure(&view, mr_dataset_table(loader->dataset), &error)) {
        mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_FREE);
        mr_core_publish(core);
        return fail(loader, &error);
    }
    mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_LENT);
    mr_core_retain(core);
    mr_batch_fill(&core->batches[slot], core, slot);
    loader->n_samples += core->batches[slot].n_rows;
    *batch_out = &core->batches[slot];
    return MR_OK;
}

mr_status mr_loader_next(mr_loader *loader, uint32_t timeout_ms, mr_batch **batch_out)
{
    if (batch_out)
        *batch_out = NULL;
    if (!loader)
        return MR_ERR_INVALID;
    if (!batch_out)
        return mr_error_set(&loader->error, MR_ERR_INVALID, "batch_out is NULL");
    struct mr_core *core = loader->core;
    if (core->pid != getpid())
        return refuse_fork(loader);
    pthread_mutex_lock(&core->lock);
    if (loader->first_next_ns == 0)
        loader->first_next_ns = mr_clock_now_ns();
    mr_status status = look(loader);
    if (status == MR_PENDING)
        status = wait_for_head(loader, timeout_ms);
    if (status == MR_OK)
        status = take_head(loader, batch_out);
    pthread_mutex_unlock(&core->lock);
    return status;
}

const mr_error *mr_loader_error(const mr_loader *loader)
{
    return &loader->error;
}

static mr_status begin_epoch(mr_loader *loader, const struct mr_epoch_start *start)
{
    struct mr_core *core = loader->core;
    mr_error error;
    if (core->pid != getpid()) /* before the lock: another thread may have held it at the fork */
        return refuse_fork(loader);
    pthread_mutex_lock(&core->lock);
    mr_status status = core->fatal.status ? fail(loader, &core->fatal) : MR_OK;
    if (status == MR_OK) {
        status = mr_core_set_epoch(core, start, &error);
        if (status != MR_OK)
            fail(loader, &error);
    }
    pthread_mutex_unlock(&core->lock);
    return status;
}

mr_status mr_loader_set_epoch(mr_loader *loader, uint64_t epoch)
{
    struct mr_epoch_start start = {.epoch = epoch};
    return loader ? begin_epoch(loader, &start) : MR_ERR_INVALID;
}

mr_status mr_loader_set_epoch_order(mr_loader *loader, uint64_t epoch, const int64_t *indices, int64_t n)
{
    static const int64_t none[1];
    if (!loader)
        return MR_ERR_INVALID;
    if (n < 0 || (n > 0 && !indices))
        return mr_error_set(&loader->error, MR_ERR_INVALID, "an order of %lld indices at %p", (long long)n,
                            (const void *)indices);
    struct mr_epoch_start start = {.epoch = epoch, .indices = indices ? indices : none, .n = n};
    return begin_epoch(loader, &start);
}

void mr_loader_cancel(mr_loader *loader)
{
    if (!loader || loader->core->pid != getpid())
        return;
    struct mr_core *core = loader->core;
    pthread_mutex_lock(&core->lock);
    core->canceled = true;
    pthread_mutex_unlock(&core->lock);
    mr_control_wake_host(&core->shared);
}

mr_status mr_loader_save(const mr_loader *loader, mr_loader_state *state_out)
{
    static_assert(sizeof(struct mr_position) <= sizeof(mr_loader_state), "a position fits the public state");
    if (!loader || !state_out)
        return MR_ERR_INVALID;
    struct mr_core *core = loader->core;
    struct mr_position position;
    mr_status status = MR_OK;
    memset(state_out, 0, sizeof *state_out);
    if (core->pid != getpid())
        return MR_ERR_STATE;
    pthread_mutex_lock(&core->lock);
    if (core->own_order)
        status = MR_ERR_UNSUPPORTED;
    else
        mr_position_save(core->sampler, core->options.batch_size, core->options.drop_last, core->n_returned, &position);
    pthread_mutex_unlock(&core->lock);
    if (status == MR_OK)
        memcpy(state_out->bytes, &position, sizeof position);
    return status;
}

mr_status mr_loader_restore(mr_loader *loader, const mr_loader_state *state)
{
    struct mr_position position;
    uint64_t epoch;
    uint64_t batches;
    mr_error error;
    if (!loader || !state)
        return MR_ERR_INVALID;
    struct mr_core *core = loader->core;
    if (core->pid != getpid())
        return refuse_fork(loader);
    memcpy(&position, state->bytes, sizeof position);
    pthread_mutex_lock(&core->lock);
    mr_status status = mr_position_restore(&position, core->sampler, core->options.batch_size, core->options.drop_last,
                                           &epoch, &batches, &error);
    pthread_mutex_unlock(&core->lock);
    if (status != MR_OK)
        return fail(loader, &error);
    struct mr_epoch_start start = {.epoch = epoch, .skip = batches, .restored = true};
    return begin_epoch(loader, &start);
}
