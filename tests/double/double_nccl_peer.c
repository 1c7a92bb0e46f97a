/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a communicator: it connects to the hub, sends what operations have read, opens the
 * gates of those whose results have arrived, and issues the call in progress into its stream when
 * its time has come.
 *
 * Invariant: it continues to read while it cannot write, because the hub does not read while it
 * writes.
 */
#include "tests/double/double_nccl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 2
/* An operation without a waiter runs after this time: devices make progress by themselves. */
#define NUDGE_NS 10000000u
#define NEVER UINT64_MAX

/* Used by this thread only. */
struct peer {
    struct double_nccl_comm *comm;
    int fd;
    struct double_nccl_op *writing; /* a reference */
    struct double_nccl_frame frame; /* of it */
    size_t n_written;               /* of the frame and the bytes that follow it */
    bool lost;                      /* the connection has ended */
    bool said_goodbye;
};

static bool is_stopped(const struct double_nccl_comm *comm)
{
    struct pollfd stop = {.fd = comm->stop_fd, .events = POLLIN};
    return poll(&stop, 1, 0) > 0;
}

/* Sleeps for up to ms, or until the thread must end. */
static void sleep_unless_stopped(const struct double_nccl_comm *comm, int ms)
{
    struct pollfd stop = {.fd = comm->stop_fd, .events = POLLIN};
    (void)poll(&stop, 1, ms);
}

/* -1: the thread must end. */
static int reach_hub(struct double_nccl_comm *comm)
{
    int fd = -1;
    while (!is_stopped(comm) && (fd = double_nccl_connect(&comm->id)) < 0)
        sleep_unless_stopped(comm, CONNECT_MS);
    return fd;
}

static bool hello(struct peer *peer)
{
    struct double_nccl_comm *comm = peer->comm;
    struct double_nccl_frame frame = {.type = DOUBLE_NCCL_HELLO,
                                      .rank = comm->rank,
                                      .count = comm->n_ranks,
                                      .device = comm->device};
    peer->fd = reach_hub(comm);
    return peer->fd >= 0 && double_nccl_write(peer->fd, comm->stop_fd, &frame, NULL);
}

/* Note the first rank that disconnects. */
static void lose(struct double_nccl_comm *comm, uint32_t rank)
{
    pthread_mutex_lock(&comm->lock);
    if (comm->lost == 0)
        comm->lost = rank + 1;
    pthread_mutex_unlock(&comm->lock);
}

/*
 * A rank that has disconnected is noticed by operations that need it. An operation whose result has
 * arrived ends well, unless strict.
 */
static void notice_loss(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    uint32_t lost = comm->options.silent ? 0 : comm->lost;
    bool matters = comm->state == DOUBLE_NCCL_STARTING;
    for (const struct double_nccl_op *op = comm->ops; op; op = op->next)
        matters = matters || ((op->due_ns == 0 || comm->options.strict) && !op->ended);
    pthread_mutex_unlock(&comm->lock);
    if (lost > 0 && matters)
        double_nccl_comm_fail(comm, ncclRemoteError, "rank %u is gone", (unsigned)lost - 1);
}

/* ---- frames from the hub ---- */

static void set_flag(struct double_nccl_comm *comm, bool *flag)
{
    pthread_mutex_lock(&comm->lock);
    *flag = true;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static void take_result(struct double_nccl_comm *comm, const struct double_nccl_frame *frame,
                        uint8_t *bytes)
{
    pthread_mutex_lock(&comm->lock);
    struct double_nccl_op *op = comm->ops;
    while (op && op->seq != frame->seq)
        op = op->next;
    if (op) {
        op->due_ns = double_nccl_now_ns() +
                     double_nccl_random(&comm->random, comm->options.delay_us * UINT64_C(1000));
        op->arrived = bytes;
    }
    pthread_mutex_unlock(&comm->lock);
    if (!op)
        free(bytes);
}

static void be_ready(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    if (comm->state == DOUBLE_NCCL_STARTING)
        comm->state = DOUBLE_NCCL_READY;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static void read_frame(struct peer *peer)
{
    struct double_nccl_comm *comm = peer->comm;
    struct double_nccl_frame frame;
    uint8_t *bytes;
    if (!double_nccl_read(peer->fd, comm->stop_fd, &frame, &bytes)) {
        peer->lost = true;
        lose(comm, 0);
        return;
    }
    switch (frame.type) {
    case DOUBLE_NCCL_WELCOME: be_ready(comm); break;
    case DOUBLE_NCCL_REFUSED:
        double_nccl_comm_fail(comm, ncclInvalidUsage, "%s", (const char *)bytes);
        break;
    case DOUBLE_NCCL_RESULT: take_result(comm, &frame, bytes); return;
    case DOUBLE_NCCL_DEAD: lose(comm, frame.rank); break;
    case DOUBLE_NCCL_ALL_LEFT: set_flag(comm, &comm->all_left); break;
    }
    free(bytes);
}

/* ---- sending ---- */

static struct double_nccl_op *next_post(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    struct double_nccl_op *op = comm->posts;
    if (op)
        comm->posts = op->post;
    pthread_mutex_unlock(&comm->lock);
    return op;
}

static void begin_writing(struct peer *peer)
{
    struct double_nccl_op *op = peer->writing ? NULL : next_post(peer->comm);
    if (!op)
        return;
    peer->writing = op;
    peer->n_written = 0;
    peer->frame = (struct double_nccl_frame){.type = DOUBLE_NCCL_PART,
                                             .rank = peer->comm->rank,
                                             .kind = op->kind,
                                             .dtype = op->dtype,
                                             .op = op->op,
                                             .root = op->root,
                                             .seq = op->seq,
                                             .count = op->count,
                                             .n_bytes = op->sent ? op->n_in : 0};
}

/* Write as much as the socket takes. */
static void write_some(struct peer *peer)
{
    size_t len = sizeof peer->frame + peer->frame.n_bytes;
    while (peer->n_written < len) {
        bool head = peer->n_written < sizeof peer->frame;
        const uint8_t *from = head ? (const uint8_t *)&peer->frame + peer->n_written
                                   : peer->writing->sent + (peer->n_written - sizeof peer->frame);
        size_t most = head ? sizeof peer->frame - peer->n_written : len - peer->n_written;
        ssize_t n = send(peer->fd, from, most, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* full, or broken, which reading reports */
        peer->n_written += (size_t)n;
    }
    double_nccl_op_unref(peer->writing);
    peer->writing = NULL;
}

/* ---- timed events ---- */

/* Issue the call in progress into its stream, in order. */
static void issue_pending(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    struct double_nccl_op *op = comm->progress_ns <= double_nccl_now_ns() ? comm->pending : NULL;
    pthread_mutex_unlock(&comm->lock);
    if (!op)
        return;
    double_acquire(op);
    double_machine_lock();
    double_machine_thread()->device = comm->device;
    double_machine_unlock();
    ncclResult_t result = double_nccl_issue(op);
    if (result != ncclSuccess)
        double_nccl_comm_fail(comm, result,
                              "the operation in progress cannot be put into its stream");
    pthread_mutex_lock(&comm->lock);
    comm->pending = NULL;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    double_nccl_op_unref(op);
}

/* The next operation whose result is due; a reference. */
static struct double_nccl_op *find_due(struct double_nccl_comm *comm, uint64_t now_ns)
{
    pthread_mutex_lock(&comm->lock);
    struct double_nccl_op *op = comm->ops;
    while (op && (op->due_ns == 0 || op->due_ns > now_ns || op->valid))
        op = op->next;
    if (op) {
        atomic_fetch_add(&op->refs, 1);
        op->valid = true;
        op->result = op->arrived;
        op->arrived = NULL;
    }
    pthread_mutex_unlock(&comm->lock);
    return op;
}

static void open_due(struct double_nccl_comm *comm)
{
    struct double_nccl_op *op;
    while ((op = find_due(comm, double_nccl_now_ns()))) {
        double_nccl_op_open(op, true);
        double_nccl_op_unref(op);
    }
}

/*
 * Remove ended operations from the list. Returns a reference to the first one that has not ended,
 * if it is old.
 */
static struct double_nccl_op *remove_ended(struct double_nccl_comm *comm, uint64_t now_ns)
{
    struct double_nccl_op *ended = NULL, *old = NULL;
    pthread_mutex_lock(&comm->lock);
    for (struct double_nccl_op **at = &comm->ops; *at;) {
        struct double_nccl_op *op = *at;
        if (op->ended) {
            *at = op->next;
            op->next = ended;
            ended = op;
            continue;
        }
        if (!old && op->issued_ns > 0 && now_ns - op->issued_ns >= NUDGE_NS)
            old = op;
        at = &op->next;
    }
    if (old)
        atomic_fetch_add(&old->refs, 1);
    pthread_mutex_unlock(&comm->lock);
    while (ended) {
        struct double_nccl_op *op = ended;
        ended = op->next;
        double_nccl_op_unref(op);
    }
    return old;
}

static void advance_oldest(struct double_nccl_comm *comm)
{
    struct double_nccl_op *op = remove_ended(comm, double_nccl_now_ns());
    if (!op)
        return;
    double_machine_lock();
    if (op->end && op->end->last)
        double_schedule_advance(op->end->last);
    double_machine_unlock();
    double_nccl_op_unref(op);
}

static bool may_say_goodbye(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool may = comm->state == DOUBLE_NCCL_FINALIZING && !comm->ops && !comm->posts &&
               !comm->pending && comm->progress_ns <= double_nccl_now_ns();
    pthread_mutex_unlock(&comm->lock);
    return may;
}

static void finalize(struct peer *peer)
{
    struct double_nccl_comm *comm = peer->comm;
    struct double_nccl_frame frame = {.type = DOUBLE_NCCL_GOODBYE, .rank = comm->rank};
    if (peer->writing || !may_say_goodbye(comm))
        return;
    if (!peer->said_goodbye && !peer->lost)
        (void)double_nccl_write(peer->fd, comm->stop_fd, &frame, NULL);
    peer->said_goodbye = true;
    pthread_mutex_lock(&comm->lock);
    if (!comm->options.together || comm->all_left)
        comm->state = DOUBLE_NCCL_FINALIZED;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

/* How long the thread may sleep without being woken. */
static int idle_ms(struct double_nccl_comm *comm)
{
    uint64_t now_ns = double_nccl_now_ns(), next_ns = NEVER;
    pthread_mutex_lock(&comm->lock);
    for (const struct double_nccl_op *op = comm->ops; op; op = op->next) {
        uint64_t at_ns = op->due_ns > 0 && !op->valid ? op->due_ns
                         : op->ended                  ? now_ns
                                                      : now_ns + NUDGE_NS;
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    if (comm->pending || (comm->state == DOUBLE_NCCL_FINALIZING && comm->progress_ns > now_ns))
        next_ns = comm->progress_ns < next_ns ? comm->progress_ns : next_ns;
    pthread_mutex_unlock(&comm->lock);
    if (next_ns == NEVER)
        return -1;
    return next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / 1000000) + 1;
}

static void work_once(struct peer *peer)
{
    struct double_nccl_comm *comm = peer->comm;
    begin_writing(peer);
    short events = peer->writing ? POLLIN | POLLOUT : POLLIN;
    struct pollfd fds[3] = {{.fd = comm->stop_fd, .events = POLLIN},
                            {.fd = comm->wake_fd, .events = POLLIN},
                            {.fd = peer->lost ? -1 : peer->fd, .events = events}};
    uint64_t count;
    if (poll(fds, 3, idle_ms(comm)) > 0) {
        if (fds[1].revents && read(comm->wake_fd, &count, sizeof count) < 0)
            return;
        if (fds[2].revents & (POLLIN | POLLHUP | POLLERR))
            read_frame(peer);
        if (peer->writing && (fds[2].revents & POLLOUT))
            write_some(peer);
    }
    issue_pending(comm);
    notice_loss(comm);
    open_due(comm);
    advance_oldest(comm);
    finalize(peer);
}

static void *work(void *arg)
{
    struct peer peer = {.comm = arg, .fd = -1};
    if (hello(&peer))
        while (!is_stopped(peer.comm))
            work_once(&peer);
    else if (!is_stopped(peer.comm))
        double_nccl_comm_fail(peer.comm, ncclSystemError, "rank 0 has closed the connection");
    if (peer.writing)
        double_nccl_op_unref(peer.writing);
    if (peer.fd >= 0)
        close(peer.fd);
    return NULL;
}

static void close_events(struct double_nccl_comm *comm)
{
    if (comm->wake_fd >= 0)
        close(comm->wake_fd);
    if (comm->stop_fd >= 0)
        close(comm->stop_fd);
}

bool double_nccl_peer_start(struct double_nccl_comm *comm)
{
    comm->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    comm->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (comm->wake_fd >= 0 && comm->stop_fd >= 0 &&
        pthread_create(&comm->thread, NULL, work, comm) == 0)
        return true;
    close_events(comm);
    return false;
}

/* One of the remaining operations; takes the list's reference. */
static struct double_nccl_op *take_first(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    struct double_nccl_op *op = comm->ops;
    if (op)
        comm->ops = op->next;
    pthread_mutex_unlock(&comm->lock);
    return op;
}

void double_nccl_peer_stop(struct double_nccl_comm *comm)
{
    struct double_nccl_op *op;
    pthread_mutex_lock(&comm->lock);
    comm->stopped = true;
    pthread_mutex_unlock(&comm->lock);
    double_nccl_poke(comm->stop_fd);
    pthread_join(comm->thread, NULL);
    while ((op = next_post(comm)))
        double_nccl_op_unref(op);
    while ((op = take_first(comm))) {
        double_nccl_op_open(op, false);
        double_nccl_op_unref(op);
    }
    pthread_mutex_lock(&comm->lock);
    op = comm->pending;
    comm->pending = NULL;
    pthread_mutex_unlock(&comm->lock);
    if (op)
        double_nccl_op_unref(op);
}
