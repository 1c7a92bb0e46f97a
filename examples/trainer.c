/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a training run around the loop: group, files, log, checkpoint, signals.
 *
 * Invariant: only rank 0 writes to files and the terminal, but all ranks call every collective (a
 * reduction, a broadcast). Otherwise the other ranks wait forever.
 */
#include "trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * On GPUs a rank that asks for signals waits for its stream, which may have a few batches queued.
 * So it asks only every few steps.
 */
enum { STEPS_PER_AGREEMENT = 8 };

void trainer_fail(const char *format, ...)
{
    char words[2048];
    va_list values;

    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    /* One write, so that ranks do not mix their lines. The group reports the end to the others. */
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, words);
    exit(1);
}

static bool is_on_nccl(const struct trainer *t)
{
    return strcmp(mr_group_backend(t->group), "nccl") == 0;
}

void trainer_check(mr_status status, const mr_error *error)
{
    if (status < 0)
        trainer_fail("%s", error->text);
}

/* ---- setting up ---- */

static bool is_alone(void)
{
    static const char *const names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_PROCID"};
    bool is = true;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is = is && getenv(names[i]) == NULL;
    return is;
}

/* Ranks on this machine, if the launcher's environment has their number. */
static unsigned long n_local_ranks(void)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (getenv(names[i]) != NULL)
            return strtoul(getenv(names[i]), NULL, 10);
    }
    return 1;
}

/* Is there a GPU for each rank of this machine, and an engine for GPU memory? */
static bool has_own_gpu(const struct train_options *o)
{
    bool is_refused = o->backend != NULL && strcmp(o->backend, "nccl") != 0 && !is_alone();
    uint32_t n_gpus = is_refused ? 0 : convnet_n_gpus();

    return n_gpus > 0 && n_local_ranks() <= n_gpus;
}

/* All GPUs, or two host devices. */
static const char *list_devices(char *list, size_t size)
{
    uint32_t n = convnet_n_gpus();
    size_t len = 0;

    for (uint32_t i = 0; i < n && i < MR_MAX_DEVICES && len < size; i++)
        len += (size_t)snprintf(list + len, size - len, "%scuda:%u", i > 0 ? "," : "", i);
    return n > 1 ? list : "host:0,host:1";
}

static const char *choose_rank_device(const struct train_options *o)
{
    if (o->device == NULL || strcmp(o->device, "auto") == 0)
        return has_own_gpu(o) ? "cuda:local" : "host";
    return o->device;
}

static void choose_devices(struct trainer *t, const char *list)
{
    char local[24];

    if (strcmp(list, "cuda:local") == 0) {
        uint32_t rank = mr_group_local_rank(t->group);
        snprintf(local, sizeof local, "cuda:%u", convnet_n_gpus() > 1 ? rank : 0);
        list = local;
    }
    const char *words = train_modes_devices(&t->model, t->options.mode, list);
    if (words != NULL)
        trainer_fail("%s", words);
}

void trainer_join(struct trainer *t)
{
    const struct train_options *o = &t->options;
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    bool is_ddp = o->mode == TRAIN_DDP;
    char all[200];
    const char *list;
    mr_error error;

    /* early, because counting GPUs takes a while */
    trainer_check(mr_signals_watch(&error), &error);
    list = is_ddp               ? choose_rank_device(o)
           : o->devices != NULL ? o->devices
                                : list_devices(all, sizeof all);
    options.backend = o->backend;
    if (options.backend == NULL && is_alone())
        options.backend = "gloo"; /* so that one GPU needs no NCCL; one process never opens gloo */
    if (is_ddp && strncmp(list, "cuda", 4) == 0 &&
        (options.backend == NULL || strcmp(options.backend, "nccl") == 0))
        options.device = list;
    trainer_check(mr_group_create(&options, &t->group, &error), &error);
    t->terminal = mr_group_rank(t->group) == 0 && isatty(STDERR_FILENO) == 1;
    if (!is_ddp && mr_group_world_size(t->group) > 1)
        trainer_fail("several ranks need --mode ddp");
    if (o->batch_size % mr_group_world_size(t->group) != 0)
        trainer_fail("--batch-size %u is not a multiple of %u ranks", o->batch_size,
                     mr_group_world_size(t->group));
    choose_devices(t, list);
    if (train_modes_on_gpu(&t->model) && mr_group_world_size(t->group) > 1 && !is_on_nccl(t))
        trainer_fail("several ranks on GPUs need --backend nccl");
    if (!train_modes_on_gpu(&t->model) && is_on_nccl(t))
        trainer_fail("--backend nccl needs --device cuda:local");
}

void trainer_open(struct trainer *t, uint32_t n_classes)
{
    const struct train_options *o = &t->options;
    uint32_t rows = o->batch_size / mr_group_world_size(t->group);

    if (!train_modes_open(&t->model, o->dtype, n_classes, rows, mr_seed(o->seed, "weights")))
        trainer_fail("cannot create the network");
    t->numbers = calloc(2 * t->model.n_params, mr_dtype_size(o->dtype));
    if (t->numbers == NULL)
        trainer_fail("no memory for checkpoints");
    t->state.dtype = (uint64_t)o->dtype;
    t->state.n_params = t->model.n_params;
    if (o->out != NULL && mr_group_rank(t->group) == 0 && mkdir(o->out, 0777) < 0 &&
        errno != EEXIST)
        trainer_fail("--out %s: %s", o->out, strerror(errno));
}

/*
 * Broadcast from rank 0. nccl needs device memory, so this uses the gradients, which are not in use
 * yet.
 */
static void share_bytes(struct trainer *t, void *memory, size_t n_bytes)
{
    struct convnet *net = t->model.nets[0];
    void *buffer = is_on_nccl(t) ? net->gradients : memory;

    if (buffer != memory)
        convnet_copy(net, buffer, NULL, memory, n_bytes);
    trainer_check(mr_group_broadcast(t->group, buffer, n_bytes / sizeof(int32_t), MR_I32, 0),
                  mr_group_error(t->group));
    if (buffer != memory)
        convnet_copy(NULL, memory, net, buffer, n_bytes);
}

void trainer_share(struct trainer *t)
{
    size_t half = t->model.n_params * mr_dtype_size(t->model.dtype);

    train_modes_save(&t->model, t->numbers);
    if (t->options.resume != NULL && mr_group_rank(t->group) == 0 &&
        !checkpoint_read(t->options.resume, &t->state, t->numbers))
        trainer_fail("cannot resume");
    share_bytes(t, &t->state, sizeof t->state);
    share_bytes(t, t->numbers, half);
    share_bytes(t, (char *)t->numbers + half, half);
    train_modes_load(&t->model, t->numbers);
}

void trainer_save(struct trainer *t, const char *name)
{
    if (t->options.out == NULL || mr_group_rank(t->group) != 0)
        return;
    size_t len = 0;

    trainer_check(mr_loader_save(t->train, t->state.position, sizeof t->state.position, &len),
                  mr_loader_error(t->train));
    t->state.position_len = len;
    train_modes_save(&t->model, t->numbers);
    if (!checkpoint_write(t->options.out, name, &t->state, t->numbers))
        trainer_fail("cannot save");
}

/* ---- during a run ---- */

/* At the first batch rank 0 prints once how much memory its devices use. */
static void print_memory(struct trainer *t, mr_batch *batch)
{
    if (!t->reported && mr_group_rank(t->group) == 0)
        train_modes_print_memory(&t->model, t->train, batch);
    t->reported = true;
}

void trainer_forward(struct trainer *t, mr_batch *batch, const char *loss, const char *accuracy)
{
    const char *words = train_modes_forward(&t->model, batch);

    if (words == NULL)
        words = train_modes_score(&t->model, batch);
    if (words != NULL)
        trainer_fail("%s", words);
    print_memory(t, batch);
    trainer_count(t, batch, loss, accuracy);
}

static void count_on_gpu(struct trainer *t, const char *name, const double *sum, double count)
{
    trainer_check(
        mr_metrics_add_device(t->metrics, name, sum, MR_F64, count, t->model.nets[0]->stream),
        mr_metrics_error(t->metrics));
}

void trainer_count(struct trainer *t, const mr_batch *batch, const char *loss, const char *accuracy)
{
    if (is_on_nccl(t)) {
        const struct convnet_sums *there = t->model.nets[0]->sums;
        count_on_gpu(t, loss, &there->loss, mr_batch_valid(batch));
        count_on_gpu(t, accuracy, &there->correct, mr_batch_valid(batch));
        return;
    }
    struct convnet_sums sums = train_modes_sums(&t->model);
    trainer_check(mr_metrics_add(t->metrics, loss, sums.loss, sums.count),
                  mr_metrics_error(t->metrics));
    trainer_check(mr_metrics_add(t->metrics, accuracy, sums.correct, sums.count),
                  mr_metrics_error(t->metrics));
}

void trainer_agree(struct trainer *t, uint64_t step)
{
    if (step % (is_on_nccl(t) ? STEPS_PER_AGREEMENT : 1) == 0)
        trainer_check(mr_signals_agree(t->group, &t->stop_signal), mr_group_error(t->group));
}

void trainer_report(const struct trainer *t)
{
    double loss = mr_metrics_mean(t->metrics, "loss"),
           accuracy = mr_metrics_mean(t->metrics, "accuracy");
    double test_loss = mr_metrics_mean(t->metrics, "test loss");
    double test_accuracy = mr_metrics_mean(t->metrics, "test accuracy");
    char *path = NULL, trained[80] = "";

    if (t->terminal)
        fputs("\r\033[K", stderr);
    if (mr_metrics_count(t->metrics, "loss") > 0)
        snprintf(trained, sizeof trained, "loss %.4f, accuracy %5.2f %%; ", loss, 100 * accuracy);
    mr_group_print0(t->group, "epoch %3" PRIu64 ": %stest loss %.4f, accuracy %5.2f %%; %.1f s\n",
                    t->state.epoch, trained, test_loss, 100 * test_accuracy, mr_elapsed());
    if (t->options.out == NULL || mr_group_rank(t->group) != 0)
        return;
    FILE *log = asprintf(&path, "%s/log.tsv", t->options.out) < 0 ? NULL : fopen(path, "a");
    if (log == NULL ||
        fprintf(log, "%" PRIu64 "\t%.17g\t%.17g\t%.17g\t%.17g\t%.3f\n", t->state.epoch, loss,
                accuracy, test_loss, test_accuracy, mr_elapsed()) < 0 ||
        fclose(log) != 0)
        trainer_fail("cannot write log.tsv");
    free(path);
}

void trainer_progress(const struct trainer *t, const char *what, const mr_batch *batch,
                      const mr_loader *loader)
{
    if (t->terminal)
        fprintf(stderr,
                "\r\033[Kepoch %" PRIu64 "/%" PRIu64 ", %s: batch %" PRIu64 "/%" PRIu64 ", %.0f s",
                t->state.epoch + 1, t->options.epochs, what, mr_batch_number(batch) + 1,
                mr_loader_n_batches(loader), mr_elapsed());
}

double trainer_rate(const struct trainer *t, uint64_t step)
{
    double total = (double)(t->options.epochs * mr_loader_n_batches(t->train)),
           warm_up = ceil(total / 10);
    double at = (double)step;

    if (at < warm_up)
        return t->options.lr * (at + 1) / warm_up;
    return t->options.lr * 0.5 * (1 + cos(M_PI * (at - warm_up) / (total - warm_up)));
}

void trainer_fini(struct trainer *t)
{
    train_modes_close(&t->model);
    free(t->numbers);
    mr_metrics_destroy(t->metrics);
    mr_loader_destroy(t->train);
    mr_loader_destroy(t->test);
    mr_dataset_destroy(t->train_data);
    mr_dataset_destroy(t->test_data);
    mr_group_destroy(t->group);
}
