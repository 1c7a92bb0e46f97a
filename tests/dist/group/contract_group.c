/* SPDX-License-Identifier: Apache-2.0 */
/* The suite over the public interface: every other collective is asynchronous. */
#include "tests/dist/group/contract_collectives.h"

struct caller {
    mr_group *group;
    uint64_t n_calls;
};

static mr_status begin(mr_group *g, const struct mr_collective *c, mr_group_work **work_out)
{
    mr_dtype dtype = (mr_dtype)c->dtype;
    mr_reduction op = (mr_reduction)c->op;
    switch (c->kind) {
    case MR_COLLECTIVE_BARRIER: return mr_group_barrier_async(g, NULL, work_out);
    case MR_COLLECTIVE_ALL_REDUCE:
        return mr_group_all_reduce_async(g, c->out, c->count, dtype, op, NULL, work_out);
    case MR_COLLECTIVE_REDUCE:
        return mr_group_reduce_async(g, c->out, c->count, dtype, op, c->root, NULL, work_out);
    case MR_COLLECTIVE_BROADCAST:
        return mr_group_broadcast_async(g, c->out, c->count, dtype, c->root, NULL, work_out);
    case MR_COLLECTIVE_ALL_GATHER:
        return mr_group_all_gather_async(g, c->in, c->out, c->count, dtype, NULL, work_out);
    case MR_COLLECTIVE_REDUCE_SCATTER:
        return mr_group_reduce_scatter_async(g, c->in, c->out, c->count, dtype, op, NULL, work_out);
    case MR_COLLECTIVE_SEND:
        return mr_group_send_async(g, c->in, c->count, dtype, c->root, NULL, work_out);
    default: return mr_group_recv_async(g, c->out, c->count, dtype, c->root, NULL, work_out);
    }
}

static mr_status at_once(mr_group *g, const struct mr_collective *c)
{
    mr_dtype dtype = (mr_dtype)c->dtype;
    mr_reduction op = (mr_reduction)c->op;
    switch (c->kind) {
    case MR_COLLECTIVE_BARRIER: return mr_group_barrier(g);
    case MR_COLLECTIVE_ALL_REDUCE: return mr_group_all_reduce(g, c->out, c->count, dtype, op);
    case MR_COLLECTIVE_REDUCE: return mr_group_reduce(g, c->out, c->count, dtype, op, c->root);
    case MR_COLLECTIVE_BROADCAST: return mr_group_broadcast(g, c->out, c->count, dtype, c->root);
    case MR_COLLECTIVE_ALL_GATHER: return mr_group_all_gather(g, c->in, c->out, c->count, dtype);
    case MR_COLLECTIVE_REDUCE_SCATTER:
        return mr_group_reduce_scatter(g, c->in, c->out, c->count, dtype, op);
    case MR_COLLECTIVE_SEND: return mr_group_send(g, c->in, c->count, dtype, c->root);
    default: return mr_group_recv(g, c->out, c->count, dtype, c->root);
    }
}

static mr_status call(void *user, const struct mr_collective *collective)
{
    struct caller *caller = user;
    mr_group_work *work;
    if (caller->n_calls++ % 2 == 0)
        return at_once(caller->group, collective);
    mr_status status = begin(caller->group, collective, &work);
    if (status != MR_OK)
        return status;
    status = mr_group_work_sync(work, 60000);
    mr_group_work_destroy(work);
    return status;
}

uint32_t contract_group_run(mr_group *group, const struct contract_memory *memory,
                            char words_out[CONTRACT_WORDS])
{
    struct caller caller = {.group = group};
    struct contract_subject subject = {
        .rank = mr_group_rank(group),
        .world_size = mr_group_world_size(group),
        .memory = memory,
        .user = &caller,
        .call = call,
    };
    return contract_collectives_run(&subject, words_out);
}
