/* SPDX-License-Identifier: Apache-2.0 */
/*
 * examples/darknet_detector.h, which replaces darknet's load_data_detection(), with darknet's types
 * from darknet_double.h: the truth has the boxes of darknet's label files and follows the pixels
 * through jitter, letterbox and flips; settings that it lacks end the program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/darknet_double.h"

#include "examples/darknet_detector.h"

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"

enum { N_IMAGES = 22, N = 4, STEPS = N_IMAGES / N, SIDE = 64, MAX = 5, TRUTH = 6, CLASSES = 3 };

/* ---- photographs: a red rectangle on grey, whose place depends on the number ---- */

enum { WIDTH = 120, HEIGHT = 90 };

struct rectangle {
    int x, y, width, height;
};

static char *folder, spec[600];

static struct rectangle rectangle_of(int i)
{
    return (struct rectangle){10 + 2 * i, 30 - i, 30 + i, 40 + i};
}

static void write_photograph(int i)
{
    struct rectangle r = rectangle_of(i);
    static uint8_t ppm[20 + 3 * WIDTH * HEIGHT];
    char name[20];
    int len = snprintf((char *)ppm, 20, "P6 %d %d 255\n", WIDTH, HEIGHT);

    for (int p = 0; p < WIDTH * HEIGHT; p++) {
        int x = p % WIDTH - r.x, y = p / WIDTH - r.y;
        bool inside = x >= 0 && x < r.width && y >= 0 && y < r.height;
        memcpy(ppm + len + 3 * p, inside ? "\xff\0\0" : "\x7f\x7f\x7f", 3);
    }
    snprintf(name, sizeof name, "a/%02d.ppm", i);
    mr_test_folder_write(folder, name, ppm, (uint64_t)len + 3 * WIDTH * HEIGHT);
}

static void write_labels(int i, const char *further)
{
    struct rectangle r = rectangle_of(i);
    char name[20], text[2000];
    int len = snprintf(text, sizeof text, "%d %.6f %.6f %.6f %.6f\n%s", i % CLASSES,
                       (r.x + r.width / 2.0) / WIDTH, (r.y + r.height / 2.0) / HEIGHT,
                       (double)r.width / WIDTH, (double)r.height / HEIGHT, further);

    snprintf(name, sizeof name, "a/%02d.txt", i);
    mr_test_folder_write(folder, name, text, (uint64_t)len);
}

static int make_photographs(void **state)
{
    char list[20 * N_IMAGES], path[300];
    int len = 0;

    (void)state;
    folder = mr_test_folder_create();
    snprintf(path, sizeof path, "%s/a", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    for (int i = 0; i < N_IMAGES; i++) {
        write_photograph(i);
        write_labels(i, "");
        len += snprintf(list + len, sizeof list - (size_t)len, "a/%02d.ppm\n", i);
    }
    mr_test_folder_write(folder, "train.txt", list, (uint64_t)len);
    snprintf(spec, sizeof spec, "yolo:%s/train.txt?root=%s", folder, folder);
    return 0;
}

/* Without jitter, flips and colours. */
static load_args args_of(int side)
{
    return (load_args){.n = N,
                       .w = side,
                       .h = side,
                       .c = 3,
                       .num_boxes = MAX,
                       .truth_size = TRUTH,
                       .classes = CLASSES,
                       .resize = 1,
                       .saturation = 1,
                       .exposure = 1};
}

/* As darknet's; rows that are not its own stay. */
static void free_data(data d)
{
    assert_true(d.shallow);
    free(d.X.vals);
    free(d.y.vals);
}

static const int64_t *indices_of(const millrace_detector *detector)
{
    return mr_batch_data(detector->batch, "index");
}

/* ---- tests ---- */

static void check_truth(const float *truth, int64_t index, bool letter_box)
{
    struct rectangle r = rectangle_of((int)index);
    float scale = letter_box ? (float)HEIGHT / WIDTH : 1; /* of what is seen above and below */
    float y = ((float)r.y + (float)r.height / 2) / HEIGHT;

    assert_float_equal(truth[0], ((float)r.x + (float)r.width / 2) / WIDTH, 1e-5);
    assert_float_equal(truth[1], 0.5f + (y - 0.5f) * scale, 1e-5);
    assert_float_equal(truth[2], (float)r.width / WIDTH, 1e-5);
    assert_float_equal(truth[3], (float)r.height / HEIGHT * scale, 1e-5);
    assert_float_equal(truth[4], (float)(index % CLASSES), 0);
    assert_float_equal(truth[5], (float)(4000 * index), 0);
    for (int k = TRUTH; k < MAX * TRUTH; k++)
        assert_float_equal(truth[k], 0, 0); /* x = 0 is the end */
}

static void the_truth_has_the_labels_of_the_file(void **state)
{
    (void)state;
    for (int letter_box = 0; letter_box < 2; letter_box++) {
        millrace_detector detector = millrace_open(spec, 0);
        load_args args = args_of(SIDE);
        args.letter_box = letter_box;
        for (int step = 0; step < STEPS; step++) {
            data d = millrace_next(&detector, args);
            assert_int_equal(d.X.rows, N);
            assert_int_equal(d.X.cols, 3 * SIDE * SIDE);
            assert_int_equal(d.y.rows, N);
            assert_int_equal(d.y.cols, MAX * TRUTH);
            for (int i = 0; i < N; i++)
                check_truth(d.y.vals[i], indices_of(&detector)[i], letter_box);
            free_data(d);
        }
        millrace_close(&detector);
    }
}

/* The rectangle of a picture's red pixels, as truth has it. Returns false if there are none. */
static bool find_red(const float *pixels, float *truth)
{
    int left = SIDE, right = 0, top = SIDE, bottom = 0;

    for (int p = 0; p < SIDE * SIDE; p++) {
        int x = p % SIDE, y = p / SIDE;
        if (pixels[p] - pixels[p + SIDE * SIDE] < 0.5f)
            continue;
        left = x < left ? x : left;
        right = x + 1 > right ? x + 1 : right;
        top = y < top ? y : top;
        bottom = y + 1 > bottom ? y + 1 : bottom;
    }
    truth[0] = (float)(left + right) / 2 / SIDE;
    truth[1] = (float)(top + bottom) / 2 / SIDE;
    truth[2] = (float)(right - left) / SIDE;
    truth[3] = (float)(bottom - top) / SIDE;
    return right > left;
}

static void the_truth_follows_the_pixels(void **state)
{
    int n_cut = 0, n_whole = 0;

    (void)state;
    for (int letter_box = 0; letter_box < 2; letter_box++) {
        millrace_detector detector = millrace_open(spec, 0);
        load_args args = args_of(SIDE);
        args.letter_box = letter_box;
        args.jitter = 0.3f;
        args.resize = 1.5f;
        args.flip = 1;
        args.exposure = args.saturation = 1.2f;
        args.hue = 0.02f;
        for (int step = 0; step < 10 * STEPS; step++) {
            data d = millrace_next(&detector, args);
            for (int i = 0; i < N; i++) {
                const float *truth = d.y.vals[i];
                float red[4];
                if (truth[0] == 0) {
                    n_cut++; /* the centre was cut off */
                    continue;
                }
                assert_true(find_red(d.X.vals[i], red));
                for (int k = 0; k < 4; k++)
                    assert_float_equal(truth[k], red[k], 1.5 / SIDE);
                n_whole++;
            }
            free_data(d);
        }
        millrace_close(&detector);
    }
    if (n_whole < 2 * n_cut)
        fail_msg("%d boxes are seen, %d are cut off", n_whole, n_cut);
}

static void boxes_below_a_pixel_and_those_beyond_max_are_left_out(void **state)
{
    millrace_detector detector = millrace_open(spec, 0);
    load_args args = args_of(SIDE);

    (void)state;
    write_labels(1, "2 0.5 0.5 0.001 0.5\n2 0.25 0.5 0.5 1\n");
    write_labels(2, "0 .5 .5 1 1\n1 .5 .5 1 1\n2 .5 .5 1 1\n0 .5 .5 1 1\n1 .5 .5 1 1\n");
    for (int step = 0; step < STEPS; step++) {
        data d = millrace_next(&detector, args);
        for (int i = 0; i < N; i++) {
            const float *truth = d.y.vals[i];
            if (indices_of(&detector)[i] == 1) {
                assert_float_equal(truth[TRUTH], 0.25, 1e-6);
                assert_float_equal(truth[TRUTH + 2], 0.5, 1e-6);
                assert_float_equal(truth[TRUTH + 3], 1, 0);
                assert_float_equal(truth[2 * TRUTH], 0, 0);
            }
            if (indices_of(&detector)[i] == 2)
                for (int k = 1; k < MAX; k++)
                    assert_float_equal(truth[k * TRUTH + 4], (float)((k - 1) % 3), 0);
        }
        free_data(d);
    }
    millrace_close(&detector);
    write_labels(1, "");
    write_labels(2, "");
}

static void an_epoch_has_each_image_once_although_sizes_change(void **state)
{
    millrace_detector still = millrace_open(spec, 2 * N_IMAGES + 5);
    millrace_detector resized = millrace_open(spec, 2 * N_IMAGES + 5);
    bool seen[N_IMAGES] = {false};

    (void)state;
    for (int step = 0; step < 2 * STEPS; step++) {
        data expected = millrace_next(&still, args_of(SIDE));
        data got = millrace_next(&resized, args_of(32 * (1 + step % 3)));
        assert_int_equal(mr_batch_epoch(resized.batch), 2 + step / STEPS);
        assert_memory_equal(indices_of(&resized), indices_of(&still), N * sizeof(int64_t));
        for (int i = 0; i < N && step < STEPS; i++) {
            assert_false(seen[indices_of(&still)[i]]);
            seen[indices_of(&still)[i]] = true;
        }
        free_data(expected);
        free_data(got);
    }
    millrace_close(&still);
    millrace_close(&resized);
}

/* Run a step in another process, because errors end it. */
static void check_refused(load_args args, const char *words)
{
    char text[500];
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        millrace_detector detector = millrace_open(spec, 0);
        for (int step = 0; step < STEPS; step++)
            free_data(millrace_next(&detector, args));
        _exit(0);
    }
    close(ends[1]);
    FILE *pipe = fdopen(ends[0], "r");
    assert_non_null(pipe);
    size_t len = fread(text, 1, sizeof text - 1, pipe);
    text[len] = '\0';
    fclose(pipe);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_words(text, words);
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
}

static void what_it_does_not_do_is_an_error(void **state)
{
    load_args args = args_of(SIDE);

    (void)state;
    args.mixup = 1;
    check_refused(args, "the network's cfg sets mixup,");
    args.mixup = 2;
    check_refused(args, "the network's cfg sets cutmix,");
    args.mixup = 3;
    check_refused(args, "the network's cfg sets mosaic,");
    args = args_of(SIDE);
    args.blur = 1;
    check_refused(args, "the network's cfg sets blur,");
    args = args_of(SIDE);
    args.gaussian_noise = 10;
    check_refused(args, "the network's cfg sets gaussian_noise,");
    args = args_of(SIDE);
    args.track = 1;
    check_refused(args, "the network's cfg sets track,");
    args = args_of(SIDE);
    args.contrastive = 1;
    check_refused(args, "the network's cfg sets contrastive,");
    args = args_of(SIDE);
    args.c = 1;
    check_refused(args, "the network's cfg sets channels,");
}

static void a_class_that_the_network_lacks_is_an_error(void **state)
{
    load_args args = args_of(SIDE);

    (void)state;
    args.classes = 2;
    check_refused(args, "has a box of class 2, but classes=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_has_the_labels_of_the_file),
        cmocka_unit_test(the_truth_follows_the_pixels),
        cmocka_unit_test(boxes_below_a_pixel_and_those_beyond_max_are_left_out),
        cmocka_unit_test(an_epoch_has_each_image_once_although_sizes_change),
        cmocka_unit_test(what_it_does_not_do_is_an_error),
        cmocka_unit_test(a_class_that_the_network_lacks_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_photographs, NULL);
}
