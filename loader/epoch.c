/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which epoch the loader is in, and the order of the one after it. That order is made by a thread of its own while the
 * present epoch runs, so the end of an epoch is no pause.
 */
#include "loader/epoch.h"

#include "base/log.h"

/* May batches of the epoch after the present one be decoded? */
static bool may_go_ahead(const struct mr_core *core)
{
    uint64_t n = core->options.n_epochs;
    return core->has_next_epoch && !core->own_order && (n == 0 || core->epoch + 1 < core->options.epoch + n);
}

/* The thread of the next epoch must not be at work on `next_sampler` when it is used here. */
static void await_next_epoch(struct mr_core *core)
{
    if (core->next_epoch_state == MR_NEXT_EPOCH_WANTED)
        core->next_epoch_state = MR_NEXT_EPOCH_NONE;
    while (core->next_epoch_state == MR_NEXT_EPOCH_WORKING)
        pthread_cond_wait(&core->next_epoch_changed, &core->lock);
}

static void want_next_epoch(struct mr_core *core)
{
    core->next_epoch_state = MR_NEXT_EPOCH_NONE;
    if (!may_go_ahead(core))
        return;
    core->next_epoch_state = MR_NEXT_EPOCH_WANTED;
    core->next_epoch = core->epoch + 1;
    pthread_cond_broadcast(&core->next_epoch_changed);
}

static void warn_same_epoch(struct mr_core *core, const struct mr_epoch_start *start)
{
    if (start->indices || start->restored || start->epoch != core->epoch || core->n_returned == 0 || core->own_order ||
        core->options.no_shuffle || core->options.allow_same_epoch || core->warned_same_epoch)
        return;
    core->warned_same_epoch = true;
    mr_log_line(MR_LOG_WARNING, "epoch %llu is used twice: its order and its crops are the same again",
                (unsigned long long)start->epoch);
}

/* Bring the sampler of the epoch: the one made ahead, or a computation here. */
static mr_status take_sampler(struct mr_core *core, const struct mr_epoch_start *start, mr_error *error)
{
    if (start->indices)
        return mr_sampler_set_order(core->sampler, start->epoch, start->indices, start->n, error);
    if (core->next_epoch_state == MR_NEXT_EPOCH_READY && core->next_epoch == start->epoch) {
        mr_sampler *ready = core->next_sampler;
        core->next_sampler = core->sampler;
        core->sampler = ready;
        return MR_OK;
    }
    return mr_sampler_set_epoch(core->sampler, start->epoch, error);
}

/* Does the loader stand at just this start, with nothing returned yet? */
static bool stands_at(const struct mr_core *core, const struct mr_epoch_start *start)
{
    return !start->indices && !core->own_order && start->skip == 0 && start->epoch == core->epoch &&
           core->n_returned == 0;
}

/* Are the batches that were published ahead those of this start? */
static bool was_published_ahead(const struct mr_core *core, const struct mr_epoch_start *start)
{
    return !start->indices && start->skip == 0 && core->pub_next && start->epoch == core->epoch + 1;
}

mr_status mr_epoch_set(struct mr_core *core, const struct mr_epoch_start *start, mr_error *error)
{
    if (stands_at(core, start))
        return MR_OK;
    warn_same_epoch(core, start);
    await_next_epoch(core);
    bool keep = was_published_ahead(core, start);
    mr_status status = take_sampler(core, start, error);
    if (status != MR_OK) {
        if (core->next_epoch_state == MR_NEXT_EPOCH_NONE) /* as before: the present epoch goes on */
            want_next_epoch(core);
        return status;
    }
    mr_core_drop_published(core, keep, start->epoch);
    if (!keep) {
        core->pub_batch = start->skip;
        mr_core_forget_damage(core, start->epoch);
    }
    core->pub_next = false;
    core->own_order = start->indices != NULL;
    core->epoch = start->epoch;
    core->n_batches = mr_sampler_steps(core->sampler, core->options.batch_size, core->options.drop_last);
    core->n_returned = start->skip;
    want_next_epoch(core);
    mr_core_publish(core);
    return MR_OK;
}

void mr_epoch_open(struct mr_core *core)
{
    core->n_batches = mr_sampler_steps(core->sampler, core->options.batch_size, core->options.drop_last);
    want_next_epoch(core);
    mr_core_publish(core);
}

/* One order, computed outside the lock; nobody changes either sampler while the state is WORKING. */
static void make_next_epoch(struct mr_core *core)
{
    mr_error error;
    uint64_t epoch = core->next_epoch;
    core->next_epoch_state = MR_NEXT_EPOCH_WORKING;
    pthread_mutex_unlock(&core->lock);
    mr_status status = core->next_sampler ? mr_sampler_set_epoch(core->next_sampler, epoch, &error)
                                          : mr_sampler_create_like(core->sampler, epoch, &core->next_sampler, &error);
    pthread_mutex_lock(&core->lock);
    core->next_epoch_state =
        status == MR_OK ? MR_NEXT_EPOCH_READY : MR_NEXT_EPOCH_FAILED; /* failed: set_epoch() tries again and says why */
    pthread_cond_broadcast(&core->next_epoch_changed);
    mr_core_publish(core);
}

void mr_epoch_make_next(struct mr_core *core)
{
    pthread_mutex_lock(&core->lock);
    while (!core->closed) {
        if (core->next_epoch_state == MR_NEXT_EPOCH_WANTED)
            make_next_epoch(core);
        else
            pthread_cond_wait(&core->next_epoch_changed, &core->lock);
    }
    pthread_mutex_unlock(&core->lock);
}
