/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of all ranks. Ranks write to pipes. Whole lines are written to stdout or stderr after
 * the rank's number, as `srun -l` does. Bytes are only searched for newlines. A last line without a
 * newline gets one, so that the next rank's line does not join it.
 *
 * Invariant: this thread never blocks in a write, because it must also notice dead ranks, and
 * stdout may be a pipe that is not read. It writes at most PIPE_BUF bytes after poll() has reported
 * room. If a stream's buffer is full, its pipes are not read, so its ranks wait as they would on
 * stdout itself. Each write ends at a newline, because stdout and stderr may be one file.
 */
#include "dist/launch/rank_output.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX_BYTES = 14 };
/* The most that one read can become: only empty lines, each with its prefix. */
enum { MOST_BYTES = (MR_RANK_LINE + 2) * (PREFIX_BYTES + 1), BUFFER_BYTES = 2 * MOST_BYTES };

static_assert(MR_RANK_LINE + PREFIX_BYTES + 1 <= PIPE_BUF, "a line goes out in one write");

/* One stream of one rank. */
struct source {
    int fd;           /* -1: ended */
    uint32_t poll_at; /* 1 + its index in this turn's polls; 0: not polled */
    uint32_t used;
    uint32_t len_prefix;
    char prefix[PREFIX_BYTES];
    char bytes[MR_RANK_LINE + 1]; /* the start of an unfinished line */
};

/* This process's stdout or stderr. */
struct outlet {
    int fd;
    int failed; /* errno */
    uint32_t poll_at;
    bool in_line; /* a short write ended inside a line */
    size_t from, to;
    char bytes[BUFFER_BYTES];
};

struct mr_rank_output {
    uint32_t n_sources;
    bool finishing;
    struct outlet outlets[MR_RANK_STREAMS];
    struct source sources[]; /* a rank's stdout, then its stderr */
};

struct mr_rank_output *mr_rank_output_create(uint32_t n_ranks, uint32_t first_rank, mr_error *error)
{
    uint32_t n = n_ranks * MR_RANK_STREAMS;
    size_t len_bytes = sizeof(struct mr_rank_output) + n * sizeof(struct source);
    struct mr_rank_output *output = calloc(1, len_bytes);
    if (!output) {
        mr_error_memory(error, len_bytes);
        return NULL;
    }
    output->n_sources = n;
    output->outlets[MR_RANK_STDOUT].fd = STDOUT_FILENO;
    output->outlets[MR_RANK_STDERR].fd = STDERR_FILENO;
    for (uint32_t i = 0; i < n; i++) {
        struct source *source = &output->sources[i];
        source->fd = -1;
        source->len_prefix = (uint32_t)snprintf(source->prefix, sizeof source->prefix,
                                                "%u: ", first_rank + i / MR_RANK_STREAMS);
    }
    return output;
}

void mr_rank_output_drop(struct mr_rank_output *output)
{
    for (uint32_t i = 0; i < output->n_sources; i++) {
        if (output->sources[i].fd >= 0)
            close(output->sources[i].fd);
        output->sources[i].fd = -1;
    }
}

void mr_rank_output_destroy(struct mr_rank_output *output)
{
    if (!output)
        return;
    mr_rank_output_drop(output);
    free(output);
}

void mr_rank_output_add(struct mr_rank_output *output, uint32_t local_rank, int stream, int fd)
{
    output->sources[local_rank * MR_RANK_STREAMS + (uint32_t)stream].fd = fd;
}

static size_t bytes_pending(const struct outlet *outlet)
{
    return outlet->to - outlet->from;
}

static bool has_room(const struct outlet *outlet)
{
    return BUFFER_BYTES - bytes_pending(outlet) >= MOST_BYTES;
}

static bool make_room(struct outlet *outlet)
{
    if (BUFFER_BYTES - outlet->to >= MOST_BYTES)
        return true;
    if (!has_room(outlet))
        return false;
    memmove(outlet->bytes, outlet->bytes + outlet->from, bytes_pending(outlet));
    outlet->to -= outlet->from;
    outlet->from = 0;
    return true;
}

static void put_bytes(struct outlet *outlet, const void *bytes, size_t len)
{
    memcpy(outlet->bytes + outlet->to, bytes, len);
    outlet->to += len;
}

static void put_line(struct outlet *outlet, const struct source *source, const char *line,
                     size_t len)
{
    put_bytes(outlet, source->prefix, source->len_prefix);
    put_bytes(outlet, line, len);
    put_bytes(outlet, "\n", 1);
}

static void put_whole_lines(struct outlet *outlet, struct source *source)
{
    const char *line = source->bytes;
    size_t left = source->used;
    for (const char *end; (end = memchr(line, '\n', left)) != NULL; line = end + 1) {
        put_line(outlet, source, line, (size_t)(end - line));
        left -= (size_t)(end + 1 - line);
    }
    if (left > MR_RANK_LINE) {
        put_line(outlet, source, line, MR_RANK_LINE);
        line += MR_RANK_LINE;
        left -= MR_RANK_LINE;
    }
    memmove(source->bytes, line, left);
    source->used = (uint32_t)left;
}

static void end_source(struct outlet *outlet, struct source *source)
{
    if (source->used > 0)
        put_line(outlet, source, source->bytes, source->used);
    source->used = 0;
    close(source->fd);
    source->fd = -1;
}

static void read_source(struct outlet *outlet, struct source *source, bool finishing)
{
    if (!make_room(outlet))
        return;
    ssize_t got =
        read(source->fd, source->bytes + source->used, sizeof source->bytes - source->used);
    if (got > 0) {
        source->used += (uint32_t)got;
        put_whole_lines(outlet, source);
    } else if (got == 0 || (errno != EINTR && (errno != EAGAIN || finishing))) {
        end_source(outlet, source);
    }
}

/*
 * Closes the pipes, so that ranks get SIGPIPE at their next write, as they would on stdout itself.
 */
static void break_outlet(struct mr_rank_output *output, uint32_t stream, int failed)
{
    struct outlet *outlet = &output->outlets[stream];
    outlet->failed = failed;
    outlet->in_line = false;
    outlet->from = outlet->to = 0;
    for (uint32_t i = stream; i < output->n_sources; i += MR_RANK_STREAMS) {
        if (output->sources[i].fd >= 0)
            close(output->sources[i].fd);
        output->sources[i].fd = -1;
    }
}

static void write_outlet(struct mr_rank_output *output, uint32_t stream)
{
    struct outlet *outlet = &output->outlets[stream];
    const char *bytes = outlet->bytes + outlet->from;
    size_t len = bytes_pending(outlet) < PIPE_BUF ? bytes_pending(outlet) : PIPE_BUF;
    const char *last = memrchr(bytes, '\n', len);
    if (last)
        len = (size_t)(last + 1 - bytes);
    ssize_t written = write(outlet->fd, bytes, len);
    if (written < 0 && errno != EINTR && errno != EAGAIN)
        break_outlet(output, stream, errno);
    if (written <= 0)
        return;
    outlet->from += (size_t)written;
    outlet->in_line = outlet->bytes[outlet->from - 1] != '\n';
}

/*
 * Reads what the pipes contain now, as far as there is room. It does not wait for the end of file,
 * because a foreign process may hold a pipe open.
 */
static void read_rest(struct mr_rank_output *output)
{
    for (uint32_t i = 0; i < output->n_sources; i++) {
        struct outlet *outlet = &output->outlets[i % MR_RANK_STREAMS];
        while (output->sources[i].fd >= 0 && has_room(outlet))
            read_source(outlet, &output->sources[i], true);
    }
}

uint32_t mr_rank_output_n_polls(const struct mr_rank_output *output)
{
    return output->n_sources + MR_RANK_STREAMS;
}

/*
 * Returns 0 for a descriptor that is not polled: poll() refuses more entries than RLIMIT_NOFILE,
 * even empty ones.
 */
static uint32_t add_poll(struct pollfd *polls, uint32_t *n, bool is_wanted, int fd, short events)
{
    if (!is_wanted)
        return 0;
    polls[*n] = (struct pollfd){.fd = fd, .events = events};
    return ++*n;
}

uint32_t mr_rank_output_set_polls(struct mr_rank_output *output, struct pollfd *polls)
{
    struct outlet *outlets = output->outlets;
    uint32_t n = 0;
    for (uint32_t i = 0; i < output->n_sources; i++) {
        struct source *source = &output->sources[i];
        bool is_wanted = source->fd >= 0 && has_room(&outlets[i % MR_RANK_STREAMS]);
        source->poll_at = add_poll(polls, &n, is_wanted, source->fd, POLLIN);
    }
    for (uint32_t i = 0; i < MR_RANK_STREAMS; i++) {
        bool is_wanted =
            bytes_pending(&outlets[i]) > 0 && !outlets[(i + 1) % MR_RANK_STREAMS].in_line;
        outlets[i].poll_at = add_poll(polls, &n, is_wanted, outlets[i].fd, POLLOUT);
    }
    return n;
}

static bool is_ready(const struct pollfd *polls, uint32_t poll_at)
{
    return poll_at > 0 && polls[poll_at - 1].revents != 0;
}

void mr_rank_output_pump(struct mr_rank_output *output, const struct pollfd *polls)
{
    for (uint32_t i = 0; i < MR_RANK_STREAMS; i++)
        if (is_ready(polls, output->outlets[i].poll_at))
            write_outlet(output, i);
    for (uint32_t i = 0; i < output->n_sources; i++) {
        struct source *source = &output->sources[i];
        if (source->fd >= 0 && is_ready(polls, source->poll_at))
            read_source(&output->outlets[i % MR_RANK_STREAMS], source, false);
    }
    if (output->finishing)
        read_rest(output);
}

void mr_rank_output_finish(struct mr_rank_output *output)
{
    output->finishing = true;
    read_rest(output);
}

bool mr_rank_output_is_done(const struct mr_rank_output *output)
{
    for (uint32_t i = 0; i < output->n_sources; i++)
        if (output->sources[i].fd >= 0)
            return false;
    return bytes_pending(&output->outlets[0]) == 0 && bytes_pending(&output->outlets[1]) == 0;
}

int mr_rank_output_failure(const struct mr_rank_output *output, int stream)
{
    return output->outlets[stream].failed;
}
