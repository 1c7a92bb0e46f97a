/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: captured operations in their order, one lane per captured stream. A launch issues them
 * all again: lane 0 on the stream of the launch, the others on the executable graph's own streams.
 *
 * Invariant: a launch also comes after the graph's previous launch, whatever stream that was on.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>

static struct double_graph *graphs;

struct double_graph *double_graph_create(void)
{
    struct double_graph *graph = double_machine_alloc(sizeof *graph);
    graph->next = graphs;
    graphs = graph;
    return graph;
}

static void drop_nodes(struct double_graph *graph)
{
    for (uint32_t i = 0; i < graph->n; i++)
        double_queue_drop_work(&graph->nodes[i].work);
    free(graph->nodes);
    graph->nodes = NULL;
    graph->n = graph->room = 0;
}

void double_graph_destroy(struct double_graph *graph)
{
    drop_nodes(graph);
    double_queue_unref(graph->last);
    graph->last = NULL;
    graph->destroyed = true;
}

static struct double_node *new_node(struct double_graph *graph)
{
    if (graph->n == graph->room) {
        uint32_t room = graph->room > 0 ? 2 * graph->room : 16;
        struct double_node *nodes = double_machine_alloc(room * sizeof *nodes);
        if (graph->n > 0)
            memcpy(nodes, graph->nodes, graph->n * sizeof *nodes);
        free(graph->nodes);
        graph->nodes = nodes;
        graph->room = room;
    }
    return &graph->nodes[graph->n++];
}

static void copy_seen(struct double_node *node, const struct double_graph *graph, int32_t earlier)
{
    for (uint32_t lane = 0; earlier >= 0 && lane < DOUBLE_MAX_LANES; lane++)
        if (node->seen[lane] < graph->nodes[earlier].seen[lane])
            node->seen[lane] = graph->nodes[earlier].seen[lane];
}

int32_t double_graph_add(struct double_graph *graph, struct double_work *work, uint32_t lane,
                         int32_t previous, int32_t after)
{
    struct double_node *node = new_node(graph);
    int32_t index = (int32_t)graph->n - 1;
    *node = (struct double_node){.work = *work, .lane = lane, .after = after};
    for (uint32_t i = 0; i < DOUBLE_MAX_LANES; i++)
        node->seen[i] = -1;
    copy_seen(node, graph, previous);
    copy_seen(node, graph, after);
    node->seen[lane] = index;
    return index;
}

static struct double_work copy_work(const struct double_work *work)
{
    struct double_work copy = *work;
    for (uint32_t i = 0; i < copy.n_touches; i++)
        if (copy.touches[i].region)
            copy.touches[i].region->refs++;
    if (copy.kind == DOUBLE_OP_HOST || !work->payload)
        return copy;
    copy.payload = double_machine_alloc(copy.payload_len);
    memcpy(copy.payload, work->payload, copy.payload_len);
    return copy;
}

/* NULL after a report. */
static struct double_graph *find(const void *handle, bool is_exec)
{
    struct double_graph *graph = graphs;
    while (graph && graph != handle)
        graph = graph->next;
    if (graph && graph->is_exec == is_exec && !graph->destroyed)
        return graph;
    double_report_add(DOUBLE_MISUSE, "misuse: %p is no %s%s", handle,
                      is_exec ? "executable graph" : "graph",
                      graph && graph->destroyed ? " any more, it was destroyed" : "");
    return NULL;
}

static struct double_graph *instantiate(const struct double_graph *graph)
{
    struct double_graph *exec = double_graph_create();
    exec->is_exec = true;
    exec->n_lanes = graph->n_lanes;
    memcpy(exec->devices, graph->devices, sizeof exec->devices);
    for (uint32_t i = 0; i < graph->n; i++) {
        struct double_node *node = new_node(exec);
        *node = graph->nodes[i];
        node->work = copy_work(&graph->nodes[i].work);
    }
    return exec;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t handle,
                                 unsigned long long flags)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaGraphInstantiate", NULL, DOUBLE_CONTEXT | DOUBLE_ALLOCATES))
        return double_call_end(&call, call.error);
    struct double_graph *graph = find(handle, false);
    if (!exec || !graph || flags != 0)
        return double_call_end(&call, cudaErrorInvalidValue);
    *exec = (cudaGraphExec_t)instantiate(graph);
    return double_call_end(&call, cudaSuccess);
}

static struct double_stream *lane_stream(struct double_graph *exec, uint32_t lane,
                                         struct double_stream *stream)
{
    if (lane == 0)
        return stream;
    if (!exec->lanes[lane]) {
        exec->lanes[lane] = double_queue_create(exec->devices[lane], false);
        exec->lanes[lane]->hidden = true;
        (void)snprintf(exec->lanes[lane]->name, sizeof exec->lanes[lane]->name, "lane %u of graph",
                       (unsigned)lane & 15u);
    }
    return exec->lanes[lane];
}

static void push_nodes(struct double_graph *exec, struct double_stream *stream,
                       struct double_op **ops)
{
    for (uint32_t i = 0; i < exec->n; i++) {
        const struct double_node *node = &exec->nodes[i];
        struct double_work work = copy_work(&node->work);
        uint32_t n_after = node->after >= 0;
        ops[i] = double_queue_push(lane_stream(exec, node->lane, stream), &work,
                                   n_after ? &ops[node->after] : NULL, n_after);
    }
}

static struct double_op *push_mark(struct double_stream *stream, struct double_op *after)
{
    struct double_work work = {.name = "graph", .gate = DOUBLE_NO_GATE};
    return double_queue_push(stream, &work, &after, after ? 1 : 0);
}

static cudaError_t launch(struct double_graph *exec, struct double_stream *stream)
{
    if (!exec || !stream)
        return exec ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    if (exec->devices[0] != stream->device)
        return cudaErrorInvalidValue;
    if (stream->capture) {
        double_capture_invalidate(stream->capture); /* graphs in graphs are not implemented */
        return cudaErrorStreamCaptureUnsupported;
    }
    cudaError_t error = double_capture_check_legacy(stream, true);
    if (error != cudaSuccess)
        return error;
    double_queue_unref(push_mark(stream, exec->last));
    struct double_op **ops = double_machine_alloc((exec->n + 1u) * sizeof(struct double_op *));
    push_nodes(exec, stream, ops);
    for (uint32_t i = 0; i < exec->n; i++)
        double_queue_unref(ops[i]);
    free(ops);
    double_queue_unref(exec->last);
    exec->last = push_mark(stream, NULL);
    double_schedule_pump();
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaGraphLaunch", stream, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    return double_call_end(&call, launch(find(handle, true), double_queue_stream(stream)));
}

static cudaError_t destroy(const void *handle, bool is_exec)
{
    struct double_graph *graph = find(handle, is_exec);
    if (!graph)
        return cudaErrorInvalidValue;
    double_graph_destroy(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaGraphDestroy", NULL, DOUBLE_RELEASES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, destroy(handle, false));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaGraphExecDestroy", NULL, DOUBLE_RELEASES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, destroy(handle, true));
}

void double_graph_left_over(void)
{
    for (struct double_graph *graph = graphs; graph; graph = graph->next)
        if (!graph->destroyed)
            double_report_add(DOUBLE_LEFT_OVER, "left over: %s graph of %u operations",
                              graph->is_exec ? "an executable" : "a", (unsigned)graph->n);
}

void double_graph_reset(void)
{
    while (graphs) {
        struct double_graph *graph = graphs;
        graphs = graph->next;
        drop_nodes(graph);
        double_queue_unref(graph->last);
        free(graph);
    }
}
