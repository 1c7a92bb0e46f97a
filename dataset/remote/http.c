/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of gets, the connections, and when to try again.
 *
 * Invariant: a connection has at most one get. So libcurl has at most n_connections transfers, and
 * never a queue of its own, whose wake-ups are slow in libcurl 8.13 to 8.14.1 (curl#18017).
 *
 * libcurl says which sockets it waits for, and epoll which of them are ready: multi_perform() would
 * ask the kernel about every transfer for each answer.
 */
#include "dataset/remote/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os_words.h"
#include "base/rng.h"
#include "base/words.h"
#include "dataset/remote/curl_api.h"
#include "dataset/remote/request.h"
#include "dataset/remote/stores/store_answer.h"

#define NS_PER_MS UINT64_C(1000000)
enum {
    MAX_STALL_S = 10,
    SLOW_BYTES = 1000,    /* a second */
    FIRST_PAUSE_MS = 100, /* doubled for each further try */
    MAX_PAUSE_MS = 10000,
    MAX_ERROR_BODY = 64 << 10, /* read to the end, so the connection can be used again */
    MAX_WAIT_MS = 1000,
    MAX_EVENTS = 64,
    BUFFER_BYTES = 64 << 10,
};

struct connection {
    struct mr_http *http;
    CURL *easy;
    struct mr_http_get *get; /* NULL: the connection is free */
    struct curl_slist *headers;
    struct mr_request_origin origin;
    struct mr_answer answer;
    bool judged;
    enum mr_verdict verdict;
    uint64_t expected; /* bytes of the body */
    uint8_t *bytes;    /* the first len of the reserved ones are written */
    size_t reserved;
    size_t len;
    bool no_memory;
    int lack; /* EMFILE and the like: the system gives no socket; 0: it does */
    char text[CURL_ERROR_SIZE];
};

struct queue {
    struct mr_http_get *head, *tail;
};

struct mr_http {
    const struct mr_curl_api *curl;
    CURLM *multi;
    int epoll;
    uint64_t timer_ns; /* when libcurl wants to be called; UINT64_MAX: only for a socket */
    struct mr_http_options options;
    struct connection *connections;
    uint32_t n_running;
    /* Connections that may be used: halved when the server is busy, one more after as many good
       answers as there are. */
    uint32_t n_allowed, n_good;
    bool answered; /* a server has answered */
    struct queue fresh, ended;
    struct mr_http_get *paused; /* a list, in no order */
    struct mr_targets targets;
    struct mr_rng rng;
};

static void push(struct queue *queue, struct mr_http_get *get)
{
    get->next = NULL;
    *(queue->head ? &queue->tail->next : &queue->head) = get;
    queue->tail = get;
}

static struct mr_http_get *pop(struct queue *queue)
{
    struct mr_http_get *get = queue->head;
    if (get)
        queue->head = get->next;
    return get;
}

static size_t take_header(char *line, size_t size, size_t n, void *user)
{
    struct connection *c = user;
    mr_answer_line(&c->answer, line, size * n);
    return size * n;
}

static enum mr_verdict judge(struct connection *c)
{
    if (!c->judged && *c->origin.etag) { /* the target's server has another one for these bytes */
        memcpy(c->answer.version.etag, c->origin.etag, sizeof c->origin.etag);
        c->answer.version.modified[0] = '\0';
    }
    if (!c->judged)
        c->verdict = mr_answer_judge(&c->answer, &c->get->wish, &c->expected, &c->get->os_error,
                                     c->get->words);
    c->judged = true;
    return c->verdict;
}

/* Make room for len bytes in all. A body of unknown length doubles its room. */
static bool reserve(struct connection *c, size_t len)
{
    if (len <= c->reserved)
        return true;
    c->reserved = c->expected == MR_LEN_UNKNOWN ? 2 * len : (size_t)c->expected;
    c->bytes = c->get->reserve(c->get->user, c->reserved);
    c->no_memory = !c->bytes;
    return !c->no_memory;
}

/* Returning another number than was given ends the transfer. */
static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
    struct connection *c = user;
    size_t len = size * n;
    if (judge(c) != MR_VERDICT_GOOD) {
        mr_answer_body(&c->answer, bytes, len);
        c->len += len;
        return c->len <= MAX_ERROR_BODY ? len : 0;
    }
    uint64_t limit = c->expected == MR_LEN_UNKNOWN ? c->get->wish.max_bytes : c->expected;
    if (len > limit - c->len || !reserve(c, c->len + len)) {
        c->len += len;
        return 0;
    }
    memcpy(c->bytes + c->len, bytes, len);
    c->len += len;
    return len;
}

/* A lack of descriptors is not a fault of the file. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct connection *c = user;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        c->lack = errno;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static bool set_up_connection(struct mr_http *http, struct connection *c)
{
    const struct mr_curl_api *curl = http->curl;
    c->http = http;
    c->easy = curl->easy_init();
    if (!c->easy)
        return false;
    const struct {
        CURLoption option;
        long value;
    } numbers[] = {{CURLOPT_CONNECTTIMEOUT, (long)http->options.stall_s},
                   {CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES},
                   {CURLOPT_LOW_SPEED_TIME, (long)http->options.stall_s},
                   {CURLOPT_BUFFERSIZE, BUFFER_BYTES}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (curl->easy_setopt(c->easy, numbers[i].option, numbers[i].value) != CURLE_OK)
            return false;
    curl->easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->text);
    curl->easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl->easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl->easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl->easy_setopt(c->easy, CURLOPT_OPENSOCKETDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    return mr_curl_api_set_up(c->easy);
}

/* If a socket cannot be watched, its transfer stalls, and is tried again. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *unused)
{
    struct mr_http *http = user;
    struct epoll_event event = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                                          (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                                .data.fd = fd};
    (void)easy, (void)unused;
    if (what == CURL_POLL_REMOVE)
        epoll_ctl(http->epoll, EPOLL_CTL_DEL, fd, NULL);
    else if (epoll_ctl(http->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        epoll_ctl(http->epoll, EPOLL_CTL_MOD, fd, &event);
    return 0;
}

static int set_timer(CURLM *multi, long ms, void *user)
{
    struct mr_http *http = user;
    (void)multi;
    http->timer_ns = ms < 0 ? UINT64_MAX : mr_clock_now_ns() + (uint64_t)ms * NS_PER_MS;
    return 0;
}

static mr_status set_up(struct mr_http *http, mr_error *error)
{
    uint32_t n = http->options.n_connections;
    mr_status status = mr_curl_api_open(&http->curl, error);
    if (status != MR_OK)
        return status;
    http->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (http->epoll < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "no descriptor to wait for servers");
    http->multi = http->curl->multi_init();
    http->connections = calloc(n, sizeof *http->connections);
    if (!http->multi || !http->connections)
        return mr_error_memory(error, n * sizeof *http->connections);
    http->curl->multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)n);
    http->curl->multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    http->curl->multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    http->curl->multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    http->curl->multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    for (uint32_t i = 0; i < n; i++)
        if (!set_up_connection(http, &http->connections[i]))
            return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s refuses an option that is needed",
                                http->curl->version());
    return MR_OK;
}

mr_status mr_http_create(const struct mr_http_options *options, struct mr_http **http_out,
                         mr_error *error)
{
    struct mr_http *http = calloc(1, sizeof *http);
    if (!http)
        return mr_error_memory(error, sizeof *http);
    http->options = *options;
    http->epoll = -1;
    http->timer_ns = UINT64_MAX;
    if (options->stall_s == 0) {
        uint32_t third_s = options->retry_ms / 3000;
        http->options.stall_s = third_s < 1 ? 1 : third_s < MAX_STALL_S ? third_s : MAX_STALL_S;
    }
    http->n_allowed = options->n_connections;
    mr_rng_init(&http->rng, mr_clock_now_ns(), (uint64_t)getpid(), (uintptr_t)http);
    mr_status status = set_up(http, error);
    if (status != MR_OK) {
        mr_http_destroy(http);
        http = NULL;
    }
    *http_out = http;
    return status;
}

/* Take the get from its connection. */
static struct mr_http_get *leave(struct connection *c)
{
    struct mr_http_get *get = c->get;
    c->http->curl->multi_remove_handle(c->http->multi, c->easy);
    c->http->curl->slist_free_all(c->headers);
    c->headers = NULL;
    c->get = NULL;
    c->http->n_running--;
    return get;
}

void mr_http_destroy(struct mr_http *http)
{
    if (!http)
        return;
    for (uint32_t i = 0; http->connections && i < http->options.n_connections; i++) {
        struct connection *c = &http->connections[i];
        if (c->get)
            leave(c);
        if (c->easy)
            http->curl->easy_cleanup(c->easy);
    }
    if (http->multi)
        http->curl->multi_cleanup(http->multi);
    if (http->epoll >= 0)
        close(http->epoll);
    mr_target_clear(&http->targets);
    free(http->connections);
    free(http);
}

void mr_http_begin(struct mr_http *http, struct mr_http_get *get)
{
    get->begun_ns = get->not_before_ns = 0;
    get->n_tries = get->n_moves = get->n_connects = 0;
    get->version = (struct mr_object_version){.size = MR_LEN_UNKNOWN};
    push(&http->fresh, get);
}

static void end_get(struct mr_http *http, struct mr_http_get *get, mr_status status, size_t len)
{
    get->status = status;
    get->len = status == MR_OK ? len : 0;
    push(&http->ended, get);
}

static bool add_header(struct connection *c, const char *text)
{
    struct curl_slist *list = c->http->curl->slist_append(c->headers, text);
    if (list)
        c->headers = list;
    return list != NULL;
}

static mr_status prepare(struct connection *c, struct mr_remote_request *request)
{
    const struct mr_curl_api *curl = c->http->curl;
    char range[64];
    const struct mr_target *target = mr_target_find(&c->http->targets, c->get->url);
    if (mr_remote_request_make(c->get->url, target, &c->get->wish, request, c->get->words) < 0)
        return MR_ERR_DAMAGED;
    c->origin = request->origin;
    uint64_t offset = c->get->wish.offset, len = c->get->wish.len;
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, offset, offset + len - 1);
    for (size_t at = 0; at < request->headers_len; at += strlen(request->headers + at) + 1)
        if (!add_header(c, request->headers + at))
            return MR_ERR_NO_MEMORY;
    long is_plain = request->origin.store == MR_STORE_NONE; /* libcurl follows redirects */
    curl->easy_setopt(c->easy, CURLOPT_FOLLOWLOCATION, is_plain);
    curl->easy_setopt(c->easy, CURLOPT_PATH_AS_IS, !is_plain); /* a key may have dots */
    if (!mr_curl_api_keep_secure(c->easy, request->url) ||
        curl->easy_setopt(c->easy, CURLOPT_URL, request->url) != CURLE_OK ||
        curl->easy_setopt(c->easy, CURLOPT_RANGE, len == MR_LEN_UNKNOWN ? NULL : range) !=
            CURLE_OK ||
        curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers) != CURLE_OK)
        return MR_ERR_NO_MEMORY;
    return MR_OK;
}

static void start(struct mr_http *http, struct connection *c, struct mr_http_get *get)
{
    struct mr_remote_request request;
    uint64_t now = mr_clock_now_ns();
    c->get = get;
    c->answer = (struct mr_answer){.length = MR_LEN_UNKNOWN, .version.size = MR_LEN_UNKNOWN};
    c->origin = (struct mr_request_origin){0};
    c->judged = c->no_memory = false;
    c->lack = 0;
    c->reserved = c->len = 0;
    c->text[0] = '\0';
    get->os_error = 0;
    get->words[0] = '\0';
    get->begun_ns = get->begun_ns ? get->begun_ns : now;
    get->tried_ns = now;
    get->n_tries++;
    http->n_running++;
    mr_status status = prepare(c, &request);
    if (status == MR_OK && http->curl->multi_add_handle(http->multi, c->easy) != CURLM_OK)
        status = MR_ERR_NO_MEMORY;
    if (status != MR_OK)
        end_get(http, leave(c), status, 0);
    explicit_bzero(request.headers, sizeof request.headers);
}

static struct mr_http_get *take_paused(struct mr_http *http)
{
    uint64_t now = mr_clock_now_ns();
    for (struct mr_http_get **at = &http->paused; *at; at = &(*at)->next) {
        struct mr_http_get *get = *at;
        if (get->not_before_ns <= now) {
            *at = get->next;
            return get;
        }
    }
    return NULL;
}

/* Give waiting gets to free connections; those that were tried before come first. */
static void start_gets(struct mr_http *http)
{
    for (uint32_t i = 0; i < http->options.n_connections && http->n_running < http->n_allowed;
         i++) {
        if (http->connections[i].get)
            continue;
        struct mr_http_get *get = take_paused(http);
        if (!get)
            get = pop(&http->fresh);
        if (!get)
            return;
        start(http, &http->connections[i], get);
    }
}

/* Was the transfer refused because a redirect leads from https:// to http://? */
static bool leaves_tls(struct connection *c, CURLcode code)
{
    char *url = NULL;
    if (code != CURLE_UNSUPPORTED_PROTOCOL || !c->origin.is_secure)
        return false; /* an answer that is no HTTP has this code too */
    c->http->curl->easy_getinfo(c->easy, CURLINFO_EFFECTIVE_URL, &url);
    return url && !mr_word_begins(url, "https:");
}

/* True if a transfer that failed in this way may succeed later. */
static bool may_pass(struct connection *c, CURLcode code)
{
    if (leaves_tls(c, code))
        return false;
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_TOO_MANY_REDIRECTS: return false;
    default: return true;
    }
}

/* Judge a transfer that has ended. Writes get->words unless it is good. */
static enum mr_verdict judge_end(struct connection *c, CURLcode code)
{
    struct mr_http_get *get = c->get;
    /* an answer that is wrong explains why the transfer was ended */
    if ((code == CURLE_OK || c->judged) && judge(c) != MR_VERDICT_GOOD)
        return c->verdict;
    bool complete = c->judged && (c->expected == MR_LEN_UNKNOWN || c->len == c->expected);
    if (code == CURLE_OK && complete)
        return MR_VERDICT_GOOD;
    if (c->judged && c->expected == MR_LEN_UNKNOWN && c->len > get->wish.max_bytes) {
        snprintf(get->words, sizeof get->words, "more bytes than the limit of %" PRIu64,
                 get->wish.max_bytes);
        return MR_VERDICT_FINAL;
    }
    if (c->judged && c->expected != MR_LEN_UNKNOWN && c->len != c->expected &&
        (code == CURLE_OK || code == CURLE_WRITE_ERROR || code == CURLE_PARTIAL_FILE))
        snprintf(get->words, sizeof get->words, "the server sent %zu bytes instead of %" PRIu64,
                 c->len, c->expected);
    else
        snprintf(get->words, sizeof get->words, "%s",
                 c->lack    ? mr_os_words_error(c->lack)
                 : *c->text ? c->text
                            : c->http->curl->easy_strerror(code));
    get->os_error = c->lack;
    return may_pass(c, code) ? MR_VERDICT_RETRY : MR_VERDICT_FINAL;
}

/* Let the store say what its refusal means. */
static enum mr_verdict judge_refusal(struct connection *c)
{
    struct mr_http_get *get = c->get;
    char *location = NULL;
    c->http->curl->easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &location);
    return mr_store_answer_judge(&c->http->targets, get->url, &c->origin, &c->answer, location,
                                 get->n_moves, c->verdict, get->words);
}

/* Half of the pause is random, so that workers do not come back together. */
static uint64_t draw_pause_ms(struct mr_http *http, uint32_t n_tries)
{
    uint32_t shift = n_tries - 1 < 10 ? n_tries - 1 : 10;
    uint64_t ms = (uint64_t)FIRST_PAUSE_MS << shift;
    ms = ms < MAX_PAUSE_MS ? ms : MAX_PAUSE_MS;
    return ms / 2 + mr_rng_u32(&http->rng) % (ms / 2 + 1);
}

/* Try again later, or end the get: its time is over, or the server asks to wait for longer. */
static void try_again(struct mr_http *http, struct mr_http_get *get, uint64_t asked_ms,
                      uint32_t retry_ms)
{
    uint64_t now = mr_clock_now_ns(), limit = get->begun_ns + retry_ms * NS_PER_MS;
    uint64_t pause_ms = draw_pause_ms(http, get->n_tries);
    get->not_before_ns = now + (asked_ms > pause_ms ? asked_ms : pause_ms) * NS_PER_MS;
    if (asked_ms <= pause_ms && get->not_before_ns > limit)
        get->not_before_ns = limit; /* the last try */
    if (now >= limit || get->not_before_ns > limit) {
        size_t len = strlen(get->words);
        snprintf(get->words + len, sizeof get->words - len, " (%" PRIu32 " tr%s in %" PRIu64 " ms)",
                 get->n_tries, get->n_tries == 1 ? "y" : "ies", (now - get->begun_ns) / NS_PER_MS);
        end_get(http, get, get->os_error ? MR_ERR_IO : MR_ERR_DAMAGED, 0);
        return;
    }
    get->next = http->paused;
    http->paused = get;
}

/* Make another request at once, which is not another try. */
static void move(struct mr_http *http, struct mr_http_get *get)
{
    get->n_moves++;
    get->n_tries--;
    get->not_before_ns = 0;
    get->next = http->paused;
    http->paused = get;
}

static void count_answer(struct mr_http *http, const struct mr_answer *answer, bool good)
{
    http->answered |= answer->code != 0;
    if (answer->code == 429 || answer->code == 503) {
        http->n_allowed = http->n_allowed > 1 ? http->n_allowed / 2 : 1;
        http->n_good = 0;
    } else if (good && ++http->n_good >= http->n_allowed &&
               http->n_allowed < http->options.n_connections) {
        http->n_allowed++;
        http->n_good = 0;
    }
}

static void end_transfer(struct mr_http *http, CURL *easy, CURLcode code)
{
    struct connection *c = NULL;
    curl_off_t asked_s = 0;
    long n_connects = 0;
    long os_error = 0;
    http->curl->easy_getinfo(easy, CURLINFO_PRIVATE, &c);
    http->curl->easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &n_connects);
    http->curl->easy_getinfo(easy, CURLINFO_RETRY_AFTER, &asked_s);
    http->curl->easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
    enum mr_verdict verdict = judge_end(c, code);
    if (c->judged && c->verdict != MR_VERDICT_GOOD && c->answer.code >= 300)
        verdict = judge_refusal(c);
    count_answer(http, &c->answer, verdict == MR_VERDICT_GOOD);
    if (c->origin.target && c->answer.code == 0) /* its host may be gone */
        mr_target_drop(&http->targets, c->get->url, c->origin.target);
    bool no_memory = c->no_memory || code == CURLE_OUT_OF_MEMORY;
    bool is_refused = code == CURLE_COULDNT_CONNECT && os_error == ECONNREFUSED &&
                      !http->answered && http->options.refused_ms > 0;
    struct mr_http_get *get = leave(c);
    get->version = c->answer.version;
    if (c->answer.code == 200)
        get->version.size = c->answer.length;
    get->n_connects += (uint32_t)n_connects;
    get->is_secure = c->origin.is_secure;
    if (get->answer) {
        *get->answer = c->answer;
        if (!*c->answer.region)
            snprintf(get->answer->region, sizeof get->answer->region, "%.39s", c->origin.region);
    }
    if (no_memory)
        end_get(http, get, MR_ERR_NO_MEMORY, 0);
    else if (verdict == MR_VERDICT_GOOD)
        end_get(http, get, MR_OK, c->len);
    else if (verdict == MR_VERDICT_FINAL)
        end_get(http, get, MR_ERR_DAMAGED, 0);
    else if (verdict == MR_VERDICT_MOVED)
        move(http, get);
    else {
        get->os_error = c->lack; /* a refusal that may pass is the sample's, if it stays */
        try_again(http, get, asked_s > 0 && asked_s < 86400 ? (uint64_t)asked_s * 1000 : 0,
                  is_refused ? http->options.refused_ms : http->options.retry_ms);
    }
}

/* How long to sleep if nothing arrives. */
static int find_wait_ms(const struct mr_http *http)
{
    uint64_t now = mr_clock_now_ns(), until = now + MAX_WAIT_MS * NS_PER_MS;
    const struct mr_http_get *get = http->n_running < http->n_allowed ? http->paused : NULL;
    until = http->timer_ns < until ? http->timer_ns : until;
    for (; get; get = get->next)
        until = get->not_before_ns < until ? get->not_before_ns : until;
    return until > now ? (int)((until - now + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* What libcurl does next after a time, such as sending a request that has just been added. */
static void run_timer(struct mr_http *http)
{
    int n;
    if (mr_clock_now_ns() < http->timer_ns)
        return;
    http->timer_ns = UINT64_MAX; /* the call sets it again */
    http->curl->multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &n);
}

static void run_sockets(struct mr_http *http, int wait_ms)
{
    struct epoll_event events[MAX_EVENTS];
    int n_events = epoll_wait(http->epoll, events, MAX_EVENTS, wait_ms), n;
    for (int i = 0; i < n_events; i++) {
        uint32_t seen = events[i].events;
        int bits = (seen & EPOLLIN ? CURL_CSELECT_IN : 0) |
                   (seen & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (seen & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        http->curl->multi_socket_action(http->multi, events[i].data.fd, bits, &n);
    }
}

static void end_transfers(struct mr_http *http)
{
    int n;
    CURLMsg *message;
    while ((message = http->curl->multi_info_read(http->multi, &n)))
        if (message->msg == CURLMSG_DONE)
            end_transfer(http, message->easy_handle, message->data.result);
}

static bool is_pending(const struct mr_http *http)
{
    return http->n_running > 0 || http->paused || http->fresh.head;
}

static void start_and_end(struct mr_http *http)
{
    start_gets(http);
    run_timer(http);
    end_transfers(http); /* some fail at once */
}

static void make_progress(struct mr_http *http, bool wait)
{
    start_and_end(http);
    run_sockets(http, wait && !http->ended.head && is_pending(http) ? find_wait_ms(http) : 0);
    end_transfers(http);
    start_and_end(http); /* a free connection does not wait for the next call */
}

struct mr_http_get *mr_http_take(struct mr_http *http)
{
    return pop(&http->ended);
}

struct mr_http_get *mr_http_next(struct mr_http *http, bool wait)
{
    if (!http->ended.head && is_pending(http))
        make_progress(http, wait);
    while (wait && !http->ended.head && is_pending(http))
        make_progress(http, true);
    return mr_http_take(http);
}
