/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishing, and what lies at the head. Sequence numbers run on over epochs: batches head..tail-1 are published and
 * not yet returned, those of the present epoch first, those of the next one behind them.
 */
#include "loader/core.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "loader/damage.h"
#include "transforms/mixing/mix_draw.h"

struct mr_slot_view mr_core_slot(const struct mr_core *core, uint32_t i)
{
    return mr_slot_at(&core->shared.control->layout, core->shared.base, i);
}

void mr_core_retain(struct mr_core *core)
{
    core->n_refs++;
}

static void destroy_devices(struct mr_core *core)
{
    mr_copier_destroy(core->copier);
    mr_slot_streams_destroy(core->slot_streams);
}

static void *destroy_main(void *arg)
{
    struct mr_core *core = arg;
    if (core->copier)
        mr_copier_enter(core->copier);
    if (core->slot_streams)
        mr_slot_streams_enter(core->slot_streams);
    destroy_devices(core);
    return NULL;
}

/* In a thread of its own: the thread that releases the last batch may have no current device, and must get none. */
static void end_devices(struct mr_core *core)
{
    pthread_t thread;
    if ((core->copier || core->slot_streams) && mr_thread_start(&thread, destroy_main, core) == 0)
        pthread_join(thread, NULL);
    else
        destroy_devices(core);
}

static void free_core(struct mr_core *core)
{
    end_devices(core); /* before the memory that they have pinned goes */
    mr_slab_destroy(&core->slab);
    mr_sampler_destroy(core->sampler);
    mr_sampler_destroy(core->next_sampler);
    pthread_mutex_destroy(&core->lock);
    pthread_cond_destroy(&core->next_epoch_changed);
    pthread_cond_destroy(&core->opened_changed);
    pthread_cond_destroy(&core->freeing_wanted);
    for (uint32_t i = 0; core->batches && i < core->n_batch_objects; i++)
        if (core->batches[i].parts != &core->batches[i])
            free(core->batches[i].parts);
    free(core->batches);
    free(core->staging);
    for (size_t i = 0; i < sizeof core->names / sizeof *core->names; i++)
        free(core->names[i]);
    free(core->cpus);
    free(core->weights);
    free(core);
}

void mr_core_release(struct mr_core *core)
{
    pthread_mutex_lock(&core->lock);
    bool last = --core->n_refs == 0;
    pthread_mutex_unlock(&core->lock);
    if (last)
        free_core(core);
}

mr_status mr_core_await_open(struct mr_core *core, mr_error *error)
{
    pthread_mutex_lock(&core->lock);
    while (!core->opened)
        pthread_cond_wait(&core->opened_changed, &core->lock);
    mr_status status = (mr_status)core->open_error.status;
    if (status != MR_OK)
        mr_error_copy(error, &core->open_error);
    pthread_mutex_unlock(&core->lock);
    return status;
}

/* Slots that were canceled are free as soon as nobody decodes into them. */
static void reap_canceled(struct mr_core *core)
{
    for (uint32_t i = 0; i < core->options.n_slots; i++) {
        struct mr_slot_view view = mr_core_slot(core, i);
        if (mr_slot_state(view.slot) == MR_SLOT_CANCELED && !mr_slot_is_busy(&view))
            mr_slot_move(view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    }
}

static bool find_free(struct mr_core *core, uint32_t *slot_out)
{
    for (uint32_t i = 0; i < core->options.n_slots; i++) {
        if (mr_slot_state(mr_core_slot(core, i).slot) == MR_SLOT_FREE) {
            *slot_out = i;
            return true;
        }
    }
    return false;
}

void mr_core_forget_damage(struct mr_core *core, uint64_t epoch)
{
    struct mr_damage_map known = mr_control_damage(&core->shared, epoch);
    mr_damage_map_clear(&known);
}

/* Which batch comes next; false when there is none, or its order is not there yet. */
static bool next_to_publish(struct mr_core *core, mr_sampler **sampler_out, uint64_t *epoch_out)
{
    const mr_loader_options *o = &core->options;
    if (!core->pub_next) {
        *sampler_out = core->sampler;
        *epoch_out = core->epoch;
        if (core->pub_batch < core->n_batches)
            return true;
        if (core->next_epoch_state != MR_NEXT_EPOCH_READY) /* also when the options end with this epoch */
            return false;
        core->pub_next = true;
        core->pub_batch = 0;
        mr_core_forget_damage(core, core->epoch + 1);
    }
    *sampler_out = core->next_sampler;
    *epoch_out = core->epoch + 1;
    return core->pub_batch < mr_sampler_steps(core->next_sampler, o->batch_size, o->drop_last);
}

static uint32_t fill_wants(const struct mr_core *core, const struct mr_slot_view *view, const mr_sampler *sampler)
{
    uint64_t first = core->pub_batch * core->options.batch_size;
    uint64_t length = (uint64_t)mr_sampler_length(sampler);
    uint32_t n = 0;
    while (n < core->options.batch_size && first + n < length) {
        int64_t index = mr_sampler_at(sampler, (int64_t)(first + n));
        atomic_store_explicit(&view->want[n], index, memory_order_relaxed);
        uint32_t occurrence = mr_sampler_occurrence(sampler, (int64_t)(first + n));
        atomic_store_explicit(&view->occurrence[n], occurrence, memory_order_relaxed);
        n++;
    }
    return n;
}

static void draw_mixing(const struct mr_core *core, const struct mr_slot_view *view, uint64_t epoch)
{
    const struct mr_plan *plan = &core->shared.control->mixed;
    mr_mix_draw_batch(&plan->mix, core->options.seed, epoch, core->pub_batch, core->options.rank, plan->out_width,
                      plan->out_height, view->mix);
}

void mr_core_publish(struct mr_core *core)
{
    mr_sampler *sampler;
    uint64_t epoch;
    uint32_t slot;
    bool published = false;
    bool empty = false;
    if (core->closed || core->fatal.status)
        return;
    reap_canceled(core);
    while (find_free(core, &slot) && next_to_publish(core, &sampler, &epoch)) {
        struct mr_slot_view view = mr_core_slot(core, slot);
        uint32_t n_places = fill_wants(core, &view, sampler);
        if (view.mixes)
            draw_mixing(core, &view, epoch);
        mr_slot_publish(&view, core->options.batch_size, core->tail, epoch, core->pub_batch, n_places);
        empty |= n_places == 0;
        struct mr_control *control = core->shared.control;
        atomic_store_explicit(&core->shared.ring[core->tail & control->ring_mask], slot, memory_order_release);
        core->tail++;
        core->pub_batch++;
        atomic_store(&control->limit, core->tail * core->options.batch_size);
        published = true;
    }
    if (published)
        mr_control_wake_workers(&core->shared);
    if (empty) /* filled as it is: no worker will say so */
        mr_control_wake_host(&core->shared);
}

uint32_t mr_core_slot_of(const struct mr_core *core, uint64_t sequence)
{
    return atomic_load_explicit(&core->shared.ring[sequence & core->shared.control->ring_mask], memory_order_relaxed);
}

/* Say which batch is needed first, by the copier if there is one: workers make its samples first. */
static void publish_head(struct mr_core *core)
{
    uint64_t needed = core->placement.lends_slots ? core->head : core->staged;
    atomic_store_explicit(&core->shared.control->head, needed, memory_order_relaxed);
}

void mr_core_move_head(struct mr_core *core, uint64_t head)
{
    core->head = head;
    if (core->staged < head)
        core->staged = head;
    publish_head(core);
}

void mr_core_move_staged(struct mr_core *core, const struct mr_staged *staged)
{
    core->staging[core->staged & core->staging_mask] = *staged;
    core->staged++;
    publish_head(core);
}

/* Tickets below the head mean nothing any more: spare the workers the walk through them. */
static void skip_tickets(struct mr_core *core)
{
    uint64_t to = atomic_load(&core->shared.control->head) * core->options.batch_size;
    uint64_t ticket = atomic_load(&core->shared.control->ticket);
    while (ticket < to && !atomic_compare_exchange_weak(&core->shared.control->ticket, &ticket, to))
        ;
}

static bool is_staged(const struct mr_core *core, uint64_t sequence)
{
    return !core->placement.lends_slots && sequence < core->staged;
}

static const struct mr_staged *staged_at(const struct mr_core *core, uint64_t sequence)
{
    return &core->staging[sequence & core->staging_mask];
}

static uint64_t epoch_of(const struct mr_core *core, uint64_t sequence)
{
    if (is_staged(core, sequence) && staged_at(core, sequence)->batch)
        return staged_at(core, sequence)->batch->epoch;
    uint32_t slot = is_staged(core, sequence) ? staged_at(core, sequence)->slot : mr_core_slot_of(core, sequence);
    return atomic_load_explicit(&mr_core_slot(core, slot).slot->epoch, memory_order_relaxed);
}

/* A copy that is under way goes on; its buffer and its slot are free when it has ended. */
static void drop_staged(struct mr_core *core, const struct mr_staged *staged)
{
    struct mr_batch *batch = staged->batch;
    if (batch)
        mr_core_give_buffer(core, batch);
    if (!batch || batch->keeps_slot)
        mr_slot_move(mr_core_slot(core, staged->slot).slot, MR_SLOT_FILLED, MR_SLOT_FREE);
    if (batch)
        batch->keeps_slot = false;
}

void mr_core_drop_published(struct mr_core *core, bool keep, uint64_t epoch)
{
    while (core->head < core->tail && !(keep && epoch_of(core, core->head) == epoch)) {
        if (is_staged(core, core->head)) {
            drop_staged(core, staged_at(core, core->head));
        } else {
            struct mr_slot_view view = mr_core_slot(core, mr_core_slot_of(core, core->head));
            mr_slot_cancel(&view);
        }
        mr_core_move_head(core, core->head + 1);
    }
    skip_tickets(core);
    mr_control_wake_host(&core->shared); /* the copier: buffers have come free */
}

/* Is the batch of this sequence published and all of it decoded? */
static bool is_filled(const struct mr_core *core, uint64_t sequence)
{
    if (sequence >= core->tail)
        return false;
    struct mr_slot_view view = mr_core_slot(core, mr_core_slot_of(core, sequence));
    return mr_slot_is_filled(&view);
}

/* Can the batch at head be returned? */
static bool head_is_ready(const struct mr_core *core, enum mr_head_is how)
{
    if (core->placement.lends_slots)
        return is_filled(core, core->head);
    if (!is_staged(core, core->head))
        return false;
    const struct mr_batch *batch = staged_at(core, core->head)->batch;
    return !batch || (batch->is_issued && (how == MR_HEAD_ISSUED || !batch->is_copying));
}

struct mr_batch *mr_core_free_buffer(const struct mr_core *core)
{
    struct mr_batch *first = NULL;
    for (uint32_t i = 0; i < core->n_batch_objects; i++) {
        struct mr_batch *batch = &core->batches[i];
        if (!batch->is_taken && !batch->is_copying && (!first || batch->freed_at < first->freed_at))
            first = batch;
    }
    return first;
}

void mr_core_give_buffer(struct mr_core *core, struct mr_batch *batch)
{
    batch->is_taken = false;
    batch->freed_at = ++core->n_freed;
}

bool mr_core_copier_is_next(const struct mr_core *core)
{
    return is_filled(core, core->staged);
}

/* Will a slot come free without the caller's doing? */
static bool awaits_slot(const struct mr_core *core)
{
    for (uint32_t i = 0; i < core->options.n_slots; i++) {
        enum mr_slot_state state = mr_slot_state(mr_core_slot(core, i).slot);
        if (state == MR_SLOT_CANCELED || state == MR_SLOT_COPYING)
            return true;
    }
    return false;
}

/* Will the batch at head never come unless the caller releases one? */
static bool is_stuck(const struct mr_core *core)
{
    if (core->placement.lends_slots)
        return core->head >= core->tail && !awaits_slot(core);
    if (is_staged(core, core->head) || !is_filled(core, core->head))
        return false;
    for (uint32_t i = 0; i < core->n_batch_objects; i++)
        if (!core->batches[i].is_taken)
            return false;
    struct mr_slot_view view = mr_core_slot(core, mr_core_slot_of(core, core->head));
    return !mr_damage_has_failure(&view);
}

/* Is the batch at head decoded, and on its way to a device? Then it arrives even if every worker has died. */
static bool head_is_coming(const struct mr_core *core)
{
    return !core->placement.lends_slots && !core->copying_ended &&
           (is_staged(core, core->head) || is_filled(core, core->head)) && !is_stuck(core);
}

enum mr_answer mr_core_answer(struct mr_core *core, enum mr_head_is how)
{
    if (core->canceled)
        return MR_ANSWER_CANCELED;
    if (core->n_returned >= core->n_batches)
        return MR_ANSWER_END;
    if (core->fatal.status == MR_ERR_DEVICE) /* what was issued may never have arrived */
        return MR_ANSWER_FATAL;
    mr_core_publish(core);
    if (head_is_ready(core, how))
        return MR_ANSWER_BATCH;
    if (core->fatal.status && !head_is_coming(core))
        return MR_ANSWER_FATAL;
    return is_stuck(core) && !core->options.wait_when_lent ? MR_ANSWER_STUCK : MR_ANSWER_NONE;
}

static bool has_answer(struct mr_core *core)
{
    enum mr_answer answer = core->closed ? MR_ANSWER_NONE : mr_core_answer(core, MR_HEAD_ENDED);
    return answer != MR_ANSWER_NONE && !(answer == MR_ANSWER_END && core->end_returned);
}

void mr_core_update_fd(struct mr_core *core)
{
    struct mr_ready_fd *ready = &core->ready_fd;
    eventfd_t unused;
    if (!ready->is_open)
        return;
    if (core->fatal.status) /* from now on the thread looks after each wake-up, also while it is readable */
        pthread_cond_signal(&ready->cleared);
    if (has_answer(core) == ready->readable)
        return;
    ready->readable = !ready->readable;
    if (ready->readable) {
        eventfd_write(ready->fd, 1);
    } else {
        eventfd_read(ready->fd, &unused);
        pthread_cond_signal(&ready->cleared);
    }
}

void mr_core_fail(struct mr_core *core, const mr_error *error)
{
    pthread_mutex_lock(&core->lock);
    if (!core->fatal.status)
        core->fatal = *error;
    mr_core_update_fd(core);
    pthread_mutex_unlock(&core->lock);
    mr_control_wake_host(&core->shared);
}
