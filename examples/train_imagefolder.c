/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of train_cifar10.c on folders of JPEG files, on one or many ranks:
 *
 *   train_imagefolder --data FOLDER --out run
 *   millrace launch --nproc 2 -- train_imagefolder --data FOLDER --out run
 *
 * The images are FOLDER/train/<class>/<image>.jpg and FOLDER/val/<class>/<image>.jpg. Both folders
 * must have the same classes, because a label is a class's number.
 *
 * Unlike CIFAR-10, photographs take long to decode, and files may be damaged. A damaged file is a
 * row of zeros whose mask is 0. It adds nothing to loss, gradients or counts. So the number of rows
 * on all ranks is reduced together with the gradients.
 */
#include <inttypes.h>
#include <millrace/dist.h>
#include <millrace/millrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

#define MOMENTUM 0.9
#define DECAY 5e-4

/* ---- setting up ---- */

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
    options.on_error = MR_ON_ERROR_ZERO;
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

    if (asprintf(&spec, "imagefolder:%s/%s", folder, split) < 0)
        trainer_fail("no memory");
    trainer_check(mr_dataset_open(spec, NULL, &data, &error), &error);
    free(spec);
    return data;
}

/* Compare the classes' names: a label is a class's number in the order of the names. */
static void compare_classes(const mr_dataset *train, const mr_dataset *val)
{
    uint32_t n = mr_dataset_n_classes(train);
    bool same = n == mr_dataset_n_classes(val);

    for (uint32_t i = 0; same && i < n; i++)
        same = strcmp(mr_dataset_class_name(train, i), mr_dataset_class_name(val, i)) == 0;
    if (!same)
        trainer_fail("train and val have different classes");
    if (n < 2 || n > CONVNET_MAX_CLASSES)
        trainer_fail("the number of classes is not 2 to 1000");
}

static void set_up(struct trainer *t)
{
    static const char *const names[] = {"loss", "accuracy", "test loss", "test accuracy"};
    const struct train_options *o = &t->options;
    mr_error error;

    trainer_join(t);
    t->train_data = open_data(o->data, "train");
    t->test_data = open_data(o->data, "val");
    compare_classes(t->train_data, t->test_data);
    t->train = open_loader(t, t->train_data,
                           t->options.transform != NULL ? t->options.transform : "train:224", false,
                           false);
    if (!o->eval_rank0 || mr_group_rank(t->group) == 0)
        t->test = open_loader(t, t->test_data, "eval:232:224", true, o->eval_rank0);
    trainer_check(mr_group_same(t->group, mr_loader_fingerprint(t->train), "training data"),
                  mr_group_error(t->group));
    trainer_check(mr_metrics_create(t->group, &t->metrics, &error), &error);
    for (int i = 0; i < 4; i++) /* also on a rank that does not test */
        trainer_check(mr_metrics_declare(t->metrics, names[i]), mr_metrics_error(t->metrics));
    trainer_open(t, mr_dataset_n_classes(t->train_data));
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

/* Print whether decoding or arithmetic takes the time, and how many images were damaged. */
static void report_loader(const struct trainer *t)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    char verdict[128];

    mr_loader_verdict(t->train, verdict, sizeof verdict);
    trainer_check(mr_loader_get_stats(t->train, &stats), mr_loader_error(t->train));
    mr_group_print0(t->group, "           %s; %" PRIu64 " damaged\n", verdict, stats.n_damaged);
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
    report_loader(t);
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
