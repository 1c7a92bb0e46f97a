/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places the network on devices and runs a step in each mode.
 *
 * Invariant: a network without a part of the batch must not add the gradients of the batch before.
 * A short last batch may have fewer parts than there are devices. Then the network runs with no
 * rows, which makes zeros.
 */
#include "train_modes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT = 2 }; /* mp: the first layer of the second half */

/* ---- devices ---- */

static const char *parse_device(const char *name, mr_device *device_out)
{
    bool is_cuda = strncmp(name, "cuda:", 5) == 0, is_host = strncmp(name, "host:", 5) == 0;
    char *end;

    *device_out = (mr_device){.kind = is_cuda ? MR_DEVICE_CUDA : MR_DEVICE_HOST};
    if (strcmp(name, "host") == 0)
        return NULL;
    if ((!is_cuda && !is_host) || name[5] < '0' || name[5] > '9')
        return "a device is host:N or cuda:N";
    device_out->id = (int32_t)strtol(name + 5, &end, 10);
    return *end != '\0' || end - name > 9 ? "a device is host:N or cuda:N" : NULL;
}

static const char *check_devices(const struct train_model *model)
{
    mr_device first, other;
    const char *words = parse_device(model->names[0], &first);

    for (uint32_t i = 1; i < model->n_devices && words == NULL; i++) {
        words = parse_device(model->names[i], &other);
        if (words == NULL && other.kind != first.kind)
            words = "devices must be all cuda:N or all host:N";
    }
    if (words == NULL && model->mode == TRAIN_DDP && model->n_devices != 1)
        words = "--mode ddp needs one device for each process";
    if (words == NULL && model->mode == TRAIN_MP && model->n_devices != 2)
        words = "--mode mp needs two devices";
    if (words == NULL && model->mode != TRAIN_DDP && model->n_devices < 2)
        words = "--mode dp needs two or more devices";
    return words;
}

const char *train_modes_devices(struct train_model *model, enum train_mode mode,
                                const char *devices)
{
    model->mode = mode;
    while (*devices != '\0') {
        size_t len = strcspn(devices, ",");
        if (len == 0 || len >= sizeof model->names[0] || model->n_devices == MR_MAX_DEVICES)
            return "the list of devices is wrong or too long";
        memcpy(model->names[model->n_devices++], devices, len);
        devices += len + (devices[len] == ',');
    }
    return check_devices(model);
}

bool train_modes_on_gpu(const struct train_model *model)
{
    return strncmp(model->names[0], "cuda", 4) == 0;
}

/* ---- networks ---- */

static bool is_data_parallel(const struct train_model *model)
{
    return model->mode == TRAIN_DP || model->mode == TRAIN_DP_LOSS;
}

/*
 * Room for what dp copies: scores of a part, or the gradients of a layer; and 9 bytes for each
 * row's label and mask.
 */
static bool open_gathered(struct train_model *model)
{
    struct convnet *first = model->nets[0];
    size_t most = (size_t)first->plan.max_batch * first->plan.n_classes;

    if (most < first->n_params + 1)
        most = first->n_params + 1;
    model->gathered = convnet_array_create(first, most);
    model->labels = convnet_array_create(first, (size_t)first->plan.max_batch * 3);
    return model->gathered != NULL && model->labels != NULL;
}

bool train_modes_open(struct train_model *model, mr_dtype dtype, uint32_t n_classes,
                      uint32_t batch_size, uint64_t seed)
{
    uint32_t n_sharing = is_data_parallel(model) ? model->n_devices : 1;

    model->dtype = dtype;
    for (uint32_t i = 0; i < model->n_devices; i++) {
        struct convnet_plan plan = {.dtype = dtype,
                                    .n_classes = n_classes,
                                    .max_batch = (batch_size + n_sharing - 1) / n_sharing,
                                    .first = model->mode == TRAIN_MP && i == 1 ? SPLIT : 0,
                                    .end =
                                        model->mode == TRAIN_MP && i == 0 ? SPLIT : CONVNET_LAYERS,
                                    .seed = seed};
        parse_device(model->names[i], &plan.device);
        model->nets[i] = convnet_create(&plan);
        if (model->nets[i] == NULL)
            return false;
        model->n_params += i == 0 || model->mode == TRAIN_MP ? model->nets[i]->n_params : 0;
    }
    return !is_data_parallel(model) || open_gathered(model);
}

void train_modes_close(struct train_model *model)
{
    if (model->gathered != NULL)
        convnet_array_destroy(model->nets[0], model->gathered);
    if (model->labels != NULL)
        convnet_array_destroy(model->nets[0], model->labels);
    for (uint32_t i = 0; i < model->n_devices; i++)
        convnet_destroy(model->nets[i]);
}

/* ---- batches ---- */

void train_modes_loader(const struct train_model *model, mr_loader_options *options,
                        const char **list)
{
    for (uint32_t i = 0; i < model->n_devices; i++)
        list[i] = model->names[i];
    if (is_data_parallel(model)) {
        options->devices = list;
        options->n_devices = model->n_devices;
    } else {
        options->device = list[0];
    }
    if (model->mode == TRAIN_DP)
        options->label_device = "host";
    if (model->mode == TRAIN_MP)
        options->label_device = list[1];
}

static mr_status use_batch(mr_batch *batch, const struct convnet *net)
{
    return mr_batch_use(batch, net->stream);
}

/* For the networks other than the one that next was called for. */
static mr_status use_all(struct train_model *model, mr_batch *batch)
{
    mr_status status = MR_OK;

    if (model->mode == TRAIN_MP)
        return use_batch(batch, model->nets[1]);
    for (uint32_t i = 1; i < model->n_parts && status == MR_OK; i++)
        status = use_batch(mr_batch_part(batch, i), model->nets[i]);
    return status;
}

mr_status train_modes_next(struct train_model *model, mr_loader *loader, mr_batch **batch_out)
{
    bool on_gpu = train_modes_on_gpu(model);
    mr_status status =
        on_gpu ? mr_loader_next_on(loader, MR_FOREVER, model->nets[0]->stream, batch_out)
               : mr_loader_next(loader, MR_FOREVER, batch_out);

    if (status != MR_OK)
        return status;
    model->n_parts = mr_batch_n_parts(*batch_out);
    status = on_gpu ? use_all(model, *batch_out) : MR_OK;
    if (status != MR_OK) {
        fprintf(stderr, "%s\n", mr_batch_error(*batch_out)->text);
        mr_batch_release(*batch_out);
    }
    return status;
}

/* ---- a step ---- */

/* Copy between the halves: activations forward, or derivatives back. */
static void hand_over(struct train_model *model, bool forward)
{
    struct convnet *first = model->nets[0], *second = model->nets[1];
    size_t n_bytes = first->n * convnet_row_bytes(first, SPLIT - 1);

    if (forward) {
        second->n = first->n;
        convnet_copy(second, second->pooled[SPLIT - 1], first, first->pooled[SPLIT - 1], n_bytes);
    } else {
        convnet_copy(first, first->d_pooled[SPLIT - 1], second, second->d_pooled[SPLIT - 1],
                     n_bytes);
    }
}

const char *train_modes_forward(struct train_model *model, mr_batch *batch)
{
    uint32_t n_takers = is_data_parallel(model) ? model->n_devices : 1;

    for (uint32_t i = 0; i < n_takers; i++) {
        struct convnet *net = model->nets[i];
        net->n = 0;
        if (i < model->n_parts &&
            !convnet_take(net, mr_batch_array(mr_batch_part(batch, i), "image")))
            return "the network does not take images of this shape";
        convnet_forward(net);
    }
    if (model->mode == TRAIN_MP) {
        hand_over(model, true);
        convnet_forward(model->nets[1]);
    }
    return NULL;
}

/*
 * Find the labels where the network that computes the loss can read them. What the loader left on
 * the host is copied to the first device.
 */
static struct convnet_targets find_targets(struct train_model *model, mr_batch *part)
{
    struct convnet *first = model->nets[0];
    struct convnet_targets targets = {.labels = mr_batch_data(part, "label"),
                                      .mask = mr_batch_data(part, "mask")};
    size_t n = mr_batch_size(part);

    targets.mixed = mr_batch_data(part, "mix_label"); /* NULL: rows are not mixed */
    targets.lambda = mr_batch_data(part, "mix_lambda");
    /* only with dp on GPUs are labels copied, and there the loader does not mix */
    if (model->mode != TRAIN_DP || !train_modes_on_gpu(model))
        return targets;
    uint8_t *mask = (uint8_t *)(model->labels + first->plan.max_batch);
    convnet_copy(first, model->labels, NULL, targets.labels, n * sizeof(int64_t));
    convnet_copy(first, mask, NULL, targets.mask, n);
    return (struct convnet_targets){.labels = model->labels, .mask = mask};
}

/* Copy the scores of a part to the first device, and derivatives back. */
static bool score_gathered(struct train_model *model, struct convnet *net,
                           const struct convnet_targets *targets)
{
    struct convnet *first = model->nets[0];
    size_t n_bytes = (size_t)net->n * net->plan.n_classes * mr_dtype_size(model->dtype);

    convnet_copy(first, model->gathered, net, net->scores, n_bytes);
    bool good = convnet_score_rows(first, model->gathered, net->n, targets, false);
    convnet_copy(net, net->scores, first, model->gathered, n_bytes);
    return good;
}

const char *train_modes_score(struct train_model *model, mr_batch *batch)
{
    bool good = true;

    for (uint32_t i = 0; i < (is_data_parallel(model) ? model->n_devices : 1) && good; i++) {
        struct convnet *net = model->nets[model->mode == TRAIN_MP ? 1 : i];
        struct convnet_targets targets = {0};
        if (i < model->n_parts)
            targets = find_targets(model, mr_batch_part(batch, i));
        if (model->mode != TRAIN_DP || i == 0)
            good = convnet_score(net, &targets);
        else if (net->n > 0)
            good = score_gathered(model, net, &targets);
    }
    return good ? NULL : "a label is not a class";
}

struct convnet_sums train_modes_sums(const struct train_model *model)
{
    struct convnet_sums all = {0};

    for (uint32_t i = 0; i < model->n_devices; i++) {
        struct convnet_sums sums;
        convnet_copy(NULL, &sums, model->nets[i], model->nets[i]->sums, sizeof sums);
        all.loss += sums.loss; /* zeros on devices without a loss */
        all.correct += sums.correct;
        all.count += sums.count;
    }
    return all;
}

/* Copy gradients to the first device and add them there, in the order of the devices. */
static void gather_gradients(struct train_model *model, int layer)
{
    struct convnet *first = model->nets[0];
    uint64_t count;
    void *to = convnet_bucket(first, layer, &count);

    for (uint32_t i = 1; i < model->n_devices; i++) {
        const void *bucket = convnet_bucket(model->nets[i], layer, &count);
        convnet_copy(first, model->gathered, model->nets[i], bucket,
                     count * mr_dtype_size(model->dtype));
        convnet_add(first, to, model->gathered, count);
    }
}

void train_modes_backward(struct train_model *model, int layer)
{
    if (model->mode == TRAIN_MP) {
        if (layer == SPLIT - 1)
            hand_over(model, false);
        convnet_backward(model->nets[layer >= SPLIT], layer);
        return;
    }
    for (uint32_t i = 0; i < model->n_devices; i++)
        convnet_backward(model->nets[i], layer);
    if (is_data_parallel(model))
        gather_gradients(model, layer);
}

/* Copy the number of samples to the first half, which also divides by it. */
static void hand_count(struct train_model *model)
{
    struct convnet *first = model->nets[0], *second = model->nets[1];

    convnet_copy(first, convnet_at(first, first->gradients, first->n_params), second,
                 convnet_at(second, second->gradients, second->n_params),
                 mr_dtype_size(model->dtype));
}

/* Copy the first device's weights to all others. */
static void replicate_weights(struct train_model *model)
{
    struct convnet *first = model->nets[0];

    for (uint32_t i = 1; i < model->n_devices; i++)
        convnet_copy(model->nets[i], model->nets[i]->weights, first, first->weights,
                     first->n_params * mr_dtype_size(model->dtype));
}

void train_modes_update(struct train_model *model, double lr, double momentum, double decay)
{
    if (model->mode == TRAIN_MP)
        hand_count(model);
    convnet_update(model->nets[0], lr, momentum, decay);
    if (model->mode == TRAIN_MP)
        convnet_update(model->nets[1], lr, momentum, decay);
    else
        replicate_weights(model);
}

/* ---- checkpoints ---- */

void train_modes_save(const struct train_model *model, void *numbers)
{
    size_t size = mr_dtype_size(model->dtype), half = model->n_params * size, at = 0;
    char *to = numbers;

    for (uint32_t i = 0; i < (model->mode == TRAIN_MP ? 2u : 1u); i++) {
        struct convnet *net = model->nets[i];
        convnet_copy(NULL, to + at, net, net->weights, net->n_params * size);
        convnet_copy(NULL, to + half + at, net, net->velocity, net->n_params * size);
        at += net->n_params * size;
    }
}

void train_modes_load(struct train_model *model, const void *numbers)
{
    size_t size = mr_dtype_size(model->dtype), half = model->n_params * size, at = 0;
    const char *from = numbers;

    for (uint32_t i = 0; i < (model->mode == TRAIN_MP ? 2u : 1u); i++) {
        struct convnet *net = model->nets[i];
        convnet_copy(net, net->weights, NULL, from + at, net->n_params * size);
        convnet_copy(net, net->velocity, NULL, from + half + at, net->n_params * size);
        at += net->n_params * size;
    }
    if (is_data_parallel(model))
        replicate_weights(model);
}

/* ---- memory ---- */

static size_t bytes_there(const mr_batch *batch, const struct convnet *net)
{
    size_t n_bytes = 0;

    for (uint32_t i = 0; i < mr_batch_n_arrays(batch); i++) {
        const mr_array *array = mr_batch_array_at(batch, i);
        if (array->device.kind == net->plan.device.kind && array->device.id == net->plan.device.id)
            n_bytes += (size_t)array->shape[0] * (size_t)array->strides[0];
    }
    return n_bytes;
}

void train_modes_print_memory(const struct train_model *model, mr_loader *loader, mr_batch *batch)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;

    if (mr_loader_get_stats(loader, &stats) != MR_OK)
        return;
    for (uint32_t i = 0; i < model->n_devices; i++) {
        const struct convnet *net = model->nets[i];
        size_t n_bytes = 0;
        for (uint32_t part = 0; part < model->n_parts; part++)
            n_bytes += bytes_there(mr_batch_part(batch, part), net);
        printf("memory on %s: network %.1f MiB, loader %u x %.1f MiB\n", model->names[i],
               (double)net->n_bytes / 0x1p20, stats.n_buffers > 0 ? stats.n_buffers : stats.n_slots,
               (double)n_bytes / 0x1p20);
    }
    fflush(stdout);
}
