/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a small language model on rows of tokens, on one or many ranks. The bytes of any text are
 * tokens:
 *
 *   spec='mix:0.7*(tokens:a.txt?window=64&dtype=u8)|0.3*(tokens:b.txt?window=64&dtype=u8)'
 *   train_tokens --data "$spec" --out run
 *   millrace launch --nproc 3 -- \
 *       train_tokens --data "$spec" --out run --resume run/last.ckpt --steps 200
 *
 * Documents that are packed into rows are another SPEC: tokens:d.bin?window=64&pack=bfd, with the
 * index d.idx of Megatron-Core beside d.bin.
 *
 * The model predicts a token from the two before it: scores = U tanh(E[token] + P[one before]) + b.
 * A row's first token, and the first token of a document in it (its position is 0), have no token
 * before them.
 *
 * The batch size counts all ranks together, and ranks take slices of it (rank_slices). So step k
 * has the same samples in the same order on any number of ranks, and the position of a checkpoint
 * continues on another number. log.tsv has them: step, loss, number of labels, and the dataset
 * indices of all ranks' rows. A run that was killed begins again at its last checkpoint and writes
 * the lines after it again.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <millrace/dist.h>
#include <millrace/millrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint.h"

enum { WIDTH = 32, STEPS_PER_LINE = 10 };
#define MOMENTUM 0.9

struct options {
    const char *data, *out, *resume;
    uint64_t batch_size, steps, save_every, vocab, seed, workers;
    double lr;
};

struct model {
    uint64_t vocab, n_params;
    double *weights, *velocities; /* one allocation, as a checkpoint has them */
    double *gradients;            /* and the sum of losses and the number of labels after them */
    double *scores;
};

struct run {
    struct options options;
    mr_group *group;
    mr_dataset *dataset;
    mr_loader *loader;
    struct model model;
    struct checkpoint state; /* its epoch counts steps */
    FILE *log;
    int64_t *indices; /* of all ranks' rows of a step */
};

static void fail(const char *words, const char *of)
{
    fprintf(stderr, "train_tokens: %s%s\n", of,
            words); /* the group reports the end to the others */
    exit(1);
}

static void check(mr_status status, const mr_error *error)
{
    if (status < 0)
        fail(error->text, "");
}

static void *allocate(uint64_t n, size_t size)
{
    void *memory = calloc(n, size);

    if (memory == NULL)
        fail("no memory", "");
    return memory;
}

/* ---- the model: E, P, U of vocab x WIDTH, then b of vocab ---- */

static void model_init(struct model *model, uint64_t vocab, uint64_t seed)
{
    model->vocab = vocab;
    model->n_params = vocab * (3 * WIDTH + 1);
    model->weights = allocate(2 * model->n_params, sizeof(double));
    model->velocities = model->weights + model->n_params;
    model->gradients = allocate(model->n_params + 2, sizeof(double));
    model->scores = allocate(vocab, sizeof(double));
    for (uint64_t i = 0; i < vocab * 3 * WIDTH; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        model->weights[i] = ((double)(seed >> 11) / 0x1p53 - 0.5) / sqrt(WIDTH);
    }
}

/* Scores become probabilities. Returns the loss. */
static double soften(double *scores, uint64_t n, uint64_t label)
{
    double most = scores[0], sum = 0, at_label;

    for (uint64_t v = 1; v < n; v++)
        most = fmax(most, scores[v]);
    at_label = scores[label] - most;
    for (uint64_t v = 0; v < n; v++)
        sum += scores[v] = exp(scores[v] - most);
    for (uint64_t v = 0; v < n; v++)
        scores[v] /= sum;
    return log(sum) - at_label;
}

/* Add the loss of one label, and its gradients. before: NULL if there is no token before. */
static void model_learn(struct model *model, int32_t token, const int32_t *before, int32_t label,
                        double weight)
{
    uint64_t part = model->vocab * WIDTH, at = (uint64_t)token * WIDTH,
             at_before = part + (before ? (uint64_t)*before : 0) * WIDTH;
    const double *w = model->weights, *u = w + 2 * part, *b = w + 3 * part;
    double *g = model->gradients, *du = g + 2 * part, *db = g + 3 * part;
    double hidden[WIDTH], dhidden[WIDTH] = {0};

    for (int i = 0; i < WIDTH; i++)
        hidden[i] = tanh(w[at + i] + (before ? w[at_before + i] : 0));
    for (uint64_t v = 0; v < model->vocab; v++) {
        model->scores[v] = b[v];
        for (int i = 0; i < WIDTH; i++)
            model->scores[v] += u[v * WIDTH + i] * hidden[i];
    }
    g[model->n_params] += weight * soften(model->scores, model->vocab, (uint64_t)label);
    g[model->n_params + 1] += weight;
    for (uint64_t v = 0; v < model->vocab; v++) {
        double d = weight * (model->scores[v] - (v == (uint64_t)label));
        db[v] += d;
        for (int i = 0; i < WIDTH; i++) {
            du[v * WIDTH + i] += d * hidden[i];
            dhidden[i] += d * u[v * WIDTH + i];
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        double d = dhidden[i] * (1 - hidden[i] * hidden[i]);
        g[at + i] += d;
        g[at_before + i] += before ? d : 0;
    }
}

/* The gradients are sums, so they are divided by the number of labels on all ranks. */
static void model_update(struct model *model, double rate)
{
    double n_labels = fmax(model->gradients[model->n_params + 1], 1);

    for (uint64_t i = 0; i < model->n_params; i++) {
        model->velocities[i] = MOMENTUM * model->velocities[i] + model->gradients[i] / n_labels;
        model->weights[i] -= rate * model->velocities[i];
    }
}

/* ---- a step ---- */

static int32_t checked_id(const struct run *run, int32_t id)
{
    if (id < 0 || (uint64_t)id >= run->model.vocab)
        fail("a token is not below --vocab", "");
    return id;
}

/* The arrays loss_mask and position_ids exist if the SPEC asks for them, or packs documents. */
static void learn_row(struct run *run, const mr_batch *batch, int64_t at, int64_t len)
{
    const int32_t *tokens = mr_batch_data(batch, "tokens"),
                  *labels = mr_batch_data(batch, "labels"),
                  *positions = mr_batch_data(batch, "position_ids");
    const float *mask = mr_batch_data(batch, "loss_mask");

    for (int64_t i = at; i < at + len; i++) {
        bool is_first = i == at || (positions != NULL && positions[i] == 0);
        if (labels[i] >= 0 && (mask == NULL || mask[i] > 0)) /* -100: nothing to predict */
            model_learn(&run->model, checked_id(run, tokens[i]), is_first ? NULL : &tokens[i - 1],
                        checked_id(run, labels[i]), mask != NULL ? mask[i] : 1);
    }
}

static void learn_batch(struct run *run, const mr_batch *batch)
{
    const mr_array *rows = mr_batch_array(batch, "tokens");

    if (rows == NULL)
        fail(": not a dataset of tokens", run->options.data);
    for (int64_t row = 0; row < rows->shape[0]; row++)
        learn_row(run, batch, row * rows->strides[0] / (int64_t)sizeof(int32_t), rows->shape[1]);
}

static mr_batch *next_batch(mr_loader *loader)
{
    mr_batch *batch = NULL;
    mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);

    if (status == MR_END) { /* a mixture has no end, other datasets have epochs */
        check(mr_loader_set_epoch(loader, mr_loader_epoch(loader) + 1), mr_loader_error(loader));
        status = mr_loader_next(loader, MR_FOREVER, &batch);
    }
    check(status, mr_loader_error(loader));
    return batch;
}

static void report(const struct run *run, uint32_t n_rows)
{
    const double *sums = run->model.gradients + run->model.n_params;
    double loss = sums[0] / fmax(sums[1], 1);
    uint64_t step = run->state.epoch;

    if (step % STEPS_PER_LINE == 0 || step == run->options.steps)
        mr_group_print0(run->group, "step %" PRIu64 ": loss %.4f\n", step, loss);
    if (run->log == NULL)
        return;
    fprintf(run->log, "%" PRIu64 "\t%.17g\t%.0f\t", step, loss, sums[1]);
    for (uint32_t i = 0; i < n_rows; i++)
        fprintf(run->log, "%s%" PRId64, i > 0 ? "," : "", run->indices[i]);
    if (fputc('\n', run->log) == EOF || fflush(run->log) != 0)
        fail(strerror(errno), "log.tsv: ");
}

static void take_step(struct run *run)
{
    struct model *model = &run->model;
    mr_batch *batch = next_batch(run->loader);
    uint32_t n_rows = mr_batch_size(batch);

    memset(model->gradients, 0, (model->n_params + 2) * sizeof(double));
    learn_batch(run, batch);
    check(mr_group_all_reduce(run->group, model->gradients, model->n_params + 2, MR_F64, MR_SUM),
          mr_group_error(run->group));
    check(mr_group_all_gather(run->group, mr_batch_data(batch, "index"), run->indices, n_rows,
                              MR_I64),
          mr_group_error(run->group));
    mr_batch_release(batch);
    model_update(model, run->options.lr);
    run->state.epoch++;
    report(run, n_rows * mr_group_world_size(run->group));
}

/* ---- setting up, and checkpoints ---- */

static void save(struct run *run)
{
    size_t len;

    if (run->options.out == NULL || mr_group_rank(run->group) != 0)
        return;
    check(mr_loader_save(run->loader, run->state.position, sizeof run->state.position, &len),
          mr_loader_error(run->loader));
    run->state.position_len = len;
    if (!checkpoint_write(run->options.out, "last.ckpt", &run->state, run->model.weights))
        fail("cannot save", "");
}

/* Rank 0 reads, so other machines do not need the file. */
static void resume(struct run *run)
{
    struct model *model = &run->model;

    if (mr_group_rank(run->group) == 0 &&
        !checkpoint_read(run->options.resume, &run->state, model->weights))
        fail("cannot resume", "");
    check(
        mr_group_broadcast(run->group, &run->state, sizeof run->state / sizeof(int32_t), MR_I32, 0),
        mr_group_error(run->group));
    check(mr_group_broadcast(run->group, model->weights, 2 * model->n_params, MR_F64, 0),
          mr_group_error(run->group));
    check(mr_loader_restore(run->loader, run->state.position, run->state.position_len),
          mr_loader_error(run->loader));
}

static void open_loader(struct run *run)
{
    const struct options *o = &run->options;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_error error;

    options.world_size = mr_group_world_size(run->group);
    options.rank = mr_group_rank(run->group);
    if (o->batch_size % options.world_size != 0)
        fail("--batch-size is not a multiple of the number of ranks", "");
    options.batch_size = (uint32_t)o->batch_size / options.world_size;
    options.rank_slices = true; /* always so for a mixture */
    options.drop_last = true;   /* the same number of rows in every step */
    options.tail = MR_TAIL_DROP;
    options.seed = mr_seed(o->seed, "sampler");
    options.dtype = MR_I32;
    options.num_workers = o->workers > 0 ? (uint32_t)o->workers : MR_NO_WORKERS;
    check(mr_dataset_open(o->data, NULL, &run->dataset, &error), &error);
    check(mr_loader_create(run->dataset, NULL, &options, &run->loader, &error), &error);
    check(mr_group_same(run->group, mr_loader_fingerprint(run->loader), "training data"),
          mr_group_error(run->group));
    run->indices = allocate(o->batch_size, sizeof(int64_t));
}

static void open_log(struct run *run)
{
    const char *out = run->options.out;
    char *path;

    if (out == NULL || mr_group_rank(run->group) != 0)
        return;
    if (mkdir(out, 0777) != 0 && errno != EEXIST)
        fail(strerror(errno), "--out: ");
    if (asprintf(&path, "%s/log.tsv", out) < 0 || (run->log = fopen(path, "ae")) == NULL)
        fail(strerror(errno), "log.tsv: ");
    free(path);
}

static void set_up(struct run *run)
{
    const struct options *o = &run->options;
    mr_error error;

    check(mr_signals_watch(&error), &error);
    check(mr_group_create(NULL, &run->group, &error), &error);
    open_loader(run);
    model_init(&run->model, o->vocab, mr_seed(o->seed, "weights"));
    run->state = (struct checkpoint){.dtype = MR_F64, .n_params = run->model.n_params};
    open_log(run);
    if (o->resume != NULL)
        resume(run);
}

static void tear_down(struct run *run)
{
    if (run->log != NULL)
        fclose(run->log);
    free(run->model.weights);
    free(run->model.gradients);
    free(run->model.scores);
    free(run->indices);
    mr_loader_destroy(run->loader);
    mr_dataset_destroy(run->dataset);
    mr_group_destroy(run->group);
}

static const struct argp_option argp_options[] = {
    {"data", 'd', "SPEC", 0, "a dataset with the array tokens (required), see docs/tokens.md", 0},
    {"vocab", 'V', "N", 0, "number of token ids (256)", 0},
    {"batch-size", 'b', "N", 0, "rows in a step, on all ranks together (12)", 0},
    {"steps", 'n', "N", 0, "stop after step N, counted from the start of the first run (100)", 0},
    {"lr", 'l', "X", 0, "learning rate (0.5)", 0},
    {"seed", 's', "N", 0, "seed of weights and order (1)", 0},
    {"workers", 'w', "N", 0, "processes of each rank that read (1); 0: none", 0},
    {"out", 'o', "DIR", 0, "write log.tsv and last.ckpt there", 0},
    {"save-every", 'e', "N", 0, "write last.ckpt every N steps (50), and at the end", 0},
    {"resume", 'r', "FILE", 0, "continue from a checkpoint, on any number of ranks", 0},
    {0},
};

static uint64_t parse_whole(const char *text, uint64_t min, uint64_t max, struct argp_state *state)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10); /* it reads "-1" as a huge number */
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < min || value > max)
        argp_error(state, "'%s' is not a number from %" PRIu64 " to %" PRIu64, text, min, max);
    return value;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'd': o->data = text; break;
    case 'V': o->vocab = parse_whole(text, 2, 1 << 24, state); break;
    case 'b': o->batch_size = parse_whole(text, 1, 65535, state); break;
    case 'n': o->steps = parse_whole(text, 1, INT64_MAX, state); break;
    case 'l':
        o->lr = strtod(text, &text);
        if (*text != '\0' || !(o->lr > 0 && o->lr < 1000))
            argp_error(state, "--lr is not a number above 0 and below 1000");
        break;
    case 's': o->seed = parse_whole(text, 0, UINT64_MAX, state); break;
    case 'w': o->workers = parse_whole(text, 0, MR_MAX_WORKERS, state); break;
    case 'o': o->out = text; break;
    case 'e': o->save_every = parse_whole(text, 1, INT64_MAX, state); break;
    case 'r': o->resume = text; break;
    case ARGP_KEY_END:
        if (o->data == NULL)
            argp_error(state, "--data is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char doc[] =
        "Train a small language model on rows of tokens.\v"
        "SPEC is one of docs/tokens.md with labels=shifted, its default. The bytes of texts:\n"
        "  mix:7*(tokens:a?window=64&dtype=u8)|3*(tokens:b?window=64&dtype=u8)\n"
        "Documents that share rows, from d.bin and d.idx of Megatron-Core:\n"
        "  tokens:d.bin?window=64&pack=bfd";
    const struct argp argp = {argp_options, parse_option, NULL, doc, NULL, NULL, NULL};
    struct run run = {.options = {.batch_size = 12,
                                  .steps = 100,
                                  .save_every = 50,
                                  .vocab = 256,
                                  .seed = 1,
                                  .workers = 1,
                                  .lr = 0.5}};
    int stop_signal = 0;

    argp_parse(&argp, argc, argv, 0, NULL, &run.options);
    set_up(&run);
    while (run.state.epoch < run.options.steps && stop_signal == 0) {
        take_step(&run);
        check(mr_signals_agree(run.group, &stop_signal), mr_group_error(run.group));
        if (run.state.epoch % run.options.save_every == 0 || run.state.epoch == run.options.steps ||
            stop_signal != 0)
            save(&run);
    }
    if (stop_signal != 0)
        mr_group_print0(run.group, "stopped after step %" PRIu64 " by SIG%s\n", run.state.epoch,
                        sigabbrev_np(stop_signal));
    tear_down(&run);
    return 0;
}
