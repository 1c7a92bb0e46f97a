/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plug_darknet SPEC [EPOCHS]: a trainer like darknet that gets its images from millrace
 * (docs/plug-in.md).
 *
 * The trainer's interface is unchanged: data with X, rows of planar floats in [0, 1], and y, rows
 * of zeros and a one; train_network(), free_data(). Its loading threads and lists of paths are
 * gone.
 *
 * Invariant: rows of X point into the batch. free_data() releases the batch, and no row may be used
 * after that.
 */
#include <inttypes.h>
#include <math.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what the trainer had before ---- */

typedef struct matrix {
    int rows, cols;
    float **vals;
} matrix;

typedef struct data {
    int w, h;
    matrix X;
    matrix y;
    mr_batch *batch; /* new: holds the rows of X; replaces darknet's shallow */
} data;

typedef struct load_args {
    int n;               /* images of one step */
    int w, h, classes;   /* of the images */
    mr_dataset *dataset; /* new, replaces paths and labels */
    mr_loader *loader;   /* new, replaces threads */
} load_args;

/* One linear layer stands for the network. */
typedef struct network {
    int inputs, outputs;
    float learning_rate;
    float *delta, *weights, *updates;
    int n_right;
} network;

/* Cross-entropy of one row; adds to the updates. */
static float train_row(network *net, const float *x, const float *truth)
{
    float sum = 0, loss = 0, max = -INFINITY, largest = 0;

    for (int j = 0; j < net->outputs; j++) {
        net->delta[j] = 0;
        for (int i = 0; i < net->inputs; i++)
            net->delta[j] += net->weights[j * net->inputs + i] * (x[i] - 0.5f);
        max = fmaxf(max, net->delta[j]);
    }
    for (int j = 0; j < net->outputs; j++)
        sum += net->delta[j] = expf(net->delta[j] - max);
    for (int j = 0; j < net->outputs; j++) {
        float p = net->delta[j] / sum;
        largest = fmaxf(largest, p);
        loss -= truth[j] * logf(fmaxf(p, 1e-30f));
        for (int i = 0; i < net->inputs; i++)
            net->updates[j * net->inputs + i] += (truth[j] - p) * (x[i] - 0.5f);
    }
    net->n_right += -loss >= logf(fmaxf(largest, 1e-30f));
    return loss;
}

static float train_network(network *net, data d)
{
    float loss = 0;

    for (int i = 0; i < d.X.rows; i++)
        loss += train_row(net, d.X.vals[i], d.y.vals[i]);
    for (int i = 0; i < net->inputs * net->outputs; i++) {
        net->weights[i] += net->learning_rate / (float)d.X.rows * net->updates[i];
        net->updates[i] = 0;
    }
    return loss / (float)d.X.rows;
}

/* ---- what replaces load_data() and its threads ---- */

static void check_true(bool good, const char *words)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static void *check_alloc(int count, size_t size)
{
    void *memory = calloc((size_t)count, size);

    check_true(memory != NULL, "no memory");
    return memory;
}

static void start_loading(load_args *args, const char *spec, uint64_t epochs)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_transform *transform = NULL;
    mr_error error;
    char text[80];

    check_true(mr_dataset_open(spec, NULL, &args->dataset, &error) == MR_OK, error.text);
    args->classes = (int)mr_dataset_n_classes(args->dataset);
    check_true(args->classes > 0, "the dataset names no classes");
    snprintf(text, sizeof text, "random_resized_crop(%d:%d,scale=0.25:1)+hflip(0.5)", args->h,
             args->w);
    check_true(mr_transform_parse(text, &transform, &error) == MR_OK, error.text);
    options.batch_size = (uint32_t)args->n;
    options.drop_last = true; /* n rows in every step */
    options.dtype = MR_F32;   /* no mean and deviation: x / 255, in [0, 1] */
    options.layout = MR_NCHW; /* darknet's planes */
    options.num_workers = 2;
    options.n_epochs = epochs;
    options.on_error = MR_ON_ERROR_SKIP;
    options.seed = 1;
    check_true(mr_loader_create(args->dataset, transform, &options, &args->loader, &error) == MR_OK,
               error.text);
    mr_transform_destroy(transform);
    check_true(mr_loader_n_batches(args->loader) > 0,
               "the dataset has fewer images than a step needs");
}

/* Load the next data of this epoch. False: the epoch has ended. */
static bool load_data(const load_args *args, data *d)
{
    mr_status status = mr_loader_next(args->loader, MR_FOREVER, &d->batch);

    check_true(status >= 0, mr_loader_error(args->loader)->text);
    if (status == MR_END)
        return false;
    float *pixels = mr_batch_data(d->batch, "image");         /* f32 [n, 3, h, w] */
    const int64_t *labels = mr_batch_data(d->batch, "label"); /* i64 [n] */
    d->w = args->w;
    d->h = args->h;
    d->X = (matrix){.rows = args->n, .cols = 3 * args->h * args->w};
    d->y = (matrix){.rows = args->n, .cols = args->classes};
    d->X.vals = check_alloc(args->n, sizeof(float *));
    d->y.vals = check_alloc(args->n, sizeof(float *));
    float *truth = check_alloc(args->n * args->classes, sizeof(float));
    for (int i = 0; i < args->n; i++) {
        d->X.vals[i] = pixels + (size_t)i * (size_t)d->X.cols; /* no copy */
        d->y.vals[i] = truth + (size_t)i * (size_t)args->classes;
        if (labels[i] >= 0 && labels[i] < args->classes)
            d->y.vals[i][labels[i]] = 1;
    }
    return true;
}

static void free_data(data d)
{
    free(d.y.vals[0]);
    free(d.X.vals);
    free(d.y.vals);
    mr_batch_release(d.batch);
}

/* ---- the loop ---- */

int main(int argc, char **argv)
{
    uint64_t epochs = argc > 2 ? strtoull(argv[2], NULL, 10) : 4;
    network net = {.learning_rate = 0.05f};
    load_args args = {.n = 16, .w = 32, .h = 32};
    data train;

    check_true(argc == 2 || argc == 3, "usage: plug_darknet SPEC [EPOCHS]");
    start_loading(&args, argv[1], epochs);
    net.inputs = 3 * args.h * args.w;
    net.outputs = args.classes;
    net.weights = check_alloc(net.inputs * net.outputs, sizeof(float));
    net.updates = check_alloc(net.inputs * net.outputs, sizeof(float));
    net.delta = check_alloc(net.outputs, sizeof(float));

    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        double loss = 0;
        int steps = 0;
        net.n_right = 0;
        check_true(mr_loader_set_epoch(args.loader, epoch) == MR_OK,
                   mr_loader_error(args.loader)->text);
        for (; load_data(&args, &train); steps++) {
            loss += train_network(&net, train);
            free_data(train);
        }
        printf("epoch %" PRIu64 ": %d images, loss %.4f, right %.1f %%\n", epoch, steps * args.n,
               loss / steps, 100.0 * net.n_right / (steps * args.n));
    }
    mr_loader_destroy(args.loader);
    mr_dataset_destroy(args.dataset);
    free(net.weights);
    free(net.updates);
    free(net.delta);
    return 0;
}
