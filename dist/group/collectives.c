/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public collectives. Their arguments are checked here, before anything is counted or sent, so
 * that a wrong call does not change the group. If one buffer holds the elements of all ranks, its
 * size is checked with the world size.
 */
#include "dist/group/collectives.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/error.h"
#include "dist/group/device_pointer.h"
#include "dist/group/work.h"

static bool is_number(uint32_t dtype)
{
    return dtype == MR_F16 || dtype == MR_BF16 || dtype == MR_F32 || dtype == MR_F64 ||
           dtype == MR_I32 || dtype == MR_I64;
}

static mr_status check_op(const struct mr_collective *c, mr_error *error)
{
    if (c->kind != MR_COLLECTIVE_ALL_REDUCE && c->kind != MR_COLLECTIVE_REDUCE &&
        c->kind != MR_COLLECTIVE_REDUCE_SCATTER)
        return MR_OK;
    if (c->op > MR_MAX)
        return mr_error_set(error, MR_ERR_INVALID, "op %u is not an mr_reduction", c->op);
    if (c->op == MR_MEAN && (c->dtype == MR_I32 || c->dtype == MR_I64))
        return mr_error_set(error, MR_ERR_INVALID, "MR_MEAN of %s: integers have no mean",
                            mr_dtype_name((mr_dtype)c->dtype));
    return MR_OK;
}

static mr_status check_root(const struct mr_group *group, const struct mr_collective *c,
                            mr_error *error)
{
    bool is_pair = c->kind == MR_COLLECTIVE_SEND || c->kind == MR_COLLECTIVE_RECV;
    if (c->root >= group->world_size)
        return mr_error_set(error, MR_ERR_INVALID, "%s %u is not below the world size %u",
                            is_pair ? "rank" : "root", c->root, group->world_size);
    if (is_pair && c->root == group->rank)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u cannot send to itself", c->root);
    return MR_OK;
}

static bool ranges_overlap(const void *a, uint64_t len_a, const void *b, uint64_t len_b)
{
    uintptr_t first = (uintptr_t)a;
    uintptr_t second = (uintptr_t)b;
    return first < second + len_b && second < first + len_a;
}

/*
 * True if in and out do not overlap. One overlap is allowed: the part (what this rank gathers, or
 * gets from a scatter) may be its own place in the whole.
 */
static bool are_disjoint(const struct mr_group *group, const struct mr_collective *c, uint64_t one,
                         uint64_t all)
{
    bool gathers = c->kind == MR_COLLECTIVE_ALL_GATHER;
    uintptr_t part = (uintptr_t)(gathers ? c->in : c->out);
    uintptr_t whole = (uintptr_t)(gathers ? c->out : c->in);
    if (part == whole + group->rank * (uintptr_t)one)
        return true;
    return !ranges_overlap(c->in, gathers ? one : all, c->out, gathers ? all : one);
}

static mr_status check_sizes(const struct mr_group *group, const struct mr_collective *c,
                             mr_error *error)
{
    bool gathers = c->kind == MR_COLLECTIVE_ALL_GATHER;
    bool scatters = c->kind == MR_COLLECTIVE_REDUCE_SCATTER;
    uint64_t one;
    uint64_t all;
    if (!mr_checked_mul_u64(c->count, mr_dtype_size((mr_dtype)c->dtype), &one) ||
        !mr_checked_mul_u64(one, gathers || scatters ? group->world_size : 1, &all) ||
        all > PTRDIFF_MAX)
        return mr_error_set(error, MR_ERR_INVALID,
                            "count %llu of %s%s is more than fits into memory",
                            (unsigned long long)c->count, mr_dtype_name((mr_dtype)c->dtype),
                            gathers || scatters ? " from every rank" : "");
    if (c->count > 0 && (!c->in || !c->out))
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL, but count is %llu",
                            gathers || scatters ? (c->in ? "out" : "in") : "buffer",
                            (unsigned long long)c->count);
    if ((gathers || scatters) && group->table && !are_disjoint(group, c, one, all))
        return mr_error_set(error, MR_ERR_INVALID, "in and out overlap");
    return MR_OK;
}

static mr_status check_host_memory(const struct mr_group *group, const char *name,
                                   const struct mr_device_pointer *is, mr_error *error)
{
    if (!is->is_device)
        return MR_OK;
    if (!group->table)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s is memory of cuda:%d; a world of one without an engine needs host "
                            "memory: copy it, or use backend nccl with a device",
                            name, is->ordinal);
    return mr_error_set(
        error, MR_ERR_INVALID,
        "%s is memory of cuda:%d; %s needs host memory: copy it, or use backend nccl", name,
        is->ordinal, group->backend);
}

static mr_status check_device_memory(const struct mr_group *group, const char *name,
                                     const struct mr_device_pointer *is, mr_error *error)
{
    if (is->is_managed || (is->is_device && is->ordinal == group->ordinal))
        return MR_OK;
    if (is->is_device)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s is memory of cuda:%d, but the group's device is cuda:%d", name,
                            is->ordinal, (int)group->ordinal);
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s is %shost memory; %s needs memory of its device: copy it", name,
                        is->is_pinned ? "pinned " : "", group->backend);
}

mr_status mr_collectives_check_memory(const struct mr_group *group, const char *name,
                                      const void *buffer, mr_error *error)
{
    struct mr_device_pointer is;
    mr_status status = MR_OK;
    if (mr_device_pointer_look(buffer, &is))
        status = group->device_works ? check_device_memory(group, name, &is, error)
                                     : check_host_memory(group, name, &is, error);
    if (!status && group->table && group->table->check)
        status = (mr_status)group->table->check(group->engine, buffer, error);
    return status;
}

static mr_status check_memory(const struct mr_group *group, const struct mr_collective *c,
                              mr_error *error)
{
    bool is_one = c->kind != MR_COLLECTIVE_ALL_GATHER && c->kind != MR_COLLECTIVE_REDUCE_SCATTER;
    if (c->count == 0 || (c->on_host && group->device_works))
        return MR_OK;
    mr_status status = mr_collectives_check_memory(group, is_one ? "buffer" : "in", c->in, error);
    return status || is_one ? status : mr_collectives_check_memory(group, "out", c->out, error);
}

static mr_status check_arguments(const struct mr_group *group, const struct mr_collective *c,
                                 mr_error *error)
{
    if (c->kind == MR_COLLECTIVE_BARRIER)
        return MR_OK;
    if (!is_number(c->dtype))
        return mr_error_set(error, MR_ERR_INVALID,
                            "dtype %s is not f16, bf16, f32, f64, i32 or i64",
                            mr_dtype_name((mr_dtype)c->dtype));
    mr_status status = check_op(c, error);
    if (!status)
        status = check_root(group, c, error);
    if (!status)
        status = check_sizes(group, c, error);
    return status ? status : check_memory(group, c, error);
}

static mr_status begin_collective(mr_group *group, struct mr_collective collective,
                                  mr_group_work **work_out)
{
    if (work_out)
        *work_out = NULL;
    if (!group)
        return MR_ERR_INVALID;
    mr_status status = mr_group_enter(group);
    if (!status)
        status = check_arguments(group, &collective, &group->error);
    return status ? status : mr_work_submit(group, &collective, work_out);
}

/* Without work_out an asynchronous call could never be ended. */
static mr_status begin_async(mr_group *group, struct mr_collective collective,
                             mr_group_work **work_out)
{
    if (work_out || !group)
        return begin_collective(group, collective, work_out);
    mr_status status = mr_group_enter(group);
    return status ? status : mr_error_set(&group->error, MR_ERR_INVALID, "work_out is NULL");
}

static struct mr_collective make_barrier(void *stream)
{
    return (struct mr_collective){.kind = MR_COLLECTIVE_BARRIER, .dtype = MR_F32, .stream = stream};
}

/* One buffer, in place. A sender's is only read. */
static struct mr_collective make_in_place(enum mr_collective_kind kind, const void *buffer,
                                          uint64_t count, mr_dtype dtype, uint32_t root,
                                          void *stream)
{
    return (struct mr_collective){.kind = kind,
                                  .root = root,
                                  .in = buffer,
                                  .out = (void *)(uintptr_t)buffer,
                                  .count = count,
                                  .dtype = (uint32_t)dtype,
                                  .stream = stream};
}

static struct mr_collective make_reduction(enum mr_collective_kind kind, void *buffer,
                                           uint64_t count, mr_dtype dtype, mr_reduction op,
                                           uint32_t root, void *stream)
{
    struct mr_collective collective = make_in_place(kind, buffer, count, dtype, root, stream);
    collective.op = (uint32_t)op;
    return collective;
}

static struct mr_collective make_from_to(enum mr_collective_kind kind, const void *in, void *out,
                                         uint64_t count, mr_dtype dtype, mr_reduction op,
                                         void *stream)
{
    return (struct mr_collective){.kind = kind,
                                  .in = in,
                                  .out = out,
                                  .count = count,
                                  .dtype = (uint32_t)dtype,
                                  .op = (uint32_t)op,
                                  .stream = stream};
}

mr_status mr_group_barrier(mr_group *group)
{
    return begin_collective(group, make_barrier(NULL), NULL);
}

mr_status mr_group_barrier_async(mr_group *group, void *stream, mr_group_work **work_out)
{
    return begin_async(group, make_barrier(stream), work_out);
}

mr_status mr_group_all_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                              mr_reduction op)
{
    return begin_collective(
        group, make_reduction(MR_COLLECTIVE_ALL_REDUCE, buffer, count, dtype, op, 0, NULL), NULL);
}

mr_status mr_group_all_reduce_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                    mr_reduction op, void *stream, mr_group_work **work_out)
{
    return begin_async(
        group, make_reduction(MR_COLLECTIVE_ALL_REDUCE, buffer, count, dtype, op, 0, stream),
        work_out);
}

mr_status mr_group_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                          mr_reduction op, uint32_t root)
{
    return begin_collective(
        group, make_reduction(MR_COLLECTIVE_REDUCE, buffer, count, dtype, op, root, NULL), NULL);
}

mr_status mr_group_reduce_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                mr_reduction op, uint32_t root, void *stream,
                                mr_group_work **work_out)
{
    return begin_async(group,
                       make_reduction(MR_COLLECTIVE_REDUCE, buffer, count, dtype, op, root, stream),
                       work_out);
}

mr_status mr_group_broadcast(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                             uint32_t root)
{
    return begin_collective(
        group, make_in_place(MR_COLLECTIVE_BROADCAST, buffer, count, dtype, root, NULL), NULL);
}

mr_status mr_group_broadcast_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                   uint32_t root, void *stream, mr_group_work **work_out)
{
    return begin_async(group,
                       make_in_place(MR_COLLECTIVE_BROADCAST, buffer, count, dtype, root, stream),
                       work_out);
}

mr_status mr_group_all_gather(mr_group *group, const void *in, void *out, uint64_t count,
                              mr_dtype dtype)
{
    return begin_collective(
        group, make_from_to(MR_COLLECTIVE_ALL_GATHER, in, out, count, dtype, MR_SUM, NULL), NULL);
}

mr_status mr_group_all_gather_async(mr_group *group, const void *in, void *out, uint64_t count,
                                    mr_dtype dtype, void *stream, mr_group_work **work_out)
{
    return begin_async(
        group, make_from_to(MR_COLLECTIVE_ALL_GATHER, in, out, count, dtype, MR_SUM, stream),
        work_out);
}

mr_status mr_group_reduce_scatter(mr_group *group, const void *in, void *out, uint64_t count,
                                  mr_dtype dtype, mr_reduction op)
{
    return begin_collective(
        group, make_from_to(MR_COLLECTIVE_REDUCE_SCATTER, in, out, count, dtype, op, NULL), NULL);
}

mr_status mr_group_reduce_scatter_async(mr_group *group, const void *in, void *out, uint64_t count,
                                        mr_dtype dtype, mr_reduction op, void *stream,
                                        mr_group_work **work_out)
{
    return begin_async(
        group, make_from_to(MR_COLLECTIVE_REDUCE_SCATTER, in, out, count, dtype, op, stream),
        work_out);
}

mr_status mr_group_send(mr_group *group, const void *buffer, uint64_t count, mr_dtype dtype,
                        uint32_t to)
{
    return begin_collective(
        group, make_in_place(MR_COLLECTIVE_SEND, buffer, count, dtype, to, NULL), NULL);
}

mr_status mr_group_send_async(mr_group *group, const void *buffer, uint64_t count, mr_dtype dtype,
                              uint32_t to, void *stream, mr_group_work **work_out)
{
    return begin_async(group, make_in_place(MR_COLLECTIVE_SEND, buffer, count, dtype, to, stream),
                       work_out);
}

mr_status mr_group_recv(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                        uint32_t from)
{
    return begin_collective(
        group, make_in_place(MR_COLLECTIVE_RECV, buffer, count, dtype, from, NULL), NULL);
}

mr_status mr_group_recv_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                              uint32_t from, void *stream, mr_group_work **work_out)
{
    return begin_async(group, make_in_place(MR_COLLECTIVE_RECV, buffer, count, dtype, from, stream),
                       work_out);
}

mr_status mr_collectives_all_reduce(struct mr_group *group, void *buffer, uint64_t count,
                                    mr_dtype dtype, mr_reduction op)
{
    struct mr_collective collective =
        make_reduction(MR_COLLECTIVE_ALL_REDUCE, buffer, count, dtype, op, 0, NULL);
    collective.on_host = true;
    return begin_collective(group, collective, NULL);
}

mr_status mr_collectives_all_reduce_async(struct mr_group *group, void *buffer, uint64_t count,
                                          mr_dtype dtype, mr_reduction op, void *sums,
                                          struct mr_group_work **work_out)
{
    struct mr_collective collective =
        make_reduction(MR_COLLECTIVE_ALL_REDUCE, buffer, count, dtype, op, 0, NULL);
    collective.on_host = true;
    collective.sums = sums;
    return begin_collective(group, collective, work_out);
}

mr_status mr_collectives_all_gather(struct mr_group *group, const void *in, void *out,
                                    uint64_t count, mr_dtype dtype)
{
    struct mr_collective collective =
        make_from_to(MR_COLLECTIVE_ALL_GATHER, in, out, count, dtype, MR_SUM, NULL);
    collective.on_host = true;
    return begin_collective(group, collective, NULL);
}
