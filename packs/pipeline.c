/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordered pipeline: a ring of items under one lock. A worker claims the next position; the
 * caller's thread takes the oldest item.
 *
 * Invariant: a worker that holds claimed positions never waits for room, because finishing these
 * positions may be what makes room. Only finished items count as held bytes. If there are any, the
 * oldest position has been claimed, so every wait for room ends.
 */
#include "packs/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/packed_image.h"
#include "base/thread.h"
#include "dataset/reader/file_cache.h"

enum {
    AHEAD = 4,            /* reads in flight per worker */
    ITEMS_PER_WORKER = 8, /* claimed or done, not yet taken */
    RESULT_ALIGN = 16,
    TICK_MS = 100
};
/* Limit for results that wait to be taken. Positions that are already claimed may exceed it. */
#define MAX_HELD_BYTES ((uint64_t)256 << 20)
#define MAX_SAMPLE_BYTES ((uint64_t)4 << 30)
#define NO_POSITION UINT64_MAX

struct pipeline;

struct worker {
    struct pipeline *pipeline;
    struct mr_reader *reader;
    void *state;
    pthread_t thread;
    bool started;
};

struct slot {
    struct mr_pipeline_item item;
    bool done; /* under the lock. False: the item belongs to a worker; true: to the caller's thread
                */
};

struct pipeline {
    const struct mr_pipeline_work *work;
    struct slot *slots;
    uint8_t *results;
    uint64_t n_slots;
    struct worker *workers;
    uint32_t n_workers;
    uint64_t ticked_ns;
    pthread_mutex_t lock;
    pthread_cond_t room; /* a position can be claimed, or stop is set */
    pthread_cond_t done; /* the oldest item is done */
    /* Under the lock: */
    uint64_t claimed; /* the next position to claim */
    uint64_t taken;   /* the next position to take */
    uint64_t held;    /* bytes of items that are done */
    bool stop;
};

static struct slot *slot_at(struct pipeline *p, uint64_t position)
{
    return &p->slots[position % p->n_slots];
}

mr_status mr_pipeline_reserve(struct mr_pipeline_item *item, size_t len)
{
    assert(item->bytes == NULL);
    item->bytes = malloc(len > 0 ? len : 1);
    if (!item->bytes)
        return mr_error_memory(&item->error, len);
    item->len = len;
    return MR_OK;
}

/* Workers. */

static bool has_room(const struct pipeline *p)
{
    return p->claimed - p->taken < p->n_slots && p->held < MAX_HELD_BYTES;
}

/*
 * Claim the next position. NO_POSITION: there is none left, or there is no room and wait is false.
 */
static uint64_t claim_position(struct pipeline *p, bool wait)
{
    uint64_t position = NO_POSITION;
    pthread_mutex_lock(&p->lock);
    while (wait && !p->stop && p->claimed < p->work->end && !has_room(p))
        pthread_cond_wait(&p->room, &p->lock);
    if (!p->stop && p->claimed < p->work->end && has_room(p))
        position = p->claimed++;
    pthread_mutex_unlock(&p->lock);
    return position;
}

static void submit_read(struct worker *w, uint64_t position)
{
    struct pipeline *p = w->pipeline;
    const struct mr_catalog *catalog = p->work->catalog;
    int64_t index = p->work->index_at(p->work->user, position);
    struct mr_part_list list;
    struct mr_extent marks;
    mr_catalog_parts(catalog, index, MAX_SAMPLE_BYTES, &list);
    if (p->work->marks && mr_catalog_is_pack(catalog) && mr_catalog_marks(catalog, index, &marks))
        mr_part_list_add(&list, marks, marks.len, MR_FOR_MARKS);
    mr_reader_submit(w->reader, position, index, &list);
}

static void finish_item(struct pipeline *p, uint64_t position)
{
    struct slot *slot = slot_at(p, position);
    pthread_mutex_lock(&p->lock);
    slot->done = true;
    p->held += slot->item.len;
    if (position == p->taken)
        pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

/* If the entry in a pack's index points outside the pack, that is why the read has failed. */
static void explain_failure(const struct mr_catalog *catalog, const struct mr_read *read,
                            mr_error *error_out)
{
    struct mr_packed_image unused;
    if (!mr_catalog_is_described(catalog) ||
        mr_catalog_packed(catalog, read->index, &unused, error_out) == MR_OK)
        *error_out = *read->error;
}

/* From the claim to finish_item(), only this worker uses the slot. */
static void run_item(struct worker *w, const struct mr_read *read)
{
    struct pipeline *p = w->pipeline;
    struct mr_pipeline_item *item = &slot_at(p, read->tag)->item;
    void *result = item->result;
    *item = (struct mr_pipeline_item){.position = read->tag,
                                      .index = read->index,
                                      .read_bytes = mr_read_bytes(read),
                                      .result = result};
    memset(result, 0, p->work->result_bytes);
    item->status = read->status;
    if (read->status == MR_OK)
        item->status = p->work->run(w->state, read, item);
    else
        explain_failure(p->work->catalog, read, &item->error);
    finish_item(p, read->tag);
}

static bool is_stopped(struct pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return stop;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct mr_read read;
    while (!is_stopped(w->pipeline)) {
        while (mr_reader_n_busy(w->reader) < AHEAD) {
            uint64_t position = claim_position(w->pipeline, mr_reader_n_busy(w->reader) == 0);
            if (position == NO_POSITION)
                break;
            submit_read(w, position);
        }
        if (mr_reader_n_pending(w->reader) == 0)
            break; /* it waited for a position, and none is left */
        if (mr_reader_reap(w->reader, true, &read)) {
            run_item(w, &read);
            mr_reader_recycle(w->reader, &read);
        }
    }
    return NULL;
}

/* The caller's thread. */

static bool is_canceled(struct pipeline *p)
{
    uint64_t now_ns = mr_clock_now_ns();
    if (now_ns - p->ticked_ns < (uint64_t)TICK_MS * 1000000)
        return false;
    p->ticked_ns = now_ns;
    return p->work->tick(p->work->user);
}

/* Wait for the oldest item, at most one tick. */
static bool await_oldest(struct pipeline *p)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&p->lock);
    const struct slot *slot = slot_at(p, p->taken);
    int rc = 0;
    while (!slot->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&p->done, &p->lock, &until);
    bool done = slot->done;
    pthread_mutex_unlock(&p->lock);
    return done;
}

static void drop_oldest(struct pipeline *p, struct slot *slot)
{
    free(slot->item.bytes);
    slot->item.bytes = NULL;
    pthread_mutex_lock(&p->lock);
    slot->done = false;
    p->held -= slot->item.len;
    p->taken++;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
}

static mr_status take_all(struct pipeline *p, mr_error *error)
{
    const struct mr_pipeline_work *work = p->work;
    mr_status status = MR_OK;
    while (status == MR_OK && p->taken < work->end) { /* only this thread writes p->taken */
        if (await_oldest(p)) {
            struct slot *slot = slot_at(p, p->taken);
            status = work->take(work->user, &slot->item, error);
            drop_oldest(p, slot);
        }
        if (status == MR_OK && is_canceled(p))
            status = mr_error_set(error, MR_ERR_CANCELED, "canceled");
    }
    return status;
}

static mr_status make_slots(struct pipeline *p, mr_error *error)
{
    size_t stride = mr_align_up(p->work->result_bytes, RESULT_ALIGN);
    size_t bytes;
    p->n_slots = (uint64_t)p->n_workers * ITEMS_PER_WORKER;
    if (!mr_checked_mul(stride, p->n_slots, &bytes))
        return mr_error_memory(error, SIZE_MAX);
    p->slots = calloc(p->n_slots, sizeof *p->slots);
    p->results = aligned_alloc(RESULT_ALIGN, bytes > 0 ? bytes : RESULT_ALIGN);
    if (!p->slots || !p->results)
        return mr_error_memory(error, bytes + p->n_slots * sizeof *p->slots);
    for (uint64_t i = 0; i < p->n_slots; i++)
        p->slots[i].item.result = p->results + i * stride;
    return MR_OK;
}

/*
 * All readers are in one process, which needs descriptors for other things too, so the readers
 * share the limit of one.
 */
static uint32_t files_per_reader(const struct pipeline *p)
{
    uint32_t limit = mr_file_cache_limit();
    return limit > p->n_workers ? limit / p->n_workers : 1;
}

static mr_status make_workers(struct pipeline *p, mr_error *error)
{
    const struct mr_reader_options options = {
        .kind = MR_READER_AUTO, .depth = AHEAD, .max_files = files_per_reader(p)};
    mr_status status = MR_OK;
    p->workers = calloc(p->n_workers, sizeof *p->workers);
    if (!p->workers)
        return mr_error_memory(error, p->n_workers * sizeof *p->workers);
    for (uint32_t i = 0; status == MR_OK && i < p->n_workers; i++) {
        struct worker *w = &p->workers[i];
        w->pipeline = p;
        status = mr_reader_create(p->work->catalog, &options, &w->reader, error);
        if (status == MR_OK)
            status = p->work->open(p->work->user, &w->state, error);
    }
    return status;
}

/* If not all threads can be started, the work continues with fewer. */
static mr_status start_workers(struct pipeline *p, mr_error *error)
{
    for (uint32_t i = 0; i < p->n_workers; i++) {
        struct worker *w = &p->workers[i];
        int rc = mr_thread_start(&w->thread, worker_main, w);
        w->started = rc == 0;
        if (rc != 0 && i == 0)
            return mr_error_os(error, MR_ERR_NO_MEMORY, rc, "cannot start a thread");
        if (rc != 0)
            break;
    }
    return MR_OK;
}

static void stop_workers(struct pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; p->workers && i < p->n_workers; i++)
        if (p->workers[i].started)
            pthread_join(p->workers[i].thread, NULL);
}

static void fini_pipeline(struct pipeline *p)
{
    for (uint32_t i = 0; p->workers && i < p->n_workers; i++) {
        mr_reader_destroy(p->workers[i].reader);
        if (p->workers[i].state)
            p->work->close(p->workers[i].state);
    }
    for (uint64_t i = 0; p->slots && i < p->n_slots; i++)
        free(p->slots[i].item.bytes);
    free(p->workers);
    free(p->slots);
    free(p->results);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->room);
    pthread_mutex_destroy(&p->lock);
}

static void init_pipeline(struct pipeline *p, const struct mr_pipeline_work *work)
{
    uint64_t n = work->end - work->first;
    pthread_condattr_t monotonic;
    *p = (struct pipeline){.work = work, .claimed = work->first, .taken = work->first};
    p->n_workers = work->n_workers < n ? work->n_workers : (uint32_t)n;
    p->ticked_ns = mr_clock_now_ns();
    pthread_condattr_init(&monotonic); /* on Linux, these calls cannot fail */
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

mr_status mr_pipeline_run(const struct mr_pipeline_work *work, mr_error *error)
{
    struct pipeline p;
    if (work->first >= work->end)
        return MR_OK;
    init_pipeline(&p, work);
    mr_status status = make_slots(&p, error);
    if (status == MR_OK)
        status = make_workers(&p, error);
    if (status == MR_OK)
        status = start_workers(&p, error);
    if (status == MR_OK)
        status = take_all(&p, error);
    stop_workers(&p);
    fini_pipeline(&p);
    return status;
}
