/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process group, with the words of torch.distributed. Ranks find each other, and reduce, gather
 * and broadcast over an engine: gloo on CPUs, nccl between GPUs, mpi on clusters that have it.
 * Engines are modules that are opened when a group is made. Programs that only load data need none.
 *
 * All ranks call the same collectives of a group in the same order, with the same count and dtype.
 * One thread at a time uses a group. An error ends the group, except MR_ERR_INVALID and, with nccl,
 * MR_ERR_STATE for a stream that is being captured. Every later call then returns the error that
 * ended the group, and mr_group_error() has the text. The process should destroy the group and end.
 */
#ifndef MILLRACE_GROUP_H
#define MILLRACE_GROUP_H

#include <millrace/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_group mr_group;
/* A collective in progress. */
typedef struct mr_group_work mr_group_work;

/** How a reduction combines the elements of the ranks. */
typedef enum mr_reduction { MR_SUM = 0, MR_MEAN = 1, MR_MIN = 2, MR_MAX = 3 } mr_reduction;

/** Options of mr_group_create(). */
typedef struct mr_group_options {
    size_t struct_size;
    const char *init;    /* "env://" (default), "tcp://HOST:PORT" or "file:///PATH" */
    const char *backend; /* "gloo", "mpi", "nccl" or "auto" (default): mpi under mpirun if nothing
                            else is set, nccl with a CUDA device, otherwise gloo. Under mpirun on
                            one machine, if no rank can open the module of mpi, "auto" uses gloo
                            and logs a line. A world of one opens neither gloo nor mpi, even by
                            name, and its collectives copy; it opens nccl, and any engine with an
                            adopted communicator */
    uint32_t rank;       /* 0 to world_size - 1, with world_size; not with env:// */
    uint32_t world_size; /* 0: from the launcher's environment; a program without a launcher is a
                            world of one */
    uint32_t timeout_ms; /* for the rendezvous and for each collective; 0 means 600 000 */
    uint32_t reserved;   /* 0 */
    const char *device;  /* for nccl: "cuda:N" or "cuda:local" (N is the local rank, or the only
                            visible GPU); default: none, which nccl refuses unless nccl_comm is
                            given. "cuda:..." with gloo or mpi is MR_ERR_INVALID */
    const char *token;   /* must be the same on all ranks; default: the environment's MR_TOKEN,
                            if set */
    void *mpi_comm;      /* an MPI_Comm * to adopt; the caller must then finalise MPI */
    void *nccl_comm;     /* an ncclComm_t * to adopt; it remains the caller's */
} mr_group_options;

#define MR_GROUP_OPTIONS_INIT MR_STRUCT_INIT(mr_group_options)

/** Do as MR_GROUP_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_group_options_init(mr_group_options *options, size_t size);

/**
 * Join the group of all ranks.
 *
 * options  NULL: all defaults
 * Returns MR_OK; MR_ERR_INVALID (names the missing option or variable); MR_ERR_TIMEOUT (rank 0
 * names the missing ranks; other ranks name the addresses tried and how often);
 * MR_ERR_UNSUPPORTED if the backend's module was not found (names the remedy); MR_ERR_PEER if a
 * rank differs in backend, version or world size, or disconnected; MR_ERR_NO_DEVICE.
 * Ownership: *group_out is the caller's, to be destroyed; NULL on failure.
 * Blocks: until all ranks have joined, at most timeout_ms.
 */
MR_API mr_status mr_group_create(const mr_group_options *options, mr_group **group_out,
                                 mr_error *error);

/**
 * Leave the group. A call with NULL or in a forked child does nothing.
 *
 * This is not a barrier: collectives that already have this rank's data complete on the other
 * ranks. Works in progress on this rank end with MR_ERR_STATE (nccl gives them a second to complete
 * first); their handles stay valid. Destroy the group's metrics before the group.
 * Blocks: for a few seconds at most, also if other ranks have ended or a call of the engine does
 * not return.
 */
MR_API void mr_group_destroy(mr_group *group);

/**
 * Number of this rank, 0 to world_size - 1, and number of ranks. Here and in the next four
 * functions NULL is a world of one.
 */
MR_API uint32_t mr_group_rank(const mr_group *group);
MR_API uint32_t mr_group_world_size(const mr_group *group);
/**
 * Number of this rank among the ranks of its machine, number of ranks of its machine, and number of
 * the machine, all from 0.
 */
MR_API uint32_t mr_group_local_rank(const mr_group *group);
MR_API uint32_t mr_group_local_world_size(const mr_group *group);
MR_API uint32_t mr_group_node(const mr_group *group);
/**
 * Name of the engine: "gloo", "mpi", "nccl"; "none" in a world of one without an engine.
 * Ownership: the group's.
 */
MR_API const char *mr_group_backend(const mr_group *group);
/** The error of the last call on this group that failed. Ownership: the group's. */
MR_API const mr_error *mr_group_error(const mr_group *group);

#define MR_NO_COLOR UINT32_MAX

/**
 * Make a group of the ranks that give the same color, ordered by key, then by rank. A rank that
 * gives MR_NO_COLOR joins no group and gets NULL. Collective over the group. Ownership: the new
 * group is the caller's and may outlive the old one.
 */
MR_API mr_status mr_group_split(mr_group *group, uint32_t color, uint32_t key,
                                mr_group **group_out);

/**
 * Collectives of count elements of dtype: MR_F16, MR_BF16, MR_F32, MR_F64, MR_I32, MR_I64.
 *
 * Buffers are host memory with gloo and mpi, and memory of the group's device with nccl. For other
 * memory the call returns MR_ERR_INVALID, and the error names the memory's device. Managed memory
 * counts as host and as device memory, pinned memory as host memory. This is checked only if CUDA's
 * driver is loaded. MR_MEAN of integers is MR_ERR_INVALID. With nccl a stream that is being
 * captured into a graph is MR_ERR_STATE, and the group stays usable.
 * Returns MR_OK; MR_ERR_INVALID (the arguments; the group stays usable); MR_ERR_TIMEOUT;
 * MR_ERR_PEER (names the rank that disconnected or fell silent, if it is known); MR_ERR_DEVICE.
 * Blocks: until this rank's part is done, at most the group's timeout.
 *
 * Sums and means of 16-bit floats: gloo and mpi add in f32 and round once. The error of a result of
 * n ranks is at most half a unit in its last place, plus f32's rounding: at most n * 2^-24 of the
 * sum (for a mean: the mean) of the magnitudes. If a mean is finite, its sum does not overflow.
 * nccl adds as NCCL does, in the type itself: it rounds to 16 bits after each of up to n - 1
 * additions, and may divide before them. All ranks that get a result get the same bits; another
 * world size, engine or buffer size may give other bits.
 */
MR_API mr_status mr_group_barrier(mr_group *group);
MR_API mr_status mr_group_all_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                     mr_reduction op);
MR_API mr_status mr_group_broadcast(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                    uint32_t root);
MR_API mr_status mr_group_send(mr_group *group, const void *buffer, uint64_t count, mr_dtype dtype,
                               uint32_t to);
MR_API mr_status mr_group_recv(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                               uint32_t from);
/**
 * Reduce to one rank. Only root gets the result; the buffers of the other ranks are undefined.
 *
 * Returns as mr_group_all_reduce(). Blocks: until this rank's part is done.
 */
MR_API mr_status mr_group_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                 mr_reduction op, uint32_t root);
/**
 * Gather to all: out receives count elements of each rank, in rank order. in may be this rank's
 * place in out.
 *
 * Returns as mr_group_all_reduce(). Blocks: until this rank's part is done.
 */
MR_API mr_status mr_group_all_gather(mr_group *group, const void *in, void *out, uint64_t count,
                                     mr_dtype dtype);
/**
 * Reduce, then scatter: in has count elements for each rank, in rank order. out may be this rank's
 * place in in.
 *
 * Returns as mr_group_all_reduce(). Blocks: until this rank's part is done.
 */
MR_API mr_status mr_group_reduce_scatter(mr_group *group, const void *in, void *out, uint64_t count,
                                         mr_dtype dtype, mr_reduction op);

/**
 * Start a collective without waiting for its end. Do not use its buffers until it has ended.
 *
 * stream  with nccl: the collective waits for all work that is in this stream now (NULL: the
 *         default stream)
 * Returns MR_OK; MR_ERR_INVALID; the error that ended the group. With gloo and mpi the collective
 * begins later, and its work reports any failure. With nccl this call gives it to the device and
 * returns what NCCL or the device reports (MR_ERR_DEVICE, MR_ERR_PEER, MR_ERR_TIMEOUT,
 * MR_ERR_NO_MEMORY: the group has ended; MR_ERR_STATE: the stream is being captured), and with
 * MR_COMM_CHECK=1 how ranks differ; the work reports later failures.
 * Ownership: *work_out is the caller's, who must call mr_group_work_destroy(), also after a failure
 * of the work. It is NULL if this call fails. Blocks: with gloo and mpi never. With nccl it waits
 * while NCCL is connecting the ranks or the device's queue is full, at most the group's timeout and
 * some seconds. With MR_COMM_CHECK=1 it waits until the other ranks have called it.
 */
MR_API mr_status mr_group_barrier_async(mr_group *group, void *stream, mr_group_work **work_out);
MR_API mr_status mr_group_all_reduce_async(mr_group *group, void *buffer, uint64_t count,
                                           mr_dtype dtype, mr_reduction op, void *stream,
                                           mr_group_work **work_out);
MR_API mr_status mr_group_reduce_async(mr_group *group, void *buffer, uint64_t count,
                                       mr_dtype dtype, mr_reduction op, uint32_t root, void *stream,
                                       mr_group_work **work_out);
MR_API mr_status mr_group_broadcast_async(mr_group *group, void *buffer, uint64_t count,
                                          mr_dtype dtype, uint32_t root, void *stream,
                                          mr_group_work **work_out);
MR_API mr_status mr_group_all_gather_async(mr_group *group, const void *in, void *out,
                                           uint64_t count, mr_dtype dtype, void *stream,
                                           mr_group_work **work_out);
MR_API mr_status mr_group_reduce_scatter_async(mr_group *group, const void *in, void *out,
                                               uint64_t count, mr_dtype dtype, mr_reduction op,
                                               void *stream, mr_group_work **work_out);
MR_API mr_status mr_group_send_async(mr_group *group, const void *buffer, uint64_t count,
                                     mr_dtype dtype, uint32_t to, void *stream,
                                     mr_group_work **work_out);
MR_API mr_status mr_group_recv_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                     uint32_t from, void *stream, mr_group_work **work_out);

/**
 * Make a stream wait for the work. With nccl the host does not wait: mr_group_work_sync(),
 * mr_group_work_test() or the next collective reports a failure. MR_ERR_INVALID (a stream of
 * another device) and MR_ERR_STATE (a stream that is being captured) change nothing. With gloo and
 * mpi this waits as mr_group_work_sync() with MR_FOREVER.
 *
 * All four functions of a work may be called after mr_group_destroy() and after an error of the
 * group. In a forked child they return MR_ERR_STATE, and mr_group_work_destroy() does nothing.
 */
MR_API mr_status mr_group_work_wait(mr_group_work *work, void *stream);
/**
 * Wait for the work in this thread. Returns MR_OK; MR_PENDING if the time ran out (the work
 * continues); or the error of the work.
 */
MR_API mr_status mr_group_work_sync(mr_group_work *work, uint32_t timeout_ms);
/**
 * Test the work. Returns MR_OK if it has succeeded, MR_PENDING if it is in progress, or the error
 * of the work. Blocks: never.
 */
MR_API mr_status mr_group_work_test(mr_group_work *work);
/**
 * Free the work's handle. NULL does nothing. Blocks: with gloo and mpi until the work has ended;
 * with nccl never, but do not use the buffers before the host, or a stream that waits for the work,
 * has passed it.
 */
MR_API void mr_group_work_destroy(mr_group_work *work);

#ifdef __cplusplus
}
#endif

#endif
