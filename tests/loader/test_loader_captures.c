/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA graphs. Inside a capture, calls that order streams are refused, the capture stays valid and
 * the batch is not lost. Between launches, one graph per buffer reads the buffer's present
 * contents.
 */
#include "tests/loader/stream_rig.h"
#include "tests/support/assert_words.h"

#include <stdlib.h>
#include <string.h>

static const enum cudaStreamCaptureMode modes[] = {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};
static const unsigned kinds[] = {cudaStreamNonBlocking, cudaStreamDefault};

/* The double's header declares only what the product and these tests use. */
static void end_capture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = NULL;
    assert_int_equal(cudaStreamEndCapture(stream, graph), cudaSuccess);
    assert_non_null(*graph);
}

static void begin_capture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    assert_int_equal(cudaStreamBeginCapture(stream, mode), cudaSuccess);
}

static void expect_next_refuses(mr_loader *loader, void *stream)
{
    mr_batch *batch = (void *)loader;
    assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, stream, &batch), MR_ERR_STATE);
    assert_null(batch);
    assert_words(mr_loader_error(loader)->text, "capture");
}

/*
 * Try everything on `stream` while `captured` is in a capture; one batch is lent before. With use,
 * the batch knows the stream already.
 */
static void refuse_all(mr_loader *loader, cudaStream_t captured, void *stream,
                       enum cudaStreamCaptureMode mode, bool known)
{
    cudaGraph_t graph;
    uint64_t sum;
    mr_batch *batch = known ? stage_next_on(loader, stream) : rig_next(loader);
    uint64_t number = mr_batch_number(batch);
    begin_capture(captured, mode);
    expect_next_refuses(loader, stream);
    stage_use(batch, stream, MR_ERR_STATE);
    assert_words(mr_batch_error(batch)->text, "capture");
    stage_release_on(batch, stream, MR_ERR_STATE);
    assert_words(mr_batch_error(batch)->text, "capture");
    if (known)
        stage_release(batch, MR_ERR_STATE);
    const mr_array *image = mr_batch_array(batch, "image");
    assert_non_null(image); /* still lent */
    assert_int_equal(double_launch_sum(captured, image->data, 8, &sum), cudaSuccess);
    end_capture(captured, &graph);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    stage_release_on(batch, stream, MR_OK);
    batch = stage_next_on(loader, stream); /* the batch that was refused */
    assert_int_equal(mr_batch_number(batch), number + 1);
    rig_check(batch); /* checked when everything has run */
    stage_release(batch, MR_OK);
}

static void in_a_capture_of_the_stream_calls_are_refused_and_nothing_is_lost(void **state)
{
    for (unsigned m = 0; m < 3; m++)
        for (unsigned k = 0; k < 2; k++)
            for (unsigned known = 0; known < 2; known++) {
                stage_open(&(struct double_options){.policy = DOUBLE_EARLY, .seed = m});
                cudaStream_t stream = stage_stream(0, kinds[k]);
                mr_loader_options wanted = stage_options("cuda:0");
                mr_loader *loader = rig_loader(*state, &wanted);
                refuse_all(loader, stream, stream, modes[m], known);
                mr_loader_destroy(loader);
                stage_end_stream(stream);
                stage_close();
            }
}

/* A capture of a blocking stream includes the default stream, whichever call uses it. */
static void while_a_blocking_stream_is_captured_the_default_stream_is_refused(void **state)
{
    for (unsigned m = 0; m < 3; m++)
        for (unsigned known = 0; known < 2; known++) {
            stage_open(&(struct double_options){.policy = DOUBLE_EARLY, .seed = m});
            cudaStream_t stream = stage_stream(0, cudaStreamDefault);
            mr_loader_options wanted = stage_options("cuda:0");
            mr_loader *loader = rig_loader(*state, &wanted);
            refuse_all(loader, stream, NULL, modes[m], known);
            mr_loader_destroy(loader);
            stage_end_stream(stream);
            stage_close();
        }
}

/* In every capture mode, work on other streams and all work of the copying thread continues. */
static void a_capture_of_another_stream_is_not_disturbed(void **state)
{
    for (unsigned m = 0; m < 3; m++)
        for (unsigned p = 0; p < 3; p++) {
            stage_open(&(struct double_options){.policy = (enum double_policy)p, .seed = m});
            cudaStream_t captured = stage_stream(0, cudaStreamNonBlocking),
                         stream = stage_stream(0, kinds[m % 2]);
            mr_loader_options wanted = stage_options("cuda:0");
            mr_loader *loader = rig_loader(*state, &wanted);
            cudaGraph_t graph;
            begin_capture(captured, modes[m]);
            for (unsigned k = 0; k < 13; k++) {
                void *used = k % 3 == 2 ? NULL : stream;
                mr_batch *batch = k % 4 == 3 ? rig_next(loader) : stage_next_on(loader, used);
                assert_int_equal(mr_batch_number(batch), k);
                stage_use(batch, NULL, MR_OK);
                if (k % 2)
                    stage_release(batch, MR_OK);
                else
                    stage_release_on(batch, used, MR_OK);
            }
            mr_loader_destroy(loader);
            end_capture(captured, &graph);
            assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
            stage_end_stream(captured);
            stage_end_stream(stream);
            stage_close();
        }
}

static void a_loader_may_be_made_during_a_capture(void **state)
{
    for (unsigned m = 0; m < 3; m++) {
        stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = m});
        cudaStream_t captured = stage_stream(0, cudaStreamNonBlocking);
        cudaGraph_t graph;
        begin_capture(captured, modes[m]);
        mr_loader_options wanted = stage_options("cuda:0");
        mr_loader *loader = rig_loader(*state, &wanted);
        stage_release(rig_next(loader), MR_OK);
        end_capture(captured, &graph);
        mr_loader_destroy(loader);
        assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
        stage_end_stream(captured);
        stage_close();
    }
}

enum { N_BUFFERS = 3, N_STEPS = 26 };

/* A graph reads a buffer's images and indices. Its k-th run belongs to its k-th launch. */
struct buffer_graph {
    cudaGraphExec_t exec; /* NULL until the buffer is used first */
    uint64_t launched[N_STEPS];
    uint32_t n_launched;
    uint64_t seen[2][N_STEPS];
    uint32_t n_seen[2];
};

static void keep_sum(struct buffer_graph *graph, unsigned which, const uint8_t *bytes, size_t len)
{
    if (graph->n_seen[which] < N_STEPS)
        graph->seen[which][graph->n_seen[which]++] = double_sum(bytes, len);
}

static void keep_image(void *user, const uint8_t *bytes, size_t len)
{
    keep_sum(user, 0, bytes, len);
}

static void keep_index(void *user, const uint8_t *bytes, size_t len)
{
    keep_sum(user, 1, bytes, len);
}

static void record_graph(struct buffer_graph *graph, cudaStream_t stream, const mr_batch *batch)
{
    cudaGraph_t recorded;
    begin_capture(stream, cudaStreamCaptureModeGlobal);
    assert_int_equal(
        double_launch_read(stream, mr_batch_data(batch, "image"), 8 * RIG_BYTES, keep_image, graph),
        cudaSuccess);
    assert_int_equal(double_launch_read(stream, mr_batch_data(batch, "index"), 8 * sizeof(int64_t),
                                        keep_index, graph),
                     cudaSuccess);
    end_capture(stream, &recorded);
    assert_int_equal(cudaGraphInstantiate(&graph->exec, recorded, 0), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(recorded), cudaSuccess);
}

static void expect_sums(const struct buffer_graph *graph, const struct seen *expected)
{
    assert_int_equal(graph->n_seen[0], graph->n_launched);
    assert_int_equal(graph->n_seen[1], graph->n_launched);
    for (uint32_t i = 0; i < graph->n_launched; i++) {
        const struct seen_batch *batch = &expected->batches[graph->launched[i]];
        assert_true(graph->seen[0][i] == double_sum(batch->bytes[0], batch->len[0]));
        assert_true(graph->seen[1][i] == double_sum(batch->bytes[2], batch->len[2]));
    }
}

static void run_graphs(mr_loader *loader, cudaStream_t stream, struct buffer_graph *graphs)
{
    for (uint64_t k = 0; k < N_STEPS; k++) {
        if (k == N_STEPS / 2)
            assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        mr_batch *batch = stage_next_on(loader, stream);
        struct buffer_graph *graph = &graphs[mr_batch_buffer(batch)];
        assert_int_equal(mr_batch_size(batch), 8);
        if (!graph->exec)
            record_graph(graph, stream, batch);
        assert_int_equal(cudaGraphLaunch(graph->exec, stream), cudaSuccess);
        graph->launched[graph->n_launched++] = k;
        stage_release_on(batch, stream, MR_OK);
    }
    stage_sync(stream);
}

static void a_graph_per_buffer_reads_every_batch(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8 * N_STEPS / 2);
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        struct buffer_graph graphs[N_BUFFERS] = {{NULL}};
        cudaStream_t stream = stage_stream(0, kinds[p % 2]);
        mr_loader_options wanted = stage_options("cuda:0");
        wanted.n_buffers = N_BUFFERS;
        struct seen *expected = seen_on_host(rig->dataset, NULL, &wanted, 2);
        mr_loader *loader = rig_loader(rig, &wanted);
        run_graphs(loader, stream, graphs);
        for (unsigned b = 0; b < N_BUFFERS; b++) {
            expect_sums(&graphs[b], expected);
            if (graphs[b].exec)
                assert_int_equal(cudaGraphExecDestroy(graphs[b].exec), cudaSuccess);
        }
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        seen_free(expected);
        stage_close();
    }
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(in_a_capture_of_the_stream_calls_are_refused_and_nothing_is_lost),
        RIG_TEST(while_a_blocking_stream_is_captured_the_default_stream_is_refused),
        RIG_TEST(a_capture_of_another_stream_is_not_disturbed),
        RIG_TEST(a_loader_may_be_made_during_a_capture),
        cmocka_unit_test(a_graph_per_buffer_reads_every_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
