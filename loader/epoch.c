/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which epoch the loader is in, and the order of the one after it. That order is made by a thread
 * of its own while the present epoch runs, so the end of an epoch is no pause.
 */
#include "loader/epoch.h"

#include "base/log.h"

/* May batches of the epoch after the present one be decoded? */
static bool may_go_ahead(const struct mr_host *host)
{
    uint64_t n = host->options.n_epochs;
    return host->has_next_epoch && !host->own_order &&
           (n == 0 || host->epoch + 1 < host->options.epoch + n);
}

/* The thread of the next epoch must not be at work on `next_sampler` when it is used here. */
static void await_next_epoch(struct mr_host *host)
{
    if (host->next_epoch_state == MR_NEXT_EPOCH_WANTED)
        host->next_epoch_state = MR_NEXT_EPOCH_NONE;
    while (host->next_epoch_state == MR_NEXT_EPOCH_WORKING)
        pthread_cond_wait(&host->next_epoch_changed, &host->lock);
}

static void want_next_epoch(struct mr_host *host)
{
    host->next_epoch_state = MR_NEXT_EPOCH_NONE;
    if (!may_go_ahead(host))
        return;
    host->next_epoch_state = MR_NEXT_EPOCH_WANTED;
    host->next_epoch = host->epoch + 1;
    pthread_cond_broadcast(&host->next_epoch_changed);
}

static void warn_same_epoch(struct mr_host *host, const struct mr_epoch_start *start)
{
    if (start->indices || start->restored || start->epoch != host->epoch || host->n_returned == 0 ||
        host->own_order || host->options.no_shuffle || host->options.allow_same_epoch ||
        host->warned_same_epoch)
        return;
    host->warned_same_epoch = true;
    mr_log_line(MR_LOG_WARNING,
                "epoch %llu is used twice: its order and its crops are the same again",
                (unsigned long long)start->epoch);
}

/* Bring the sampler of the epoch: the one made ahead, or a computation here. */
static mr_status take_sampler(struct mr_host *host, const struct mr_epoch_start *start,
                              mr_error *error)
{
    if (start->indices)
        return mr_sampler_set_order(host->sampler, start->epoch, start->indices, start->n, error);
    if (host->next_epoch_state == MR_NEXT_EPOCH_READY && host->next_epoch == start->epoch) {
        mr_sampler *ready = host->next_sampler;
        host->next_sampler = host->sampler;
        host->sampler = ready;
        return MR_OK;
    }
    return mr_sampler_set_epoch(host->sampler, start->epoch, error);
}

/* Does the loader stand at just this start, with nothing returned yet? */
static bool stands_at(const struct mr_host *host, const struct mr_epoch_start *start)
{
    return !start->indices && !host->own_order && start->skip == 0 && start->epoch == host->epoch &&
           host->n_returned == 0;
}

/* Are the batches that were published ahead those of this start? */
static bool was_published_ahead(const struct mr_host *host, const struct mr_epoch_start *start)
{
    return !start->indices && start->skip == 0 && host->pub_next && start->epoch == host->epoch + 1;
}

mr_status mr_epoch_set(struct mr_host *host, const struct mr_epoch_start *start, mr_error *error)
{
    if (stands_at(host, start))
        return MR_OK;
    warn_same_epoch(host, start);
    await_next_epoch(host);
    bool keep = was_published_ahead(host, start);
    mr_status status = take_sampler(host, start, error);
    if (status != MR_OK) {
        if (host->next_epoch_state == MR_NEXT_EPOCH_NONE) /* as before: the present epoch goes on */
            want_next_epoch(host);
        return status;
    }
    mr_host_drop_published(host, keep, start->epoch);
    if (!keep) {
        host->pub_batch = start->skip;
        mr_host_forget_damage(host, start->epoch);
    }
    host->pub_next = false;
    host->own_order = start->indices != NULL;
    host->epoch = start->epoch;
    host->n_batches =
        mr_sampler_steps(host->sampler, host->options.batch_size, host->options.drop_last);
    host->n_returned = start->skip;
    want_next_epoch(host);
    mr_host_publish(host);
    return MR_OK;
}

void mr_epoch_open(struct mr_host *host)
{
    host->n_batches =
        mr_sampler_steps(host->sampler, host->options.batch_size, host->options.drop_last);
    want_next_epoch(host);
    mr_host_publish(host);
}

/*
 * One order, computed outside the lock; nobody changes either sampler while the state is WORKING.
 */
static void make_next_epoch(struct mr_host *host)
{
    mr_error error;
    uint64_t epoch = host->next_epoch;
    host->next_epoch_state = MR_NEXT_EPOCH_WORKING;
    pthread_mutex_unlock(&host->lock);
    mr_status status = host->next_sampler ? mr_sampler_set_epoch(host->next_sampler, epoch, &error)
                                          : mr_sampler_create_like(host->sampler, epoch,
                                                                   &host->next_sampler, &error);
    pthread_mutex_lock(&host->lock);
    host->next_epoch_state =
        /* failed: set_epoch() tries again and says why */
        status == MR_OK ? MR_NEXT_EPOCH_READY : MR_NEXT_EPOCH_FAILED;
    pthread_cond_broadcast(&host->next_epoch_changed);
    mr_host_publish(host);
}

void mr_epoch_make_next(struct mr_host *host)
{
    pthread_mutex_lock(&host->lock);
    while (!host->closed) {
        if (host->next_epoch_state == MR_NEXT_EPOCH_WANTED)
            make_next_epoch(host);
        else
            pthread_cond_wait(&host->next_epoch_changed, &host->lock);
    }
    pthread_mutex_unlock(&host->lock);
}
