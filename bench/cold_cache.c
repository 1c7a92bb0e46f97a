/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the first epoch from a disk: the same photographs as a folder, as tar shards and as
 * packs, in turn, with none of their pages in the page cache. Each round gives images per second,
 * from opening the dataset to the last batch, and the bytes read from the disk. POSIX_FADV_DONTNEED
 * is only a request (dirty pages stay), so mincore() counts the pages that are left, and the count
 * is printed.
 */
#include <millrace/millrace.h>

#include <argp.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, MAX_FORMS = 8, MAX_ROUNDS = 100, PAGE = 4096, BLOCK = 512 };

struct form {
    const char *spec;
    double rate[MAX_ROUNDS]; /* images per second */
    uint64_t file_bytes;
    uint64_t read_bytes; /* from the disk, in the last round */
    uint64_t left_bytes; /* in the page cache before the last round */
};

struct settings {
    struct form forms[MAX_FORMS];
    uint32_t n_forms;
    uint32_t n_rounds;
    uint32_t n_workers;
    bool warm;
    bool all; /* names and inodes are dropped too */
    const char *transform;
};

/* Globals, because nftw() passes nothing to its callback. */
static uint64_t seen_bytes, seen_left;

static uint64_t resident_bytes(int fd, size_t len)
{
    uint64_t n = 0;
    size_t n_pages = (len + PAGE - 1) / PAGE;
    unsigned char *in_core = malloc(n_pages);
    void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (in_core && map != MAP_FAILED && mincore(map, len, in_core) == 0)
        for (size_t i = 0; i < n_pages; i++)
            n += (in_core[i] & 1) * (uint64_t)PAGE;
    if (map != MAP_FAILED)
        munmap(map, len);
    free(in_core);
    return n;
}

static int drop_file(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)where;
    if (kind != FTW_F || st->st_size == 0)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    seen_bytes += (uint64_t)st->st_size;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    seen_left += resident_bytes(fd, (size_t)st->st_size);
    close(fd);
    return 0;
}

/* Only count the pages, for a warm cache. */
static int count_file(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)path;
    (void)where;
    seen_bytes += kind == FTW_F ? (uint64_t)st->st_size : 0;
    return 0;
}

/* Drop all clean pages, and the kernel's names and inodes of files. Only root may do this. */
static void drop_inodes(void)
{
    sync();
    FILE *file = fopen("/proc/sys/vm/drop_caches", "we");
    if (!file || fputs("3", file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "cold_cache: cannot write /proc/sys/vm/drop_caches\n");
        exit(1);
    }
}

/* The folder of a pack, of shards (whose common path is a prefix of their names), or of files. */
static void find_folder(const char *spec, char folder_out[4096])
{
    const char *colon = strchr(spec, ':');
    snprintf(folder_out, 4096, "%s", colon ? colon + 1 : spec);
    char *slash = strrchr(folder_out, '/');
    if (strncmp(spec, "tar:", 4) == 0)
        *(slash ? slash : folder_out) = '\0';
}

static void prepare_form(struct form *form, bool warm, bool all)
{
    char folder[4096];
    find_folder(form->spec, folder);
    seen_bytes = seen_left = 0;
    if (nftw(*folder ? folder : ".", warm || all ? count_file : drop_file, 16, 0) != 0)
        fprintf(stderr, "cold_cache: cannot read the folder %s\n", form->spec);
    if (all)
        drop_inodes();
    form->file_bytes = seen_bytes;
    form->left_bytes = seen_left;
}

static uint64_t disk_bytes(void)
{
    struct rusage own = {0}, children = {0};
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return (uint64_t)(own.ru_inblock + children.ru_inblock) * BLOCK;
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/*
 * Run one epoch. The loader's workers are children, whose reads are counted after they have ended.
 */
static mr_status run_epoch(const struct form *form, const struct settings *s, uint64_t epoch,
                           double *rate_out, mr_error *error)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.num_workers = s->n_workers;
    options.n_epochs = 1;
    options.epoch = epoch;
    mr_dataset *dataset = NULL;
    mr_transform *transform = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch;
    uint64_t n = 0;
    double begin = now_s();
    mr_status status = mr_dataset_open(form->spec, NULL, &dataset, error);
    if (status == MR_OK)
        status = mr_transform_parse(s->transform, &transform, error);
    if (status == MR_OK)
        status = mr_loader_create(dataset, transform, &options, &loader, error);
    while (status == MR_OK && (status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        n += mr_batch_valid(batch);
        mr_batch_release(batch);
    }
    *rate_out = (double)n / (now_s() - begin);
    if (status < 0 && loader)
        *error = *mr_loader_error(loader);
    mr_loader_destroy(loader);
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
    return status == MR_END ? MR_OK : status;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_report(struct settings *s)
{
    printf("| data | MB | images/s | least | most | read MB | in cache before, MB "
           "|\n|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < s->n_forms; i++) {
        struct form *form = &s->forms[i];
        qsort(form->rate, s->n_rounds, sizeof *form->rate, compare_doubles);
        printf("| %s | %.1f | %.0f | %.0f | %.0f | %.1f | %.1f |\n", form->spec,
               (double)form->file_bytes / 1e6, form->rate[s->n_rounds / 2], form->rate[0],
               form->rate[s->n_rounds - 1], (double)form->read_bytes / 1e6,
               (double)form->left_bytes / 1e6);
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct settings *s = state->input;
    char *end = text;
    unsigned long value = key == 'r' || key == 'w' ? strtoul(text, &end, 10) : 0;
    switch (key) {
    case 'r':
        if (*end || value < 1 || value > MAX_ROUNDS)
            argp_error(state, "--rounds %s is not from 1 to %d", text, MAX_ROUNDS);
        s->n_rounds = (uint32_t)value;
        break;
    case 'w':
        if (*end || value < 1 || value > MR_MAX_WORKERS)
            argp_error(state, "--workers %s is not a number of workers", text);
        s->n_workers = (uint32_t)value;
        break;
    case 'k': s->warm = true; break;
    case 'a': s->all = true; break;
    case 't': s->transform = text; break;
    case ARGP_KEY_ARG:
        if (s->n_forms == MAX_FORMS)
            argp_error(state, "more than %d datasets", MAX_FORMS);
        s->forms[s->n_forms++].spec = text;
        break;
    case ARGP_KEY_NO_ARGS: argp_usage(state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"rounds", 'r', "N", 0, "epochs of each dataset (7)", 0},
        {"workers", 'w', "N", 0, "worker processes (2)", 0},
        {"keep-cache", 'k', NULL, 0, "do not drop anything: the page cache stays warm", 0},
        {"transform", 't', "T", 0, "of the samples (train:224)", 0},
        {"drop-inodes", 'a', NULL, 0, "also drop the machine's names and inodes of files (root)",
         0},
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .args_doc = "SPEC...",
        .doc = "One epoch of each dataset in turn, from a cold page cache."};
    static struct settings s = {.n_rounds = 7, .n_workers = 2, .transform = "train:224"};
    argp_parse(&parser, argc, argv, 0, NULL, &s);
    for (uint32_t round = 0; round < s.n_rounds; round++) {
        for (uint32_t i = 0; i < s.n_forms; i++) {
            struct form *form = &s.forms[i];
            mr_error error = {0};
            prepare_form(form, s.warm, s.all);
            uint64_t before = disk_bytes();
            if (run_epoch(form, &s, round, &form->rate[round], &error) != MR_OK) {
                fprintf(stderr, "cold_cache: %s\n", error.text);
                return 1;
            }
            form->read_bytes = disk_bytes() - before;
        }
    }
    print_report(&s);
    return 0;
}
