/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_train [--device cuda:0] [--data FOLDER] [--only WORD] [--brief]: runs the example
 * train_cifar10, which is beside this program, on the GPU and on the host. --data is a folder with
 * CIFAR-10's binary files. Without it, or if FOLDER has none, striped pictures are made; only with
 * the real ones an accuracy must be reached.
 *
 * Losses of two runs can agree by chance, so all weights are compared where runs must be the same.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_setup.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/dist.h>

enum {
    SIDE = 32,
    PIXELS = SIDE * SIDE,
    RECORD = 1 + 3 * PIXELS,
    N_TRAIN = 1000,
    N_BRIEF = 50,
    MAX_WORDS = 24
};

struct line {
    long epoch;
    double loss, accuracy, test_loss, test_accuracy, seconds;
};

struct training {
    struct gpu_setup *setup;
    struct gpu_report *report;
    char *program;
    char *made; /* folder of the striped pictures */
    char *real; /* or NULL */
};

/* ---- pictures ---- */

/*
 * Ten classes: stripes along or across, of five widths. Brightness and noise do not depend on the
 * class.
 */
static void draw_picture(uint8_t *record, uint32_t label, uint32_t *random)
{
    uint32_t period = 2 + label / 2 * 2;
    *random = *random * 1664525u + 1013904223u;
    uint32_t bright = 80 + (*random >> 24) % 80;
    uint32_t phase = (*random >> 16) % period;
    record[0] = (uint8_t)label;
    for (uint32_t i = 0; i < 3 * PIXELS; i++) {
        uint32_t along = label % 2 ? i % PIXELS / SIDE : i % SIDE;
        *random = *random * 1664525u + 1013904223u;
        record[1 + i] = (uint8_t)(30 + ((along + phase) % period < period / 2 ? bright : 0) +
                                  (*random >> 16) % 40);
    }
}

static void write_file(struct training *t, const char *name, const void *bytes, size_t len)
{
    char *path = gpu_setup_text("%s/%s", t->made, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0)
        gpu_report_die(t->report, "%s cannot be written", path);
    free(path);
}

static void make_pictures(struct training *t)
{
    static const char names[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
    uint32_t n = t->setup->brief ? N_BRIEF : N_TRAIN;
    uint8_t *records = malloc((size_t)n * RECORD);
    uint32_t random = 1;
    if (!records)
        gpu_report_die(t->report, "no memory for pictures");
    for (uint32_t i = 0; i < n; i++)
        draw_picture(records + (size_t)i * RECORD, i % 10, &random);
    write_file(t, "data_batch_1.bin", records, (size_t)n * RECORD);
    for (uint32_t i = 0; i < n / 5; i++)
        draw_picture(records + (size_t)i * RECORD, i % 10, &random);
    write_file(t, "test_batch.bin", records, (size_t)(n / 5) * RECORD);
    write_file(t, "batches.meta.txt", names, sizeof names - 1);
    free(records);
}

/* ---- runs ---- */

static char *make_out_path(const struct training *t, const char *name)
{
    return gpu_setup_text("%s/out-%s", t->setup->folder, name);
}

/* options: separated by single spaces. */
static void run_child(const struct training *t, const char *name, const char *data, char *options)
{
    char *argv[MAX_WORDS] = {t->program};
    char *rest = options;
    char *log = gpu_setup_text("%s/log-%s", t->setup->folder, name);
    int argc = 1;
    argv[argc++] = gpu_setup_text("--data=%s", data);
    argv[argc++] = gpu_setup_text("--out=%s/out-%s", t->setup->folder, name);
    for (char *word; argc < MAX_WORDS - 1 && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    execv(t->program, argv);
    _exit(127);
}

/* Report a run's output as notes. */
static void tell_log(struct training *t, const char *name)
{
    char line[400];
    char *path = gpu_setup_text("%s/log-%s", t->setup->folder, name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        gpu_report_expect(t->report, false, "%s: %.*s", name, (int)strcspn(line, "\n"), line);
    if (file)
        fclose(file);
    free(path);
}

struct job {
    struct training *training;
    const char *name;
    const char *data;
    const char *options;
};

static int be_rank(void *arg, uint32_t number)
{
    const struct job *job = arg;
    char *name =
        number == 0 ? gpu_setup_text("%s", job->name) : gpu_setup_text("%s-%u", job->name, number);
    run_child(job->training, name, job->data, gpu_setup_text("%s", job->options));
    return 1;
}

/* True if it ended well. n_ranks above 1: with cuda:local, over nccl. */
static bool run_training(struct training *t, const char *name, uint32_t n_ranks, const char *data,
                         const char *options)
{
    struct job job = {t, name, data, options};
    mr_launch_options launch = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    mr_error error;
    launch.no_prefix = true;
    launch.nproc = n_ranks;
    fflush(stdout);
    mr_status status = mr_launch_spawn(&launch, be_rank, &job, &result, &error);
    if (!gpu_report_expect(t->report, status == MR_OK, "mr_launch_spawn: %s", error.text))
        return false;
    if (gpu_report_expect(t->report, result.exit_status == 0, "%s ended with %d", name,
                          result.exit_status))
        return true;
    tell_log(t, name);
    return false;
}

/* Read values from log.tsv. */
static struct line last_line(struct training *t, const char *name)
{
    struct line line = {.epoch = -1};
    char *out = make_out_path(t, name);
    char *path = gpu_setup_text("%s/log.tsv", out);
    FILE *file = fopen(path, "re");
    char text[400];
    while (file && fgets(text, sizeof text, file))
        if (sscanf(text, "%ld %lf %lf %lf %lf %lf", &line.epoch, &line.loss, &line.accuracy,
                   &line.test_loss, &line.test_accuracy, &line.seconds) != 6)
            line.epoch = -1;
    if (file)
        fclose(file);
    gpu_report_expect(t->report, line.epoch >= 0, "%s has no line of an epoch", path);
    free(path);
    free(out);
    return line;
}

static uint8_t *read_checkpoint(struct training *t, const char *name, size_t *len_out)
{
    char *out = make_out_path(t, name);
    char *path = gpu_setup_text("%s/last.ckpt", out);
    FILE *file = fopen(path, "rbe");
    uint8_t *bytes = malloc(1 << 24);
    *len_out = file && bytes ? fread(bytes, 1, 1 << 24, file) : 0;
    gpu_report_expect(t->report, *len_out > 0, "%s cannot be read", path);
    if (file)
        fclose(file);
    free(path);
    free(out);
    return bytes;
}

static void expect_same_bits(struct training *t, const char *a, const char *b)
{
    size_t len_a;
    size_t len_b;
    uint8_t *bytes_a = read_checkpoint(t, a, &len_a);
    uint8_t *bytes_b = read_checkpoint(t, b, &len_b);
    gpu_report_expect(t->report, len_a == len_b && memcmp(bytes_a, bytes_b, len_a) == 0,
                      "%s and %s differ", a, b);
    free(bytes_a);
    free(bytes_b);
}

static void expect_near(struct training *t, const char *a, const char *b, double tolerance)
{
    struct line first = last_line(t, a);
    struct line second = last_line(t, b);
    gpu_report_expect(t->report,
                      fabs(first.loss - second.loss) < tolerance && first.epoch == second.epoch,
                      "loss of %s %.12g, of %s %.12g", a, first.loss, b, second.loss);
    gpu_report_expect(t->report, fabs(first.test_loss - second.test_loss) < tolerance,
                      "test loss of %s %.12g, of %s %.12g", a, first.test_loss, b,
                      second.test_loss);
}

/* ---- cases ---- */

#define SMALL "--batch-size=50 --workers=2 --dtype=f64 --epochs=2"

static void agree_with_host(struct training *t)
{
    char *options = gpu_setup_text(SMALL " --device=%s", t->setup->device);
    if (run_training(t, "host", 1, t->made, SMALL " --device=host") &&
        run_training(t, "gpu", 1, t->made, options))
        expect_near(t, "gpu", "host", 1e-9);
    free(options);
}

#define CHANGED "--transform=cifar+random_erasing(0.5,value=random)+mixup_or_cutmix(0.4,1)"

static void agree_on_mixed_rows(struct training *t)
{
    char *options = gpu_setup_text(SMALL " " CHANGED " --device=%s", t->setup->device);
    if (run_training(t, "host-mixed", 1, t->made, SMALL " " CHANGED " --device=host") &&
        run_training(t, "gpu-mixed", 1, t->made, options))
        expect_near(t, "gpu-mixed", "host-mixed", 1e-9);
    free(options);
}

static void repeat_bits(struct training *t)
{
    char *options = gpu_setup_text(SMALL " --device=%s", t->setup->device);
    char *f32 =
        gpu_setup_text("--batch-size=50 --workers=2 --epochs=2 --device=%s", t->setup->device);
    if (run_training(t, "once", 1, t->made, options) &&
        run_training(t, "again", 1, t->made, options))
        expect_same_bits(t, "once", "again");
    if (run_training(t, "f32-once", 1, t->made, f32) &&
        run_training(t, "f32-again", 1, t->made, f32))
        expect_same_bits(t, "f32-once", "f32-again");
    free(options);
    free(f32);
}

static void go_over_nccl(struct training *t)
{
    char *alone = gpu_setup_text(SMALL " --device=%s", t->setup->device);
    char *nccl = gpu_setup_text(SMALL " --device=%s --backend=nccl", t->setup->device);
    if (run_training(t, "alone", 1, t->made, alone) && run_training(t, "nccl", 1, t->made, nccl))
        expect_same_bits(t, "alone", "nccl");
    free(alone);
    free(nccl);
}

static void share_among_two(struct training *t)
{
    if (run_training(t, "one", 1, t->made, SMALL " --device=cuda:0") &&
        run_training(t, "two", 2, t->made, SMALL " --device=cuda:local --backend=nccl"))
        expect_near(t, "two", "one", 1e-9);
    if (run_training(t, "dp", 1, t->made, SMALL " --mode=dp --devices=cuda:0,cuda:1"))
        expect_near(t, "dp", "one", 1e-9);
    if (run_training(t, "dp-loss", 1, t->made, SMALL " --mode=dp-loss --devices=cuda:0,cuda:1"))
        expect_near(t, "dp-loss", "one", 1e-9);
    if (run_training(t, "mp", 1, t->made, SMALL " --mode=mp --devices=cuda:0,cuda:1"))
        expect_near(t, "mp", "one", 1e-9);
}

static void learn_classes(struct training *t)
{
    bool is_real = t->real != NULL;
    char *options =
        gpu_setup_text("--workers=4 --epochs=%d --device=%s", is_real ? 18 : 6, t->setup->device);
    if (run_training(t, "learn", 1, is_real ? t->real : t->made, options)) {
        struct line line = last_line(t, "learn");
        double accuracy = 100 * line.test_accuracy;
        double per_epoch = line.seconds / (is_real ? 18 : 6);
        gpu_report_expect(t->report, accuracy > (is_real ? 65 : 60), "test accuracy %.2f %%",
                          accuracy);
        gpu_report_figure(is_real ? "CIFAR-10 subset, 18 epochs: test accuracy, %"
                                  : "stripes, 6 epochs: test accuracy, %",
                          &accuracy, 1, true, is_real ? 65 : 60);
        gpu_report_figure(is_real ? "CIFAR-10 subset: an epoch, s" : "stripes: an epoch, s",
                          &per_epoch, 1, false, 0);
    }
    free(options);
}

/* ---- all ---- */

static char *find_program(struct gpu_report *report)
{
    char path[4096];
    if (getenv("MR_GPU_TRAIN"))
        return gpu_setup_text("%s", getenv("MR_GPU_TRAIN"));
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        gpu_report_die(report, "/proc/self/exe cannot be read");
    *slash = '\0';
    return gpu_setup_text("%s/train_cifar10", path);
}

int gpu_train_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t n_gpus;
        void (*run)(struct training *t);
    } cases[] = {
        {"in f64 the GPU comes to the host's losses", 1, agree_with_host},
        {"so it does with erased and mixed rows", 1, agree_on_mixed_rows},
        {"the same run gives the same bits", 1, repeat_bits},
        {"one rank over nccl gives the same bits", 1, go_over_nccl},
        {"two GPUs come to the losses of one, as ranks and in each mode", 2, share_among_two},
        {"it learns", 1, learn_classes},
    };
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    struct training t = {
        .setup = &setup, .report = &setup.report, .program = find_program(&setup.report)};
    t.made = gpu_setup_text("%s", setup.folder);
    char *real = gpu_setup_text("%s/data_batch_1.bin", setup.photos);
    t.real = access(real, R_OK) == 0 ? setup.photos : NULL;
    make_pictures(&t);
    uint32_t n = mr_device_count(MR_DEVICE_CUDA, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!gpu_report_begin(&setup.report, cases[i].name))
            continue;
        if (setup.brief && cases[i].run == learn_classes)
            gpu_report_skip(&setup.report, "--brief");
        else if (n < cases[i].n_gpus)
            gpu_report_skip(&setup.report, "%u GPUs are there", n);
        else
            cases[i].run(&t);
        gpu_report_end(&setup.report);
    }
    free(real);
    free(t.made);
    free(t.program);
    return gpu_setup_end(&setup);
}
