/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process group: torch.distributed's vocabulary. Ranks find each other, and reduce, gather and broadcast over an
 * engine: gloo on CPUs, nccl between GPUs, mpi where a cluster has it. Engines are modules that are opened when a group
 * is made; who only loads data needs none of them.
 *
 * All ranks call the same collectives of a group in the same order, with the same count and dtype. A group is used by
 * one thread at a time. After an error other than MR_ERR_INVALID (and, with nccl, of MR_ERR_STATE for a stream that is
 * being captured) the group is at its end: every further call returns that error, mr_group_error() has the words, and
 * the process should destroy it and end.
 */
#ifndef MILLRACE_GROUP_H
#define MILLRACE_GROUP_H

#include <millrace/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_group mr_group;
/* A collective under way. */
typedef struct mr_work mr_work;

typedef enum mr_reduction { MR_SUM = 0, MR_MEAN = 1, MR_MIN = 2, MR_MAX = 3 } mr_reduction;

typedef struct mr_group_options {
    size_t struct_size;
    const char *init;    /* "env://" (default), "tcp://HOST:PORT" or "file:///PATH" */
    const char *backend; /* "auto" (default: mpi under mpirun where nothing else is said, nccl with a CUDA device, else
                            gloo), "gloo", "mpi", "nccl". In a world of one neither gloo nor mpi is opened, also where
                            it is asked for by name: collectives copy; nccl, and what is adopted, always is */
    uint32_t rank;       /* with world_size; not with env:// */
    uint32_t world_size; /* 0: from the launcher's environment; a program without a launcher is a world of one */
    uint32_t timeout_ms; /* of the rendezvous and of each collective; 0 means 600 000 */
    const char *device;  /* of nccl: "cuda:N" or "cuda:local" (N is the local rank, or the only GPU that is visible);
                            default: none, which nccl refuses unless nccl_comm is given. With a host's backend "cuda:..."
                            is MR_ERR_INVALID */
    const char *token;   /* must be the same on all ranks; default: the environment's MR_TOKEN, if any */
    void *mpi_comm;      /* an MPI_Comm * to adopt: MPI is then the caller's to finalise */
    void *nccl_comm;     /* an ncclComm_t * to adopt: it stays the caller's */
} mr_group_options;

#define MR_GROUP_OPTIONS_INIT MR_STRUCT_INIT(mr_group_options)

/**
 * Join the group.
 *
 * options  NULL means all defaults.
 * Returns MR_OK; MR_ERR_INVALID with the option or the variable that is missing; MR_ERR_TIMEOUT with the ranks that did
 * not come (rank 0), or whom this rank tried and how often; MR_ERR_UNSUPPORTED when the backend's module is not there;
 * MR_ERR_PEER when a rank differs in backend, version or world size, or broke off; MR_ERR_NO_DEVICE.
 * Ownership: *group_out is the caller's, to be destroyed; NULL on failure.
 * Blocks: until all ranks are there, at most timeout_ms.
 */
MR_API mr_status mr_group_create(const mr_group_options *options, mr_group **group_out, mr_error *error);

/**
 * Leave the group. NULL does nothing. Not a barrier: collectives of the other ranks that have all they need still end.
 * What is under way here ends with MR_ERR_STATE, with nccl after a second in which it may end by itself. Works live
 * on, and metrics must have been destroyed before.
 *
 * Blocks: for a few seconds at most, also when other ranks are gone or the engine does not come back. In a forked child
 * it does nothing.
 */
MR_API void mr_group_destroy(mr_group *group);

/** 0 to world_size - 1, and how many ranks there are. NULL is a world of one. */
MR_API uint32_t mr_group_rank(const mr_group *group);
MR_API uint32_t mr_group_world_size(const mr_group *group);
/** The same among the ranks of this machine, and the number of the machine, counted from 0. */
MR_API uint32_t mr_group_local_rank(const mr_group *group);
MR_API uint32_t mr_group_local_world_size(const mr_group *group);
MR_API uint32_t mr_group_node(const mr_group *group);
/** "gloo", "mpi", "nccl"; "none" in a world of one without an engine. Ownership: the group's. */
MR_API const char *mr_group_backend(const mr_group *group);
/** The error of the last call on this group that failed; of NULL an empty one. Ownership: the group's. */
MR_API const mr_error *mr_group_error(const mr_group *group);

#define MR_NO_COLOR UINT32_MAX

/**
 * A group of the ranks that give the same color, ordered by key, then by rank. MR_NO_COLOR: this rank is in none, and
 * *group_out is NULL. Collective over the group. Ownership: the new group is the caller's and lives by itself.
 */
MR_API mr_status mr_group_split(mr_group *group, uint32_t color, uint32_t key, mr_group **group_out);

/**
 * Collectives. count elements of dtype: MR_F16, MR_BF16, MR_F32, MR_F64, MR_I32, MR_I64. Memory is the host's with gloo
 * and mpi, and the group's device's with nccl; any other is MR_ERR_INVALID with its device (seen where CUDA's driver is
 * loaded; managed memory is both, pinned memory the host's). MR_MEAN of integers is MR_ERR_INVALID. With nccl a stream
 * that is being captured into a graph is MR_ERR_STATE, and the group goes on.
 *
 * Sums and means of 16-bit floats: gloo and mpi add in f32 and round once, so that a result of n ranks is within half
 * a unit in its last place, plus f32's own rounding, at most n * 2^-24 of the sum (of a mean: the mean) of the
 * magnitudes; a mean that fits does not overflow on the way. nccl adds as NCCL does, in the type itself: it rounds to
 * 16 bits after each of up to n - 1 additions, and may divide before them. The ranks that get a result get the same
 * bits; another world size, engine or size of the buffer may give others.
 *
 * Return MR_OK; MR_ERR_INVALID (the arguments; the group goes on); MR_ERR_TIMEOUT, MR_ERR_PEER with the rank that broke
 * or fell silent where it is known; MR_ERR_DEVICE. Block: until this rank's part is done, at most the group's timeout.
 */
MR_API mr_status mr_barrier(mr_group *group);
MR_API mr_status mr_all_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, mr_reduction op);
/** The result is root's alone; the others' buffers are undefined. */
MR_API mr_status mr_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, mr_reduction op,
                           uint32_t root);
MR_API mr_status mr_broadcast(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, uint32_t root);
/** out: count elements of each rank, in their order. in may be this rank's place in out. */
MR_API mr_status mr_all_gather(mr_group *group, const void *in, void *out, uint64_t count, mr_dtype dtype);
/** in: count elements for each rank, in their order. out may be this rank's place in in. */
MR_API mr_status mr_reduce_scatter(mr_group *group, const void *in, void *out, uint64_t count, mr_dtype dtype,
                                   mr_reduction op);
MR_API mr_status mr_send(mr_group *group, const void *buffer, uint64_t count, mr_dtype dtype, uint32_t to);
MR_API mr_status mr_recv(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, uint32_t from);

/**
 * The same, under way when they return. Buffers are the collective's until it has ended.
 *
 * stream  with nccl: the collective comes after what this stream was given so far (NULL: the default stream).
 * Returns MR_OK; MR_ERR_INVALID; the error of a group at its end. With gloo and mpi a collective begins later, and what
 * fails is told by its work. With nccl it is given to the device by this call, which returns what NCCL or the device
 * say of that (MR_ERR_DEVICE, MR_ERR_PEER, MR_ERR_TIMEOUT, MR_ERR_NO_MEMORY: the group is at its end; MR_ERR_STATE: the
 * stream is being captured), and with MR_COMM_CHECK=1 how the ranks differ; the work tells what fails afterwards.
 * Ownership: *work_out is the caller's, to be ended by mr_work_free(), also after a failure of the work; NULL after one
 * of the call.
 * Blocks: no. With nccl for as long as NCCL still connects the ranks or the device's queue is full, at most the group's
 * timeout and some seconds; with MR_COMM_CHECK=1 for the other ranks.
 */
MR_API mr_status mr_barrier_async(mr_group *group, void *stream, mr_work **work_out);
MR_API mr_status mr_all_reduce_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, mr_reduction op,
                                     void *stream, mr_work **work_out);
MR_API mr_status mr_reduce_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, mr_reduction op,
                                 uint32_t root, void *stream, mr_work **work_out);
MR_API mr_status mr_broadcast_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, uint32_t root,
                                    void *stream, mr_work **work_out);
MR_API mr_status mr_all_gather_async(mr_group *group, const void *in, void *out, uint64_t count, mr_dtype dtype,
                                     void *stream, mr_work **work_out);
MR_API mr_status mr_reduce_scatter_async(mr_group *group, const void *in, void *out, uint64_t count, mr_dtype dtype,
                                         mr_reduction op, void *stream, mr_work **work_out);
MR_API mr_status mr_send_async(mr_group *group, const void *buffer, uint64_t count, mr_dtype dtype, uint32_t to,
                               void *stream, mr_work **work_out);
MR_API mr_status mr_recv_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype, uint32_t from,
                               void *stream, mr_work **work_out);

/**
 * Make a stream wait for the work: with nccl the host does not wait, and a failure is told by mr_work_sync(),
 * mr_work_test() or the next collective; MR_ERR_INVALID (a stream of another device) and MR_ERR_STATE (one that is
 * being captured) change nothing. With host engines the same as mr_work_sync() without a limit of its own.
 *
 * All four may come after mr_group_destroy(), and after an error of the group. In a forked child they return
 * MR_ERR_STATE, and mr_work_free() does nothing.
 */
MR_API mr_status mr_work_wait(mr_work *work, void *stream);
/** Wait in this thread. Returns MR_OK, MR_PENDING if the time ran out (the work goes on), or its error. */
MR_API mr_status mr_work_sync(mr_work *work, uint32_t timeout_ms);
/** MR_OK when it has ended well, MR_PENDING, or its error. Never blocks. */
MR_API mr_status mr_work_test(mr_work *work);
/**
 * Give the handle back. NULL does nothing. Blocks: with host engines until the work has ended; with nccl never, and the
 * buffers are the collective's until a stream that waited for it, or the host, has passed it.
 */
MR_API void mr_work_free(mr_work *work);

#ifdef __cplusplus
}
#endif

#endif
