/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's arithmetic for one type of number; convnet.c includes it twice, with REAL, NAME, GEMM and GEMV defined.
 * A convolution is a product of matrices: weights [out, in x 9] times columns [in x 9, pixels], of which each holds
 * what the kernel sees at one pixel. Easy to get wrong: gradients are sums, never means, because only the sum over all
 * ranks can be divided by the number of samples on all ranks.
 */

/* Row y + dy - 1 of a channel as the kernel's column dx sees it: shifted by dx - 1, with zeros outside. */
static void NAME(shift_row)(const REAL *row, int side, int dx, REAL *out)
{
    int first = dx == 0, last = dx == 2 ? side - 1 : side;

    out[0] = out[side - 1] = 0;
    memcpy(out + first, row + first + dx - 1, (size_t)(last - first) * sizeof(REAL));
}

static void NAME(unfold)(const REAL *image, struct shape shape, REAL *columns)
{
    int side = shape.side;

    for (int row = 0; row < shape.in * KERNEL; row++) {
        const REAL *channel = image + row / KERNEL * side * side;
        int dy = row % KERNEL / 3, dx = row % 3;
        for (int y = 0; y < side; y++, columns += side) {
            int from = y + dy - 1;
            if (from < 0 || from >= side)
                memset(columns, 0, (size_t)side * sizeof(REAL));
            else
                NAME(shift_row)(channel + from * side, side, dx, columns);
        }
    }
}

/* The reverse: what columns hold is added to the pixels that it came from. */
static void NAME(fold)(const REAL *columns, struct shape shape, REAL *image)
{
    int side = shape.side;

    memset(image, 0, (size_t)(shape.in * side * side) * sizeof(REAL));
    for (int row = 0; row < shape.in * KERNEL; row++) {
        REAL *channel = image + row / KERNEL * side * side;
        int dy = row % KERNEL / 3, dx = row % 3;
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

/* Bias, ReLU and the largest of 2 x 2 pixels, with who it was. */
static void NAME(pool)(const REAL *plane, const REAL *bias, struct shape shape, REAL *out, uint8_t *winner)
{
    int side = shape.side;

    for (int c = 0; c < shape.out; c++, plane += side * side) {
        for (int y = 0; y < side; y += 2) {
            const REAL *upper = plane + y * side, *lower = upper + side;
            for (int x = 0; x < side; x += 2, out++, winner++) {
                bool up = upper[x + 1] > upper[x], low = lower[x + 1] > lower[x];
                REAL best_up = up ? upper[x + 1] : upper[x], best_low = low ? lower[x + 1] : lower[x];
                bool below = best_low > best_up;
                REAL best = (below ? best_low : best_up) + bias[c];
                *out = best > 0 ? best : 0;
                *winner = (uint8_t)(best > 0 ? (below ? 2 + low : up) : NOBODY);
            }
        }
    }
}

/* The reverse: derivatives go to the winners alone. */
static void NAME(unpool)(const REAL *d_out, const uint8_t *winner, struct shape shape, REAL *d_plane, REAL *d_bias)
{
    int side = shape.side;

    memset(d_plane, 0, (size_t)(shape.out * side * side) * sizeof(REAL));
    for (int c = 0; c < shape.out; c++, d_plane += side * side) {
        REAL sum = 0;
        for (int y = 0; y < side; y += 2) {
            for (int x = 0; x < side; x += 2, d_out++, winner++) {
                if (*winner == NOBODY)
                    continue;
                d_plane[(y + *winner / 2) * side + x + *winner % 2] = *d_out;
                sum += *d_out;
            }
        }
        d_bias[c] += sum;
    }
}

static const REAL *NAME(layer_input)(const struct convnet *net, int layer)
{
    return layer == 0 ? net->input : net->pooled[layer - 1];
}

static void NAME(convolve)(struct convnet *net, int layer, uint32_t row)
{
    struct shape shape = shapes[layer];
    int rows = layer_rows(net, layer), columns = layer_columns(layer), pixels = shape.side * shape.side;
    const REAL *weights = (const REAL *)net->weights + layer_first(net, layer);

    NAME(unfold)(NAME(layer_input)(net, layer) + row * row_in(layer), shape, net->columns);
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, pixels, columns, 1, weights, columns, net->columns, pixels, 0,
         net->plane, pixels);
    NAME(pool)
    (net->plane, weights + rows * columns, shape, (REAL *)net->pooled[layer] + row * row_out(layer),
     net->winner[layer] + row * row_out(layer));
}

/* A picture of 32 x 32 pixels; each is the average of block x block. */
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

static void NAME(forward)(struct convnet *net, const mr_array *images)
{
    const REAL *weights = (const REAL *)net->weights + layer_first(net, CONVNET_CONVS);
    int n = net->n_classes, block = (int)(images->shape[2] / CONVNET_SIDE);

    for (uint32_t row = 0; row < net->n; row++) {
        const void *image = (const char *)images->data + row * images->strides[0];
        REAL *scores = (REAL *)net->d_scores + row * (size_t)n;
        NAME(shrink)(image, block, (REAL *)net->input + row * row_in(0));
        for (int layer = 0; layer < CONVNET_CONVS; layer++)
            NAME(convolve)(net, layer, row);
        memcpy(scores, weights + n * FEATURES, (size_t)n * sizeof(REAL));
        GEMV(CblasRowMajor, CblasNoTrans, n, FEATURES, 1, weights, FEATURES,
             (const REAL *)net->pooled[CONVNET_CONVS - 1] + row * FEATURES, 1, 1, scores, 1);
    }
}

/* Scores become derivatives, softmax minus one at the label, in place. */
static void NAME(score_row)(REAL *scores, int n, int64_t label, struct convnet_sums *sums)
{
    double shares[CONVNET_MAX_CLASSES], total = 0;
    int best = 0;

    for (int i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    for (int i = 0; i < n; i++)
        total += shares[i] = exp((double)scores[i] - (double)scores[best]);
    sums->loss += log(total) - ((double)scores[label] - (double)scores[best]);
    sums->correct += best == label;
    sums->count++;
    for (int i = 0; i < n; i++)
        scores[i] = (REAL)(shares[i] / total - (i == label));
}

static struct convnet_sums NAME(score)(struct convnet *net, const int64_t *labels, const uint8_t *mask)
{
    struct convnet_sums sums = {0};
    size_t n = (size_t)net->n_classes;

    for (uint32_t row = 0; row < net->n; row++) {
        REAL *scores = (REAL *)net->d_scores + row * n;
        if (mask == NULL || mask[row])
            NAME(score_row)(scores, net->n_classes, labels[row], &sums);
        else
            memset(scores, 0, n * sizeof(REAL));
    }
    ((REAL *)net->gradients)[net->n_params] = (REAL)sums.count;
    return sums;
}

static void NAME(backward_linear)(struct convnet *net, const REAL *weights, REAL *gradients)
{
    const REAL *d_scores = net->d_scores;
    int n = (int)net->n, classes = net->n_classes, last = CONVNET_CONVS - 1;

    for (int i = 0; i < n * classes; i++)
        gradients[classes * FEATURES + i % classes] += d_scores[i];
    GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, classes, FEATURES, n, 1, d_scores, classes, net->pooled[last],
         FEATURES, 1, gradients, FEATURES);
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, FEATURES, classes, 1, d_scores, classes, weights, FEATURES, 0,
         net->d_pooled[last], FEATURES);
}

static void NAME(backward_convolve)(struct convnet *net, int layer, uint32_t row, const REAL *weights, REAL *gradients)
{
    struct shape shape = shapes[layer];
    int rows = layer_rows(net, layer), columns = layer_columns(layer), pixels = shape.side * shape.side;

    NAME(unpool)
    ((const REAL *)net->d_pooled[layer] + row * row_out(layer), net->winner[layer] + row * row_out(layer), shape,
     net->plane, gradients + rows * columns);
    NAME(unfold)(NAME(layer_input)(net, layer) + row * row_in(layer), shape, net->columns);
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, pixels, 1, net->plane, pixels, net->columns, pixels, 1,
         gradients, columns);
    if (layer == 0)
        return;
    GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, columns, pixels, rows, 1, weights, columns, net->plane, pixels, 0,
         net->columns, pixels);
    NAME(fold)(net->columns, shape, (REAL *)net->d_pooled[layer - 1] + row * row_in(layer));
}

static void NAME(backward)(struct convnet *net, int layer)
{
    const REAL *weights = (const REAL *)net->weights + layer_first(net, layer);
    REAL *gradients = (REAL *)net->gradients + layer_first(net, layer);

    memset(gradients, 0, layer_count(net, layer) * sizeof(REAL)); /* a rank without samples adds zeros */
    if (net->n == 0)
        return;
    if (layer == CONVNET_CONVS)
        NAME(backward_linear)(net, weights, gradients);
    for (uint32_t row = 0; layer < CONVNET_CONVS && row < net->n; row++)
        NAME(backward_convolve)(net, layer, row, weights, gradients);
}

static void NAME(update)(struct convnet *net, double lr, double momentum, double decay)
{
    REAL *weights = net->weights, *velocity = net->velocity;
    const REAL *gradients = net->gradients;
    REAL n_samples = gradients[net->n_params];

    if (n_samples == 0)
        return;
    for (size_t i = 0; i < net->n_params; i++) {
        velocity[i] = (REAL)momentum * velocity[i] + gradients[i] / n_samples + (REAL)decay * weights[i];
        weights[i] -= (REAL)lr * velocity[i];
    }
}
