/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the double of NCCL. Each communicator has a thread that sends what its operations have
 * read, and opens the gates of those whose results have arrived. Rank 0's process also has the hub,
 * one more thread, which matches the ranks' parts.
 *
 * Locks: the double of CUDA's comes before a communicator's, which comes before the options';
 * kernels run under the first.
 */
#ifndef TESTS_DOUBLE_DOUBLE_NCCL_H
#define TESTS_DOUBLE_DOUBLE_NCCL_H

#include "tests/double/double_machine.h"
#include "tests/double/double_nccl_names.h"
#include "tests/double/nccl_double.h"

#include <stdatomic.h>

/* NCCL's header leaves out the parameters of some of them. */
#define DOUBLE_NCCL_DECLARE(type, name, parameters) type name parameters;
DOUBLE_NCCL_FUNCTIONS(DOUBLE_NCCL_DECLARE)

enum { DOUBLE_NCCL_RANKS = 64, DOUBLE_NCCL_TEXT = 160 };

enum double_nccl_kind {
    DOUBLE_NCCL_ALL_REDUCE,
    DOUBLE_NCCL_REDUCE,
    DOUBLE_NCCL_BROADCAST,
    DOUBLE_NCCL_ALL_GATHER,
    DOUBLE_NCCL_REDUCE_SCATTER,
    DOUBLE_NCCL_SEND,
    DOUBLE_NCCL_RECV
};

const char *double_nccl_kind_name(uint32_t kind); /* "all_reduce" */
size_t double_nccl_type_size(uint32_t type);      /* 0: not a type of the double's */

/* ---- double_nccl_options.c ---- */

struct double_nccl_options double_nccl_options(void);
/* Count this call; returns the error that it must return. */
ncclResult_t double_nccl_call_error(const char *function, int rank);
void double_nccl_count_failed(void);
uint64_t double_nccl_now_ns(void);
/* A number below `below`, from the caller's state; 0 gives 0. */
uint64_t double_nccl_random(uint64_t *state, uint64_t below);

/* ---- double_nccl_wire.c ---- */

enum double_nccl_type {
    DOUBLE_NCCL_HELLO,   /* rank; device, count: number of ranks */
    DOUBLE_NCCL_WELCOME, /* all ranks are connected */
    DOUBLE_NCCL_REFUSED, /* with a text; then the connection ends */
    DOUBLE_NCCL_PART,    /* an operation, with the bytes that it has read */
    DOUBLE_NCCL_RESULT,  /* of operation seq, with the bytes to write */
    DOUBLE_NCCL_DEAD,    /* rank disconnected */
    DOUBLE_NCCL_GOODBYE, /* this rank needs nothing more */
    DOUBLE_NCCL_ALL_LEFT /* all ranks have said goodbye */
};

struct double_nccl_frame {
    uint32_t type;
    uint32_t rank;
    uint32_t kind;
    uint32_t dtype;
    uint32_t op;
    uint32_t root; /* or the other rank */
    uint64_t seq;
    uint64_t count;
    uint64_t n_bytes; /* that follow the frame */
    int32_t device;
    int32_t zero;
};

/* Listen, or try to connect, at the address of this id; -1 with errno. */
int double_nccl_listen(const ncclUniqueId *id);
int double_nccl_connect(const ncclUniqueId *id);
/* Write or read all of a frame. False: the connection has ended, or stop_fd has become readable. */
bool double_nccl_write(int fd, int stop_fd, const struct double_nccl_frame *frame,
                       const void *bytes);
/* *bytes_out is the caller's to free; NULL if there are none. */
bool double_nccl_read(int fd, int stop_fd, struct double_nccl_frame *frame_out,
                      uint8_t **bytes_out);
void double_nccl_poke(int event_fd);

/* ---- double_nccl_reduce.c ---- */

/*
 * out = the n elements at parts[0..n_parts) reduced, in that order. False: this type and operation
 * are not supported.
 */
bool double_nccl_reduce(uint32_t type, uint32_t op, const uint8_t *const *parts, uint32_t n_parts,
                        uint64_t n, void *out);

/* ---- double_nccl_hub.c ---- */

struct double_nccl_hub;
/* NULL if the address is in use or no thread can be created. */
struct double_nccl_hub *double_nccl_hub_start(const ncclUniqueId *id, uint32_t n_ranks);
/*
 * at_once: every rank sees the connection end. Otherwise the hub serves the remaining ranks, and
 * ends with the last of them.
 */
void double_nccl_hub_leave(struct double_nccl_hub *hub, bool at_once);

/* ---- double_nccl_comm.c, double_nccl_peer.c, double_nccl_issue.c ---- */

struct double_nccl_comm;

/*
 * Referenced by the communicator until its end has been seen, by its two kernels, and by the call
 * in progress.
 */
struct double_nccl_op {
    _Atomic uint32_t refs;
    struct double_nccl_op *next; /* of those under way */
    struct double_nccl_op *post; /* of those to be sent */
    struct double_nccl_comm *comm;
    uint32_t kind, dtype, op, root;
    uint64_t seq, count;
    const void *in;
    void *out;
    size_t n_in, n_out;
    cudaStream_t stream;
    /* Its stream. Under the double of CUDA's lock; NULL when it has ended. */
    struct double_stream *end;
    uint8_t *sent;
    uint8_t *result;
    bool open;  /* the gate; under the double of CUDA's lock */
    bool valid; /* result can be written */
    bool ended; /* under the communicator's lock */
    bool hangs;
    uint64_t issued_ns;
    uint64_t due_ns; /* with a result: when the gate opens */
    uint8_t *arrived;
};

enum double_nccl_state {
    DOUBLE_NCCL_STARTING,
    DOUBLE_NCCL_READY,
    DOUBLE_NCCL_FINALIZING,
    DOUBLE_NCCL_FINALIZED
};

struct double_nccl_comm {
    _Atomic uint32_t refs; /* for the handle, each call, each operation */
    ncclUniqueId id;
    uint32_t rank, n_ranks;
    int device;
    bool blocking;
    struct double_nccl_options options;
    uint64_t random;
    atomic_bool inside; /* a thread is in a call */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    enum double_nccl_state state;
    ncclResult_t error;
    char text[DOUBLE_NCCL_TEXT];
    struct double_nccl_op *ops; /* in the order of issue */
    struct double_nccl_op *posts;
    struct double_nccl_op *pending; /* the call in progress */
    /* End of the progress, also of the start and the finalisation. */
    uint64_t progress_ns;
    uint64_t n_ops;
    uint32_t n_of_kind[DOUBLE_NCCL_RECV + 1];
    uint32_t lost; /* 1 + a rank that disconnected */
    bool stopped;  /* no more operations come */
    bool all_left;

    pthread_t thread;
    int wake_fd; /* there is something to do */
    int stop_fd; /* the thread must end */
    struct double_nccl_hub *hub;
};

void double_nccl_comm_unref(struct double_nccl_comm *comm);
void double_nccl_comm_ref(struct double_nccl_comm *comm);
/* Fail the communicator; its first error stays. Takes the lock. */
void double_nccl_comm_fail(struct double_nccl_comm *comm, ncclResult_t error, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));
void double_nccl_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Begin a call on a communicator, except the two that are allowed at any time: checks its state.
 * *comm_out is NULL on failure.
 */
ncclResult_t double_nccl_enter(ncclComm_t handle, const char *function,
                               struct double_nccl_comm **comm_out);
void double_nccl_exit(struct double_nccl_comm *comm);

bool double_nccl_peer_start(struct double_nccl_comm *comm);
/* End the thread; remaining operations end without a result. */
void double_nccl_peer_stop(struct double_nccl_comm *comm);

/*
 * Issue an operation into its stream: in the calling thread, or in the communicator's if the call
 * is in progress.
 */
ncclResult_t double_nccl_issue(struct double_nccl_op *op);
void double_nccl_op_unref(struct double_nccl_op *op);
/* Open the gate of an operation; valid: with its result. */
void double_nccl_op_open(struct double_nccl_op *op, bool valid);

#endif
