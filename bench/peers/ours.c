/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace's side of bench/peers: a user's program with the public API, and the marks that
 * bench/peers/run waits for (adapter.py prints the same for the peers written in Python). Each mark
 * is answered by a line on standard input, so that the runner can read the process tree between two
 * batches.
 *
 * Invariant: the time of the first batch counts from the start of the process, so nothing may be
 * done before it that a user would not do.
 */
#include "bench/peers/moments.h"

#include <millrace/millrace.h>

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, N_WARM_EPOCHS = 2, MAX_GAPS = 1000000 };

/* The contracts with a random crop; peer_contracts.py has them too. */
static const struct contract {
    const char *name;
    const char *transform;
    bool floats;
} contracts[] = {
    {"A1", "train:224", false},
    {"A2", "train:224", true},
    {"A3", "train:224+trivial_augment_wide", true},
    {"A4", "train:224+trivial_augment_wide(interp=bilinear)", true},
    {"A5",
     "train:224+random_apply(color_jitter(0.8,0.8,0.8,0.2),0.8)+random_grayscale(0.2)"
     "+random_apply(gaussian_blur(23,0.1:2),0.5)",
     true},
};
enum { N_CONTRACTS = sizeof contracts / sizeof *contracts };

struct peer {
    const char *data;
    const char *dump; /* write the images of one pass to this file instead of measuring */
    bool eval;
    const struct contract *contract;
    uint32_t n_workers;
    double seconds;
    mr_dataset *dataset;
    mr_loader *loader;
    uint64_t epoch;
    uint64_t n_wrong; /* rows without an image */
    int64_t *labels;  /* in the warm-up */
    size_t n_labels;
};

static mr_status create_loader(struct peer *peer, mr_error *error)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_transform *transform = NULL;
    options.batch_size = BATCH;
    options.num_workers = peer->n_workers;
    options.drop_last = !peer->dump;
    options.no_shuffle = peer->eval;
    options.dtype = peer->contract->floats ? MR_F32 : MR_U8;
    options.n_epochs = peer->dump ? 1 : 0;
    mr_status status = mr_dataset_open(peer->data, NULL, &peer->dataset, error);
    if (status == MR_OK)
        status = mr_transform_parse(peer->eval ? "eval:256:224" : peer->contract->transform,
                                    &transform, error);
    if (status == MR_OK)
        status = mr_loader_create(peer->dataset, transform, &options, &peer->loader, error);
    mr_transform_destroy(transform);
    return status;
}

/* The next batch; after the end of an epoch, the first of the next one. */
static mr_status next_batch(struct peer *peer, mr_batch **batch_out)
{
    mr_status status = mr_loader_next(peer->loader, MR_FOREVER, batch_out);
    if (status == MR_END) {
        status = mr_loader_set_epoch(peer->loader, ++peer->epoch);
        if (status == MR_OK)
            status = mr_loader_next(peer->loader, MR_FOREVER, batch_out);
    }
    if (status == MR_OK)
        peer->n_wrong += mr_batch_size(*batch_out) - mr_batch_valid(*batch_out);
    return status;
}

static mr_status warm_up(struct peer *peer)
{
    uint64_t n_batches = mr_loader_n_batches(peer->loader) * N_WARM_EPOCHS;
    peer->labels = calloc(n_batches * BATCH + 1, sizeof *peer->labels);
    if (!peer->labels)
        return MR_ERR_NO_MEMORY;
    mr_status status = MR_OK;
    for (uint64_t i = 0; i < n_batches && status == MR_OK; i++) {
        mr_batch *batch;
        status = next_batch(peer, &batch);
        if (status != MR_OK)
            break;
        if (i == 0 && !mr_moments_say("first"))
            status = MR_ERR_CANCELED;
        memcpy(peer->labels + peer->n_labels, mr_batch_data(batch, "label"),
               BATCH * sizeof *peer->labels);
        peer->n_labels += BATCH;
        mr_batch_release(batch);
    }
    return status;
}

static mr_status measure_batches(struct peer *peer, double *gaps, size_t *n_out, double *begin_out,
                                 double *end_out)
{
    mr_status status = mr_moments_say("begin") ? MR_OK : MR_ERR_CANCELED;
    double begin = mr_moments_now(), last = begin;
    size_t n = 0;
    while (status == MR_OK && last < begin + peer->seconds && n < MAX_GAPS) {
        mr_batch *batch;
        status = next_batch(peer, &batch);
        if (status != MR_OK)
            break;
        mr_batch_release(batch);
        double time = mr_moments_now();
        gaps[n++] = time - last;
        last = time;
    }
    *n_out = n;
    *begin_out = begin;
    *end_out = last;
    return status;
}

/*
 * After the clock has stopped: take batches as before while the runner measures the processes'
 * memory.
 */
static mr_status run_until_called(struct peer *peer)
{
    mr_status status = mr_moments_say("end") ? MR_OK : MR_ERR_CANCELED;
    while (status == MR_OK && !mr_moments_is_called()) {
        mr_batch *batch;
        status = next_batch(peer, &batch);
        if (status == MR_OK)
            mr_batch_release(batch);
    }
    return status;
}

static void print_report(const struct peer *peer, const double *gaps, size_t n, double seconds)
{
    printf("{\"mark\": \"done\", \"seconds\": %.6f, \"images\": %zu, \"failed\": %" PRIu64
           ", \"dtype\": \"%s\", \"shape\": [%d, 3, 224, 224], \"warm_epochs\": %d, "
           "\"exact_epochs\": true"
           ", \"versions\": {\"millrace\": \"%s\"}, ",
           seconds, n * BATCH, peer->n_wrong, peer->contract->floats ? "float32" : "uint8", BATCH,
           N_WARM_EPOCHS, mr_version());
    mr_moments_print_gaps(gaps, n);
    printf(", \"labels\": [");
    for (size_t i = 0; i < peer->n_labels; i++)
        printf("%s%" PRId64, i ? ", " : "", peer->labels[i]);
    printf("]}\n");
}

static mr_status run_peer(struct peer *peer)
{
    double *gaps = malloc(MAX_GAPS * sizeof *gaps), begin = 0, end = 0;
    size_t n = 0;
    mr_status status = gaps ? warm_up(peer) : MR_ERR_NO_MEMORY;
    if (status == MR_OK)
        status = measure_batches(peer, gaps, &n, &begin, &end);
    if (status == MR_OK)
        status = run_until_called(peer);
    if (status == MR_OK)
        print_report(peer, gaps, n, end - begin);
    free(gaps);
    return status;
}

/* Write one pass to a file, image after image. */
static mr_status dump_epoch(struct peer *peer)
{
    FILE *file = fopen(peer->dump, "wb");
    if (!file) {
        perror(peer->dump);
        return MR_ERR_IO;
    }
    mr_status status;
    uint64_t n = 0;
    mr_batch *batch;
    while ((status = mr_loader_next(peer->loader, MR_FOREVER, &batch)) == MR_OK) {
        const mr_array *image = mr_batch_array(batch, "image");
        size_t row = (size_t)image->strides[0];
        n += mr_batch_valid(batch);
        if (fwrite(image->data, row, mr_batch_size(batch), file) != mr_batch_size(batch))
            status = MR_ERR_IO;
        mr_batch_release(batch);
        if (status != MR_OK)
            break;
    }
    if (fclose(file) != 0)
        status = MR_ERR_IO;
    printf("{\"mark\": \"dumped\", \"images\": %" PRIu64
           ", \"dtype\": \"%s\", \"layout\": \"nchw\"}\n",
           n, peer->contract->floats ? "float32" : "uint8");
    return status == MR_END ? MR_OK : status;
}

static const struct contract *find_contract(const char *name)
{
    for (int i = 0; i < N_CONTRACTS; i++)
        if (strcmp(contracts[i].name, name) == 0)
            return &contracts[i];
    return NULL;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct peer *peer = state->input;
    char *end = text;
    switch (key) {
    case 'd': peer->data = text; break;
    case 'o': peer->dump = text; break;
    case 'e': peer->eval = true; break;
    case 'c':
        peer->contract = find_contract(text);
        if (!peer->contract)
            argp_error(state, "%s is not a contract", text);
        break;
    case 'w':
        peer->n_workers = (uint32_t)strtoul(text, &end, 10);
        if (*end || peer->n_workers < 1 || peer->n_workers > MR_MAX_WORKERS)
            argp_error(state, "%s is not a number of workers", text);
        break;
    case 's':
        peer->seconds = strtod(text, &end);
        if (*end || !(peer->seconds > 0 && peer->seconds <= 3600))
            argp_error(state, "%s is not a number of seconds", text);
        break;
    case ARGP_KEY_END:
        if (!peer->data)
            argp_error(state, "--data is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"data", 'd', "SPEC", 0, "dataset", 0},
        {"contract", 'c', "A1..A5", 0, "what every image becomes (A1)", 0},
        {"workers", 'w', "N", 0, "worker processes (2)", 0},
        {"seconds", 's', "S", 0, "measured time (10)", 0},
        {"dump", 'o', "FILE", 0, "write the images of one pass to FILE instead", 0},
        {"eval", 'e', NULL, 0, "eval:256:224 in the dataset's order, with --dump", 0},
        {0},
    };
    const struct argp argp = {
        .options = options, .parser = parse_option, .doc = "millrace beside its peers."};
    struct peer peer = {.contract = &contracts[0], .n_workers = 2, .seconds = 10};
    mr_error error = {0};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &peer) != 0)
        return 2;
    mr_status status = create_loader(&peer, &error);
    if (status != MR_OK) {
        fprintf(stderr, "%s\n", error.text);
    } else {
        status = peer.dump ? dump_epoch(&peer) : run_peer(&peer);
        if (status != MR_OK)
            fprintf(stderr, "%s\n",
                    status == MR_ERR_CANCELED ? "the runner has ended"
                                              : mr_loader_error(peer.loader)->text);
    }
    mr_loader_destroy(peer.loader);
    mr_dataset_destroy(peer.dataset);
    free(peer.labels);
    return status != MR_OK;
}
