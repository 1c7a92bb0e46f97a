/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for one dtype; convnet_kernels.cu includes this file twice, with REAL and NAME
 * defined. Each thread computes one number and reads its input in a fixed order: no thread waits
 * for another, and sums have the same bits each time.
 *
 * Invariant: this is valid C and valid CUDA C++, because a test runs it on the CPU.
 */

static __global__ void NAME(shrink)(struct convnet_job job)
{
    size_t i = THREAD, row = i / N_INPUT, at = i % N_INPUT;
    int block = job.channels, side = job.side * block;

    if (i >= job.n)
        return;
    const float *image = (const float *)job.memory[0].at + row * job.step;
    const float *corner = image + at / (size_t)job.side * (size_t)(block * side) +
                          at % (size_t)job.side * (size_t)block;
    REAL sum = 0;
    for (int y = 0; y < block; y++) {
        for (int x = 0; x < block; x++)
            sum += (REAL)corner[y * side + x];
    }
    ((REAL *)job.memory[1].at)[i] = sum / (REAL)(block * block);
}

/*
 * columns[channel x 9 + tap][row][y, x] = in[row][channel][y + tap / 3 - 1, x + tap % 3 - 1], zero
 * outside.
 */
static __global__ void NAME(unfold)(struct convnet_job job)
{
    size_t i = THREAD, pixels = (size_t)(job.side * job.side);
    int pixel = (int)(i % pixels), row = (int)(i / pixels % (size_t)job.rows),
        k = (int)(i / pixels / (size_t)job.rows);
    int y = pixel / job.side + k % 9 / 3 - 1, x = pixel % job.side + k % 3 - 1;
    bool inside = y >= 0 && y < job.side && x >= 0 && x < job.side;

    if (i >= job.n)
        return;
    const REAL *plane =
        (const REAL *)job.memory[0].at + (size_t)(row * job.channels + k / 9) * pixels;
    ((REAL *)job.memory[1].at)[i] = inside ? plane[y * job.side + x] : 0;
}

/* The reverse: each pixel is the sum of its values in nine columns. */
static __global__ void NAME(fold)(struct convnet_job job)
{
    size_t i = THREAD, pixels = (size_t)(job.side * job.side);
    int pixel = (int)(i % pixels), channel = (int)(i / pixels % (size_t)job.channels);
    size_t row = i / pixels / (size_t)job.channels;
    REAL sum = 0;

    if (i >= job.n)
        return;
    for (int tap = 0; tap < 9; tap++) {
        int y = pixel / job.side - tap / 3 + 1, x = pixel % job.side - tap % 3 + 1;
        size_t column = ((size_t)(channel * 9 + tap) * (size_t)job.rows + row) * pixels;
        if (y >= 0 && y < job.side && x >= 0 && x < job.side)
            sum += ((const REAL *)job.memory[0].at)[column + (size_t)(y * job.side + x)];
    }
    ((REAL *)job.memory[1].at)[i] = sum;
}

/* Bias, ReLU and the largest of 2 x 2 pixels, and which pixel it was. */
static __global__ void NAME(pool)(struct convnet_job job)
{
    size_t i = THREAD, half = (size_t)job.side / 2, quads = half * half, quad = i % quads;
    size_t channel = i / quads % (size_t)job.channels, row = i / quads / (size_t)job.channels;
    size_t corner = quad / half * 2 * (size_t)job.side + quad % half * 2;

    if (i >= job.n)
        return;
    const REAL *upper =
        (const REAL *)job.memory[0].at + (channel * (size_t)job.rows + row) * quads * 4 + corner;
    const REAL *lower = upper + job.side;
    bool up = upper[1] > upper[0], low = lower[1] > lower[0];
    REAL best_up = upper[up], best_low = lower[low];
    bool below = best_low > best_up;
    REAL best = (below ? best_low : best_up) + ((const REAL *)job.memory[1].at)[channel];
    ((REAL *)job.memory[2].at)[i] = best > 0 ? best : 0;
    ((uint8_t *)job.memory[3].at)[i] = (uint8_t)(best > 0 ? (below ? 2 + low : up) : NOBODY);
}

/* The reverse: derivatives go only to the winners. */
static __global__ void NAME(unpool)(struct convnet_job job)
{
    size_t i = THREAD, side = (size_t)job.side, pixels = side * side, pixel = i % pixels;
    size_t row = i / pixels % (size_t)job.rows, channel = i / pixels / (size_t)job.rows;
    size_t y = pixel / side, x = pixel % side;
    size_t quad = (row * (size_t)job.channels + channel) * pixels / 4 + y / 2 * (side / 2) + x / 2;

    if (i >= job.n)
        return;
    bool won = ((const uint8_t *)job.memory[1].at)[quad] == y % 2 * 2 + x % 2;
    ((REAL *)job.memory[2].at)[i] = won ? ((const REAL *)job.memory[0].at)[quad] : 0;
}

static __global__ void NAME(bias)(struct convnet_job job)
{
    size_t i = THREAD;

    if (i < job.n)
        ((REAL *)job.memory[1].at)[i] = ((const REAL *)job.memory[0].at)[i % (size_t)job.channels];
}

/*
 * Overwrite scores with derivatives: softmax minus the labels' weights. A kernel cannot end the
 * program, so a wrong label makes the loss NaN.
 */
static __global__ void NAME(score)(struct convnet_job job)
{
    size_t i = THREAD;
    REAL *scores = (REAL *)job.memory[0].at + i * (size_t)job.channels;
    double *sums = (double *)job.memory[3].at + i * 3, total = 0;
    int best = 0, n = job.channels;

    if (i >= job.n)
        return;
    int64_t label = ((const int64_t *)job.memory[1].at)[i];
    int64_t mixed = job.mixes ? ((const int64_t *)job.memory[4].at)[i] : label;
    double lambda = job.mixes ? (double)((const float *)job.memory[5].at)[i] : 1;
    bool counts = job.anew || ((const uint8_t *)job.memory[2].at)[i];
    bool is_class = label >= 0 && label < n && mixed >= 0 && mixed < n;
    for (int k = 1; k < n; k++)
        best = scores[k] > scores[best] ? k : best;
    double most = (double)scores[best];
    for (int k = 0; k < n; k++)
        total += exp((double)scores[k] - most);
    double wanted = is_class ? lambda * (double)scores[label] + (1 - lambda) * (double)scores[mixed]
                             : (double)NAN;
    sums[0] = counts ? log(total) - (wanted - most) : 0;
    sums[1] = counts && best == label;
    sums[2] = counts;
    for (int k = 0; k < n; k++)
        scores[k] =
            (REAL)(counts && is_class ? exp((double)scores[k] - most) / total -
                                            (k == label) * lambda - (k == mixed) * (1 - lambda)
                                      : 0);
}

/* In the order of the rows. */
static __global__ void NAME(tally)(struct convnet_job job)
{
    const double *rows = (const double *)job.memory[0].at;
    double *sums = (double *)job.memory[1].at;

    if (THREAD >= job.n)
        return;
    for (int k = 0; k < 3; k++) {
        double sum = job.anew ? 0 : sums[k];
        for (int row = 0; row < job.rows; row++)
            sum += rows[row * 3 + k];
        sums[k] = sum;
    }
    *(REAL *)job.memory[2].at = (REAL)sums[2];
}

static __global__ void NAME(add)(struct convnet_job job)
{
    size_t i = THREAD;

    if (i < job.n)
        ((REAL *)job.memory[0].at)[i] += ((const REAL *)job.memory[1].at)[i];
}

static __global__ void NAME(update)(struct convnet_job job)
{
    size_t i = THREAD;
    REAL *weights = (REAL *)job.memory[0].at, *velocity = (REAL *)job.memory[1].at;
    const REAL *gradients = (const REAL *)job.memory[2].at;

    if (i >= job.n || gradients[job.n] == 0)
        return;
    velocity[i] = (REAL)job.momentum * velocity[i] + gradients[i] / gradients[job.n] +
                  (REAL)job.decay * weights[i];
    weights[i] -= (REAL)job.lr * velocity[i];
}
