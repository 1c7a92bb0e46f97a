/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of `millrace bench` and describes the machine. It counts the CPUs that this
 * process may use, not all CPUs of the machine.
 */
#include "tools/measure/bench_report.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "tools/say.h"

static char *join_command(int argc, char **argv)
{
    char *text = NULL;
    size_t len;
    FILE *stream = open_memstream(&text, &len);

    if (stream == NULL)
        return NULL;
    for (int i = 0; i < argc; i++)
        fprintf(stream, "%s%s", i > 0 ? " " : "", argv[i]);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

/* The value of "model name : ..." for the first CPU, or the machine's architecture. */
static char *read_cpu_model(const char *architecture)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        fclose(file);
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        return strdup(value);
    }
    if (file != NULL)
        fclose(file);
    return strdup(architecture);
}

static uint32_t count_cpus(void)
{
    uint32_t count = 1;

    /* The kernel refuses a set that is too small for its CPU numbers. */
    for (size_t n = 1024; n <= 65536; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (set == NULL)
            break;
        bool known = sched_getaffinity(0, CPU_ALLOC_SIZE(n), set) == 0;
        if (known)
            count = (uint32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(n), set);
        CPU_FREE(set);
        if (known)
            break;
    }
    return count;
}

bool mr_bench_report_meta(struct mr_bench_meta *meta, int argc, char **argv)
{
    struct utsname system = {0};
    time_t now = time(NULL);
    struct tm utc;

    *meta = (struct mr_bench_meta){0};
    uname(&system);
    meta->command = join_command(argc, argv);
    meta->cpu_model = read_cpu_model(system.machine);
    meta->kernel = strdup(system.release);
    meta->n_cpus = count_cpus();
    if (gmtime_r(&now, &utc) != NULL)
        strftime(meta->date, sizeof meta->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (meta->command != NULL && meta->cpu_model != NULL && meta->kernel != NULL)
        return true;
    mr_say_error("out of memory");
    mr_bench_report_free(meta);
    return false;
}

void mr_bench_report_free(struct mr_bench_meta *meta)
{
    free(meta->command);
    free(meta->transform);
    free(meta->cpu_model);
    free(meta->kernel);
    *meta = (struct mr_bench_meta){0};
}

/* Flush after each row, so a closed pipe (head) is noticed now and not after all rows. */
static bool flush_table(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    mr_say_errno(errno, "stdout");
    clearerr(stdout); /* so mr_say_finish() does not report it again */
    return false;
}

bool mr_bench_report_head(const struct mr_bench_meta *meta)
{
    bool on_host = strcmp(meta->device, "host") == 0;

    printf("%s: %" PRId64 " samples, %s, %s, %s, batch %" PRIu32 "%s%s\n", meta->data,
           meta->n_samples, meta->transform, mr_dtype_name(meta->options.dtype),
           meta->options.layout == MR_NHWC ? "nhwc" : "nchw", meta->options.batch_size,
           on_host ? "" : ", on ", on_host ? "" : meta->device);
    printf("%" PRIu32 " CPUs, %s, Linux %s, millrace %s\n\n", meta->n_cpus, meta->cpu_model,
           meta->kernel, mr_version());
    printf("workers     img/s  ratio  cpu s/1000  gap p50 ms  gap p99 ms  first s   PSS MB  failed "
           " verdict\n");
    return flush_table();
}

bool mr_bench_report_row(const struct mr_bench_row *row)
{
    printf("%7" PRIu32 " %9.1f %6.2f %11.3f %11.2f %11.2f %8.3f %8.1f %7" PRIu64 "  %s\n",
           row->workers, row->img_s, row->ratio, row->cpu_s_per_1000, row->p50_gap_ms,
           row->p99_gap_ms, row->first_batch_s, row->peak_pss_mb, row->n_failed, row->verdict);
    if (row->h2d_gb_s > 0)
        printf("        copies %.1f GB/s, %.0f %% of the batches were ready when requested\n",
               row->h2d_gb_s, 100 * row->ready_share);
    return flush_table();
}
