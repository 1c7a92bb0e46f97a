/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images and boxes of darknet's train_detector(), read by millrace instead of
 * load_data_detection() and its threads (docs/plug-in.md). An epoch has each image once; worker
 * processes decode ahead. SPEC is "train" of the .data file: yolo:train.txt, coco:..., pack:DIR.
 *
 * For hank-ai's darknet, which is C++, and AlexeyAB's, which is C. Each is patched to include this
 * file in its detector, after its own headers.
 */
#ifndef DARKNET_DETECTOR_H
#define DARKNET_DETECTOR_H

#include <math.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct millrace_detector {
    mr_dataset *dataset;
    mr_loader *loader; /* for images of w x h; NULL before the first call */
    mr_batch *batch;   /* holds the rows of the last data */
    float *truth;
    int w, h, n;
    uint64_t epoch; /* where the training begins */
} millrace_detector;

static void millrace_check(mr_status status, const mr_error *error)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

/* seen: how many images the network has been trained with before. */
static millrace_detector millrace_open(const char *spec, uint64_t seen)
{
    millrace_detector detector = {0};
    mr_error error;

    millrace_check(mr_dataset_open(spec, NULL, &detector.dataset, &error), &error);
    detector.epoch = seen / (uint64_t)mr_dataset_n_samples(detector.dataset);
    return detector;
}

/* What load_data_detection() does and this does not is an error, so nothing is left out silently.
 */
static void millrace_refuse(load_args args)
{
    const char *name = args.mixup >= 3       ? "mosaic"
                       : args.mixup == 2     ? "cutmix"
                       : args.mixup          ? "mixup"
                       : args.blur           ? "blur"
                       : args.gaussian_noise ? "gaussian_noise"
                       : args.track          ? "track"
                       : args.contrastive    ? "contrastive"
                       : args.c != 3         ? "channels"
                                             : NULL;
    if (!name)
        return;
    fprintf(stderr, "the network's cfg sets %s, which millrace does not do for darknet\n", name);
    exit(1);
}

/*
 * darknet moves each edge of the crop by up to `jitter` of the side, and enlarges or reduces it by
 * up to `resize`. Here a border is added and a part cut out within the same limits; a box whose
 * centre is cut off goes. Colours are multiplied by up to `saturation` and `exposure`, or divided.
 */
static mr_transform *millrace_transform(load_args args)
{
    double s = args.saturation == 0 ? 1 : args.saturation, smaller = s < 1 ? s : 1 / s;
    double e = args.exposure == 0 ? 1 : args.exposure, darker = e < 1 ? e : 1 / e;
    double border = args.resize < 1 ? 1 / args.resize : args.resize;
    double part = args.resize < 1 ? 1 : 1 / args.resize;
    mr_transform *transform = NULL;
    mr_error error;
    char text[400];

    snprintf(text, sizeof text,
             "random_zoom_out(fill=127,side_range=1:%f)+random_iou_crop(scale=%f:1)+%s(%d:%d)"
             "+color_jitter(brightness=%f:%f,saturation=%f:%f,hue=%f)+hflip(%g)",
             border * (1 + args.jitter), part * (1 - args.jitter),
             args.letter_box ? "letterbox" : "resize", args.h, args.w, darker, 1 / darker, smaller,
             1 / smaller, fabs(args.hue), args.flip ? 0.5 : 0);
    millrace_check(mr_transform_parse(text, &transform, &error), &error);
    return transform;
}

/*
 * A loader for images of another size. It continues where the old one stopped, so the epoch still
 * has each image once.
 */
static void millrace_resize(millrace_detector *detector, load_args args)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_transform *transform = millrace_transform(args);
    mr_loader *old = detector->loader;
    unsigned char state[MR_LOADER_STATE_MAX];
    size_t state_len = 0;
    mr_error error;

    options.batch_size = (uint32_t)args.n;
    options.drop_last = true; /* n rows in every data */
    options.dtype = MR_F32;   /* x / 255, in [0, 1] */
    options.layout = MR_NCHW;
    options.epoch = detector->epoch;
    options.on_error = MR_ON_ERROR_SKIP;
    if (old)
        millrace_check(mr_loader_save(old, state, sizeof state, &state_len), mr_loader_error(old));
    mr_batch_release(detector->batch);
    mr_loader_destroy(old);
    detector->batch = NULL;
    millrace_check(
        mr_loader_create(detector->dataset, transform, &options, &detector->loader, &error),
        &error);
    if (old)
        millrace_check(mr_loader_restore(detector->loader, state, state_len),
                       mr_loader_error(detector->loader));
    mr_transform_destroy(transform);
    detector->w = args.w;
    detector->h = args.h;
    detector->n = args.n;
}

/* Take the next batch. At the end of an epoch it is the first one of the next, in another order. */
static void millrace_advance(millrace_detector *detector)
{
    mr_loader *loader = detector->loader;
    mr_status status;

    mr_batch_release(detector->batch);
    status = mr_loader_next(loader, MR_FOREVER, &detector->batch);
    if (status == MR_END) {
        millrace_check(mr_loader_set_epoch(loader, mr_loader_epoch(loader) + 1),
                       mr_loader_error(loader));
        status = mr_loader_next(loader, MR_FOREVER, &detector->batch);
    }
    millrace_check(status, mr_loader_error(loader));
}

static float millrace_clamp(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/*
 * As fill_truth_detection(): for each box x and y of the centre, width and height as parts of the
 * image, class, track id. Boxes of less than a pixel are left out; x = 0 is the end.
 */
static void millrace_fill_truth(const millrace_detector *detector, int row, load_args args,
                                float *truth)
{
    const mr_array *boxes = mr_batch_array(detector->batch, "boxes"); /* f32 [sum, 4] in pixels */
    const int64_t *labels = (const int64_t *)mr_batch_data(detector->batch, "box_label");
    const int64_t *indices = (const int64_t *)mr_batch_data(detector->batch, "index");
    const int64_t first = boxes->row_offsets[row], end = boxes->row_offsets[row + 1];
    const float *most = truth + args.num_boxes * args.truth_size;

    for (int64_t i = first; i < end && truth < most; i++) {
        const float *box = (const float *)boxes->data + 4 * i; /* left, top, right, bottom */
        float left = millrace_clamp(box[0] / args.w), right = millrace_clamp(box[2] / args.w);
        float top = millrace_clamp(box[1] / args.h), bottom = millrace_clamp(box[3] / args.h);
        if (right - left < 1.f / args.w || bottom - top < 1.f / args.h)
            continue;
        if (labels[i] < 0 || labels[i] >= args.classes) {
            fprintf(stderr, "image %lld has a box of class %lld, but classes=%d\n",
                    (long long)indices[row], (long long)labels[i], args.classes);
            exit(1);
        }
        truth[0] = (left + right) / 2;
        truth[1] = (top + bottom) / 2;
        truth[2] = right - left;
        truth[3] = bottom - top;
        truth[4] = (float)labels[i];
        truth[5] = (float)(indices[row] % 4000 * 4000 + i - first);
        truth += args.truth_size;
    }
}

/*
 * The next args.n images, of args.w x args.h, for free_data(). Pixels and truth are valid until the
 * next call.
 */
static data millrace_next(millrace_detector *detector, load_args args)
{
    data d = {0};
    float *pixels;

    millrace_refuse(args);
    if (detector->w != args.w || detector->h != args.h || detector->n != args.n)
        millrace_resize(detector, args);
    millrace_advance(detector);
    free(detector->truth);
    d.w = args.w;
    d.h = args.h;
    d.shallow = 1; /* free_data() must not free the rows */
    d.X.rows = d.y.rows = args.n;
    d.X.cols = 3 * args.h * args.w;
    d.y.cols = args.num_boxes * args.truth_size;
    d.X.vals = (float **)calloc((size_t)args.n, sizeof(float *));
    d.y.vals = (float **)calloc((size_t)args.n, sizeof(float *));
    detector->truth = (float *)calloc((size_t)args.n * (size_t)d.y.cols, sizeof(float));
    pixels = (float *)mr_batch_data(detector->batch, "image"); /* f32 [n, 3, h, w] */
    for (int i = 0; i < args.n; i++) {
        d.X.vals[i] = pixels + (size_t)i * (size_t)d.X.cols;
        d.y.vals[i] = detector->truth + (size_t)i * (size_t)d.y.cols;
        millrace_fill_truth(detector, i, args, d.y.vals[i]);
    }
    return d;
}

static void millrace_close(millrace_detector *detector)
{
    mr_batch_release(detector->batch);
    mr_loader_destroy(detector->loader);
    mr_dataset_destroy(detector->dataset);
    free(detector->truth);
}

#endif
