/* SPDX-License-Identifier: Apache-2.0 */
/* One thread accepts connections, and each connection has a thread. */
#include "tests/support/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/die.h"

enum { MAX_CONNECTIONS = 16384, HEAD_BYTES = 16384, BODY_BYTES = 16384, PATH_BYTES = 4096 };

struct peer {
    struct mr_test_http *server;
    int fd; /* -1: closed */
};

struct mr_test_http {
    char root[PATH_BYTES];
    char url[64];
    uint16_t port;
    mr_test_http_choose *choose;
    mr_test_http_answer *answer;
    void *user;
    int fd;
    pthread_t thread;
    pthread_mutex_t lock; /* of choose, answer and the peers' fds */
    _Atomic bool stop;
    _Atomic uint64_t n_requests;
    _Atomic uint32_t n_open, most, n_peers;
    _Atomic uint32_t n_threads; /* of connections */
    struct peer peers[MAX_CONNECTIONS];
};

struct request {
    struct mr_test_http_request seen;
    char path[PATH_BYTES];
    char target[PATH_BYTES]; /* the path as it was sent */
    char body[BODY_BYTES];
    char if_match[256];
    bool is_head;
    bool moved;
};

struct file {
    int fd; /* -1: there is no such file */
    uint64_t size;
    char etag[80];
    char modified[64];
};

static bool send_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_text(int fd, const char *text)
{
    return send_all(fd, text, strlen(text));
}

/* The next close sends a reset. */
static void reset_at_close(int fd)
{
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

static void wait_for_end(struct mr_test_http *server, int fd)
{
    char byte;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (!atomic_load(&server->stop))
        if (poll(&wait, 1, 50) != 0 && recv(fd, &byte, 1, 0) <= 0)
            return;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

static void decode(char *text)
{
    char *out = text;
    for (; *text; text++) {
        if (text[0] == '%' && text[1] && text[2]) {
            *out++ = (char)(hex_digit(text[1]) << 4 | hex_digit(text[2]));
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = '\0';
}

/* Read the head of a request. False: the client has gone. */
static bool read_head(int fd, char head[HEAD_BYTES])
{
    size_t len = 0;
    while (len < HEAD_BYTES - 1) {
        if (recv(fd, head + len, 1, 0) != 1)
            return false;
        head[++len] = '\0';
        if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

/* Read the body of a request whose head announces one. False: the client has gone. */
static bool read_body(int fd, const char *head, char body[BODY_BYTES])
{
    const char *length = strcasestr(head, "\r\nContent-Length: ");
    size_t len = length ? strtoul(length + 18, NULL, 10) : 0;
    if (len >= BODY_BYTES)
        mr_test_die("the body of a request is too long");
    body[len] = '\0';
    return len == 0 || recv(fd, body, len, MSG_WAITALL) == (ssize_t)len;
}

static void parse_head(const char *head, struct request *request)
{
    char method[8] = "", target[PATH_BYTES] = "";
    sscanf(head, "%7s %4095s", method, target);
    request->is_head = strcmp(method, "HEAD") == 0;
    char *query = strchr(target, '?');
    request->moved = query && strcmp(query, "?moved") == 0;
    if (query)
        *query = '\0';
    snprintf(request->target, sizeof request->target, "%s", target);
    decode(target);
    snprintf(request->path, sizeof request->path, "%s", target);
    request->seen.path = request->path;
    request->seen.head = head;
    request->seen.body = request->body;
    const char *range = strcasestr(head, "\r\nRange: bytes=");
    request->seen.has_range = range && sscanf(range + 15, "%" SCNu64 "-%" SCNu64,
                                              &request->seen.first, &request->seen.last) == 2;
    const char *match = strcasestr(head, "\r\nIf-Match: ");
    request->if_match[0] = '\0';
    if (match)
        sscanf(match + 12, "%255[^\r]", request->if_match);
}

static void open_file(const struct mr_test_http *server, const char *path, struct file *file)
{
    char full[2 * PATH_BYTES];
    struct stat st;
    struct tm tm;
    snprintf(full, sizeof full, "%s%s", server->root, path);
    file->fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd >= 0 && (fstat(file->fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(file->fd);
        file->fd = -1;
    }
    if (file->fd < 0)
        return;
    file->size = (uint64_t)st.st_size;
    snprintf(file->etag, sizeof file->etag, "\"%jx-%jx-%jx\"", (intmax_t)st.st_ino,
             (intmax_t)st.st_mtim.tv_nsec + (intmax_t)st.st_mtim.tv_sec * 1000000000,
             (intmax_t)st.st_size);
    strftime(file->modified, sizeof file->modified, "%a, %d %b %Y %H:%M:%S GMT",
             gmtime_r(&st.st_mtime, &tm));
}

static bool send_status(int fd, const char *status, const char *headers, size_t body_len)
{
    char text[PATH_BYTES + 512];
    snprintf(text, sizeof text, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, headers,
             body_len);
    if (!send_text(fd, text))
        return false;
    char *body = calloc(1, body_len + 1);
    bool sent = body && send_all(fd, body, body_len);
    free(body);
    return sent;
}

/* Send bytes of the file. pieces: slowly. */
static bool send_bytes(int fd, const struct file *file, uint64_t first, uint64_t len, bool chunked,
                       bool slow)
{
    size_t step = slow ? 1000 : 1 << 16;
    char *bytes = malloc(step), size[32];
    bool sent = bytes != NULL;
    for (uint64_t at = 0; sent && at < len;) {
        size_t want = len - at < step ? (size_t)(len - at) : step;
        ssize_t n = pread(file->fd, bytes, want, (off_t)(first + at));
        if (n <= 0) {
            sent = false;
            break;
        }
        snprintf(size, sizeof size, "%zx\r\n", (size_t)n);
        sent = (!chunked || send_text(fd, size)) && send_all(fd, bytes, (size_t)n) &&
               (!chunked || send_text(fd, "\r\n"));
        at += (uint64_t)n;
        if (slow)
            usleep(200);
    }
    free(bytes);
    return sent && (!chunked || send_text(fd, "0\r\n\r\n"));
}

/* The headers of a good answer, and of those that only pretend to be one. */
static void write_headers(char text[1024], const struct request *request, const struct file *file,
                          enum mr_test_fault fault, uint64_t first, uint64_t len)
{
    char *at = text, *end = text + 1024;
    bool part = request->seen.has_range && fault != MR_TEST_HTTP_NO_RANGES;
    at += snprintf(at, (size_t)(end - at), "HTTP/1.1 %s\r\n",
                   part ? "206 Partial Content" : "200 OK");
    if (part && fault != MR_TEST_HTTP_NO_CONTENT_RANGE)
        at += snprintf(at, (size_t)(end - at),
                       "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", first,
                       first + len - 1, file->size);
    if (fault == MR_TEST_HTTP_CHUNKED)
        at += snprintf(at, (size_t)(end - at), "Transfer-Encoding: chunked\r\n");
    else
        at += snprintf(at, (size_t)(end - at), "Content-Length: %" PRIu64 "\r\n", len);
    if (fault == MR_TEST_HTTP_GZIP)
        at += snprintf(at, (size_t)(end - at), "Content-Encoding: gzip\r\n");
    if (fault == MR_TEST_HTTP_OTHER_ETAG)
        at += snprintf(at, (size_t)(end - at), "ETag: \"other\"\r\n");
    else if (fault != MR_TEST_HTTP_NO_ETAG)
        at += snprintf(at, (size_t)(end - at), "ETag: %s%s\r\n",
                       fault == MR_TEST_HTTP_WEAK_ETAG ? "W/" : "", file->etag);
    snprintf(at, (size_t)(end - at), "Last-Modified: %s\r\nAccept-Ranges: bytes\r\n\r\n",
             file->modified);
}

/* Returns true if the connection can be used again. */
static bool answer_file(struct mr_test_http *server, int fd, const struct request *request,
                        const struct file *file, enum mr_test_fault fault)
{
    char text[1024];
    uint64_t first = 0, len = file->size;
    if (*request->if_match && strcmp(request->if_match, file->etag) != 0 &&
        fault != MR_TEST_HTTP_OTHER_ETAG)
        return send_status(fd, "412 Precondition Failed", "", 0);
    if (request->seen.has_range && fault != MR_TEST_HTTP_NO_RANGES) {
        first = request->seen.first;
        if (first >= file->size) {
            snprintf(text, sizeof text, "Content-Range: bytes */%" PRIu64 "\r\n", file->size);
            return send_status(fd, "416 Range Not Satisfiable", text, 0);
        }
        uint64_t last = request->seen.last < file->size ? request->seen.last : file->size - 1;
        len = last - first + 1;
        if (fault == MR_TEST_HTTP_OTHER_RANGE && first > 0)
            first--;
        else if (fault == MR_TEST_HTTP_OTHER_RANGE)
            len = len > 1 ? len - 1 : len;
    }
    write_headers(text, request, file, fault, first, len);
    if (!send_text(fd, text) || request->is_head)
        return request->is_head;
    bool half =
        fault == MR_TEST_HTTP_SHORT || fault == MR_TEST_HTTP_RESET || fault == MR_TEST_HTTP_STALL;
    bool sent = send_bytes(fd, file, first, half ? len / 2 : len, fault == MR_TEST_HTTP_CHUNKED,
                           fault == MR_TEST_HTTP_SLOW);
    if (fault == MR_TEST_HTTP_RESET)
        reset_at_close(fd);
    if (fault == MR_TEST_HTTP_STALL)
        wait_for_end(server, fd);
    return sent && !half && fault != MR_TEST_HTTP_CLOSE;
}

/* Send the page of the test. False: there is none. */
static bool answer_page(struct mr_test_http *server, int fd, const struct request *request,
                        bool *again_out)
{
    struct mr_test_http_page page = {.status = "200 OK"};
    char head[1024];
    pthread_mutex_lock(&server->lock);
    bool has_page = server->answer && server->answer(server->user, &request->seen, &page);
    pthread_mutex_unlock(&server->lock);
    if (!has_page)
        return false;
    size_t len = page.body ? strlen(page.body) : 0;
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", page.status,
             page.headers, len);
    *again_out = send_text(fd, head) && (request->is_head || send_all(fd, page.body, len));
    free(page.body);
    return true;
}

static bool answer_with(struct mr_test_http *server, int fd, const struct request *request,
                        enum mr_test_fault fault)
{
    char text[PATH_BYTES + 64];
    struct file file = {.fd = -1};
    bool again;
    if (fault == MR_TEST_HTTP_GOOD && answer_page(server, fd, request, &again))
        return again;
    switch (fault) {
    case MR_TEST_HTTP_BUSY: return send_status(fd, "503 Slow Down", "", 20);
    case MR_TEST_HTTP_RETRY_AFTER:
        return send_status(fd, "429 Too Many Requests", "Retry-After: 1\r\n", 0);
    case MR_TEST_HTTP_LATER:
        return send_status(fd, "503 Service Unavailable", "Retry-After: 3600\r\n", 0);
    case MR_TEST_HTTP_ERROR: return send_status(fd, "500 Internal Server Error", "", 1 << 20);
    case MR_TEST_HTTP_FORBIDDEN: return send_status(fd, "403 Forbidden", "", 30);
    case MR_TEST_HTTP_RESET_EARLY: reset_at_close(fd); return false;
    case MR_TEST_HTTP_GARBAGE: send_text(fd, "\x7f\x45LF no HTTP\r\n\r\n"); return false;
    case MR_TEST_HTTP_SILENT: wait_for_end(server, fd); return false;
    case MR_TEST_HTTP_LOOP:
    case MR_TEST_HTTP_REDIRECT:
        if (fault == MR_TEST_HTTP_REDIRECT && request->moved)
            break;
        snprintf(text, sizeof text, "Location: %.4000s?moved\r\n", request->target);
        return send_status(fd, "302 Found", text, 0);
    default: break;
    }
    open_file(server, request->path, &file);
    if (file.fd < 0)
        return send_status(fd, "404 Not Found", "", 9);
    again = answer_file(server, fd, request, &file, fault);
    close(file.fd);
    return again;
}

static enum mr_test_fault choose_fault(struct mr_test_http *server, struct request *request)
{
    enum mr_test_fault fault = MR_TEST_HTTP_GOOD;
    request->seen.number = atomic_fetch_add(&server->n_requests, 1); /* while choose waits, too */
    pthread_mutex_lock(&server->lock);
    if (server->choose)
        fault = server->choose(server->user, &request->seen);
    pthread_mutex_unlock(&server->lock);
    return fault;
}

static void *serve(void *arg)
{
    struct peer *peer = arg;
    struct mr_test_http *server = peer->server;
    char *head = malloc(HEAD_BYTES);
    struct request *request = malloc(sizeof *request);
    bool again = head && request;
    while (again && read_head(peer->fd, head) && read_body(peer->fd, head, request->body)) {
        parse_head(head, request);
        again = answer_with(server, peer->fd, request, choose_fault(server, request));
    }
    free(request);
    free(head);
    atomic_fetch_sub(&server->n_open, 1);
    shutdown(peer->fd, SHUT_WR);
    pthread_mutex_lock(&server->lock);
    close(peer->fd);
    peer->fd = -1;
    pthread_mutex_unlock(&server->lock);
    atomic_fetch_sub(&server->n_threads, 1); /* the server may be freed now */
    return NULL;
}

static void *accept_peers(void *arg)
{
    struct mr_test_http *server = arg;
    while (!atomic_load(&server->stop)) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC), one = 1;
        if (fd < 0 || atomic_load(&server->stop)) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        uint32_t i = atomic_load(&server->n_peers);
        if (i == MAX_CONNECTIONS)
            mr_test_die("too many connections");
        uint32_t open = atomic_fetch_add(&server->n_open, 1) + 1;
        if (open > atomic_load(&server->most))
            atomic_store(&server->most, open);
        server->peers[i] = (struct peer){.server = server, .fd = fd};
        atomic_store(&server->n_peers, i + 1);
        atomic_fetch_add(&server->n_threads, 1);
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, &server->peers[i]) != 0 ||
            pthread_detach(thread) != 0)
            mr_test_die("no thread");
    }
    return NULL;
}

struct mr_test_http *mr_test_http_start(const char *root, mr_test_http_choose *choose, void *user)
{
    return mr_test_http_start_at(0, root, choose, user);
}

struct mr_test_http *mr_test_http_start_at(uint16_t port, const char *root,
                                           mr_test_http_choose *choose, void *user)
{
    struct mr_test_http *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int one = 1;
    if (!server)
        mr_test_die("no memory");
    snprintf(server->root, sizeof server->root, "%s", root);
    server->choose = choose;
    server->user = user;
    pthread_mutex_init(&server->lock, NULL);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->fd < 0 || setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(server->fd, (const struct sockaddr *)&address, len) != 0 ||
        listen(server->fd, 1024) != 0 ||
        getsockname(server->fd, (struct sockaddr *)&address, &len) != 0 ||
        pthread_create(&server->thread, NULL, accept_peers, server) != 0)
        mr_test_die("the HTTP server cannot start");
    server->port = ntohs(address.sin_port);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", (unsigned)server->port);
    return server;
}

void mr_test_http_answer_with(struct mr_test_http *server, mr_test_http_answer *answer)
{
    server->answer = answer;
}

void mr_test_http_stop(struct mr_test_http *server)
{
    atomic_store(&server->stop, true);
    shutdown(server->fd, SHUT_RDWR); /* accept() returns */
    pthread_join(server->thread, NULL);
    for (uint32_t i = 0; i < atomic_load(&server->n_peers); i++) {
        pthread_mutex_lock(&server->lock);
        if (server->peers[i].fd >= 0)
            shutdown(server->peers[i].fd, SHUT_RDWR);
        pthread_mutex_unlock(&server->lock);
    }
    while (atomic_load(&server->n_threads) > 0)
        usleep(1000);
    close(server->fd);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *mr_test_http_url(const struct mr_test_http *server)
{
    return server->url;
}

uint16_t mr_test_http_port(const struct mr_test_http *server)
{
    return server->port;
}

uint64_t mr_test_http_n_requests(const struct mr_test_http *server)
{
    return atomic_load(&server->n_requests);
}

uint32_t mr_test_http_most(const struct mr_test_http *server)
{
    return atomic_load(&server->most);
}

uint32_t mr_test_http_n_connections(const struct mr_test_http *server)
{
    return atomic_load(&server->n_peers);
}
