/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a line of a list, as a whole list file, and as a SPEC: no crash, nothing is read
 * past the end, and the parts of a line agree with each other. A whole list is opened as a file of
 * its own below /tmp.
 */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/kind.h"
#include "dataset/list_line.h"
#include "dataset/spec.h"
#include "tests/fuzz/fuzz.h"

/* A copy that ends where a sanitizer sees it. */
static char *copy_text(const uint8_t *bytes, size_t len, bool with_nul)
{
    char *copy = malloc(len + with_nul + (len + with_nul == 0));
    require(copy != NULL, "out of memory");
    if (len > 0)
        memcpy(copy, bytes, len);
    if (with_nul)
        copy[len] = '\0';
    return copy;
}

static void check_further(const struct mr_list_line *line)
{
    struct mr_list_line further;
    uint64_t n = mr_list_line_n_further(line);
    char path[MR_CATALOG_PATH];
    size_t len = 0;
    for (uint64_t k = 0; k < n; k++) {
        require(mr_list_line_further(line, k, &further), "a further path is missing");
        len += further.path_len + (k > 0);
        mr_list_line_path(&further, path);
    }
    require(len == line->further_len && !mr_list_line_further(line, n, &further),
            "further paths and their number disagree");
}

static void try_line(const uint8_t *bytes, size_t len)
{
    static locale_t c_locale;
    if (c_locale == (locale_t)0)
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *text = copy_text(bytes, len, false), path[MR_CATALOG_PATH];
    struct mr_list_line line;
    struct mr_label_form form;
    if (mr_list_line_split(text, len, &line)) {
        check_further(&line);
        if (mr_list_line_path(&line, path) == 0)
            require(strlen(path) > 0 && strlen(path) <= line.path_len,
                    "a path is longer than its escapes");
        if (mr_list_line_label_form(&line, c_locale, &form)) {
            require(form.n > 0 && form.n <= line.label_len, "more numbers than letters");
            int64_t *integers = malloc(form.n * sizeof *integers);
            require(integers != NULL, "out of memory");
            bool fits = mr_list_line_label(&line, MR_I64, form.n, c_locale, integers);
            require(fits == (!form.is_float && !form.is_huge),
                    "form and value of integers disagree");
            require(!mr_list_line_label(&line, MR_I64, form.n + 1, c_locale, integers) ||
                        form.n == 0,
                    "more numbers than counted");
            free(integers);
        }
    }
    free(text);
}

static void try_spec(const uint8_t *bytes, size_t len)
{
    static const struct mr_kind kinds[] = {
        {.name = "imagefolder"}, {.name = "records", .many_paths = true}, {.name = NULL}};
    char *text = copy_text(bytes, len, true);
    struct mr_spec spec;
    mr_error error = {0};
    mr_status status = mr_spec_parse(text, kinds, &spec, &error);
    if (status == MR_OK) {
        int64_t value = 5;
        require(spec.n_paths > 0 && spec.kind, "no path");
        mr_spec_take_int(&spec, "n", 1, 9, &value, &error);
        require(value >= 1 && value <= 9, "a number is out of range");
        mr_spec_finish(&spec, "n", &error);
        mr_spec_fini(&spec);
    } else {
        require(status == MR_ERR_INVALID && error.text[0] && !strchr(error.text, '\n'),
                "no line says what is wrong");
    }
    free(text);
}

static void walk_list(mr_dataset *dataset)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    void *label = malloc(mr_dataset_kind(dataset)->label_bytes);
    require(label != NULL, "out of memory");
    for (int64_t i = 0; i < mr_dataset_n_samples(dataset); i++) {
        const uint8_t *data;
        size_t len;
        char path[MR_CATALOG_PATH];
        require(mr_catalog_path(catalog, (uint64_t)i, path) == 0,
                "a path that was checked is wrong");
        struct mr_extent members[MR_MAX_MEMBERS];
        struct mr_object_version version;
        require(!mr_catalog_version(catalog, (uint64_t)i, &version) ||
                    (version.size <= INT64_MAX && strlen(version.etag) < sizeof version.etag),
                "a version is not one");
        mr_catalog_members(catalog, i, members);
        for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++)
            require(members[k].len == 0 || mr_catalog_path(catalog, members[k].file, path) == 0,
                    "a further path that was checked is wrong");
        require(mr_catalog_split(catalog, i, (const uint8_t *)"", 0, NULL, &data, &len, label,
                                 NULL) == MR_OK,
                "a label that was checked is wrong");
    }
    free(label);
}

static void try_list(const uint8_t *bytes, size_t len, const char *keys)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz_list", MFD_CLOEXEC);
    require(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len,
            "cannot write the list");
    char spec[64];
    snprintf(spec, sizeof spec, "list:/proc/self/fd/%d%s", fd, keys);
    mr_dataset *dataset;
    mr_error error = {0};
    if (mr_dataset_open(spec, NULL, &dataset, &error) == MR_OK)
        walk_list(dataset);
    else
        require(error.status == MR_ERR_DAMAGED && error.text[0] && !strchr(error.text, '\n'),
                "no line says what is wrong");
    mr_dataset_destroy(dataset);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    try_line(bytes, len);
    try_spec(bytes, len);
    try_list(bytes, len, "");
    try_list(bytes, len, "?extra=a:9,b:9");
    return 0;
}
