/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of darknet that examples/darknet_detector.h and examples/darknet.diff use: their names
 * and fields are those of hank-ai's and AlexeyAB's darknet. C, and C++ as in hank-ai's.
 */
#ifndef TESTS_SYSTEM_DARKNET_DOUBLE_H
#define TESTS_SYSTEM_DARKNET_DOUBLE_H

typedef struct matrix {
    int rows, cols;
    float **vals;
} matrix;

typedef struct data {
    int w, h;
    matrix X;
    matrix y;
    int shallow;
} data;

typedef struct load_args {
    int n, h, w, c, min, max, size, num_boxes, truth_size, classes, track, letter_box, contrastive;
    float jitter, resize, aspect;
    int flip, gaussian_noise, blur, mixup;
    float saturation, exposure, hue;
} load_args;

#endif
