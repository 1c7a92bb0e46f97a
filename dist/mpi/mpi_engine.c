/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over MPI. Each group has a separate communicator. Each collective is one nonblocking
 * call, or several if the count does not fit into an int.
 *
 * Invariant: after a failure MPI may still use the buffers of a call. Memory allocated for a call
 * is freed only if the call succeeded.
 */
#include "dist/mpi/mpi_call.h"
#include "dist/mpi/mpi_process.h"
#include "dist/mpi/mpi_ranks.h"
#include "dist/mpi/mpi_short.h"

#include "base/clock.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Elements of one call; tests build the module with a small number. */
#ifndef MR_MPI_PART
#define MR_MPI_PART INT_MAX
#endif

#define HALF_PART (1u << 18) /* 16-bit elements that are widened to f32 at a time */
#define LEAVE_NS 3000000000u /* for MPI_Comm_free */

/* The address `elements` elements after p. */
static void *element_at(const void *p, uint64_t elements, const struct mr_collective *collective)
{
    return p ? (char *)(uintptr_t)p + elements * mr_mpi_reduce_size(collective->dtype) : NULL;
}

static struct mr_mpi_part first_part(const struct mr_mpi_engine *engine,
                                     const struct mr_collective *collective)
{
    return (struct mr_mpi_part){
        .collective = collective,
        .root = collective->root,
        .type = mr_mpi_reduce_type(collective->dtype),
        .block = MPI_DATATYPE_NULL,
        .op = mr_mpi_reduce_op(&engine->ops, collective->dtype, collective->op)};
}

/* Set in, out and count of the part that begins at element `first`. */
static void place_part(struct mr_mpi_part *part, uint64_t first)
{
    const struct mr_collective *collective = part->collective;
    uint64_t left = collective->count - first;
    part->in = element_at(collective->in, first, collective);
    part->out = element_at(collective->out, first, collective);
    part->count = left < MR_MPI_PART ? (int)left : MR_MPI_PART;
}

static int32_t do_parts(const struct mr_mpi_engine *engine, const struct mr_collective *collective,
                        const struct mr_mpi_limits *limits, mr_error *error)
{
    struct mr_mpi_part part = first_part(engine, collective);
    int32_t status = MR_OK;
    for (uint64_t first = 0; first < collective->count && status == MR_OK;
         first += (uint64_t)part.count) {
        place_part(&part, first);
        status = mr_mpi_call_do(engine, &part, limits, error);
    }
    return status;
}

/*
 * Make the MPI type of one rank's elements: part->count of them; the next rank's begin
 * collective->count elements further on.
 */
static int make_block(struct mr_mpi_part *part)
{
    MPI_Datatype row = MPI_DATATYPE_NULL;
    MPI_Aint extent =
        (MPI_Aint)(part->collective->count * mr_mpi_reduce_size(part->collective->dtype));
    int code = MPI_Type_contiguous(part->count, part->type, &row);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Type_create_resized(row, 0, extent, &part->block);
    MPI_Type_free(&row);
    return code == MPI_SUCCESS ? MPI_Type_commit(&part->block) : code;
}

static int32_t gather_part(const struct mr_mpi_engine *engine, struct mr_mpi_part *part,
                           const struct mr_mpi_limits *limits, mr_error *error)
{
    if (!mr_mpi_process_lock(limits->deadline_ns))
        return mr_mpi_call_give_up(engine, part, limits, error);
    int code = make_block(part);
    mr_mpi_process_unlock();
    if (code != MPI_SUCCESS)
        return mr_mpi_call_fail(engine, part->collective, code, error);
    int32_t status = mr_mpi_call_do(engine, part, limits, error);
    if (status != MR_OK)
        return status;
    if (!mr_mpi_process_lock(limits->deadline_ns))
        return mr_mpi_call_give_up(engine, part, limits, error);
    MPI_Type_free(&part->block); /* cannot fail: we made the type */
    mr_mpi_process_unlock();
    return MR_OK;
}

static int32_t do_all_gather(const struct mr_mpi_engine *engine,
                             const struct mr_collective *collective,
                             const struct mr_mpi_limits *limits, mr_error *error)
{
    if (collective->count <= MR_MPI_PART / engine->n_ranks)
        return do_parts(engine, collective, limits, error);
    struct mr_mpi_part part = first_part(engine, collective);
    int32_t status = MR_OK;
    for (uint64_t first = 0; first < collective->count && status == MR_OK;
         first += (uint64_t)part.count) {
        place_part(&part, first);
        status = gather_part(engine, &part, limits, error);
    }
    return status;
}

/* One reduction for each rank and part. */
static int32_t scatter_parts(const struct mr_mpi_engine *engine,
                             const struct mr_collective *collective,
                             const struct mr_mpi_limits *limits, mr_error *error)
{
    struct mr_mpi_part part = first_part(engine, collective);
    int32_t status = MR_OK;
    part.is_for_root = true;
    for (part.root = 0; part.root < engine->n_ranks; part.root++)
        for (uint64_t first = 0; first < collective->count && status == MR_OK;
             first += (uint64_t)part.count) {
            place_part(&part, first);
            part.in = element_at(part.in, part.root * collective->count, collective);
            status = mr_mpi_call_do(engine, &part, limits, error);
        }
    return status;
}

static int32_t do_reduce_scatter(const struct mr_mpi_engine *engine,
                                 const struct mr_collective *collective,
                                 const struct mr_mpi_limits *limits, mr_error *error)
{
    struct mr_collective apart = *collective;
    size_t len = (size_t)collective->count * mr_mpi_reduce_size(collective->dtype);
    uintptr_t in = (uintptr_t)collective->in;
    uintptr_t out = (uintptr_t)collective->out;
    /* MPI does not allow out and in to overlap */
    if (out + len > in && out < in + len * engine->n_ranks) {
        apart.out = malloc(len);
        if (!apart.out)
            return engine->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", len);
    }
    int32_t status = collective->count <= MR_MPI_PART / engine->n_ranks
                         ? do_parts(engine, &apart, limits, error)
                         : scatter_parts(engine, &apart, limits, error);
    if (apart.out != collective->out && status == MR_OK) {
        memcpy(collective->out, apart.out, len);
        free(apart.out);
    } /* after a failure MPI may still write to it */
    return status;
}

static int32_t do_barrier(const struct mr_mpi_engine *engine,
                          const struct mr_collective *collective,
                          const struct mr_mpi_limits *limits, mr_error *error)
{
    struct mr_mpi_part part = {.collective = collective};
    return mr_mpi_call_do(engine, &part, limits, error);
}

/* A broadcast may have two buffers here, in MPI it has one. */
static int32_t do_broadcast(const struct mr_mpi_engine *engine,
                            const struct mr_collective *collective,
                            const struct mr_mpi_limits *limits, mr_error *error)
{
    size_t len = (size_t)collective->count * mr_mpi_reduce_size(collective->dtype);
    struct mr_collective one = *collective;
    if (!one.out)
        one.out = element_at(collective->in, 0, collective);
    else if (engine->rank == collective->root && one.in && one.in != one.out)
        memmove(one.out, one.in, len);
    return do_parts(engine, &one, limits, error);
}

static int32_t do_collective(const struct mr_mpi_engine *engine,
                             const struct mr_collective *collective,
                             const struct mr_mpi_limits *limits, mr_error *error)
{
    if (mr_mpi_short_fits(engine, collective))
        return mr_mpi_short_all_reduce(engine, collective, limits, error);
    switch (collective->kind) {
    case MR_COLLECTIVE_BARRIER: return do_barrier(engine, collective, limits, error);
    case MR_COLLECTIVE_BROADCAST: return do_broadcast(engine, collective, limits, error);
    case MR_COLLECTIVE_ALL_GATHER: return do_all_gather(engine, collective, limits, error);
    case MR_COLLECTIVE_REDUCE_SCATTER: return do_reduce_scatter(engine, collective, limits, error);
    default: return do_parts(engine, collective, limits, error);
    }
}

/* Does this rank get the result of a reduction? */
static bool has_result(const struct mr_mpi_engine *engine, const struct mr_collective *collective)
{
    return collective->kind == MR_COLLECTIVE_ALL_REDUCE ||
           collective->kind == MR_COLLECTIVE_REDUCE_SCATTER ||
           (collective->kind == MR_COLLECTIVE_REDUCE && collective->root == engine->rank);
}

/*
 * Sum the elements from `first` on in f32. memory holds the input of all parts, then the output if
 * there are several parts.
 */
static int32_t sum_part(const struct mr_mpi_engine *engine, const struct mr_collective *collective,
                        uint64_t first, float *memory, const struct mr_mpi_limits *limits,
                        mr_error *error)
{
    uint32_t n_parts = collective->kind == MR_COLLECTIVE_REDUCE_SCATTER ? engine->n_ranks : 1;
    struct mr_collective wide = *collective;
    wide.count = collective->count - first < HALF_PART ? collective->count - first : HALF_PART;
    wide.in = memory;
    wide.out = n_parts > 1 ? memory + n_parts * wide.count : memory;
    wide.dtype = MR_F32;
    for (uint32_t part = 0; part < n_parts; part++)
        mr_mpi_reduce_widen(
            collective->dtype,
            element_at(collective->in, part * collective->count + first, collective),
            memory + part * wide.count, wide.count);
    int32_t status = do_collective(engine, &wide, limits, error);
    if (status == MR_OK && has_result(engine, collective))
        mr_mpi_reduce_narrow(collective->dtype, wide.out,
                             collective->op == MR_MEAN ? engine->n_ranks : 1,
                             element_at(collective->out, first, collective), wide.count);
    return status;
}

/* Sum 16-bit floats in f32, so that a mean that fits into 16 bits does not overflow on the way. */
static int32_t sum_halves(const struct mr_mpi_engine *engine,
                          const struct mr_collective *collective,
                          const struct mr_mpi_limits *limits, mr_error *error)
{
    uint64_t most = collective->count < HALF_PART ? collective->count : HALF_PART;
    uint64_t n_parts = collective->kind == MR_COLLECTIVE_REDUCE_SCATTER ? engine->n_ranks + 1u : 1;
    size_t size = (size_t)(most * n_parts) * sizeof(float);
    float *memory = malloc(size);
    int32_t status = MR_OK;
    if (!memory)
        return engine->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", size);
    for (uint64_t first = 0; first < collective->count && status == MR_OK; first += HALF_PART)
        status = sum_part(engine, collective, first, memory, limits, error);
    if (status == MR_OK) /* after a failure MPI may still write to it */
        free(memory);
    return status;
}

static int32_t reduce_or_move(const struct mr_mpi_engine *engine,
                              const struct mr_collective *collective,
                              const struct mr_mpi_limits *limits, mr_error *error)
{
    bool is_reduction = has_result(engine, collective) || collective->kind == MR_COLLECTIVE_REDUCE;
    bool is_mean = is_reduction && collective->op == MR_MEAN;
    if (is_reduction && mr_mpi_reduce_size(collective->dtype) == 2 &&
        (is_mean || collective->op == MR_SUM) && collective->count > 0)
        return sum_halves(engine, collective, limits, error);
    int32_t status = do_collective(engine, collective, limits, error);
    if (status == MR_OK && is_mean && has_result(engine, collective))
        mr_mpi_reduce_divide(collective->out, collective->count, collective->dtype,
                             engine->n_ranks);
    return status;
}

static int32_t run_collective(void *user, const struct mr_collective *collective,
                              uint64_t deadline_ns, const volatile uint32_t *stop, mr_error *error)
{
    struct mr_mpi_engine *engine = user;
    struct mr_mpi_limits limits = {
        .start_ns = mr_clock_now_ns(), .deadline_ns = deadline_ns, .stop = stop};
    if (collective->kind > MR_COLLECTIVE_RECV)
        return engine->fail(error, MR_ERR_INVALID, "collective %u does not exist",
                            collective->kind);
    if (engine->is_dead || !mr_mpi_process_is_usable())
        return engine->fail(error, MR_ERR_STATE, "MPI was given up or finalised in this process");
    if (__atomic_load_n(stop, __ATOMIC_ACQUIRE))
        return engine->fail(error, MR_ERR_CANCELED, "%s was stopped",
                            mr_mpi_call_name(collective->kind));
    int32_t status = reduce_or_move(engine, collective, &limits, error);
    engine->is_dead |= status != MR_OK;
    return status;
}

static int call_create_group(struct mr_mpi_job *job)
{
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    int code = MPI_Comm_group(job->comm, &all);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Group_incl(all, job->n_numbers, job->numbers, &members);
    MPI_Group_free(&all);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Comm_create_group(job->comm, members, MR_MPI_TAG, &job->made);
    MPI_Group_free(&members);
    return code == MPI_SUCCESS ? MPI_Comm_set_errhandler(job->made, MPI_ERRORS_RETURN) : code;
}

static int call_free(struct mr_mpi_job *job)
{
    return MPI_Comm_free(&job->comm);
}

/*
 * Make the members' communicator, in the group's order: all of parent, or the ranks of one color.
 */
static int32_t make_comm(struct mr_mpi_engine *engine, MPI_Comm parent, bool is_whole,
                         const struct mr_engine_setup *setup, mr_error *error)
{
    struct mr_mpi_job *job = mr_mpi_process_job("MPI_Comm_create_group", call_create_group, parent,
                                                (int)setup->world_size);
    if (!job)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", sizeof *job);
    int32_t status = mr_mpi_ranks_agree(setup, parent, is_whole, job->numbers, error);
    if (status == MR_OK) {
        status = mr_mpi_process_do(job, setup->deadline_ns, setup->fail, error);
        if (status == MR_ERR_TIMEOUT)
            return status;
    }
    if (status == MR_OK)
        engine->comm = job->made;
    mr_mpi_process_free(job);
    return status;
}

static int32_t make_engine(MPI_Comm parent, bool is_whole, const struct mr_engine_setup *setup,
                           void **engine_out, mr_error *error)
{
    struct mr_mpi_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", sizeof *engine);
    *engine = (struct mr_mpi_engine){.comm = MPI_COMM_NULL,
                                     .rank = setup->rank,
                                     .n_ranks = setup->world_size,
                                     .fail = setup->fail};
    size_t gathered = mr_mpi_short_bytes(setup->world_size);
    engine->gathered = gathered > 0 ? malloc(gathered) : NULL;
    /* all ranks take part in the gather, so a rank without this memory must fail */
    if (gathered > 0 && !engine->gathered) {
        free(engine);
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", gathered);
    }
    int32_t status = make_comm(engine, parent, is_whole, setup, error);
    if (status == MR_OK && !mr_mpi_process_lock(setup->deadline_ns))
        status = setup->fail(error, MR_ERR_TIMEOUT,
                             "another thread's MPI call did not end by the deadline");
    if (status == MR_OK) {
        int code = mr_mpi_reduce_init(&engine->ops);
        mr_mpi_process_unlock();
        if (code != MPI_SUCCESS)
            status = setup->fail(error, MR_ERR_PEER, "MPI_Op_create: error %d", code);
    }
    if (status == MR_OK) {
        *engine_out = engine;
    } else {
        free(engine->gathered);
        free(engine);
    }
    return status;
}

static int32_t create_engine(const struct mr_engine_setup *setup, void **engine_out,
                             mr_error *error)
{
    *engine_out = NULL;
    if (setup->abi != MR_ENGINE_ABI)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "the module has interface %u, the library %u",
                           MR_ENGINE_ABI, setup->abi);
    int32_t status = mr_mpi_process_enter(setup, error);
    if (status != MR_OK)
        return status;
    MPI_Comm parent = setup->adopt ? *(MPI_Comm *)setup->adopt : MPI_COMM_WORLD;
    status = make_engine(parent, true, setup, engine_out, error);
    if (status != MR_OK)
        mr_mpi_process_leave(status != MR_ERR_TIMEOUT);
    return status;
}

static int32_t split_engine(void *user, uint32_t color, uint32_t key,
                            const struct mr_engine_setup *setup, void **engine_out, mr_error *error)
{
    const struct mr_mpi_engine *parent = user;
    (void)key; /* setup has the order already */
    *engine_out = NULL;
    if (color == MR_NO_COLOR)
        return MR_OK;
    int32_t status = mr_mpi_process_enter(setup, error);
    if (status != MR_OK)
        return status;
    status = make_engine(parent->comm, false, setup, engine_out, error);
    if (status != MR_OK)
        mr_mpi_process_leave(status != MR_ERR_TIMEOUT);
    return status;
}

/*
 * Called only if the engine is healthy. MPI_Comm_free does not block in the MPIs that we know, but
 * the standard allows it to.
 */
static void release_comm(struct mr_mpi_engine *engine, uint64_t deadline_ns)
{
    if (!mr_mpi_process_is_usable())
        return;
    struct mr_mpi_job *job = mr_mpi_process_job("MPI_Comm_free", call_free, engine->comm, 0);
    if (job && mr_mpi_process_do(job, deadline_ns, NULL, NULL) != MR_ERR_TIMEOUT)
        mr_mpi_process_free(job);
    if (!mr_mpi_process_is_usable() || !mr_mpi_process_lock(deadline_ns))
        return;
    mr_mpi_reduce_fini(&engine->ops);
    mr_mpi_process_unlock();
}

static void destroy_engine(void *user, bool healthy)
{
    struct mr_mpi_engine *engine = user;
    if (!engine)
        return;
    healthy = healthy && !engine->is_dead;
    if (healthy)
        release_comm(engine, mr_clock_now_ns() + LEAVE_NS);
    mr_mpi_process_leave(healthy);
    if (healthy) /* otherwise MPI may still write to it */
        free(engine->gathered);
    free(engine);
}

#if defined(OMPI_MAJOR_VERSION)
#define WORDS(a, b, c) WORDS_(a, b, c)
#define WORDS_(a, b, c) "Open MPI " #a "." #b "." #c
#define VERSION WORDS(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define VERSION "MPICH " MPICH_VERSION
#else
#define VERSION "unknown MPI"
#endif

/* No check: without CUDA this module cannot recognise a device pointer. */
MR_API extern const struct mr_engine_table mr_engine_table;
const struct mr_engine_table mr_engine_table = {
    .abi = MR_ENGINE_ABI,
    .name = "mpi",
    .version = VERSION,
    .create = create_engine,
    .destroy = destroy_engine,
    .run = run_collective,
    .split = split_engine,
};
