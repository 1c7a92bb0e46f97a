/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads with io_uring: several parts in flight, one system call for several of them.
 *
 * A loose file is one chain: open into a fixed-file slot - read - read one byte more - close. The
 * open is linked softly: if it fails, the rest is cancelled. The reads are linked hard, because a
 * short read breaks a soft link, and every read of a whole file is short. The second read continues
 * at the file position: only zero bytes prove that the first read reached the end. If the file is
 * longer than the buffer, the buffer grows and the whole chain runs again, so all bytes of a part
 * come from one opened file. A range of a loose file needs no second read, because its length is
 * known. A part of a shard is a single read.
 *
 * Every read that is not a plain success is repeated by reader_pread.c, which writes the message.
 *
 * Invariant: a part may be touched only after all completions of its chain have arrived.
 *
 * No set-up flag may defer completions to the next system call (COOP_TASKRUN, DEFER_TASKRUN): a
 * chain whose open waits for the disk would continue only after the worker has decoded its current
 * sample.
 */
#include "dataset/reader/reader_impl.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { OPEN, READ, TAIL, CLOSE, N_STEPS };

enum round {
    ROUND_DIRECT, /* OPEN, READ, TAIL (of a whole file), CLOSE in a fixed-file slot */
    ROUND_OPEN,   /* OPEN alone, of a plain descriptor */
    ROUND_READ,   /* READ, CLOSE of a plain descriptor */
    ROUND_SHARD,  /* READ of an open shard */
};

#define NEEDED_FEATURES (IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS)
#define MAX_ROUNDS 4 /* a file that outgrows its buffer more often is left to pread */
/*
 * Reads of regular files always end. Reads of a fifo or terminal that has replaced a file may not.
 * So if a read takes longer than this, everything that can be cancelled is cancelled, and
 * reader_pread.c checks the file.
 */
#define STALL_NS 1000000000u
/* user_data of entries that belong to no part. */
#define NO_PART UINT64_MAX

/* The state of a part in the ring, from begin to its last completion. */
struct flight {
    enum round round;
    bool queued;     /* not yet submitted to the kernel */
    uint32_t n_left; /* completions to come */
    uint32_t n_rounds;
    int fd; /* ROUND_READ */
    uint8_t tail;
    size_t asked; /* bytes that READ asked for */
    uint64_t began_ns;
    int32_t results[N_STEPS];
};

struct uring {
    struct io_uring ring;
    bool is_open;
    bool direct; /* loose files use fixed-file slots, one per part */
    bool broken; /* io_uring_enter() fails permanently: only ordinary calls are used */
    bool closing;
    uint32_t n_queued; /* flights not yet submitted to the kernel */
    uint32_t n_left;   /* completions to come, of all flights */
    uint64_t checked_ns;
    uint32_t n_flights;
    struct flight *flights;         /* one per part */
    char (*paths)[MR_CATALOG_PATH]; /* one per part, of loose files */
};

static struct uring *get_uring(struct mr_reader *reader)
{
    return reader->state;
}

static struct flight *flight_of(struct mr_reader *reader, const struct mr_reader_part *part)
{
    return &get_uring(reader)->flights[mr_reader_number(reader, part)];
}

static char *path_of(struct mr_reader *reader, const struct mr_reader_part *part)
{
    return get_uring(reader)->paths[mr_reader_number(reader, part)];
}

/* The ring cannot be full: it has the entries that all parts need at once. */
static struct io_uring_sqe *next_sqe(struct mr_reader *reader)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&get_uring(reader)->ring);
    assert(sqe);
    return sqe;
}

/* Set the user_data and flags of a prepared entry, and count it. */
static void queue_step(struct mr_reader *reader, const struct mr_reader_part *part,
                       struct io_uring_sqe *sqe, uint32_t step, unsigned flags)
{
    uint32_t number = mr_reader_number(reader, part);
    struct uring *uring = get_uring(reader);
    io_uring_sqe_set_data64(sqe, (uint64_t)number * N_STEPS + step);
    io_uring_sqe_set_flags(sqe, flags);
    uring->flights[number].n_left++;
    uring->n_left++;
}

static void start_round(struct mr_reader *reader, const struct mr_reader_part *part,
                        enum round round)
{
    struct uring *uring = get_uring(reader);
    struct flight *flight = flight_of(reader, part);
    assert(flight->n_left == 0);
    flight->round = round;
    flight->began_ns = mr_clock_now_ns();
    if (!flight->queued)
        uring->n_queued++;
    flight->queued = true;
}

/* One byte more than max_bytes shows that a file is too large. */
static size_t bytes_to_ask(const struct mr_reader_part *part)
{
    size_t len = mr_reader_capacity(part);
    if (len > part->want->max_bytes + 1)
        len = (size_t)part->want->max_bytes + 1;
    return len < MR_READER_MAX_CALL ? len : MR_READER_MAX_CALL;
}

/* True if all of a loose file is read, false for a range. */
static bool is_whole(const struct mr_reader_part *part)
{
    return part->want->extent.len == MR_LEN_UNKNOWN;
}

static void begin_direct(struct mr_reader *reader, struct mr_reader_part *part)
{
    uint32_t slot = mr_reader_number(reader, part);
    struct flight *flight = flight_of(reader, part);
    bool whole = is_whole(part);
    start_round(reader, part, ROUND_DIRECT);
    flight->asked = whole ? bytes_to_ask(part) : (size_t)part->want->extent.len;
    struct io_uring_sqe *sqe = next_sqe(reader);
    io_uring_prep_openat_direct(sqe, mr_catalog_root(reader->catalog), path_of(reader, part),
                                O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, slot);
    queue_step(reader, part, sqe, OPEN, IOSQE_IO_LINK);
    /* Offset -1: read at the file position, so the second read continues there. */
    sqe = next_sqe(reader);
    io_uring_prep_read(sqe, (int)slot, part->bytes, (unsigned)flight->asked,
                       whole ? (uint64_t)-1 : part->want->extent.offset);
    queue_step(reader, part, sqe, READ, IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK);
    if (whole) {
        sqe = next_sqe(reader);
        io_uring_prep_read(sqe, (int)slot, &flight->tail, 1, (uint64_t)-1);
        queue_step(reader, part, sqe, TAIL, IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK);
    }
    sqe = next_sqe(reader);
    io_uring_prep_close_direct(sqe, slot);
    queue_step(reader, part, sqe, CLOSE, 0);
}

static void begin_open(struct mr_reader *reader, struct mr_reader_part *part)
{
    start_round(reader, part, ROUND_OPEN);
    struct io_uring_sqe *sqe = next_sqe(reader);
    io_uring_prep_openat(sqe, mr_catalog_root(reader->catalog), path_of(reader, part),
                         O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    queue_step(reader, part, sqe, OPEN, 0);
}

static void begin_read(struct mr_reader *reader, struct mr_reader_part *part, int fd, size_t asked)
{
    struct flight *flight = flight_of(reader, part);
    start_round(reader, part, ROUND_READ);
    flight->fd = fd;
    flight->asked = asked;
    struct io_uring_sqe *sqe = next_sqe(reader);
    io_uring_prep_read(sqe, fd, part->bytes, (unsigned)asked, part->want->extent.offset);
    queue_step(reader, part, sqe, READ, IOSQE_IO_HARDLINK);
    sqe = next_sqe(reader);
    io_uring_prep_close(sqe, fd);
    queue_step(reader, part, sqe, CLOSE, 0);
}

/*
 * Start reading a loose file or a range of one. The buffer for a range has its size already; the
 * length of a whole file is found while reading.
 */
static bool begin_loose(struct mr_reader *reader, struct mr_reader_part *part)
{
    const struct mr_extent *extent = &part->want->extent;
    if (!is_whole(part) && !mr_reader_fits_call(part))
        return false;
    if (mr_reader_reserve(part, is_whole(part) ? 0 : (size_t)extent->len) != 0 ||
        mr_catalog_path(reader->catalog, extent->file, path_of(reader, part)) != 0)
        return false;
    if (get_uring(reader)->direct)
        begin_direct(reader, part);
    else
        begin_open(reader, part);
    return true;
}

static bool begin_shard(struct mr_reader *reader, struct mr_reader_part *part)
{
    const struct mr_extent *extent = &part->want->extent;
    if (!mr_reader_fits_call(part) || mr_reader_reserve(part, (size_t)extent->len) != 0)
        return false;
    int fd = mr_file_cache_acquire(reader->cache, extent->file);
    if (fd < 0)
        return false;
    start_round(reader, part, ROUND_SHARD);
    struct io_uring_sqe *sqe = next_sqe(reader);
    io_uring_prep_read(sqe, fd, part->bytes, (unsigned)extent->len, extent->offset);
    queue_step(reader, part, sqe, READ, 0);
    return true;
}

/*
 * Samples in other files, those of a cache, are mostly in memory. Reading each with an ordinary
 * call when its turn comes leaves its bytes in the processor's cache, and that is 7 % faster than
 * reading ahead.
 */
static void begin_uring(struct mr_reader *reader, struct mr_reader_part *part)
{
    bool begun = false;
    if (mr_reader_is_other(reader, part) && part->want->purpose != MR_FOR_MARKS) {
        mr_reader_pread_later(reader, part);
        return;
    }
    flight_of(reader, part)->n_rounds = 0;
    if (!get_uring(reader)->broken)
        begun = mr_reader_is_loose(reader, part) ? begin_loose(reader, part)
                                                 : begin_shard(reader, part);
    if (!begun)
        mr_reader_push_slow(reader, part);
}

/*
 * The file is longer than the buffer: grow the buffer to the size that the file reports, and read
 * the file again from the start.
 */
static bool read_larger(struct mr_reader *reader, struct mr_reader_part *part,
                        struct flight *flight)
{
    struct stat st;
    if (++flight->n_rounds >= MAX_ROUNDS ||
        fstatat(mr_catalog_root(reader->catalog), path_of(reader, part), &st, 0) != 0)
        return false;
    uint64_t size = (uint64_t)st.st_size;
    if (!S_ISREG(st.st_mode) || size < flight->asked || size > part->want->max_bytes ||
        size >= MR_READER_MAX_CALL)
        return false;
    if (mr_reader_reserve(part, (size_t)size + 1) != 0)
        return false;
    begin_direct(reader, part);
    return true;
}

static bool end_direct(struct mr_reader *reader, struct mr_reader_part *part, struct flight *flight)
{
    int32_t n = flight->results[READ];
    bool whole = is_whole(part), full = n >= 0 && (size_t)n == flight->asked;
    if (flight->results[OPEN] < 0 || n < 0 || (whole ? flight->results[TAIL] < 0 : !full))
        return false;
    if (whole && flight->results[TAIL] > 0)
        return full && read_larger(reader, part, flight);
    /* Zero bytes: the file is empty, or not a regular file. */
    if (n == 0 || (uint64_t)n > part->want->max_bytes)
        return false;
    mr_reader_finish(reader, part, MR_OK, (size_t)n);
    return true;
}

/*
 * O_NONBLOCK prevents blocking on a fifo. It is removed here, because kernels before 5.18 would not
 * wait for the disk when a regular file has it.
 */
static bool end_open(struct mr_reader *reader, struct mr_reader_part *part, struct flight *flight)
{
    int fd = flight->results[OPEN];
    if (fd < 0)
        return false;
    struct stat st;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                mr_catalog_is_file(reader->catalog, part->want->extent.file, &st) &&
                fcntl(fd, F_SETFL, 0) == 0;
    uint64_t len = is_whole(part) && good ? (uint64_t)st.st_size : part->want->extent.len;
    /* one byte more proves the end of the file */
    size_t asked = is_whole(part) ? (size_t)len + 1 : (size_t)len;
    if (!good || len > part->want->max_bytes || len >= MR_READER_MAX_CALL ||
        mr_reader_reserve(part, asked) != 0) {
        close(fd);
        return false;
    }
    begin_read(reader, part, fd, asked);
    return true;
}

static bool end_read(struct mr_reader *reader, struct mr_reader_part *part, struct flight *flight)
{
    if (flight->results[CLOSE] == -ECANCELED)
        close(flight->fd);
    int32_t n = flight->results[READ];
    if (n < 0 || (size_t)n != flight->asked - is_whole(part))
        return false;
    mr_reader_finish(reader, part, MR_OK, (size_t)n);
    return true;
}

static bool end_shard(struct mr_reader *reader, struct mr_reader_part *part, struct flight *flight)
{
    const struct mr_extent *extent = &part->want->extent;
    mr_file_cache_release(reader->cache, extent->file);
    if (flight->results[READ] < 0 || (uint64_t)flight->results[READ] != extent->len)
        return false;
    mr_reader_finish(reader, part, MR_OK, (size_t)extent->len);
    return true;
}

/* Called when all completions of a round have arrived. */
static void end_round(struct mr_reader *reader, struct mr_reader_part *part, struct flight *flight)
{
    bool good = false, opens = flight->round == ROUND_DIRECT || flight->round == ROUND_OPEN;
    if (opens && flight->results[OPEN] == -ENOENT && mr_reader_may_lack(reader, part)) {
        mr_reader_finish(reader, part, MR_OK, 0);
        return;
    }
    switch (flight->round) {
    case ROUND_DIRECT: good = end_direct(reader, part, flight); break;
    case ROUND_OPEN: good = end_open(reader, part, flight); break;
    case ROUND_READ: good = end_read(reader, part, flight); break;
    case ROUND_SHARD: good = end_shard(reader, part, flight); break;
    }
    if (!good)
        mr_reader_push_slow(reader, part);
}

/* The reader is being destroyed: only the descriptors must be closed. */
static void drop_round(struct flight *flight)
{
    if (flight->round == ROUND_OPEN && flight->results[OPEN] >= 0)
        close(flight->results[OPEN]);
    if (flight->round == ROUND_READ && flight->results[CLOSE] == -ECANCELED)
        close(flight->fd);
}

static void take_completion(struct mr_reader *reader, uint64_t data, int32_t result)
{
    struct uring *uring = get_uring(reader);
    uring->n_left--;
    if (data == NO_PART)
        return;
    struct flight *flight = &uring->flights[data / N_STEPS];
    flight->results[data % N_STEPS] = result;
    if (--flight->n_left > 0)
        return;
    if (uring->closing)
        drop_round(flight);
    else
        end_round(reader, &reader->parts[data / N_STEPS], flight);
}

static void reap_completions(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;
    io_uring_for_each_cqe(&uring->ring, head, cqe)
    {
        take_completion(reader, cqe->user_data, cqe->res);
        n++;
    }
    io_uring_cq_advance(&uring->ring, n);
}

static void sleep_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void mark_submitted(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    if (uring->n_queued == 0 || io_uring_sq_ready(&uring->ring) > 0)
        return;
    for (uint32_t i = 0; i < uring->n_flights; i++)
        uring->flights[i].queued = false;
    uring->n_queued = 0;
}

/*
 * io_uring_enter() fails, perhaps because of a seccomp filter set after creation. Everything that
 * the kernel has not seen is read with ordinary calls.
 */
static void give_up_ring(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    uring->broken = true;
    uring->n_left -= io_uring_sq_ready(&uring->ring);
    for (uint32_t i = 0; i < uring->n_flights; i++) {
        struct flight *flight = &uring->flights[i];
        if (!flight->queued)
            continue;
        flight->n_left = 0;
        flight->queued = false;
        if (flight->round == ROUND_READ)
            close(flight->fd);
        if (flight->round == ROUND_SHARD)
            mr_file_cache_release(reader->cache, reader->parts[i].want->extent.file);
        mr_reader_push_slow(reader, &reader->parts[i]);
    }
    uring->n_queued = 0;
}

/* Submit what is queued. wait: sleep until a completion arrives, for about timeout_ns at most. */
static void enter_ring(struct mr_reader *reader, bool wait, uint64_t timeout_ns)
{
    struct uring *uring = get_uring(reader);
    int ret = 0;
    if (uring->broken) {
        if (wait)
            sleep_shortly();
    } else if (wait) {
        struct io_uring_cqe *cqe;
        struct __kernel_timespec timeout = {.tv_sec = (int64_t)(timeout_ns / 1000000000u),
                                            .tv_nsec = (int64_t)(timeout_ns % 1000000000u)};
        ret = uring->ring.features & IORING_FEAT_EXT_ARG
                  ? io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1, &timeout, NULL)
                  : io_uring_submit_and_wait(&uring->ring, 1);
    } else if (io_uring_sq_ready(&uring->ring) > 0) {
        ret = io_uring_submit(&uring->ring);
    }
    mark_submitted(reader);
    if (ret >= 0 || ret == -ETIME || ret == -EINTR)
        return;
    if (ret == -EAGAIN || ret == -EBUSY || ret == -ENOMEM)
        sleep_shortly();
    else
        give_up_ring(reader);
}

static void cancel_all(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    struct io_uring_sqe *sqe =
        uring->direct && !uring->broken ? io_uring_get_sqe(&uring->ring) : NULL;
    if (!sqe)
        return;
    io_uring_prep_cancel64(sqe, 0, (int)(IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY));
    io_uring_sqe_set_data64(sqe, NO_PART);
    uring->n_left++;
}

static void cancel_stalled(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    uint64_t now = mr_clock_now_ns();
    if (!uring->direct || now - uring->checked_ns < STALL_NS)
        return;
    uring->checked_ns = now;
    for (uint32_t i = 0; i < uring->n_flights; i++) {
        const struct flight *flight = &uring->flights[i];
        if (flight->n_left > 0 && !flight->queued && now - flight->began_ns > STALL_NS) {
            cancel_all(reader);
            return;
        }
    }
}

static void advance_uring(struct mr_reader *reader, bool wait)
{
    struct uring *uring = get_uring(reader);
    reap_completions(reader);
    /*
     * Fewer than half of the reads are queued: collect more for one call, the kernel still works on
     * the rest. While parts are copied from mapped files, there may be no rest.
     */
    if (reader->ended.head && !reader->slow.head && !mr_reader_is_mapped(reader) &&
        uring->n_queued * 2 < reader->options.depth)
        return;
    do {
        cancel_stalled(reader);
        enter_ring(reader, wait && !reader->ended.head && !reader->slow.head, STALL_NS);
        reap_completions(reader);
        if (reader->slow.head)
            mr_reader_pread_now(reader, mr_reader_pop_slow(reader));
    } while (wait && !reader->ended.head);
}

static mr_status refuse_uring(mr_error *error, int os_error, const char *what)
{
    return mr_error_os(error, MR_ERR_UNSUPPORTED, os_error, "io_uring: %s", what);
}

static mr_status check_opcodes(struct uring *uring, mr_error *error)
{
    static const int needed[] = {IORING_OP_NOP, IORING_OP_OPENAT, IORING_OP_READ, IORING_OP_CLOSE,
                                 IORING_OP_ASYNC_CANCEL};
    if ((uring->ring.features & NEEDED_FEATURES) != NEEDED_FEATURES)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "io_uring: the kernel lacks features");
    struct io_uring_probe *probe = io_uring_get_probe_ring(&uring->ring);
    if (!probe)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "io_uring: the kernel does not list its operations");
    bool good = true;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        good = good && io_uring_opcode_supported(probe, needed[i]);
    io_uring_free_probe(probe);
    if (!good)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "io_uring: the kernel lacks an operation");
    return MR_OK;
}

/* Submit one no-op: a seccomp filter may allow io_uring_setup() and refuse io_uring_enter(). */
static mr_status test_ring(struct uring *uring, mr_error *error)
{
    struct io_uring_cqe *cqe;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, NO_PART);
    uring->n_left = 1;
    int ret = io_uring_submit_and_wait(&uring->ring, 1);
    if (ret < 0)
        return refuse_uring(error, -ret, "io_uring_enter");
    ret = io_uring_peek_cqe(&uring->ring, &cqe);
    if (ret < 0)
        return refuse_uring(error, -ret, "no completion");
    io_uring_cqe_seen(&uring->ring, cqe);
    uring->n_left = 0;
    return MR_OK;
}

/* Of a sample in a folder, all parts but the marks are loose files. Whole files have no marks. */
static uint32_t n_loose_at_once(const struct mr_reader *reader)
{
    return reader->options.depth * (reader->max_parts - 1);
}

/*
 * Register fixed-file slots for loose files. Three features are needed: linked requests that look
 * up their file when they run (Linux 5.18), sparse tables, and cancelling by any file (both 5.19).
 * So if a sparse table can be registered, all three exist.
 */
static mr_status set_up_files(struct mr_reader *reader, struct uring *uring, mr_error *error)
{
    if (reader->n_loose == 0)
        return MR_OK;
    if (!reader->options.plain_descriptors && uring->ring.features & IORING_FEAT_LINKED_FILE)
        uring->direct = io_uring_register_files_sparse(&uring->ring, uring->n_flights) == 0;
    if (!uring->direct && n_loose_at_once(reader) > mr_file_cache_limit())
        return refuse_uring(error, EMFILE, "descriptors for the reads in flight");
    return MR_OK;
}

/*
 * Number of destroyed rings. It orders threads whose rings use the same address, for race
 * detectors, which do not see system calls.
 */
static _Atomic uint32_t n_ended;

static mr_status create_uring(struct mr_reader *reader, mr_error *error)
{
    uint32_t n = reader->options.depth * reader->max_parts;
    uint32_t n_entries = reader->n_loose > 0 ? n_loose_at_once(reader) * N_STEPS : n;
    struct uring *uring = calloc(1, sizeof *uring);
    if (!uring)
        return mr_error_memory(error, sizeof *uring);
    reader->state = uring;
    uring->n_flights = n;
    uring->flights = calloc(n, sizeof *uring->flights);
    uring->paths = reader->n_loose > 0 ? calloc(n, sizeof *uring->paths) : NULL;
    if (!uring->flights || (reader->n_loose > 0 && !uring->paths))
        return mr_error_memory(error, n * (sizeof *uring->flights + sizeof *uring->paths));
    int ret = io_uring_queue_init(n_entries, &uring->ring, 0);
    if (ret < 0)
        return refuse_uring(error, -ret, "io_uring_setup");
    atomic_fetch_add_explicit(&n_ended, 0, memory_order_acquire);
    uring->is_open = true;
    mr_status status = check_opcodes(uring, error);
    if (status == MR_OK)
        status = test_ring(uring, error);
    if (status == MR_OK)
        status = set_up_files(reader, uring, error);
    return status;
}

/* Wait for all completions: until the last one, the kernel may write into the buffers. */
static void drain_ring(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    uring->closing = true;
    enter_ring(reader, false, 0);
    reap_completions(reader);
    while (uring->n_left > 0) {
        cancel_all(reader);
        enter_ring(reader, true, STALL_NS / 50);
        reap_completions(reader);
    }
}

static void destroy_uring(struct mr_reader *reader)
{
    struct uring *uring = get_uring(reader);
    if (!uring)
        return;
    if (uring->is_open) {
        drain_ring(reader);
        atomic_fetch_add_explicit(&n_ended, 1, memory_order_release);
        io_uring_queue_exit(&uring->ring);
    }
    free(uring->paths);
    free(uring->flights);
    free(uring);
    reader->state = NULL;
}

const struct mr_reader_ops mr_reader_uring_ops = {
    .name = "io_uring",
    .create = create_uring,
    .destroy = destroy_uring,
    .begin = begin_uring,
    .advance = advance_uring,
};
