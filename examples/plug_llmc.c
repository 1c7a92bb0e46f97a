/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plug_llmc PATTERN [STEPS]: a trainer like llm.c that gets its tokens and ranks from millrace
 * (docs/plug-in.md):
 *
 *   plug_llmc 'data/train_*.bin' 100
 *   millrace launch --nproc 2 -- plug_llmc 'data/train_*.bin' 100
 *
 * The trainer's interface is unchanged: dataloader_next_batch() gives B x T inputs, and targets
 * that are one token further; multi_gpu_config has the ranks. Rows begin T tokens apart.
 */
#include <glob.h>
#include <math.h>
#include <millrace/dist.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 256 };

static void exit_with(const char *words, const char *of)
{
    fprintf(stderr, "%s%s\n", of, words);
    exit(1);
}

static void check_status(mr_status status, const mr_error *error)
{
    if (status < 0)
        exit_with(error->text, "");
}

/* ---- ranks: MPI_Init, ncclCommInitRank and the search for the device are gone ---- */

typedef struct MultiGpuConfig {
    int process_rank, num_processes, local_device_idx;
    mr_group *group;
} MultiGpuConfig;

static MultiGpuConfig multi_gpu_config_init(void)
{
    MultiGpuConfig config = {0};
    mr_error error;

    /* The launcher's environment has rank and world size. */
    check_status(mr_group_create(NULL, &config.group, &error), &error);
    config.process_rank = (int)mr_group_rank(config.group);
    config.num_processes = (int)mr_group_world_size(config.group);
    config.local_device_idx = (int)mr_group_local_rank(config.group);
    return config;
}

static float multi_gpu_cpu_float_sum(float value, MultiGpuConfig *config)
{
    check_status(mr_group_all_reduce(config->group, &value, 1, MR_F32, MR_SUM),
                 mr_group_error(config->group));
    return value;
}

/* ---- tokens: fopen, fseek, fread and the shuffling of shards are gone ---- */

typedef struct DataLoader {
    size_t B, T;
    int *inputs, *targets; /* of the batch */
    mr_dataset *dataset;
    mr_loader *loader;
    mr_batch *batch;
} DataLoader;

/* tokens:A,B,...?window=T. The headers of the shards are checked. */
static char *make_spec(const DataLoader *loader, const char *pattern)
{
    glob_t shards;
    char *spec = NULL;
    size_t len;
    FILE *text = open_memstream(&spec, &len);

    if (text == NULL || glob(pattern, 0, NULL, &shards) != 0)
        exit_with(": no such files", pattern);
    for (size_t i = 0; i < shards.gl_pathc; i++) {
        fputs(i == 0 ? "tokens:" : ",", text);
        for (const char *c = shards.gl_pathv[i]; *c != '\0'; c++)
            fprintf(text, strchr("?,%", *c) != NULL ? "%%%02X" : "%c", (unsigned char)*c);
    }
    fprintf(text, "?window=%zu", loader->T);
    globfree(&shards);
    if (fclose(text) != 0)
        exit_with("no memory", "");
    return spec;
}

static void dataloader_init(DataLoader *loader, const char *pattern, size_t B, size_t T,
                            int process_rank, int num_processes, int should_shuffle)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_error error;

    *loader = (DataLoader){.B = B, .T = T};
    char *spec = make_spec(loader, pattern);
    options.batch_size = (uint32_t)B;
    options.dtype = MR_I32;
    options.rank = (uint32_t)process_rank;
    options.world_size = (uint32_t)num_processes;
    options.rank_slices = true; /* B rows in a row for each rank, as llm.c */
    options.no_shuffle = !should_shuffle;
    options.drop_last = true;    /* B rows in every batch ... */
    options.tail = MR_TAIL_DROP; /* ... and the same number of batches on every rank */
    options.seed = 42;           /* the same on all ranks: together they see each row once */
    options.num_workers = 1;
    check_status(mr_dataset_open(spec, NULL, &loader->dataset, &error), &error);
    check_status(mr_loader_create(loader->dataset, NULL, &options, &loader->loader, &error),
                 &error);
    free(spec);
}

static void dataloader_next_batch(DataLoader *loader)
{
    mr_batch_release(loader->batch);
    mr_status status = mr_loader_next(loader->loader, MR_FOREVER, &loader->batch);

    if (status == MR_END) { /* the next epoch, in another order */
        status = mr_loader_set_epoch(loader->loader, mr_loader_epoch(loader->loader) + 1);
        check_status(status, mr_loader_error(loader->loader));
        status = mr_loader_next(loader->loader, MR_FOREVER, &loader->batch);
    }
    check_status(status, mr_loader_error(loader->loader));
    loader->inputs = mr_batch_data(loader->batch, "tokens"); /* i32 [B, T] */
    loader->targets = mr_batch_data(loader->batch, "labels");
}

static void dataloader_free(DataLoader *loader)
{
    mr_batch_release(loader->batch);
    mr_loader_destroy(loader->loader);
    mr_dataset_destroy(loader->dataset);
}

/* ---- the model: a table of scores for each pair of successive tokens ---- */

static float model_forward_backward(float (*scores)[VOCAB], float (*gradient)[VOCAB],
                                    const DataLoader *batch)
{
    float loss = 0, n = (float)(batch->B * batch->T);

    memset(gradient, 0, VOCAB * sizeof *gradient);
    for (size_t i = 0; i < batch->B * batch->T; i++) {
        int input = batch->inputs[i], target = batch->targets[i];
        float p[VOCAB], sum = 0;
        if (input >= VOCAB || target >= VOCAB)
            exit_with("a token is above 255", "");
        for (int j = 0; j < VOCAB; j++)
            sum += p[j] = expf(scores[input][j]);
        for (int j = 0; j < VOCAB; j++)
            gradient[input][j] += (p[j] / sum - (float)(j == target)) / n;
        loss -= logf(p[target] / sum) / n;
    }
    return loss;
}

int main(int argc, char **argv)
{
    static float scores[VOCAB][VOCAB], gradient[VOCAB][VOCAB];
    int steps = argc > 2 ? atoi(argv[2]) : 100;
    DataLoader train_loader;

    if (argc < 2 || argc > 3)
        exit_with("usage: plug_llmc PATTERN [STEPS]", "");
    MultiGpuConfig config = multi_gpu_config_init();
    dataloader_init(&train_loader, argv[1], 4, 64, config.process_rank, config.num_processes, 1);
    for (int step = 0; step < steps; step++) {
        dataloader_next_batch(&train_loader);
        float loss = model_forward_backward(scores, gradient, &train_loader);
        /* All ranks have the same number of tokens, so this is the mean over tokens. */
        check_status(mr_group_all_reduce(config.group, gradient, sizeof gradient / sizeof(float),
                                         MR_F32, MR_MEAN),
                     mr_group_error(config.group));
        for (int i = 0; i < VOCAB * VOCAB; i++)
            scores[i / VOCAB][i % VOCAB] -= 20 * gradient[i / VOCAB][i % VOCAB];
        loss = multi_gpu_cpu_float_sum(loss, &config) / (float)config.num_processes;
        if (step % 10 == 0 || step == steps - 1)
            mr_group_print0(config.group, "step %d: train loss %.4f\n", step, loss);
    }
    dataloader_free(&train_loader);
    mr_group_destroy(config.group);
    return 0;
}
