/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files made here are in the temporary folder, whose name has no letter that must be escaped in a
 * SPEC.
 */
#include "tests/gpu/gpu_setup.h"

#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *gpu_setup_text(const char *format, ...)
{
    va_list values;
    char *text;
    va_start(values, format);
    int n = vasprintf(&text, format, values);
    va_end(values);
    if (n < 0)
        abort();
    return text;
}

static void remove_folder(void *user)
{
    struct gpu_setup *setup = user;
    mr_test_folder_remove(setup->folder);
}

static void print_usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--device NAME] [--data FOLDER] [--workers N] [--only WORD] [--brief] "
            "[--tiny]\n",
            program);
    exit(2);
}

void gpu_setup_init(struct gpu_setup *setup, int argc, char **argv)
{
    const char *data = NULL;
    *setup = (struct gpu_setup){.device = "cuda:0"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--brief") == 0) {
            setup->brief = true;
            continue;
        }
        if (strcmp(argv[i], "--tiny") == 0) {
            setup->brief = setup->tiny = true;
            continue;
        }
        if (i + 1 == argc)
            print_usage(argv[0]);
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--device") == 0)
            setup->device = value;
        else if (strcmp(argv[i], "--data") == 0)
            data = value;
        else if (strcmp(argv[i], "--workers") == 0)
            setup->n_workers = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            setup->report.only = value;
        else
            print_usage(argv[0]);
        i++;
    }
    setup->folder = mr_test_folder_create();
    setup->report.clean_up = remove_folder;
    setup->report.user = setup;
    if (!data)
        mr_test_folder_fill(setup->folder, 3, 24);
    setup->photos = gpu_setup_text("%s", data ? data : setup->folder);
}

int gpu_setup_end(struct gpu_setup *setup)
{
    remove_folder(setup);
    free(setup->photos);
    return gpu_report_exit(&setup->report);
}

mr_dataset *gpu_setup_dataset(struct gpu_setup *setup, const char *spec)
{
    mr_dataset *dataset;
    mr_error error;
    if (mr_dataset_open(spec, NULL, &dataset, &error) != MR_OK)
        gpu_report_die(&setup->report, "%s", error.text);
    return dataset;
}

mr_loader *gpu_setup_loader(struct gpu_setup *setup, mr_dataset *dataset, const char *transform,
                            const mr_loader_options *options)
{
    mr_transform *parsed = NULL;
    mr_loader *loader;
    mr_error error;
    if (transform && mr_transform_parse(transform, &parsed, &error) != MR_OK)
        gpu_report_die(&setup->report, "%s", error.text);
    if (mr_loader_create(dataset, parsed, options, &loader, &error) != MR_OK)
        gpu_report_die(&setup->report, "%s", error.text);
    mr_transform_destroy(parsed);
    return loader;
}

static char *read_file(struct gpu_setup *setup, const char *path, size_t *len_out)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        gpu_report_die(&setup->report, "%s cannot be read", path);
    long len = ftell(file);
    char *text = malloc(len > 0 ? (size_t)len : 1);
    rewind(file);
    if (len < 0 || !text || fread(text, 1, (size_t)len, file) != (size_t)len)
        gpu_report_die(&setup->report, "%s cannot be read", path);
    fclose(file);
    *len_out = (size_t)len;
    return text;
}

/* The first line may have the classes' names, which must appear once. */
static size_t head_len(const char *text, size_t len)
{
    const char *end =
        len > 10 && memcmp(text, "# classes:", 10) == 0 ? memchr(text, '\n', len) : NULL;
    return end ? (size_t)(end - text) + 1 : 0;
}

char *gpu_setup_list(struct gpu_setup *setup, const char *name, uint32_t times,
                     const char *further_lines)
{
    char *path = gpu_setup_text("%s/%s", setup->folder, name);
    mr_dataset *photos = gpu_setup_dataset(setup, setup->photos);
    mr_error error;
    size_t len;
    if (mr_dataset_save_list(photos, path, &error) != MR_OK)
        gpu_report_die(&setup->report, "%s", error.text);
    mr_dataset_destroy(photos);
    char *text = read_file(setup, path, &len);
    size_t head = head_len(text, len);
    FILE *file = fopen(path, "wb");
    if (!file)
        gpu_report_die(&setup->report, "%s cannot be written", path);
    fwrite(text, 1, head, file);
    for (uint32_t i = 0; i < times; i++)
        fwrite(text + head, 1, len - head, file);
    fputs(further_lines ? further_lines : "", file);
    if (fclose(file) != 0)
        gpu_report_die(&setup->report, "%s cannot be written", path);
    char *spec = gpu_setup_text("list:%s", path);
    free(text);
    free(path);
    return spec;
}

char *gpu_setup_records(struct gpu_setup *setup, const char *name, uint32_t n, uint32_t n_bytes)
{
    char *path = gpu_setup_text("%s/%s", setup->folder, name);
    uint8_t *record = malloc(n_bytes + 8u);
    FILE *file = fopen(path, "wb");
    if (!file || !record)
        gpu_report_die(&setup->report, "%s cannot be written", path);
    uint32_t state = 12345;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n_bytes + 8; k++) {
            state = state * 1664525 + 1013904223;
            record[k] = (uint8_t)(state >> 24);
        }
        fwrite(record, 1, n_bytes + 8u, file);
    }
    if (fclose(file) != 0)
        gpu_report_die(&setup->report, "%s cannot be written", path);
    free(record);
    return path;
}

char *gpu_setup_device_name(const struct gpu_setup *setup, uint32_t number)
{
    return gpu_setup_text("%.*s:%u", (int)strcspn(setup->device, ":"), setup->device, number);
}

uint32_t gpu_setup_batch(const struct gpu_setup *setup, uint32_t n)
{
    return setup->tiny && n > 8 ? 8 : n;
}

bool gpu_setup_on_gpu(const struct gpu_setup *setup)
{
    return strncmp(setup->device, "cuda", 4) == 0;
}

uint32_t gpu_setup_n_cpus(void)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&cpus);
}
