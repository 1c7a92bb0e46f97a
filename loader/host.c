/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes batches, and decides whether the head batch can be returned. Sequence numbers continue
 * over epochs. Batches head to tail - 1 are published and not yet returned: first those of the
 * present epoch, then those of the next one.
 */
#include "loader/host.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "loader/damage.h"
#include "transforms/mixing/mix_draw.h"

struct mr_slot_view mr_host_slot(const struct mr_host *host, uint32_t i)
{
    return mr_slot_at(&host->shared.control->layout, host->shared.base, i);
}

void mr_host_retain(struct mr_host *host)
{
    host->n_refs++;
}

static void destroy_devices(struct mr_host *host)
{
    mr_copier_destroy(host->copier);
    mr_slot_streams_destroy(host->slot_streams);
}

static void *destroy_main(void *arg)
{
    struct mr_host *host = arg;
    if (host->copier)
        mr_copier_enter(host->copier);
    if (host->slot_streams)
        mr_slot_streams_enter(host->slot_streams);
    destroy_devices(host);
    return NULL;
}

/*
 * In a new thread: the thread that releases the last batch may have no current device, and must not
 * be given one.
 */
static void end_devices(struct mr_host *host)
{
    pthread_t thread;
    if ((host->copier || host->slot_streams) && mr_thread_start(&thread, destroy_main, host) == 0)
        pthread_join(thread, NULL);
    else
        destroy_devices(host);
}

static void free_host(struct mr_host *host)
{
    end_devices(host); /* before the memory that they have page-locked is freed */
    mr_slab_destroy(&host->slab);
    mr_sampler_destroy(host->sampler);
    mr_sampler_destroy(host->next_sampler);
    pthread_mutex_destroy(&host->lock);
    pthread_cond_destroy(&host->next_epoch_changed);
    pthread_cond_destroy(&host->opened_changed);
    pthread_cond_destroy(&host->freeing_wanted);
    for (uint32_t i = 0; host->batches && i < host->n_batch_objects; i++)
        if (host->batches[i].parts != &host->batches[i])
            free(host->batches[i].parts);
    free(host->batches);
    free(host->staging);
    for (size_t i = 0; i < sizeof host->names / sizeof *host->names; i++)
        free(host->names[i]);
    free(host->cpus);
    free(host->pieces);
    free(host->weights);
    free(host->lengths);
    free(host);
}

void mr_host_release(struct mr_host *host)
{
    pthread_mutex_lock(&host->lock);
    bool last = --host->n_refs == 0;
    pthread_mutex_unlock(&host->lock);
    if (last)
        free_host(host);
}

mr_status mr_host_await_open(struct mr_host *host, mr_error *error)
{
    pthread_mutex_lock(&host->lock);
    while (!host->opened)
        pthread_cond_wait(&host->opened_changed, &host->lock);
    mr_status status = (mr_status)host->open_error.status;
    if (status != MR_OK)
        mr_error_copy(error, &host->open_error);
    pthread_mutex_unlock(&host->lock);
    return status;
}

/* Free the canceled slots that no worker decodes into any more. */
static void reap_canceled(struct mr_host *host)
{
    for (uint32_t i = 0; i < host->options.n_slots; i++) {
        struct mr_slot_view view = mr_host_slot(host, i);
        if (mr_slot_state(view.slot) == MR_SLOT_CANCELED && !mr_slot_is_busy(&view))
            mr_slot_move(view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    }
}

static bool find_free(struct mr_host *host, uint32_t *slot_out)
{
    for (uint32_t i = 0; i < host->options.n_slots; i++) {
        if (mr_slot_state(mr_host_slot(host, i).slot) == MR_SLOT_FREE) {
            *slot_out = i;
            return true;
        }
    }
    return false;
}

void mr_host_forget_damage(struct mr_host *host, uint64_t epoch)
{
    struct mr_damage_map known = mr_control_damage(&host->shared, epoch);
    mr_damage_map_clear(&known);
}

/* Find the batch to publish next. False if there is none, or its order is not ready. */
static bool next_to_publish(struct mr_host *host, mr_sampler **sampler_out, uint64_t *epoch_out)
{
    const mr_loader_options *o = &host->options;
    if (!host->pub_next) {
        *sampler_out = host->sampler;
        *epoch_out = host->epoch;
        if (host->pub_batch < host->n_batches)
            return true;
        /* also if this is the last epoch of the options */
        if (host->next_epoch_state != MR_NEXT_EPOCH_READY)
            return false;
        host->pub_next = true;
        host->pub_batch = 0;
        mr_host_forget_damage(host, host->epoch + 1);
    }
    *sampler_out = host->next_sampler;
    *epoch_out = host->epoch + 1;
    return host->pub_batch < mr_sampler_steps(host->next_sampler, o->batch_size, o->drop_last);
}

static void fill_pieces(struct mr_host *host, const struct mr_slot_view *view, mr_sampler *sampler,
                        uint32_t place, int64_t row)
{
    mr_slot_put_pieces(view, place, host->pieces, mr_sampler_pieces(sampler, row, host->pieces));
}

static uint32_t fill_wants(struct mr_host *host, const struct mr_slot_view *view,
                           mr_sampler *sampler)
{
    uint64_t first;
    uint64_t n = mr_sampler_batch(sampler, host->pub_batch, host->options.batch_size, &first);
    for (uint64_t i = 0; i < n; i++) {
        int64_t index = mr_sampler_at(sampler, (int64_t)(first + i));
        atomic_store_explicit(&view->want[i], index, memory_order_relaxed);
        uint32_t occurrence = mr_sampler_occurrence(sampler, (int64_t)(first + i));
        atomic_store_explicit(&view->occurrence[i], occurrence, memory_order_relaxed);
        if (host->pieces)
            fill_pieces(host, view, sampler, (uint32_t)i, index);
    }
    return (uint32_t)n;
}

static void draw_mixing(const struct mr_host *host, const struct mr_slot_view *view, uint64_t epoch)
{
    struct mr_mix *mix = view->mix;
    for (uint32_t i = 0; i <= host->shared.control->n_views; i++) {
        const struct mr_plan *plan = mr_control_mixed(&host->shared, i);
        if (plan->mix.kind != 0)
            mr_mix_draw_batch(&plan->mix, plan->view.name[0], host->options.seed, epoch,
                              host->pub_batch, host->options.rank, plan->out_width,
                              plan->out_height, mix++);
    }
}

void mr_host_publish(struct mr_host *host)
{
    mr_sampler *sampler;
    uint64_t epoch;
    uint32_t slot;
    bool published = false;
    bool empty = false;
    if (host->closed || host->fatal.status)
        return;
    reap_canceled(host);
    while (find_free(host, &slot) && next_to_publish(host, &sampler, &epoch)) {
        struct mr_slot_view view = mr_host_slot(host, slot);
        uint32_t n_places = fill_wants(host, &view, sampler);
        if (view.mixes)
            draw_mixing(host, &view, epoch);
        mr_slot_publish(&view, host->options.batch_size, host->tail, epoch, host->pub_batch,
                        n_places);
        empty |= n_places == 0;
        struct mr_control *control = host->shared.control;
        atomic_store_explicit(&host->shared.ring[host->tail & control->ring_mask], slot,
                              memory_order_release);
        host->tail++;
        host->pub_batch++;
        atomic_store(&control->limit, host->tail * host->options.batch_size);
        published = true;
    }
    if (published)
        mr_control_wake_workers(&host->shared);
    if (empty) /* it is filled already, and no worker will report it */
        mr_control_wake_host(&host->shared);
}

uint32_t mr_host_slot_of(const struct mr_host *host, uint64_t sequence)
{
    return atomic_load_explicit(&host->shared.ring[sequence & host->shared.control->ring_mask],
                                memory_order_relaxed);
}

/*
 * Publish the sequence of the batch that is needed first, so that workers make its samples first.
 * With a copier, that is the batch that the copier needs.
 */
static void publish_head(struct mr_host *host)
{
    uint64_t needed = host->placement.lends_slots ? host->head : host->staged;
    atomic_store_explicit(&host->shared.control->head, needed, memory_order_relaxed);
}

void mr_host_move_head(struct mr_host *host, uint64_t head)
{
    host->head = head;
    if (host->staged < head)
        host->staged = head;
    publish_head(host);
}

void mr_host_move_staged(struct mr_host *host, const struct mr_staged *staged)
{
    host->staging[host->staged & host->staging_mask] = *staged;
    host->staged++;
    publish_head(host);
}

/*
 * Workers need not walk through tickets below the head: they refer to dropped or returned batches.
 */
static void skip_tickets(struct mr_host *host)
{
    uint64_t to = atomic_load(&host->shared.control->head) * host->options.batch_size;
    uint64_t ticket = atomic_load(&host->shared.control->ticket);
    while (ticket < to && !atomic_compare_exchange_weak(&host->shared.control->ticket, &ticket, to))
        ;
}

static bool is_staged(const struct mr_host *host, uint64_t sequence)
{
    return !host->placement.lends_slots && sequence < host->staged;
}

static const struct mr_staged *staged_at(const struct mr_host *host, uint64_t sequence)
{
    return &host->staging[sequence & host->staging_mask];
}

static uint64_t epoch_of(const struct mr_host *host, uint64_t sequence)
{
    if (is_staged(host, sequence) && staged_at(host, sequence)->batch)
        return staged_at(host, sequence)->batch->epoch;
    uint32_t slot = is_staged(host, sequence) ? staged_at(host, sequence)->slot
                                              : mr_host_slot_of(host, sequence);
    return atomic_load_explicit(&mr_host_slot(host, slot).slot->epoch, memory_order_relaxed);
}

/* A copy that is under way continues. Its buffer and its slot become free when it ends. */
static void drop_staged(struct mr_host *host, const struct mr_staged *staged)
{
    struct mr_batch *batch = staged->batch;
    if (batch)
        mr_host_give_buffer(host, batch);
    if (!batch || batch->keeps_slot)
        mr_slot_move(mr_host_slot(host, staged->slot).slot, MR_SLOT_FILLED, MR_SLOT_FREE);
    if (batch)
        batch->keeps_slot = false;
}

void mr_host_drop_published(struct mr_host *host, bool keep, uint64_t epoch)
{
    while (host->head < host->tail && !(keep && epoch_of(host, host->head) == epoch)) {
        if (is_staged(host, host->head)) {
            drop_staged(host, staged_at(host, host->head));
        } else {
            struct mr_slot_view view = mr_host_slot(host, mr_host_slot_of(host, host->head));
            mr_slot_cancel(&view);
        }
        mr_host_move_head(host, host->head + 1);
    }
    skip_tickets(host);
    mr_control_wake_host(&host->shared); /* buffers are free for the copier */
}

/* Is this batch published, and are all its samples made? */
static bool is_filled(const struct mr_host *host, uint64_t sequence)
{
    if (sequence >= host->tail)
        return false;
    struct mr_slot_view view = mr_host_slot(host, mr_host_slot_of(host, sequence));
    return mr_slot_is_filled(&view);
}

/* Can the batch at head be returned? */
static bool head_is_ready(const struct mr_host *host, enum mr_head_is how)
{
    if (host->placement.lends_slots)
        return is_filled(host, host->head);
    if (!is_staged(host, host->head))
        return false;
    const struct mr_batch *batch = staged_at(host, host->head)->batch;
    return !batch || (batch->is_issued && (how == MR_HEAD_ISSUED || !batch->is_copying));
}

struct mr_batch *mr_host_free_buffer(const struct mr_host *host)
{
    struct mr_batch *first = NULL;
    for (uint32_t i = 0; i < host->n_batch_objects; i++) {
        struct mr_batch *batch = &host->batches[i];
        if (!batch->is_taken && !batch->is_copying && (!first || batch->freed_at < first->freed_at))
            first = batch;
    }
    return first;
}

void mr_host_give_buffer(struct mr_host *host, struct mr_batch *batch)
{
    batch->is_taken = false;
    batch->freed_at = ++host->n_freed;
}

bool mr_host_copier_is_next(const struct mr_host *host)
{
    return is_filled(host, host->staged);
}

/* Will a slot become free without a release by the caller? */
static bool awaits_slot(const struct mr_host *host)
{
    for (uint32_t i = 0; i < host->options.n_slots; i++) {
        enum mr_slot_state state = mr_slot_state(mr_host_slot(host, i).slot);
        if (state == MR_SLOT_CANCELED || state == MR_SLOT_COPYING)
            return true;
    }
    return false;
}

/* Can the batch at head arrive only after the caller releases one? */
static bool is_stuck(const struct mr_host *host)
{
    if (host->placement.lends_slots)
        return host->head >= host->tail && !awaits_slot(host);
    if (is_staged(host, host->head) || !is_filled(host, host->head))
        return false;
    for (uint32_t i = 0; i < host->n_batch_objects; i++)
        if (!host->batches[i].is_taken)
            return false;
    struct mr_slot_view view = mr_host_slot(host, mr_host_slot_of(host, host->head));
    return !mr_damage_has_failure(&view);
}

/*
 * Is the batch at head decoded and on its way to a device? Then it arrives even if every worker has
 * died.
 */
static bool head_is_coming(const struct mr_host *host)
{
    return !host->placement.lends_slots && !host->copying_ended &&
           (is_staged(host, host->head) || is_filled(host, host->head)) && !is_stuck(host);
}

enum mr_answer mr_host_answer(struct mr_host *host, enum mr_head_is how)
{
    if (host->canceled)
        return MR_ANSWER_CANCELED;
    if (host->n_returned >= host->n_batches && mr_sampler_is_begun(host->sampler))
        return host->fatal.status ? MR_ANSWER_FATAL : MR_ANSWER_NONE;
    if (host->n_returned >= host->n_batches)
        return MR_ANSWER_END;
    if (host->fatal.status == MR_ERR_DEVICE) /* issued copies may never arrive */
        return MR_ANSWER_FATAL;
    mr_host_publish(host);
    if (head_is_ready(host, how))
        return MR_ANSWER_BATCH;
    if (host->fatal.status && !head_is_coming(host))
        return MR_ANSWER_FATAL;
    return is_stuck(host) && !host->options.wait_when_lent ? MR_ANSWER_STUCK : MR_ANSWER_NONE;
}

static bool has_answer(struct mr_host *host)
{
    enum mr_answer answer = host->closed ? MR_ANSWER_NONE : mr_host_answer(host, MR_HEAD_ENDED);
    return answer != MR_ANSWER_NONE && !(answer == MR_ANSWER_END && host->end_returned);
}

void mr_host_update_fd(struct mr_host *host)
{
    struct mr_ready_fd *ready = &host->ready_fd;
    eventfd_t unused;
    if (!ready->is_open)
        return;
    /* the thread now checks after each wake-up, even while the descriptor is readable */
    if (host->fatal.status)
        pthread_cond_signal(&ready->cleared);
    if (has_answer(host) == ready->readable)
        return;
    ready->readable = !ready->readable;
    if (ready->readable) {
        eventfd_write(ready->fd, 1);
    } else {
        eventfd_read(ready->fd, &unused);
        pthread_cond_signal(&ready->cleared);
    }
}

void mr_host_fail(struct mr_host *host, const mr_error *error)
{
    pthread_mutex_lock(&host->lock);
    if (!host->fatal.status)
        host->fatal = *error;
    mr_host_update_fd(host);
    pthread_mutex_unlock(&host->lock);
    mr_control_wake_host(&host->shared);
}
