/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the loader's epoch, and makes the order of the next one. A thread makes it while the present
 * epoch runs, so there is no pause between epochs.
 */
#include "loader/epoch.h"

#include "base/log.h"

/* May batches of the epoch after the present one be decoded? */
static bool may_work_ahead(const struct mr_host *host)
{
    uint64_t n = host->options.n_epochs;
    return host->has_next_epoch && !host->own_order &&
           (n == 0 || host->epoch + 1 < host->options.epoch + n);
}

/* Wait until the next epoch's thread has finished with `next_sampler`, and let it rest. */
static void await_next_sampler(struct mr_host *host)
{
    host->next_epoch_rests = true;
    while (host->next_epoch_state == MR_NEXT_EPOCH_WORKING)
        pthread_cond_wait(&host->next_epoch_changed, &host->lock);
    host->next_epoch_rests = false;
    if (host->next_epoch_state == MR_NEXT_EPOCH_WANTED)
        host->next_epoch_state = MR_NEXT_EPOCH_NONE;
}

/* Or first the whole order of the present epoch, if that is only begun. */
static void request_next_epoch(struct mr_host *host)
{
    const bool is_begun = mr_sampler_is_begun(host->sampler);
    host->next_epoch_state = MR_NEXT_EPOCH_NONE;
    if (!is_begun && !may_work_ahead(host))
        return;
    host->next_epoch_state = MR_NEXT_EPOCH_WANTED;
    host->next_epoch = is_begun ? host->epoch : host->epoch + 1;
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

/* Give the sampler the order of the epoch: the one made in advance, or one computed here. */
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

/* A saved position may have changed what follows in a mixture. */
static bool changes_mixture(const struct mr_host *host, const struct mr_epoch_start *start)
{
    return start->restored && mr_sampler_get_parts(host->sampler)->mixture;
}

/* Is the loader at just this start, with nothing returned yet? */
static bool is_at_start(const struct mr_host *host, const struct mr_epoch_start *start)
{
    return !changes_mixture(host, start) && !start->indices && !host->own_order &&
           start->skip == 0 && start->epoch == host->epoch && host->n_returned == 0;
}

/* Do the batches that were published in advance belong to this start? */
static bool was_published_ahead(const struct mr_host *host, const struct mr_epoch_start *start)
{
    return !changes_mixture(host, start) && !start->indices && start->skip == 0 && host->pub_next &&
           start->epoch == host->epoch + 1;
}

mr_status mr_epoch_set(struct mr_host *host, const struct mr_epoch_start *start, mr_error *error)
{
    if (is_at_start(host, start))
        return MR_OK;
    warn_same_epoch(host, start);
    await_next_sampler(host);
    bool keep = was_published_ahead(host, start);
    mr_status status = take_sampler(host, start, error);
    if (status != MR_OK) {
        if (host->next_epoch_state == MR_NEXT_EPOCH_NONE) /* the present epoch continues */
            request_next_epoch(host);
        return status;
    }
    mr_host_drop_published(host, keep, start->epoch);
    host->n_batches =
        mr_sampler_steps(host->sampler, host->options.batch_size, host->options.drop_last);
    const uint64_t skip = start->skip < host->n_batches ? start->skip : host->n_batches;
    if (!keep) {
        host->pub_batch = skip;
        mr_host_forget_damage(host, start->epoch);
    }
    host->pub_next = false;
    host->own_order = start->indices != NULL;
    host->epoch = start->epoch;
    host->n_returned = skip;
    request_next_epoch(host);
    mr_host_publish(host);
    return MR_OK;
}

void mr_epoch_open(struct mr_host *host)
{
    host->n_batches =
        mr_sampler_steps(host->sampler, host->options.batch_size, host->options.drop_last);
    request_next_epoch(host);
    mr_host_publish(host);
}

void mr_epoch_await_rows(struct mr_host *host)
{
    while (mr_sampler_is_begun(host->sampler) && !host->closed && !host->fatal.status)
        pthread_cond_wait(&host->next_epoch_changed, &host->lock);
}

/* The present epoch, which was begun, has its whole order. */
static void complete_epoch(struct mr_host *host)
{
    mr_sampler *begun = host->sampler;
    host->sampler = host->next_sampler;
    host->next_sampler = begun;
    host->n_batches =
        mr_sampler_steps(host->sampler, host->options.batch_size, host->options.drop_last);
    request_next_epoch(host);
}

/*
 * Make one order without the lock; nothing else changes either sampler while the state is WORKING.
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
        /* if it failed, set_epoch() tries again and reports the error */
        status == MR_OK ? MR_NEXT_EPOCH_READY : MR_NEXT_EPOCH_FAILED;
    if (epoch == host->epoch && status == MR_OK)
        complete_epoch(host);
    else if (epoch == host->epoch && !host->fatal.status)
        host->fatal = error; /* the rest of this epoch cannot be made */
    pthread_cond_broadcast(&host->next_epoch_changed);
    mr_host_publish(host);
    if (epoch == host->epoch) { /* that may have been the end */
        mr_host_update_fd(host);
        mr_control_wake_host(&host->shared);
    }
}

void mr_epoch_make_next(struct mr_host *host)
{
    pthread_mutex_lock(&host->lock);
    while (!host->closed) {
        if (host->next_epoch_state == MR_NEXT_EPOCH_WANTED && !host->next_epoch_rests)
            make_next_epoch(host);
        else
            pthread_cond_wait(&host->next_epoch_changed, &host->lock);
    }
    pthread_mutex_unlock(&host->lock);
}
