/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's arithmetic for one dtype; convnet_host.c includes this file twice, with REAL, NAME,
 * GEMM and GEMV defined. A convolution is a matrix product: weights [out, in x 9] times columns [in
 * x 9, pixels], where a column has the input of the convolution at one pixel.
 *
 * Invariant: gradients are sums, never means, because only the sum over all ranks can be divided by
 * the number of samples on all ranks.
 */

/*
 * Copy a row of a channel for column dx of the convolution: shifted by dx - 1, with zeros outside.
 */
static void NAME(shift_row)(const REAL *row, int side, int dx, REAL *out)
{
    int first = dx == 0, last = dx == 2 ? side - 1 : side;

    out[0] = out[side - 1] = 0;
    memcpy(out + first, row + first + dx - 1, (size_t)(last - first) * sizeof(REAL));
}

static void NAME(unfold)(const REAL *image, struct convnet_shape shape, REAL *columns)
{
    int side = shape.side;

    for (int row = 0; row < shape.in * CONVNET_KERNEL; row++) {
        const REAL *channel = image + row / CONVNET_KERNEL * side * side;
        int dy = row % CONVNET_KERNEL / 3, dx = row % 3;
        for (int y = 0; y < side; y++, columns += side) {
            int from = y + dy - 1;
            if (from < 0 || from >= side)
                memset(columns, 0, (size_t)side * sizeof(REAL));
            else
                NAME(shift_row)(channel + from * side, side, dx, columns);
        }
    }
}

/* The reverse: add the columns to the pixels that they came from. */
static void NAME(fold)(const REAL *columns, struct convnet_shape shape, REAL *image)
{
    int side = shape.side;

    memset(image, 0, (size_t)(shape.in * side * side) * sizeof(REAL));
    for (int row = 0; row < shape.in * CONVNET_KERNEL; row++) {
        REAL *channel = image + row / CONVNET_KERNEL * side * side;
        int dy = row % CONVNET_KERNEL / 3, dx = row % 3;
        int first = dx == 0, last = dx == 2 ? side - 1 : side;
        for (int y = 0; y < side; y++, columns += side) {
            int to = y + dy - 1;
            if (to < 0 || to >= side)
                continue;
            REAL *pixels = channel + to * side + dx - 1;
            for (int x = first; x < last; x++)
                pixels[x] += columns[x];
        }
    }
}

/* Bias, ReLU and the largest of 2 x 2 pixels, and which pixel it was. */
static void NAME(pool)(const REAL *plane, const REAL *bias, struct convnet_shape shape, REAL *out,
                       uint8_t *winner)
{
    int side = shape.side;

    for (int c = 0; c < shape.out; c++, plane += side * side) {
        for (int y = 0; y < side; y += 2) {
            const REAL *upper = plane + y * side, *lower = upper + side;
            for (int x = 0; x < side; x += 2, out++, winner++) {
                bool up = upper[x + 1] > upper[x], low = lower[x + 1] > lower[x];
                REAL best_up = up ? upper[x + 1] : upper[x],
                     best_low = low ? lower[x + 1] : lower[x];
                bool below = best_low > best_up;
                REAL best = (below ? best_low : best_up) + bias[c];
                *out = best > 0 ? best : 0;
                *winner = (uint8_t)(best > 0 ? (below ? 2 + low : up) : CONVNET_NOBODY);
            }
        }
    }
}

/* The reverse: derivatives go only to the winners. */
static void NAME(unpool)(const REAL *d_out, const uint8_t *winner, struct convnet_shape shape,
                         REAL *d_plane, REAL *d_bias)
{
    int side = shape.side;

    memset(d_plane, 0, (size_t)(shape.out * side * side) * sizeof(REAL));
    for (int c = 0; c < shape.out; c++, d_plane += side * side) {
        REAL sum = 0;
        for (int y = 0; y < side; y += 2) {
            for (int x = 0; x < side; x += 2, d_out++, winner++) {
                if (*winner == CONVNET_NOBODY)
                    continue;
                d_plane[(y + *winner / 2) * side + x + *winner % 2] = *d_out;
                sum += *d_out;
            }
        }
        d_bias[c] += sum;
    }
}

static void NAME(convolve)(struct convnet *net, int layer, uint32_t row)
{
    struct convnet_shape shape = convnet_shape(layer);
    int rows = convnet_rows(net, layer), columns = convnet_columns(layer),
        pixels = shape.side * shape.side;
    const REAL *weights = (const REAL *)net->weights + convnet_first(net, layer);

    NAME(unfold)
    ((const REAL *)convnet_input(net, layer) + row * convnet_row_in(layer), shape, net->columns);
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, pixels, columns, 1, weights, columns,
         net->columns, pixels, 0, net->plane, pixels);
    NAME(pool)
    (net->plane, weights + rows * columns, shape,
     (REAL *)net->pooled[layer] + row * convnet_row_out(layer),
     net->winner[layer] + row * convnet_row_out(layer));
}

/* Make a picture of 32 x 32 pixels; each is the average of block x block pixels. */
static void NAME(shrink)(const float *pixels, int block, REAL *out)
{
    int side = CONVNET_SIDE * block;

    for (int i = 0; i < CONVNET_CHANNELS * CONVNET_SIDE * CONVNET_SIDE; i++) {
        const float *corner = pixels + i / CONVNET_SIDE * block * side + i % CONVNET_SIDE * block;
        REAL sum = 0;
        for (int y = 0; y < block; y++) {
            for (int x = 0; x < block; x++)
                sum += corner[y * side + x];
        }
        out[i] = sum / (REAL)(block * block);
    }
}

static void NAME(images)(struct convnet *net, const mr_array *images)
{
    int block = (int)(images->shape[2] / CONVNET_SIDE);

    for (uint32_t row = 0; row < net->n; row++) {
        const void *image = (const char *)images->data + row * images->strides[0];
        NAME(shrink)(image, block, (REAL *)net->input + row * convnet_row_in(0));
    }
}

static void NAME(forward)(struct convnet *net, int layer)
{
    const REAL *weights = (const REAL *)net->weights + convnet_first(net, layer);
    int n = (int)net->plan.n_classes;

    for (uint32_t row = 0; layer < CONVNET_CONVS && row < net->n; row++)
        NAME(convolve)(net, layer, row);
    for (uint32_t row = 0; layer == CONVNET_CONVS && row < net->n; row++) {
        REAL *scores = (REAL *)net->scores + row * (size_t)n;
        memcpy(scores, weights + n * CONVNET_FEATURES, (size_t)n * sizeof(REAL));
        GEMV(CblasRowMajor, CblasNoTrans, n, CONVNET_FEATURES, 1, weights, CONVNET_FEATURES,
             (const REAL *)net->pooled[CONVNET_CONVS - 1] + row * CONVNET_FEATURES, 1, 1, scores,
             1);
    }
}

/* Overwrite scores with derivatives: softmax minus the labels' weights. */
static void NAME(score_row)(REAL *scores, int n, int64_t label, int64_t mixed, double lambda,
                            struct convnet_sums *sums)
{
    double shares[CONVNET_MAX_CLASSES], total = 0;
    int best = 0;

    for (int i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    for (int i = 0; i < n; i++)
        total += shares[i] = exp((double)scores[i] - (double)scores[best]);
    double wanted = lambda * (double)scores[label] + (1 - lambda) * (double)scores[mixed];
    sums->loss += log(total) - (wanted - (double)scores[best]);
    sums->correct += best == label;
    sums->count++;
    for (int i = 0; i < n; i++)
        scores[i] = (REAL)(shares[i] / total - (i == label) * lambda - (i == mixed) * (1 - lambda));
}

static void NAME(score)(struct convnet *net, REAL *scores, uint32_t n,
                        const struct convnet_targets *targets)
{
    const int64_t *labels = targets->labels,
                  *mixed = targets->mixed != NULL ? targets->mixed : labels;
    size_t n_classes = net->plan.n_classes;

    for (uint32_t row = 0; row < n; row++, scores += n_classes) {
        double lambda = targets->mixed != NULL ? (double)targets->lambda[row] : 1;
        if (targets->mask == NULL || targets->mask[row])
            NAME(score_row)(scores, (int)n_classes, labels[row], mixed[row], lambda, net->sums);
        else
            memset(scores, 0, n_classes * sizeof(REAL));
    }
    ((REAL *)net->gradients)[net->n_params] = (REAL)net->sums->count;
}

static void NAME(backward_linear)(struct convnet *net, const REAL *weights, REAL *gradients)
{
    const REAL *d_scores = net->scores;
    int n = (int)net->n, classes = (int)net->plan.n_classes, last = CONVNET_CONVS - 1;

    for (int i = 0; i < n * classes; i++)
        gradients[classes * CONVNET_FEATURES + i % classes] += d_scores[i];
    GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, classes, CONVNET_FEATURES, n, 1, d_scores,
         classes, net->pooled[last], CONVNET_FEATURES, 1, gradients, CONVNET_FEATURES);
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, CONVNET_FEATURES, classes, 1, d_scores,
         classes, weights, CONVNET_FEATURES, 0, net->d_pooled[last], CONVNET_FEATURES);
}

static void NAME(backward_convolve)(struct convnet *net, int layer, uint32_t row,
                                    const REAL *weights, REAL *gradients)
{
    struct convnet_shape shape = convnet_shape(layer);
    int rows = convnet_rows(net, layer), columns = convnet_columns(layer),
        pixels = shape.side * shape.side;

    NAME(unpool)
    ((const REAL *)net->d_pooled[layer] + row * convnet_row_out(layer),
     net->winner[layer] + row * convnet_row_out(layer), shape, net->plane,
     gradients + rows * columns);
    NAME(unfold)
    ((const REAL *)convnet_input(net, layer) + row * convnet_row_in(layer), shape, net->columns);
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, pixels, 1, net->plane, pixels,
         net->columns, pixels, 1, gradients, columns);
    if (layer == 0)
        return;
    GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, columns, pixels, rows, 1, weights, columns,
         net->plane, pixels, 0, net->columns, pixels);
    NAME(fold)(net->columns, shape, (REAL *)net->d_pooled[layer - 1] + row * convnet_row_in(layer));
}

static void NAME(backward)(struct convnet *net, int layer)
{
    const REAL *weights = (const REAL *)net->weights + convnet_first(net, layer);
    REAL *gradients = (REAL *)net->gradients + convnet_first(net, layer);

    /* A rank without samples adds zeros. */
    memset(gradients, 0, convnet_count(net, layer) * sizeof(REAL));
    if (net->n == 0)
        return;
    if (layer == CONVNET_CONVS)
        NAME(backward_linear)(net, weights, gradients);
    for (uint32_t row = 0; layer < CONVNET_CONVS && row < net->n; row++)
        NAME(backward_convolve)(net, layer, row, weights, gradients);
}

static void NAME(add)(REAL *to, const REAL *more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += more[i];
}

static void NAME(update)(struct convnet *net, double lr, double momentum, double decay)
{
    REAL *weights = net->weights, *velocity = net->velocity;
    const REAL *gradients = net->gradients;
    REAL n_samples = gradients[net->n_params];

    if (n_samples == 0)
        return;
    for (size_t i = 0; i < net->n_params; i++) {
        velocity[i] =
            (REAL)momentum * velocity[i] + gradients[i] / n_samples + (REAL)decay * weights[i];
        weights[i] -= (REAL)lr * velocity[i];
    }
}
