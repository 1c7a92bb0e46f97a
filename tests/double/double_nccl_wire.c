/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over Unix sockets. An address in the abstract namespace includes its length, so both sides
 * give the same length. It disappears with its last descriptor, whichever process is killed.
 */
#include "tests/double/double_nccl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t make_address(const ncclUniqueId *id, struct sockaddr_un *address_out)
{
    memset(address_out, 0, sizeof *address_out);
    address_out->sun_family = AF_UNIX;
    int n = snprintf(address_out->sun_path + 1, sizeof address_out->sun_path - 1, "%.80s",
                     id->internal);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int open_socket(const ncclUniqueId *id, bool listens)
{
    struct sockaddr_un address;
    socklen_t len = make_address(id, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    const struct sockaddr *at = (const struct sockaddr *)&address;
    if (listens ? bind(fd, at, len) == 0 && listen(fd, DOUBLE_NCCL_RANKS) == 0
                : connect(fd, at, len) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int double_nccl_listen(const ncclUniqueId *id)
{
    return open_socket(id, true);
}

int double_nccl_connect(const ncclUniqueId *id)
{
    return open_socket(id, false);
}

/* False: stop. */
static bool wait_for(int fd, int stop_fd, short events)
{
    struct pollfd fds[2] = {{.fd = fd, .events = events}, {.fd = stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return false;
    return fds[1].revents == 0;
}

static bool write_all(int fd, int stop_fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return false;
        } else if (!wait_for(fd, stop_fd, POLLOUT)) {
            return false;
        }
    }
    return true;
}

static bool read_all(int fd, int stop_fd, void *bytes, size_t len)
{
    uint8_t *at = bytes;
    while (len > 0) {
        ssize_t n = recv(fd, at, len, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else if (!wait_for(fd, stop_fd, POLLIN)) {
            return false;
        }
    }
    return true;
}

bool double_nccl_write(int fd, int stop_fd, const struct double_nccl_frame *frame,
                       const void *bytes)
{
    return write_all(fd, stop_fd, frame, sizeof *frame) &&
           write_all(fd, stop_fd, bytes, frame->n_bytes);
}

bool double_nccl_read(int fd, int stop_fd, struct double_nccl_frame *frame_out, uint8_t **bytes_out)
{
    *bytes_out = NULL;
    if (!read_all(fd, stop_fd, frame_out, sizeof *frame_out))
        return false;
    if (frame_out->n_bytes == 0)
        return true;
    uint8_t *bytes = double_machine_alloc(frame_out->n_bytes);
    if (!read_all(fd, stop_fd, bytes, frame_out->n_bytes)) {
        free(bytes);
        return false;
    }
    *bytes_out = bytes;
    return true;
}

void double_nccl_poke(int event_fd)
{
    uint64_t one = 1;
    while (write(event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}
