/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the timeline of docs/gpu.md: the copier on the double of the CUDA runtime, in the double's
 * virtual time. This one thread plays workers, copying thread and consumer. A copy takes 1 ms,
 * finishing 0.25 ms. The times to decode a batch and to train on it are arguments, in units of 0.25
 * ms, which is one column.
 *
 * draw_timeline DECODE STEP
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinned/copier.h"
#include "tests/double/cuda_double.h"
#include "tests/pinned/plain_columns.h"

enum {
    N_BATCHES = 7,
    N_SLOTS = 4,
    N_BUFFERS = 3,
    ROWS = 8,
    SIDE = 224,
    COLUMN_US = 250,
    N_COLUMNS = 100
};
enum { CONSUMER, COPIER, WORKERS };

struct play {
    struct mr_slot_layout layout;
    uint8_t *slab;
    struct mr_copier *copier;
    cudaStream_t stream;
    uint64_t decode_ns;
    uint64_t step_ns;
    uint64_t filled_ns[N_BATCHES];
    uint32_t n_filled;
    uint32_t n_issued;
    uint32_t n_ended;
};

static void check(bool good, const char *words)
{
    if (!good) {
        fprintf(stderr, "draw_timeline: %s\n", words);
        exit(1);
    }
}

static void check_cuda(cudaError_t error)
{
    check(error == cudaSuccess, cudaGetErrorString(error));
}

static const char *name_batch(uint32_t batch)
{
    static const char *const names[N_BATCHES] = {"0", "1", "2", "3", "4", "5", "6"};
    return names[batch];
}

/* From now on this thread plays another one; its clock is at least not_before_ns. */
static void play_thread(uint32_t thread, uint64_t not_before_ns)
{
    double_as_thread(thread);
    uint64_t now_ns = double_now_ns();
    if (now_ns < not_before_ns)
        double_host_work(NULL, not_before_ns - now_ns);
}

static struct mr_slot_view view_slot(const struct play *play, uint32_t batch)
{
    return mr_slot_at(&play->layout, play->slab, batch % N_SLOTS);
}

/* Workers decode the next batch, whose slot has been free since free_ns. */
static void run_workers(struct play *play, uint64_t free_ns)
{
    struct mr_slot_view slot = view_slot(play, play->n_filled);
    play_thread(WORKERS, free_ns);
    memset(mr_slot_mask(&slot, 0), 1, ROWS);
    double_host_work(name_batch(play->n_filled), play->decode_ns);
    play->filled_ns[play->n_filled++] = double_now_ns();
}

/*
 * The training loop takes the batch, queues its step and releases it. It never waits for the GPU.
 */
static void run_consumer(struct play *play, uint32_t batch, uint64_t issued_ns)
{
    struct mr_copied_part part = mr_copier_part(play->copier, batch % N_BUFFERS, 0);
    mr_error error;
    play_thread(CONSUMER, issued_ns);
    check(!mr_copier_use(play->copier, batch % N_BUFFERS, 0, play->stream, true, &error), "use");
    double_next_launch(name_batch(batch), play->step_ns);
    check_cuda(
        double_launch_read(play->stream, part.image, ROWS * play->layout.sample_bytes, NULL, NULL));
    check(!mr_copier_release(play->copier, batch % N_BUFFERS, &error), "release");
}

/* One turn of the copying thread: issue the copy of a filled slot, or wait for the oldest copy. */
static void run_copying_thread(struct play *play)
{
    mr_error error;
    play_thread(COPIER, 0);
    bool is_there = play->n_issued < play->n_filled && play->n_issued < play->n_ended + N_BUFFERS;
    if (is_there &&
        (play->filled_ns[play->n_issued] <= double_now_ns() || play->n_issued == play->n_ended)) {
        uint32_t batch = play->n_issued++;
        struct mr_slot_view slot = view_slot(play, batch);
        play_thread(COPIER, play->filled_ns[batch]);
        check(!mr_copier_issue(play->copier, batch % N_BUFFERS, &slot, ROWS, &error), "issue");
        run_consumer(play, batch, double_now_ns());
        return;
    }
    struct mr_copy_report report;
    check(!mr_copier_await(play->copier, play->n_ended % N_BUFFERS, &report, &error), "await");
    play->n_ended++;
    if (play->n_filled < N_BATCHES)
        run_workers(play, double_now_ns());
}

/* ---- drawing ---- */

enum { DECODE, COPY, FINISH, STEP, N_ROWS };

struct chart {
    double origin_us;
    char rows[N_ROWS][N_COLUMNS + 1];
};

static void draw_span(struct chart *chart, int row, double begin_us, double end_us, char mark)
{
    int from = (int)((begin_us - chart->origin_us) / COLUMN_US + 0.5);
    int to = (int)((end_us - chart->origin_us) / COLUMN_US + 0.5);
    for (int i = from < 0 ? 0 : from; i < to && i < N_COLUMNS; i++)
        chart->rows[row][i] = mark;
}

/*
 * Draw a line of the double's timeline. Copies and kernels of the copy stream are in the order of
 * the batches.
 */
static void draw_line(struct chart *chart, const char *line, uint32_t *n_copied,
                      uint32_t *n_finished)
{
    enum { PLACE_AT = 26, ROW_AT = 36, NAME_AT = 61 };
    double begin_us = 0, end_us = 0;
    check(strlen(line) > NAME_AT && sscanf(line, "%lf %lf", &begin_us, &end_us) == 2, line);
    const char *name = line + NAME_AT;
    if (begin_us < chart->origin_us - 1 || end_us - begin_us < COLUMN_US / 2)
        return; /* tables at the beginning, and status words */
    if (strncmp(line + PLACE_AT, "host", 4) == 0)
        draw_span(chart, DECODE, begin_us, end_us, name[0]);
    else if (strncmp(line + ROW_AT, "training", 8) == 0)
        draw_span(chart, STEP, begin_us, end_us, name[0]);
    else if (strncmp(name, "cudaMemcpyAsync", 15) == 0)
        draw_span(chart, COPY, begin_us, end_us, name_batch((*n_copied)++)[0]);
    else
        draw_span(chart, FINISH, begin_us, end_us, name_batch((*n_finished)++)[0]);
}

static void draw(struct chart *chart)
{
    uint32_t n_copied = 0, n_finished = 0;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    check(file, "no memory");
    double_timeline_print(file);
    check(fclose(file) == 0, "no memory");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        draw_line(chart, line, &n_copied, &n_finished);
    free(text);
}

static void print_row(const char *title, char *columns)
{
    size_t len = N_COLUMNS;
    while (len > 0 && columns[len - 1] == ' ')
        columns[--len] = '\0';
    printf("%-10s|%s\n", title, columns);
}

static void print(struct chart *chart)
{
    char ruler[N_COLUMNS + 1] = "";
    for (int i = 0; i < N_COLUMNS; i++)
        ruler[i] = i % 4 == 0 ? '.' : ' ';
    print_row("ms", ruler);
    print_row("decode", chart->rows[DECODE]);
    print_row("copy", chart->rows[COPY]);
    print_row("finish", chart->rows[FINISH]);
    print_row("train", chart->rows[STEP]);
}

/* ---- the machine ---- */

static void open_play(struct play *play)
{
    static const struct mr_finish finish = {.needed = 1,
                                            .height = SIDE,
                                            .width = SIDE,
                                            .channels = 3,
                                            .out_channels = 3,
                                            .layout = MR_NCHW,
                                            .dtype = MR_F16};
    static const struct mr_placement placement = {
        .n_parts = 1, .n_devices = 1, .devices = {{&mr_device_cuda, 0}}};
    uint64_t sample_bytes = (uint64_t)SIDE * SIDE * 3;
    mr_error error;
    double_open(&(struct double_options){.policy = DOUBLE_EARLY,
                                         .h2d_mb_per_s = ROWS * sample_bytes / 1000,
                                         .kernel_ns = COLUMN_US * 1000,
                                         .trace = true});
    check(!mr_slot_layout_init(&play->layout,
                               &(struct mr_slot_shape){.n_slots = N_SLOTS,
                                                       .n_workers = 1,
                                                       .batch_size = ROWS,
                                                       .columns = PLAIN_COLUMNS(sample_bytes, 8)},
                               &error),
          "layout");
    play->slab =
        aligned_alloc(4096, play->layout.slab_bytes + 4096 - play->layout.slab_bytes % 4096);
    check(play->slab, "no memory");
    memset(play->slab, 0, play->layout.slab_bytes);
    struct mr_copier_options options = {.layout = &play->layout,
                                        .slab = play->slab,
                                        .placement = &placement,
                                        .finish = &finish,
                                        .n_buffers = N_BUFFERS};
    double_as_thread(COPIER);
    check(!mr_copier_create(&options, &play->copier, &error) &&
              !mr_copier_pin(play->copier, &error),
          error.text);
    check_cuda(cudaStreamCreateWithFlags(&play->stream, cudaStreamNonBlocking));
    double_name_stream(play->stream, "training");
}

static void close_play(struct play *play)
{
    mr_copier_destroy(play->copier);
    check_cuda(cudaStreamDestroy(play->stream));
    check(double_close() == 0, double_report());
    free(play->slab);
}

int main(int argc, char **argv)
{
    static struct play play;
    static struct chart chart;
    if (argc != 3) {
        fprintf(stderr, "usage: draw_timeline DECODE STEP\n");
        return 2;
    }
    play.decode_ns = strtoull(argv[1], NULL, 10) * COLUMN_US * 1000;
    play.step_ns = strtoull(argv[2], NULL, 10) * COLUMN_US * 1000;
    for (int i = 0; i < N_ROWS; i++)
        memset(chart.rows[i], ' ', N_COLUMNS);
    open_play(&play);
    uint64_t begin_ns = double_now_ns();
    chart.origin_us = (double)begin_ns / 1000;
    while (play.n_filled < N_SLOTS)
        run_workers(&play, begin_ns);
    while (play.n_ended < N_BATCHES)
        run_copying_thread(&play);
    double_run_all();
    draw(&chart);
    print(&chart);
    close_play(&play);
    return 0;
}
