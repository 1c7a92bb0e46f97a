/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the classes, boxes, formats and sizes of a dataset. Medians need all values, so three
 * numbers are stored for each sample: 16 bytes, 160 MB for 10^7 samples. A label may be any int64,
 * so labels are sorted and not used as an index; so are an image's boxes of one class, of 16 bytes.
 */
#include "tools/census.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/say.h"

enum { MAX_FORMATS = 32, MAX_NAMED = 100, NAME_BYTES = 4096 };
enum { MAX_PIXELS = 178956970 }; /* the default of --max-pixels */
enum { FIRST_BOXES = 1024 };     /* room; more is allocated as needed */
enum { MAX_LINES = 20, FIRST_LINES = 10, LAST_LINES = 3 };

struct format_count {
    char name[16];
    int64_t n;
};

struct census {
    mr_dataset *dataset;
    int64_t n;
    struct format_count formats[MAX_FORMATS];
    size_t n_formats;
    /* Sizes of the images, as far as they are known. */
    uint32_t *widths;
    uint32_t *heights;
    size_t n_sizes;
    uint64_t *bytes; /* length of each sample that could be read */
    size_t n_bytes;
    int64_t *suspects; /* the first MAX_NAMED samples for which is_suspect() is true */
    int64_t n_suspects;
    int64_t n_unreadable;
};

/* The label of an image, or its boxes of one class. */
struct class_entry {
    int64_t label;
    int64_t n_boxes;
};

static int compare_entries(const void *a, const void *b)
{
    int64_t x = ((const struct class_entry *)a)->label, y = ((const struct class_entry *)b)->label;

    return (x > y) - (x < y);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Allocate n + 1 elements, so that an empty dataset is not a special case. */
static void *new_array(int64_t n, size_t size)
{
    void *array = calloc((size_t)n + 1, size);

    if (array == NULL)
        mr_say_error("no memory for %" PRId64 " samples", n);
    return array;
}

/* Prints the lines of the classes. They are walked twice, first to count them. */
struct class_lines {
    const mr_dataset *dataset;
    FILE *stream; /* NULL: count only */
    int64_t n;    /* lines so far */
    int64_t n_all;
    bool all;   /* print all lines */
    bool boxes; /* print how many boxes there are */
};

static void put_class(struct class_lines *lines, int64_t label, int64_t n_boxes, int64_t n_images)
{
    bool named = label >= 0 && label < (int64_t)mr_dataset_n_classes(lines->dataset);
    int64_t at = lines->n++;

    if (lines->stream == NULL)
        return;
    if (!lines->all && lines->n_all > MAX_LINES && at >= FIRST_LINES &&
        at < lines->n_all - LAST_LINES) {
        if (at == FIRST_LINES)
            fprintf(lines->stream, "   ... %" PRId64 " more; --classes prints all\n",
                    lines->n_all - FIRST_LINES - LAST_LINES);
        return;
    }
    fprintf(lines->stream, "%6" PRId64, label);
    if (lines->boxes)
        fprintf(lines->stream, " %8" PRId64, n_boxes);
    fprintf(lines->stream, " %8" PRId64 "  ", n_images);
    mr_say_put(lines->stream, named ? mr_dataset_class_name(lines->dataset, (uint32_t)label) : "");
    fprintf(lines->stream, "\n");
}

/* Print a line for each label that occurs and for each class without a sample. */
static void walk_classes(struct class_lines *lines, const struct class_entry *entries, size_t n)
{
    int64_t n_classes = mr_dataset_n_classes(lines->dataset);
    int64_t next = 0; /* smallest class not walked yet */

    for (size_t i = 0, end; i < n; i = end) {
        int64_t label = entries[i].label, n_boxes = 0;
        for (end = i; end < n && entries[end].label == label; end++)
            n_boxes += entries[end].n_boxes;
        for (; next < n_classes && next < label; next++)
            put_class(lines, next, 0, 0);
        put_class(lines, label, n_boxes, (int64_t)(end - i));
        next = label >= next ? label + 1 : next;
    }
    for (; next < n_classes; next++)
        put_class(lines, next, 0, 0);
}

static void print_classes(struct class_lines *lines, struct class_entry *entries, size_t n)
{
    struct class_lines count = {.dataset = lines->dataset};

    qsort(entries, n, sizeof *entries, compare_entries);
    walk_classes(&count, entries, n);
    lines->n_all = count.n;
    fprintf(lines->stream,
            lines->boxes ? "\n label    boxes   images  class\n" : "\n label  samples  class\n");
    walk_classes(lines, entries, n);
}

/*
 * Read the labels that can be read, without gaps. The errors of the first MAX_NAMED others are
 * printed.
 */
static mr_status read_labels(mr_dataset *dataset, struct class_entry *entries, int64_t n,
                             int64_t *n_known_out)
{
    int64_t n_known = 0;
    mr_status status = MR_OK;
    mr_error error = {0};

    for (int64_t i = 0; status != MR_ERR_UNSUPPORTED && i < n; i++) {
        status = mr_dataset_label(dataset, i, &entries[n_known].label, &error);
        if (status == MR_OK)
            n_known++;
        else if (status != MR_ERR_UNSUPPORTED && i - n_known < MAX_NAMED)
            mr_say_error("%s", error.text);
    }
    *n_known_out = n_known;
    return status;
}

/* Of images with annotations the label is often 0 for all, and the classes are those of boxes. */
static bool are_one_class(const mr_dataset *dataset, const struct class_entry *entries, int64_t n)
{
    bool same = mr_dataset_annotations(dataset) != MR_ANNOTATIONS_NONE && n > 0;

    for (int64_t i = 1; same && i < n; i++)
        same = entries[i].label == entries[0].label;
    return same;
}

int mr_census_classes(mr_dataset *dataset, bool all, FILE *stream)
{
    struct class_lines lines = {.dataset = dataset, .stream = stream, .all = all};
    int64_t n = mr_dataset_n_samples(dataset), n_known;

    if (mr_dataset_annotations(dataset) > MR_ANNOTATIONS_BOXES)
        return MR_EXIT_OK;
    struct class_entry *entries = new_array(n, sizeof *entries);
    if (entries == NULL)
        return MR_EXIT_FAILED;
    mr_status status = read_labels(dataset, entries, n, &n_known);
    if (status == MR_ERR_UNSUPPORTED) {
        fprintf(stream, "labels are not numbers\n");
    } else {
        if (!are_one_class(dataset, entries, n_known))
            print_classes(&lines, entries, (size_t)n_known);
        if (n_known < n)
            fprintf(stream, "     ? %8" PRId64 "  (the label cannot be read)\n", n - n_known);
    }
    free(entries);
    return n_known < n && status != MR_ERR_UNSUPPORTED ? MR_EXIT_FAILED : MR_EXIT_OK;
}

struct box_census {
    struct class_entry *entries;
    size_t n_entries;
    size_t capacity;
    int64_t *labels; /* of the boxes of one image */
    size_t n_labels; /* room */
    int64_t n_without;
    int64_t n_unreadable;
};

/* The array with room for n elements or more; NULL after a message. */
static void *grow_array(void *array, size_t *capacity, size_t n, size_t size)
{
    if (n <= *capacity)
        return array;
    *capacity = n > 2 * *capacity ? n : 2 * *capacity;
    void *grown = reallocarray(array, *capacity, size);
    if (grown == NULL)
        mr_say_error("no memory for the labels of %zu boxes", *capacity);
    return grown;
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool add_boxes(struct box_census *census, size_t n)
{
    int64_t *labels = census->labels;
    void *grown = grow_array(census->entries, &census->capacity, census->n_entries + n,
                             sizeof *census->entries);

    if (grown == NULL)
        return false;
    census->entries = grown;
    qsort(labels, n, sizeof *labels, compare_i64);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && labels[end] == labels[i]; end++)
            continue;
        census->entries[census->n_entries++] = (struct class_entry){labels[i], (int64_t)(end - i)};
    }
    census->n_without += n == 0;
    return true;
}

/* False after a message: out of memory. An annotation that cannot be read is counted. */
static bool count_boxes(const mr_dataset *dataset, int64_t i, struct box_census *census)
{
    mr_error error = {0};
    size_t n = 0;
    mr_status status;

    while ((status = mr_dataset_box_labels(dataset, i, census->labels, census->n_labels, &n,
                                           &error)) == MR_OK &&
           n > census->n_labels) {
        void *grown = grow_array(census->labels, &census->n_labels, n, sizeof *census->labels);
        if (grown == NULL)
            return false;
        census->labels = grown;
    }
    if (status == MR_OK)
        return add_boxes(census, n);
    if (census->n_unreadable++ < MAX_NAMED)
        mr_say_error("%s", error.text);
    return true;
}

static bool count_all_boxes(const mr_dataset *dataset, struct mr_progress *progress,
                            struct box_census *census)
{
    int64_t n = mr_dataset_n_samples(dataset);
    bool good = census->entries != NULL && census->labels != NULL;

    for (int64_t i = 0; good && i < n; i++) {
        good = count_boxes(dataset, i, census);
        if (i % 64 == 0 && mr_progress_due(progress))
            mr_progress_draw(progress, "counting boxes: %" PRId64 " of %" PRId64 " samples", i, n);
    }
    mr_progress_clear(progress);
    return good;
}

int mr_census_boxes(mr_dataset *dataset, bool all, struct mr_progress *progress, FILE *stream)
{
    struct class_lines lines = {.dataset = dataset, .stream = stream, .all = all, .boxes = true};
    struct box_census census = {.capacity = FIRST_BOXES, .n_labels = FIRST_BOXES};
    mr_annotations annotations = mr_dataset_annotations(dataset);

    if (annotations == MR_ANNOTATIONS_NONE || annotations == MR_ANNOTATIONS_MASKS)
        return MR_EXIT_OK;
    census.entries = new_array(FIRST_BOXES, sizeof *census.entries);
    census.labels = new_array(FIRST_BOXES, sizeof *census.labels);
    bool good = count_all_boxes(dataset, progress, &census);
    if (good)
        print_classes(&lines, census.entries, census.n_entries);
    if (good && census.n_without > 0)
        fprintf(stream, "     - %8d %8" PRId64 "  (no box)\n", 0, census.n_without);
    if (good && census.n_unreadable > 0)
        fprintf(stream, "     ? %8s %8" PRId64 "  (the annotation cannot be read)\n", "?",
                census.n_unreadable);
    free(census.entries);
    free(census.labels);
    return good && census.n_unreadable == 0 ? MR_EXIT_OK : MR_EXIT_FAILED;
}

static void count_format(struct census *census, const char *name)
{
    size_t i = 0;

    while (i < census->n_formats && strcmp(census->formats[i].name, name) != 0)
        i++;
    if (i == MAX_FORMATS)
        return;
    if (i == census->n_formats) {
        snprintf(census->formats[i].name, sizeof census->formats[i].name, "%s", name);
        census->n_formats++;
    }
    census->formats[i].n++;
}

/*
 * A raw sample is always accepted. An image must have a format that can be decoded and a readable
 * header.
 */
static bool is_suspect(const mr_sample_info *info)
{
    static const char *const decoded[] = {"jpeg", "png", "webp", "tiff",
                                          "bmp",  "ppm", "dct"}; /* "dct" occurs in packs only */
    bool image = false;

    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++)
        image = image || strcmp(info->format, decoded[i]) == 0;
    return strcmp(info->format, "raw") != 0 && (!image || info->width == 0 || info->height == 0 ||
                                                (uint64_t)info->width * info->height > MAX_PIXELS);
}

static void inspect_sample(struct census *census, int64_t index)
{
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error = {0};
    mr_status status = mr_dataset_inspect(census->dataset, index, &info, &error);

    if (status < 0) {
        if (census->n_unreadable++ < MAX_NAMED)
            mr_say_error("%s", error.text);
        return;
    }
    count_format(census, info.format);
    census->bytes[census->n_bytes++] = info.len_bytes;
    if (info.width > 0 && info.height > 0) {
        census->widths[census->n_sizes] = info.width;
        census->heights[census->n_sizes++] = info.height;
    }
    if (is_suspect(&info) && census->n_suspects++ < MAX_NAMED)
        census->suspects[census->n_suspects - 1] = index;
}

static void print_sizes(struct census *census, FILE *stream)
{
    size_t n = census->n_sizes, m = census->n_bytes;

    if (m == 0)
        return;
    qsort(census->bytes, m, sizeof *census->bytes, compare_u64);
    fprintf(stream, "\n%-8s %12s %12s %12s\n", "", "min", "median", "max");
    if (n > 0) {
        qsort(census->widths, n, sizeof *census->widths, compare_u32);
        qsort(census->heights, n, sizeof *census->heights, compare_u32);
        fprintf(stream, "%-8s %12" PRIu32 " %12" PRIu32 " %12" PRIu32 "\n", "width",
                census->widths[0], census->widths[n / 2], census->widths[n - 1]);
        fprintf(stream, "%-8s %12" PRIu32 " %12" PRIu32 " %12" PRIu32 "\n", "height",
                census->heights[0], census->heights[n / 2], census->heights[n - 1]);
    }
    fprintf(stream, "%-8s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", "bytes", census->bytes[0],
            census->bytes[m / 2], census->bytes[m - 1]);
}

static void print_suspects(const struct census *census, FILE *stream)
{
    char name[NAME_BYTES];
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;

    if (census->n_suspects == 0)
        return;
    fprintf(stream,
            "\nwithout a header of an image that can be decoded: %" PRId64
            "\n   index  format  name\n",
            census->n_suspects);
    for (int64_t i = 0; i < census->n_suspects && i < MAX_NAMED; i++) {
        int64_t index = census->suspects[i];
        if (mr_dataset_inspect(census->dataset, index, &info, &error) < 0 ||
            mr_dataset_name(census->dataset, index, name, sizeof name) == 0)
            continue;
        fprintf(stream, "%8" PRId64 "  %-6s  ", index, info.format);
        mr_say_put(stream, name);
        fprintf(stream, "\n");
    }
    if (census->n_suspects > MAX_NAMED)
        fprintf(stream, "and %" PRId64 " more\n", census->n_suspects - MAX_NAMED);
}

static int print_report(struct census *census, FILE *stream)
{
    fprintf(stream, "\n%-8s %8s\n", "format", "samples");
    for (size_t i = 0; i < census->n_formats; i++)
        fprintf(stream, "%-8s %8" PRId64 "\n", census->formats[i].name, census->formats[i].n);
    if (census->n_unreadable > 0)
        fprintf(stream, "%-8s %8" PRId64 "\n", "unread", census->n_unreadable);
    print_sizes(census, stream);
    print_suspects(census, stream);
    if (census->n_formats > 1 ||
        (census->n_formats == 1 && strcmp(census->formats[0].name, "raw") != 0))
        fprintf(stream, "\nonly headers were read, so damage after them was not found; millrace "
                        "check decodes all\n");
    return census->n_unreadable > 0 ? MR_EXIT_FAILED : MR_EXIT_OK;
}

int mr_census_samples(mr_dataset *dataset, struct mr_progress *progress, FILE *stream)
{
    struct census census = {.dataset = dataset, .n = mr_dataset_n_samples(dataset)};
    int exit_status = MR_EXIT_FAILED;

    census.widths = new_array(census.n, sizeof *census.widths);
    census.heights = new_array(census.n, sizeof *census.heights);
    census.bytes = new_array(census.n, sizeof *census.bytes);
    census.suspects = new_array(MAX_NAMED, sizeof *census.suspects);
    if (census.widths != NULL && census.heights != NULL && census.bytes != NULL &&
        census.suspects != NULL) {
        for (int64_t i = 0; i < census.n; i++) {
            inspect_sample(&census, i);
            if (i % 64 == 0 && mr_progress_due(progress))
                mr_progress_draw(progress, "inspecting: %" PRId64 " of %" PRId64 " samples", i,
                                 census.n);
        }
        mr_progress_clear(progress);
        exit_status = print_report(&census, stream);
    }
    free(census.widths);
    free(census.heights);
    free(census.bytes);
    free(census.suspects);
    return exit_status;
}
