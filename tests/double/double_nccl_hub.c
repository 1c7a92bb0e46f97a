/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub: a thread of rank 0's process that takes the ranks' parts, matches them and answers. It
 * serves the other ranks as long as they need it, even after rank 0's communicator has ended
 * normally.
 *
 * Invariant: the k-th collective of a rank meets the k-th of every other rank, whatever they are.
 * Ranks that differ get no answer and hang.
 */
#include "tests/double/double_nccl.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct part {
    struct part *next;
    struct double_nccl_frame frame;
    uint8_t *bytes;
};

struct seat {
    int fd; /* -1: not connected (any more) */
    bool came;
    bool left; /* needs nothing more, or has disconnected */
    int device;
    struct part *collectives; /* in the order of issue */
    struct part *messages;    /* sends and receives */
};

struct double_nccl_hub {
    _Atomic uint32_t refs; /* for the communicator and the thread */
    pthread_t thread;
    int listen_fd, stop_fd;
    uint32_t n_ranks, n_came;
    bool welcomed, crash, differs;
    struct seat seats[DOUBLE_NCCL_RANKS];
    int waiting[DOUBLE_NCCL_RANKS]; /* connected, but the rank is not known yet */
    uint32_t n_waiting;
};

static void unref(struct double_nccl_hub *hub)
{
    if (atomic_fetch_sub(&hub->refs, 1) > 1)
        return;
    close(hub->stop_fd);
    free(hub);
}

static void free_parts(struct part **parts)
{
    while (*parts) {
        struct part *part = *parts;
        *parts = part->next;
        free(part->bytes);
        free(part);
    }
}

static void send_frame(struct double_nccl_hub *hub, uint32_t rank,
                       const struct double_nccl_frame *frame, const void *bytes)
{
    const struct seat *seat = &hub->seats[rank];
    if (seat->fd >= 0)
        (void)double_nccl_write(seat->fd, hub->stop_fd, frame, bytes);
}

/* Rank 0 comes last: when it has its result, all ranks have theirs. */
static void send_to_all(struct double_nccl_hub *hub, const struct double_nccl_frame *frame)
{
    for (uint32_t rank = hub->n_ranks; rank-- > 0;)
        send_frame(hub, rank, frame, NULL);
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct double_nccl_hub *hub, int fd, const char *format, ...)
{
    char text[DOUBLE_NCCL_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct double_nccl_frame frame = {.type = DOUBLE_NCCL_REFUSED, .n_bytes = strlen(text) + 1};
    (void)double_nccl_write(fd, hub->stop_fd, &frame, text);
}

/* ---- answers ---- */

static const char *difference(const struct double_nccl_frame *a, const struct double_nccl_frame *b)
{
    if (a->kind != b->kind)
        return "operation";
    if (a->count != b->count)
        return "count";
    if (a->dtype != b->dtype)
        return "type";
    if (a->op != b->op)
        return "reduction";
    return a->root != b->root ? "root" : NULL;
}

/* After this the ranks get no more answers. */
static void found_difference(struct double_nccl_hub *hub, const char *what, uint32_t rank)
{
    if (!hub->differs)
        (void)fprintf(stderr, "the double of NCCL: rank %u differs in its %s\n", (unsigned)rank,
                      what);
    hub->differs = true;
    if (hub->crash)
        abort();
}

static bool agree(struct double_nccl_hub *hub)
{
    for (uint32_t rank = 1; rank < hub->n_ranks; rank++) {
        const char *what =
            difference(&hub->seats[0].collectives->frame, &hub->seats[rank].collectives->frame);
        if (what) {
            found_difference(hub, what, rank);
            return false;
        }
    }
    return true;
}

static void answer(struct double_nccl_hub *hub, uint32_t rank, const uint8_t *bytes, size_t n_bytes)
{
    struct double_nccl_frame frame = hub->seats[rank].collectives->frame;
    frame.type = DOUBLE_NCCL_RESULT;
    frame.n_bytes = n_bytes;
    send_frame(hub, rank, &frame, bytes);
}

/*
 * all_gather: what all ranks have sent, one after the other; otherwise its reduction. n_out: its
 * bytes.
 */
static uint8_t *combine(struct double_nccl_hub *hub, size_t *n_out)
{
    const struct double_nccl_frame *frame = &hub->seats[0].collectives->frame;
    size_t size = double_nccl_type_size(frame->dtype);
    const uint8_t *parts[DOUBLE_NCCL_RANKS];
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++)
        parts[rank] = hub->seats[rank].collectives->bytes;
    bool all = frame->kind == DOUBLE_NCCL_ALL_GATHER,
         each = frame->kind == DOUBLE_NCCL_REDUCE_SCATTER;
    uint64_t n = frame->count * (each ? hub->n_ranks : 1);
    *n_out = n * size * (all ? hub->n_ranks : 1);
    uint8_t *bytes = double_machine_alloc(*n_out);
    for (uint32_t rank = 0; all && rank < hub->n_ranks; rank++)
        memcpy(bytes + rank * n * size, parts[rank], n * size);
    if (!all && !double_nccl_reduce(frame->dtype, frame->op, parts, hub->n_ranks, n, bytes))
        memset(bytes, 0, *n_out);
    return bytes;
}

static void answer_all(struct double_nccl_hub *hub)
{
    const struct double_nccl_frame frame = hub->seats[0].collectives->frame;
    bool copies = frame.kind == DOUBLE_NCCL_BROADCAST;
    size_t n_bytes = copies ? hub->seats[frame.root].collectives->frame.n_bytes : 0;
    uint8_t *made = copies ? NULL : combine(hub, &n_bytes);
    const uint8_t *bytes = copies ? hub->seats[frame.root].collectives->bytes : made;
    size_t one = n_bytes / hub->n_ranks;
    for (uint32_t rank = hub->n_ranks; rank-- > 0;) {
        if (frame.kind == DOUBLE_NCCL_REDUCE_SCATTER)
            answer(hub, rank, bytes + rank * one, one);
        else
            answer(hub, rank, bytes,
                   frame.kind != DOUBLE_NCCL_REDUCE || rank == frame.root ? n_bytes : 0);
    }
    free(made);
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++) {
        struct part *done = hub->seats[rank].collectives;
        hub->seats[rank].collectives = done->next;
        free(done->bytes);
        free(done);
    }
}

static bool all_have_one(const struct double_nccl_hub *hub)
{
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++)
        if (!hub->seats[rank].collectives)
            return false;
    return true;
}

static struct part **find_message(struct seat *seat, uint32_t kind, uint32_t other)
{
    struct part **at = &seat->messages;
    while (*at && ((*at)->frame.kind != kind || (*at)->frame.root != other))
        at = &(*at)->next;
    return at;
}

static struct part *take(struct part **at)
{
    struct part *part = *at;
    *at = part->next;
    return part;
}

/* Match the first message that two ranks have both issued. */
static bool match_messages(struct double_nccl_hub *hub, uint32_t from, uint32_t to)
{
    struct part **send = find_message(&hub->seats[from], DOUBLE_NCCL_SEND, to);
    struct part **recv = find_message(&hub->seats[to], DOUBLE_NCCL_RECV, from);
    if (!*send || !*recv)
        return false;
    if ((*send)->frame.count != (*recv)->frame.count ||
        (*send)->frame.dtype != (*recv)->frame.dtype) {
        found_difference(hub, "message", to);
        return false;
    }
    /* Both may be in the same list, so each is found when it is taken. */
    struct part *sent = take(find_message(&hub->seats[from], DOUBLE_NCCL_SEND, to));
    struct part *received = take(find_message(&hub->seats[to], DOUBLE_NCCL_RECV, from));
    received->frame.type = sent->frame.type = DOUBLE_NCCL_RESULT;
    received->frame.n_bytes = sent->frame.n_bytes;
    sent->frame.n_bytes = 0;
    send_frame(hub, to, &received->frame, sent->bytes);
    send_frame(hub, from, &sent->frame, NULL);
    free(sent->bytes);
    free(sent);
    free(received->bytes);
    free(received);
    return true;
}

static void take_part(struct double_nccl_hub *hub, uint32_t rank,
                      const struct double_nccl_frame *frame, uint8_t *bytes)
{
    struct seat *seat = &hub->seats[rank];
    struct part *part = double_machine_alloc(sizeof *part);
    bool message = frame->kind >= DOUBLE_NCCL_SEND;
    struct part **end = message ? &seat->messages : &seat->collectives;
    while (*end)
        end = &(*end)->next;
    *end = part;
    part->frame = *frame;
    part->bytes = bytes;
    while (!message && all_have_one(hub) && agree(hub))
        answer_all(hub);
    if (message && frame->root < hub->n_ranks && frame->kind == DOUBLE_NCCL_SEND)
        while (match_messages(hub, rank, frame->root))
            continue;
    if (message && frame->root < hub->n_ranks && frame->kind == DOUBLE_NCCL_RECV)
        while (match_messages(hub, frame->root, rank))
            continue;
}

/* ---- connecting and leaving ---- */

static void announce_if_all_left(struct double_nccl_hub *hub)
{
    struct double_nccl_frame frame = {.type = DOUBLE_NCCL_ALL_LEFT};
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++)
        if (!hub->seats[rank].left)
            return;
    send_to_all(hub, &frame);
}

static void lose(struct double_nccl_hub *hub, uint32_t rank)
{
    struct seat *seat = &hub->seats[rank];
    struct double_nccl_frame frame = {.type = DOUBLE_NCCL_DEAD, .rank = rank};
    close(seat->fd);
    seat->fd = -1;
    if (seat->left)
        return;
    seat->left = true;
    send_to_all(hub, &frame);
}

static void read_frame(struct double_nccl_hub *hub, uint32_t rank)
{
    struct double_nccl_frame frame;
    uint8_t *bytes;
    if (!double_nccl_read(hub->seats[rank].fd, hub->stop_fd, &frame, &bytes)) {
        lose(hub, rank);
    } else if (frame.type == DOUBLE_NCCL_PART) {
        take_part(hub, rank, &frame, bytes);
    } else {
        free(bytes);
        hub->seats[rank].left = true;
        announce_if_all_left(hub);
    }
}

static bool seat_rank(struct double_nccl_hub *hub, int fd, const struct double_nccl_frame *hello)
{
    if (hello->count != hub->n_ranks || hello->rank >= hub->n_ranks) {
        refuse(hub, fd, "rank %u of %u came to a communicator of %u", (unsigned)hello->rank,
               (unsigned)hello->count, (unsigned)hub->n_ranks);
        return false;
    }
    struct seat *seat = &hub->seats[hello->rank];
    if (seat->came) {
        refuse(hub, fd, "there are two of rank %u", (unsigned)hello->rank);
        return false;
    }
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++) {
        if (!hub->seats[rank].came || hub->seats[rank].device != hello->device)
            continue;
        refuse(hub, fd, "Duplicate GPU detected : rank %u and rank %u both on CUDA device %d",
               (unsigned)hello->rank, (unsigned)rank, (int)hello->device);
        refuse(hub, hub->seats[rank].fd,
               "Duplicate GPU detected : rank %u and rank %u both on CUDA device %d",
               (unsigned)rank, (unsigned)hello->rank, (int)hello->device);
        return false;
    }
    *seat = (struct seat){.fd = fd, .came = true, .device = hello->device};
    hub->n_came++;
    return true;
}

static void welcome_new(struct double_nccl_hub *hub, uint32_t at)
{
    struct double_nccl_frame frame;
    uint8_t *bytes;
    int fd = hub->waiting[at];
    hub->waiting[at] = hub->waiting[--hub->n_waiting];
    bool heard = double_nccl_read(fd, hub->stop_fd, &frame, &bytes);
    if (heard)
        free(bytes);
    if (!heard || frame.type != DOUBLE_NCCL_HELLO || !seat_rank(hub, fd, &frame)) {
        close(fd);
        return;
    }
    if (hub->n_came < hub->n_ranks)
        return;
    frame = (struct double_nccl_frame){.type = DOUBLE_NCCL_WELCOME};
    send_to_all(hub, &frame);
    hub->welcomed = true;
}

static void let_in(struct double_nccl_hub *hub)
{
    int fd = accept4(hub->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && hub->n_waiting < DOUBLE_NCCL_RANKS)
        hub->waiting[hub->n_waiting++] = fd;
    else if (fd >= 0)
        close(fd);
}

static bool is_needed(const struct double_nccl_hub *hub)
{
    if (!hub->welcomed)
        return true;
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++)
        if (hub->seats[rank].fd >= 0)
            return true;
    return false;
}

/*
 * False: stop. Descriptors are handled from the last to the first, because lists change meanwhile.
 */
static bool serve_once(struct double_nccl_hub *hub)
{
    struct pollfd fds[2 + 2 * DOUBLE_NCCL_RANKS];
    uint32_t n = 2, n_waiting = hub->n_waiting;
    fds[0] = (struct pollfd){.fd = hub->stop_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = hub->listen_fd, .events = POLLIN};
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++)
        fds[n++] = (struct pollfd){.fd = hub->seats[rank].fd, .events = POLLIN};
    for (uint32_t i = 0; i < n_waiting; i++)
        fds[n++] = (struct pollfd){.fd = hub->waiting[i], .events = POLLIN};
    if (poll(fds, n, -1) < 0)
        return errno == EINTR;
    if (fds[0].revents)
        return false;
    for (uint32_t i = n_waiting; i-- > 0;)
        if (fds[2 + hub->n_ranks + i].revents)
            welcome_new(hub, i);
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++)
        if (fds[2 + rank].revents && hub->seats[rank].fd >= 0)
            read_frame(hub, rank);
    if (fds[1].revents)
        let_in(hub);
    return true;
}

static void *serve(void *arg)
{
    struct double_nccl_hub *hub = arg;
    while (is_needed(hub) && serve_once(hub))
        continue;
    for (uint32_t i = 0; i < hub->n_waiting; i++)
        close(hub->waiting[i]);
    for (uint32_t rank = 0; rank < hub->n_ranks; rank++) {
        if (hub->seats[rank].fd >= 0)
            close(hub->seats[rank].fd);
        free_parts(&hub->seats[rank].collectives);
        free_parts(&hub->seats[rank].messages);
    }
    close(hub->listen_fd);
    unref(hub);
    return NULL;
}

struct double_nccl_hub *double_nccl_hub_start(const ncclUniqueId *id, uint32_t n_ranks)
{
    struct double_nccl_hub *hub = double_machine_alloc(sizeof *hub);
    atomic_init(&hub->refs, 2);
    hub->n_ranks = n_ranks;
    hub->crash = double_nccl_options().crash;
    hub->listen_fd = double_nccl_listen(id);
    hub->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        hub->seats[rank].fd = -1;
    if (hub->listen_fd >= 0 && hub->stop_fd >= 0 &&
        pthread_create(&hub->thread, NULL, serve, hub) == 0)
        return hub;
    if (hub->listen_fd >= 0)
        close(hub->listen_fd);
    if (hub->stop_fd >= 0)
        close(hub->stop_fd);
    free(hub);
    return NULL;
}

void double_nccl_hub_leave(struct double_nccl_hub *hub, bool at_once)
{
    if (at_once) {
        double_nccl_poke(hub->stop_fd);
        pthread_join(hub->thread, NULL);
    } else {
        pthread_detach(hub->thread);
    }
    unref(hub);
}
