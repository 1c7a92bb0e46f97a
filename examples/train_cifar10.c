/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a small network on CIFAR-10's binary files, on one or many ranks:
 *
 *   train_cifar10 --data cifar-10-batches-bin --out run
 *   millrace launch --nproc 2 -- train_cifar10 --data cifar-10-batches-bin --out run
 *   train_cifar10 --mode dp --devices cuda:0,cuda:1 --data cifar-10-batches-bin --out run
 *
 * The loop is the same for all modes; train_modes.c places the network on devices. On GPUs a step
 * is queued in their streams: the host waits for batches, not for results.
 *
 * The batch size counts all ranks together. A step takes the same samples on any number of ranks,
 * so the weights are the same apart from the order of sums.
 *
 * Invariant: gradients are divided by the number of samples on all ranks, not on this one, because
 * the last batch of an epoch may differ between ranks or be empty on some.
 */
#include <inttypes.h>
#include <millrace/dist.h>
#include <millrace/millrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

enum { N_CLASSES = 10 };
#define MOMENTUM 0.9
#define DECAY 5e-4
#define TEST_TRANSFORM                                                                             \
    "normalize(mean=0.4914:0.4822:0.4465,std=0.2470:0.2435:0.2616)" /* the end of "cifar" */

/* ---- setting up ---- */

/*
 * The samples of this rank. The exact tail gives each sample once, so a step has the same samples
 * on any number of ranks.
 */
static mr_loader *open_loader(struct trainer *t, mr_dataset *data, const char *transform_text,
                              bool test, bool alone)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    uint32_t world_size = mr_group_world_size(t->group);
    mr_transform *transform = NULL;
    mr_loader *loader = NULL;
    const char *devices[MR_MAX_DEVICES];
    mr_error error;

    train_modes_loader(&t->model, &options, devices);
    options.batch_size = t->options.batch_size / world_size;
    options.world_size = alone ? 1 : world_size;
    options.rank = alone ? 0 : mr_group_rank(t->group);
    options.repeat = test || t->options.repeat < 2 ? 0 : t->options.repeat;
    if (options.repeat == 0)
        options.tail = MR_TAIL_EXACT; /* not possible with repeat */
    options.no_shuffle = test;
    options.seed = mr_seed(t->options.seed, "sampler");
    options.dtype = MR_F32;
    options.n_epochs = t->options.epochs;
    options.num_workers = t->options.workers > 0 ? t->options.workers : MR_NO_WORKERS;
    trainer_check(mr_transform_parse(transform_text, &transform, &error), &error);
    trainer_check(mr_loader_create(data, transform, &options, &loader, &error), &error);
    mr_transform_destroy(transform);
    return loader;
}

static mr_dataset *open_data(const char *folder, const char *split)
{
    mr_dataset *data = NULL;
    mr_error error;
    char *spec;

    if (asprintf(&spec, "cifar10:%s?split=%s", folder, split) < 0)
        trainer_fail("no memory");
    trainer_check(mr_dataset_open(spec, NULL, &data, &error), &error);
    free(spec);
    return data;
}

static void set_up(struct trainer *t)
{
    static const char *const names[] = {"loss", "accuracy", "test loss", "test accuracy"};
    const struct train_options *o = &t->options;
    mr_error error;

    trainer_join(t);
    t->train_data = open_data(o->data, "train");
    t->test_data = open_data(o->data, "test");
    t->train =
        open_loader(t, t->train_data, t->options.transform != NULL ? t->options.transform : "cifar",
                    false, false);
    if (!o->eval_rank0 || mr_group_rank(t->group) == 0)
        t->test = open_loader(t, t->test_data, TEST_TRANSFORM, true, o->eval_rank0);
    trainer_check(mr_group_same(t->group, mr_loader_fingerprint(t->train), "training data"),
                  mr_group_error(t->group));
    trainer_check(mr_metrics_create(t->group, &t->metrics, &error), &error);
    for (int i = 0; i < 4; i++) /* also on a rank that does not test */
        trainer_check(mr_metrics_declare(t->metrics, names[i]), mr_metrics_error(t->metrics));
    trainer_open(t, N_CLASSES);
}

/* ---- one step ---- */

/*
 * A layer's gradients are reduced while the layer before it computes; on GPUs in the order of the
 * stream.
 */
static void backward_layers(struct trainer *t)
{
    mr_group_work *works[CONVNET_LAYERS] = {NULL};
    struct convnet *net = t->model.nets[0];

    for (int layer = CONVNET_LAYERS - 1; layer >= 0; layer--) {
        uint64_t count;
        train_modes_backward(&t->model, layer);
        if (mr_group_world_size(t->group) == 1)
            continue;
        void *bucket = convnet_bucket(net, layer, &count);
        trainer_check(mr_group_all_reduce_async(t->group, bucket, count, t->model.dtype, MR_SUM,
                                                net->stream, &works[layer]),
                      mr_group_error(t->group));
    }
    for (int layer = CONVNET_LAYERS - 1; layer >= 0 && works[layer] != NULL; layer--) {
        trainer_check(mr_group_work_wait(works[layer], net->stream),
                      mr_group_error(t->group)); /* a GPU's stream waits, or this thread */
        mr_group_work_destroy(works[layer]);
    }
}

/* ---- epochs ---- */

/* Train until the end of the epoch, or until any rank has received a signal. */
static void train_epoch(struct trainer *t)
{
    mr_batch *batch = NULL;
    mr_status status = MR_OK;

    while (t->stop_signal == 0 &&
           (status = train_modes_next(&t->model, t->train, &batch)) == MR_OK) {
        uint64_t step = t->state.epoch * mr_loader_n_batches(t->train) + mr_batch_number(batch);
        trainer_progress(t, "training", batch, t->train);
        trainer_forward(t, batch, "loss", "accuracy");
        mr_batch_release(batch);
        backward_layers(t);
        train_modes_update(&t->model, trainer_rate(t, step), MOMENTUM, DECAY);
        trainer_agree(t, step);
    }
    trainer_check(status, mr_loader_error(t->train));
}

static void test_epoch(struct trainer *t)
{
    mr_batch *batch = NULL;
    mr_status status = MR_END;

    if (t->test != NULL) {
        trainer_check(mr_loader_set_epoch(t->test, t->state.epoch), mr_loader_error(t->test));
        while ((status = train_modes_next(&t->model, t->test, &batch)) == MR_OK) {
            trainer_progress(t, "testing", batch, t->test);
            trainer_forward(t, batch, "test loss", "test accuracy");
            mr_batch_release(batch);
        }
        trainer_check(status, mr_loader_error(t->test));
    }
    /* All four metrics in one all_reduce. */
    trainer_check(mr_metrics_reduce(t->metrics), mr_metrics_error(t->metrics));
}

static void run_epoch(struct trainer *t)
{
    if (t->state.in_epoch)
        trainer_check(mr_loader_restore(t->train, t->state.position, t->state.position_len),
                      mr_loader_error(t->train));
    else
        trainer_check(mr_loader_set_epoch(t->train, t->state.epoch), mr_loader_error(t->train));
    t->state.in_epoch = 1;
    train_epoch(t);
    if (t->stop_signal != 0) {
        trainer_save(t, "last.ckpt");
        mr_group_print0(t->group, "stopped in epoch %" PRIu64 " by SIG%s\n", t->state.epoch + 1,
                        sigabbrev_np(t->stop_signal));
        return;
    }
    test_epoch(t);
    t->state.epoch++;
    t->state.in_epoch = 0;
    trainer_report(t);
    if (mr_metrics_mean(t->metrics, "test accuracy") > t->state.best) {
        t->state.best = mr_metrics_mean(t->metrics, "test accuracy");
        trainer_save(t, "best.ckpt");
    }
    trainer_save(t, "last.ckpt");
}

int main(int argc, char **argv)
{
    struct trainer t = {.options = train_options_parse(argc, argv)};

    set_up(&t);
    trainer_share(&t);
    mr_group_print0(t.group,
                    "%zu parameters, %s, world size %u (%s), %" PRId64 " + %" PRId64 " images\n",
                    t.model.n_params, mr_dtype_name(t.model.dtype), mr_group_world_size(t.group),
                    mr_group_backend(t.group), mr_dataset_n_samples(t.train_data),
                    mr_dataset_n_samples(t.test_data));
    if (t.state.epoch >= t.options.epochs) { /* nothing left to train */
        test_epoch(&t);
        trainer_report(&t);
    }
    while (t.state.epoch < t.options.epochs && t.stop_signal == 0)
        run_epoch(&t);
    trainer_fini(&t);
    return 0;
}
