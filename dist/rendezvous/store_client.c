/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's connection to the rendezvous store. Once connected, one thread sends beats and reads
 * answers and notices.
 *
 * Invariant: callers and the thread share the queue of outgoing bytes. Whole frames are appended
 * under the lock, and the holder of the lock sends as much as the socket takes. No thread blocks in
 * send() or recv().
 */
#include "dist/rendezvous/store_client.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "dist/rendezvous/lost_ranks.h"

#define MS UINT64_C(1000000)
#define READ_BYTES (64u << 10)

/* A request that waits for its answer; on the caller's stack. */
struct call {
    struct call *next;
    uint64_t id;
    bool done;
    uint8_t code;
    uint8_t *value_out;
    uint32_t size;
    uint32_t len; /* of the answer, even if it does not fit */
};

struct mr_store_client {
    int fd;
    int wake_fd;
    uint32_t rank;
    uint32_t world_size;
    uint32_t silence_ms;
    char local[64];
    pthread_t thread;
    struct mr_store_bytes in; /* used by the thread only */
    pthread_mutex_t lock;     /* protects all fields below */
    uint32_t n_callers;       /* callers inside a request */
    pthread_cond_t answered;
    struct mr_store_bytes out;
    struct call *calls;
    uint64_t next_id;
    bool closing;
    bool gone; /* the connection cannot be used any more */
    bool left; /* the server said goodbye */
    struct mr_lost_ranks lost;
    _Atomic bool is_broken; /* set after the first lost rank; read without the lock */
};

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* The connection. All functions below need the lock. */

static void set_broken(struct mr_store_client *client, uint32_t rank, uint8_t how)
{
    mr_lost_ranks_add(&client->lost, rank, how);
    atomic_store(&client->is_broken, true);
}

/* The server is gone, so rank 0 is: the server runs in its process. */
static void lose_server(struct mr_store_client *client, uint8_t how)
{
    if (client->gone)
        return;
    if (!client->left && !client->closing)
        set_broken(client, 0, how);
    client->gone = true;
    for (struct call *call = client->calls; call; call = call->next) {
        call->done = true;
        call->code = MR_STORE_LOST;
    }
    client->calls = NULL;
    pthread_cond_broadcast(&client->answered);
}

static void send_queued(struct mr_store_client *client)
{
    if (client->gone || mr_store_wire_send(client->fd, &client->out) >= 0)
        return;
    /* bytes that were received are still read; then the thread sees the end */
    shutdown(client->fd, SHUT_WR);
    mr_store_wire_free(&client->out);
}

static void on_answer(struct mr_store_client *client, const struct mr_store_frame *frame)
{
    for (struct call **at = &client->calls; *at; at = &(*at)->next) {
        struct call *call = *at;
        if (call->id != frame->id)
            continue;
        call->done = true;
        call->code = frame->code;
        call->len = frame->value_len;
        if (frame->value_len > 0 && frame->value_len <= call->size)
            memcpy(call->value_out, frame->value, frame->value_len);
        *at = call->next;
        pthread_cond_broadcast(&client->answered);
        return;
    }
}

/* False if it is not a frame that a server sends. */
static bool on_frame(struct mr_store_client *client, const struct mr_store_frame *frame)
{
    if (!mr_store_wire_is_reply(frame))
        return false;
    switch (frame->kind) {
    case MR_STORE_ANSWER: on_answer(client, frame); break;
    case MR_STORE_BROKEN:
        if (mr_store_wire_u32(frame->value) >= client->world_size)
            return false;
        set_broken(client, mr_store_wire_u32(frame->value), frame->code);
        break;
    case MR_STORE_BYE: client->left = true; break;
    default: break;
    }
    return true;
}

static void handle_frames(struct mr_store_client *client)
{
    struct mr_store_frame frame;
    int got;
    while ((got = mr_store_wire_next(&client->in, &frame)) > 0) {
        if (!on_frame(client, &frame))
            break;
        mr_store_wire_consume(&client->in, mr_store_wire_size(&frame));
    }
    if (got != 0)
        lose_server(client, MR_STORE_NONSENSE);
}

/* Reads and handles what has arrived. False at the end of the connection. */
static bool receive_frames(struct mr_store_client *client, uint64_t *heard_ns, uint64_t now)
{
    long n = mr_store_wire_recv(client->fd, &client->in, READ_BYTES);
    if (n == -EAGAIN || n == -EWOULDBLOCK)
        return true;
    pthread_mutex_lock(&client->lock);
    if (n > 0)
        handle_frames(client);
    else
        lose_server(client, MR_STORE_LOST);
    bool continues = !client->gone;
    pthread_mutex_unlock(&client->lock);
    *heard_ns = now;
    return continues;
}

static void send_beat(struct mr_store_client *client)
{
    if (client->out.len == 0) /* otherwise the waiting bytes serve as the beat */
        mr_store_wire_put(&client->out, &(struct mr_store_frame){.kind = MR_STORE_BEAT});
    send_queued(client);
}

static void *run_client(void *arg)
{
    struct mr_store_client *client = arg;
    uint64_t silence_ns = client->silence_ms * MS, step_ns = MR_STORE_BEAT_MS * MS, close_ns = 0;
    if (step_ns > silence_ns / 4)
        step_ns = silence_ns / 4;
    uint64_t now = mr_clock_now_ns(), heard_ns = now, beat_ns = now;
    pthread_mutex_lock(&client->lock);
    handle_frames(client);
    bool continues = !client->gone;
    pthread_mutex_unlock(&client->lock);
    while (continues) {
        pthread_mutex_lock(&client->lock);
        bool is_full = client->out.len > 0;
        if (client->closing && close_ns == 0)
            close_ns = now + MR_STORE_GOODBYE_MS * MS;
        if (client->closing && !is_full)
            shutdown(client->fd, SHUT_WR);
        pthread_mutex_unlock(&client->lock);
        struct pollfd fds[2] = {
            {.fd = client->fd, .events = (short)(POLLIN | (is_full ? POLLOUT : 0))},
            {.fd = client->wake_fd, .events = POLLIN}};
        uint64_t before = now, count;
        mr_store_wire_poll(fds, 2, close_ns && close_ns < beat_ns ? close_ns : beat_ns);
        now = mr_clock_now_ns();
        if (now - before > silence_ns / 4 + step_ns)
            heard_ns = now; /* this thread stood still: what arrived meanwhile is still unread */
        if (fds[1].revents && read(client->wake_fd, &count, sizeof count) < 0)
            count = 0; /* an earlier read already took the wake-up */
        continues = receive_frames(client, &heard_ns, now) && (close_ns == 0 || now < close_ns);
        pthread_mutex_lock(&client->lock);
        if (now >= beat_ns && !client->closing)
            send_beat(client);
        else
            send_queued(client);
        if (now - heard_ns > silence_ns)
            lose_server(client, MR_STORE_SILENT);
        continues &= !client->gone;
        pthread_mutex_unlock(&client->lock);
        if (now >= beat_ns)
            beat_ns = now + step_ns;
    }
    return NULL;
}

static void wake_thread(const struct mr_store_client *client)
{
    uint64_t one = 1;
    while (write(client->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static void free_client(struct mr_store_client *client)
{
    if (!client)
        return;
    if (client->fd >= 0)
        close(client->fd);
    if (client->wake_fd >= 0)
        close(client->wake_fd);
    mr_store_wire_free(&client->in);
    mr_store_wire_free(&client->out);
    mr_lost_ranks_fini(&client->lost);
    pthread_cond_destroy(&client->answered);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

static struct mr_store_client *make_client(const struct mr_store_connect *connect)
{
    struct mr_store_client *client = calloc(1, sizeof *client);
    pthread_condattr_t attr;
    if (!client)
        return NULL;
    client->fd = -1;
    client->rank = connect->rank;
    client->world_size = connect->identity.world_size;
    bool has_lost = mr_lost_ranks_init(&client->lost, client->world_size);
    client->silence_ms =
        connect->identity.silence_ms ? connect->identity.silence_ms : MR_STORE_SILENCE_MS;
    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->answered, &attr);
    pthread_condattr_destroy(&attr);
    if (client->wake_fd < 0 || !has_lost) {
        free_client(client);
        return NULL;
    }
    return client;
}

mr_status mr_store_connect(const struct mr_store_connect *connect,
                           struct mr_store_client **client_out, mr_error *error)
{
    mr_error mine; /* mr_store_search_run() needs one; the caller's may be NULL */
    *client_out = NULL;
    struct mr_store_client *client = make_client(connect);
    mr_status status = MR_OK;
    if (client)
        status = mr_store_search_run(connect, &client->fd, &client->in, &mine);
    else
        status = mr_error_set(&mine, MR_ERR_NO_MEMORY,
                              "no memory or descriptor for a connection to the store");
    if (status == MR_OK) {
        struct sockaddr_storage local = {0};
        socklen_t len = sizeof local;
        if (getsockname(client->fd, (struct sockaddr *)&local, &len) == 0)
            mr_store_address_name(&local, client->local, sizeof client->local);
        int rc = mr_thread_start(&client->thread, run_client, client);
        if (rc != 0)
            status =
                mr_error_os(&mine, MR_ERR_IO, rc, "cannot start the thread of the store's client");
    }
    if (status != MR_OK) {
        free_client(client);
        mr_error_copy(error, &mine);
        return status;
    }
    *client_out = client;
    return MR_OK;
}

void mr_store_close(struct mr_store_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&client->lock);
    client->closing = true;
    mr_store_wire_put(&client->out, &(struct mr_store_frame){.kind = MR_STORE_BYE});
    send_queued(client);
    pthread_mutex_unlock(&client->lock);
    wake_thread(client);
    pthread_join(client->thread, NULL);
    pthread_mutex_lock(&client->lock);
    lose_server(client, MR_STORE_LOST); /* ends the requests of other threads */
    while (client->n_callers > 0)
        pthread_cond_wait(&client->answered, &client->lock);
    pthread_mutex_unlock(&client->lock);
    free_client(client);
}

const char *mr_store_local_address(const struct mr_store_client *client)
{
    return client->local;
}

bool mr_store_broken_of(struct mr_store_client *client, const uint32_t *ranks, uint32_t n,
                        uint32_t *rank_out, mr_error *error_out)
{
    if (!atomic_load(&client->is_broken))
        return false;
    pthread_mutex_lock(&client->lock);
    bool is_broken =
        mr_lost_ranks_describe(&client->lost, ranks, n, client->silence_ms, rank_out, error_out);
    pthread_mutex_unlock(&client->lock);
    return is_broken;
}

bool mr_store_broken(struct mr_store_client *client, uint32_t *rank_out, mr_error *error_out)
{
    return mr_store_broken_of(client, NULL, 0, rank_out, error_out);
}

/* Requests. */

static void forget_call(struct mr_store_client *client, const struct call *call)
{
    for (struct call **at = &client->calls; *at; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            return;
        }
    }
}

static mr_status explain_code(struct mr_store_client *client, const char *key, uint8_t code,
                              mr_error *error)
{
    if (code == MR_STORE_FINE)
        return MR_OK;
    if (code == MR_STORE_FULL)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "the store has no room for key '%s'", key);
    if (code == MR_STORE_NO_NUMBER)
        return mr_error_set(error, MR_ERR_INVALID,
                            "key '%s' does not hold a 64-bit number, or the sum overflows", key);
    if (code == MR_STORE_TOO_MANY)
        return mr_error_set(error, MR_ERR_STATE, "key '%s': too many gets of this rank are waiting",
                            key);
    mr_error lost;
    if (mr_lost_ranks_describe(&client->lost, NULL, 0, client->silence_ms, NULL, &lost))
        return mr_error_set(error, MR_ERR_PEER, "key '%s': %.700s", key, lost.text);
    return mr_error_set(error, MR_ERR_PEER, "key '%s': rank 0 has closed the store", key);
}

/* Send a request and wait for its answer. */
static mr_status send_request(struct mr_store_client *client, const char *key,
                              struct mr_store_frame *frame, struct call *call, uint64_t deadline_ns,
                              mr_error *error)
{
    size_t key_len = strlen(key);
    struct timespec until = to_timespec(deadline_ns);
    mr_status status = MR_OK;
    if (key_len == 0 || key_len > MR_STORE_KEY)
        return mr_error_set(error, MR_ERR_INVALID, "key '%.40s' has %zu bytes, not 1 to %d", key,
                            key_len, MR_STORE_KEY);
    pthread_mutex_lock(&client->lock);
    client->n_callers++;
    frame->key = (const uint8_t *)key;
    frame->key_len = (uint16_t)key_len;
    frame->id = call->id = ++client->next_id;
    if (client->gone || client->left || client->closing) {
        call->done = true;
        call->code = MR_STORE_LOST;
    } else if (!mr_store_wire_put(&client->out, frame)) {
        status = mr_error_memory(error, mr_store_wire_size(frame));
    } else {
        call->next = client->calls;
        client->calls = call;
        send_queued(client);
        if (client->out.len > 0)
            wake_thread(client);
    }
    while (status == MR_OK && !call->done) {
        if (pthread_cond_timedwait(&client->answered, &client->lock, &until) == ETIMEDOUT &&
            !call->done) {
            forget_call(client, call);
            mr_store_wire_put(&client->out,
                              &(struct mr_store_frame){.kind = MR_STORE_CANCEL, .id = call->id});
            send_queued(client);
            status = mr_error_set(error, MR_ERR_TIMEOUT, "key '%s'%s", key,
                                  frame->kind == MR_STORE_GET ? " is not in the store"
                                                              : ": the store does not answer");
        }
    }
    if (status == MR_OK)
        status = explain_code(client, key, call->code, error);
    if (--client->n_callers == 0)
        pthread_cond_broadcast(&client->answered); /* mr_store_close() waits for this */
    pthread_mutex_unlock(&client->lock);
    return status;
}

/* A day. The thread ends such a request earlier if the server is silent. */
static uint64_t far_deadline(void)
{
    return mr_clock_now_ns() + UINT64_C(86400) * 1000 * MS;
}

mr_status mr_store_set(struct mr_store_client *client, const char *key, const void *value,
                       uint32_t len, mr_error *error)
{
    struct mr_store_frame frame = {.kind = MR_STORE_SET, .value = value, .value_len = len};
    struct call call = {0};
    if (len > MR_STORE_VALUE)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the value of key '%.128s' has %u bytes, more than %u", key, len,
                            MR_STORE_VALUE);
    return send_request(client, key, &frame, &call, far_deadline(), error);
}

mr_status mr_store_get(struct mr_store_client *client, const char *key, void *value_out,
                       uint32_t size, uint32_t *len_out, uint64_t deadline_ns, mr_error *error)
{
    struct mr_store_frame frame = {.kind = MR_STORE_GET};
    struct call call = {.value_out = value_out, .size = size};
    mr_status status = send_request(client, key, &frame, &call, deadline_ns, error);
    if (status != MR_OK)
        return status;
    if (call.len > size)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the value of key '%s' has %u bytes, the buffer %u", key, call.len,
                            size);
    if (len_out)
        *len_out = call.len;
    return MR_OK;
}

mr_status mr_store_add(struct mr_store_client *client, const char *key, int64_t delta,
                       int64_t *value_out, mr_error *error)
{
    return mr_store_add_until(client, key, delta, value_out, far_deadline(), error);
}

mr_status mr_store_add_until(struct mr_store_client *client, const char *key, int64_t delta,
                             int64_t *value_out, uint64_t deadline_ns, mr_error *error)
{
    uint8_t bytes[8], sum[8] = {0};
    mr_store_wire_put_u64(bytes, (uint64_t)delta);
    struct mr_store_frame frame = {.kind = MR_STORE_ADD, .value = bytes, .value_len = sizeof bytes};
    struct call call = {.value_out = sum, .size = sizeof sum};
    mr_status status = send_request(client, key, &frame, &call, deadline_ns, error);
    if (status == MR_OK && value_out)
        *value_out = (int64_t)mr_store_wire_u64(sum);
    return status;
}

mr_status mr_store_remove(struct mr_store_client *client, const char *key, mr_error *error)
{
    struct mr_store_frame frame = {.kind = MR_STORE_REMOVE};
    struct call call = {0};
    return send_request(client, key, &frame, &call, far_deadline(), error);
}
