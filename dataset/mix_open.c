/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a mixture. The catalog of each source is copied into that of the mixture, with the file
 * beside it, so workers attach one region and need no descriptor but that. Paths become absolute.
 * The sources of a source that is a mixture itself take its place.
 */
#include "dataset/mix_open.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/catalog_build.h"
#include "dataset/catalog_mix.h"
#include "dataset/catalog_region.h"
#include "dataset/spec.h"

enum { MAX_DEPTH = 8, ALIGN = 64 };

struct opening {
    const mr_dataset_options *options;
    const struct mr_kind *kinds;
    struct mr_catalog_builder builder;
    uint32_t n_sources;
    locale_t c_locale;
};

/* One WEIGHT*(SPEC) of the text. */
struct item {
    double weight;
    const char *spec;
};

static mr_status fail_item(uint32_t number, const char *what, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID, "item %u of the mixture: %s", number, what);
}

/* Digits, sign, point and exponent only: strtod() would take "nan" and hexadecimal too. */
static bool parse_weight(char *text, char *end, locale_t c_locale, double *weight_out)
{
    char *stopped;
    *end = '\0';
    *weight_out = strtod_l(text, &stopped, c_locale);
    return stopped == end && text[strspn(text, "0123456789.eE+-")] == '\0' &&
           isfinite(*weight_out) && *weight_out > 0;
}

/* Cut the next item off *rest, which becomes NULL after the last. number: for messages, from 1. */
static mr_status next_item(char **rest, uint32_t number, locale_t c_locale, struct item *item_out,
                           mr_error *error)
{
    char *text = *rest, *star = strchr(text, '*');
    if (!star || star[1] != '(')
        return fail_item(number, "it is not WEIGHT*(SPEC)", error);
    if (!parse_weight(text, star, c_locale, &item_out->weight))
        return fail_item(number, "its weight is not a number above 0", error);
    unsigned depth = 0;
    char *c = star + 1;
    do {
        depth += *c == '(';
        depth -= *c == ')';
        if (*c == '\0')
            return fail_item(number,
                             "a parenthesis is not closed; in a name, ( ) and | are "
                             "%28 %29 and %7C",
                             error);
        if (depth > MAX_DEPTH)
            return fail_item(number, "mixtures are nested more than 8 deep", error);
        c++;
    } while (depth > 0);
    if (*c != '\0' && *c != '|')
        return fail_item(number, "something other than | follows its parenthesis", error);
    *rest = *c ? c + 1 : NULL;
    c[-1] = '\0';
    item_out->spec = star + 2;
    return *item_out->spec ? MR_OK : fail_item(number, "its parentheses are empty", error);
}

/* Append bytes to the mixture's section EXTRA, aligned. *off_out is where they are in it. */
static mr_status append_bytes(struct opening *opening, const void *bytes, uint64_t len,
                              uint64_t *off_out, mr_error *error)
{
    static const uint8_t zeros[ALIGN];
    struct mr_bytes *extra = &opening->builder.sections[MR_SECTION_EXTRA];
    mr_status status = mr_bytes_append(extra, zeros, -extra->len % ALIGN, error);
    *off_out = extra->len;
    return status == MR_OK && len > 0 ? mr_bytes_append(extra, bytes, len, error) : status;
}

#define FIELD(name, words)                                                                         \
    {                                                                                              \
        words, offsetof(struct mr_sample_kind, name),                                              \
            sizeof(((struct mr_sample_kind *)NULL)->name)                                          \
    }

/* The samples of all sources must have the same arrays. */
static mr_status check_kind(const struct mr_sample_kind *kind, const struct mr_sample_kind *first,
                            uint32_t number, mr_error *error)
{
    static const struct {
        const char *words;
        size_t offset, size;
    } fields[] = {
        FIELD(tokens, "the numbers of tokens in a row"),
        FIELD(token_columns, "loss_mask, position_ids, length or labels"),
        FIELD(eod, "the ids at the end of a document"),
        FIELD(encoded, "one has image files, the other elements"),
        FIELD(dtype, "the dtypes of their elements"),
        FIELD(ndim, "the numbers of dimensions"),
        FIELD(shape, "the shapes of a sample"),
        FIELD(layout, "the layouts"),
        FIELD(label_dtype, "the dtypes of labels"),
        FIELD(label_ndim, "the dimensions of labels"),
        FIELD(label_shape, "the shapes of labels"),
        FIELD(annotations, "the kinds of annotations"),
        FIELD(n_extra, "the numbers of further members"),
        FIELD(extra, "the names, sizes or dtypes of further members"),
        FIELD(boxes, "the members with boxes"),
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (memcmp((const char *)kind + fields[i].offset, (const char *)first + fields[i].offset,
                   fields[i].size) != 0)
            return mr_error_set(error, MR_ERR_INVALID,
                                "sources 0 and %u of the mixture make different batches: %s",
                                number, fields[i].words);
    return MR_OK;
}

static mr_status check_classes(const struct mr_catalog *source, const struct mr_bytes *names,
                               const struct mr_bytes *starts, uint32_t number, mr_error *error)
{
    const uint64_t *offsets = (const void *)starts->data;
    uint32_t n = mr_catalog_n_classes(source), n_first = (uint32_t)(starts->len / sizeof(uint64_t));
    for (uint32_t i = 0; i < n && i < n_first; i++) {
        const char *name = mr_catalog_class_name(source, i);
        const char *first = (const char *)names->data + offsets[i];
        if (strcmp(name, first) != 0)
            return mr_error_set(error, MR_ERR_INVALID,
                                "class %u is '%s' in source 0 of the mixture and '%s' in source "
                                "%u; lists of files have labels without classes",
                                i, first, name, number);
    }
    return n == n_first ? MR_OK
                        : mr_error_set(error, MR_ERR_INVALID,
                                       "source 0 of the mixture has %u classes, and source %u %u",
                                       n_first, number, n);
}

/* The first source decides about the form of samples and the classes. */
static mr_status take_form(struct opening *opening, const struct mr_catalog *source,
                           mr_error *error)
{
    struct mr_catalog_header *header = &opening->builder.header;
    const struct mr_sample_kind *kind = mr_catalog_kind(source);
    struct mr_bytes *sections = opening->builder.sections;
    mr_status status = MR_OK;
    if (opening->n_sources > 0) {
        status = check_kind(kind, &header->kind, opening->n_sources, error);
        if (status == MR_OK)
            status = check_classes(source, &sections[MR_SECTION_CLASS_NAMES],
                                   &sections[MR_SECTION_CLASSES], opening->n_sources, error);
        bool known = kind->vocab > 0 && header->kind.vocab > 0;
        uint32_t most = kind->vocab > header->kind.vocab ? kind->vocab : header->kind.vocab;
        header->kind.vocab = known ? most : 0;
        return status;
    }
    header->kind = *kind;
    header->kind.sources = 1;
    for (uint32_t i = 0; status == MR_OK && i < mr_catalog_n_classes(source); i++)
        status =
            mr_catalog_builder_class(&opening->builder, mr_catalog_class_name(source, i), error);
    return status;
}

static mr_status add_source(struct opening *opening, const struct mr_catalog *source, double weight,
                            mr_error *error)
{
    struct mr_catalog_header *header = &opening->builder.header;
    struct mr_catalog_source entry = {.first_sample = header->n_samples,
                                      .region_len = source->header->total_bytes,
                                      .beside_len = source->beside_len,
                                      .n_files = mr_catalog_n_files(source),
                                      .is_loose = mr_catalog_loose_files(source),
                                      .weight = weight};
    if (opening->n_sources == MR_CATALOG_MAX_SOURCES)
        return mr_error_set(error, MR_ERR_INVALID, "the mixture has more than %d sources",
                            MR_CATALOG_MAX_SOURCES);
    if (mr_catalog_is_described(source))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "source %u of the mixture is a pack, of which no mixture is made",
                            opening->n_sources);
    if (mr_catalog_kind(source)->pack != MR_PACK_NONE)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "source %u of the mixture packs its documents, of which no mixture is "
                            "made",
                            opening->n_sources);
    if (mr_catalog_count(source) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "source %u of the mixture has no samples",
                            opening->n_sources);
    if (*mr_catalog_absolute_root(source) == '\0')
        return mr_error_set(error, MR_ERR_IO,
                            "the absolute path of the folder of source %u of the mixture is not "
                            "known",
                            opening->n_sources);
    mr_status status = take_form(opening, source, error);
    if (status == MR_OK)
        status = append_bytes(opening, source->header, entry.region_len, &entry.region_off, error);
    if (status == MR_OK)
        status = append_bytes(opening, source->beside, entry.beside_len, &entry.beside_off, error);
    if (status == MR_OK)
        status = mr_bytes_append(&opening->builder.sections[MR_SECTION_SOURCES], &entry,
                                 sizeof entry, error);
    header->n_samples += source->header->n_samples;
    header->is_remote |= source->header->is_remote;
    header->no_index |= source->header->no_index;
    opening->n_sources++;
    return status;
}

/* Add a catalog, or each source of a mixture's. */
static mr_status add_catalog(struct opening *opening, const struct mr_catalog *catalog,
                             double weight, mr_error *error)
{
    uint32_t n = mr_catalog_n_sources(catalog);
    mr_status status = n == 0 ? add_source(opening, catalog, weight, error) : MR_OK;
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += mr_catalog_mix_source(catalog, k)->weight;
    for (uint32_t k = 0; status == MR_OK && k < n; k++)
        status = add_source(opening, mr_catalog_mix_catalog(catalog, k),
                            weight * (mr_catalog_mix_source(catalog, k)->weight / sum), error);
    return status;
}

/* Open the dataset of an item, and copy its catalog. */
static mr_status add_item(struct opening *opening, const struct item *item, mr_error *error)
{
    struct mr_spec spec;
    struct mr_catalog *catalog = NULL;
    int fds[MR_CATALOG_N_FDS] = {-1, -1, -1};
    mr_status status = mr_spec_parse(item->spec, opening->kinds, &spec, error);
    if (status != MR_OK)
        return status;
    status = spec.kind->open(&spec, opening->options, fds, error);
    if (status == MR_OK)
        status = mr_catalog_attach(fds, &catalog, error);
    if (status == MR_OK)
        status = add_catalog(opening, catalog, item->weight, error);
    mr_catalog_detach(catalog);
    for (int i = 0; i < MR_CATALOG_N_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    mr_spec_fini(&spec);
    return status;
}

/* Files that readers open for each read have the lower numbers. */
static void number_files(struct mr_catalog_builder *builder, uint32_t n_sources)
{
    struct mr_catalog_source *sources = (void *)builder->sections[MR_SECTION_SOURCES].data;
    struct mr_catalog_header *header = &builder->header;
    for (uint32_t i = 0; i < 2 * n_sources; i++) {
        struct mr_catalog_source *source = &sources[i % n_sources];
        if (source->is_loose != (i < n_sources))
            continue;
        source->first_file = header->n_files;
        header->n_files += source->n_files;
        header->n_loose += source->is_loose ? source->n_files : 0;
    }
}

static mr_status build(struct opening *opening, char *text, int fds[MR_CATALOG_N_FDS],
                       mr_error *error)
{
    char absolute[PATH_MAX];
    struct item item = {0};
    uint32_t number = 1;
    mr_status status = mr_kind_open_root("/", &fds[MR_CATALOG_FD_ROOT], absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(&opening->builder, "", "", error);
    for (char *rest = text; status == MR_OK && rest; number++) {
        status = next_item(&rest, number, opening->c_locale, &item, error);
        if (status == MR_OK)
            status = add_item(opening, &item, error);
    }
    if (status != MR_OK)
        return status;
    number_files(&opening->builder, opening->n_sources);
    return mr_catalog_builder_finish(&opening->builder, &fds[MR_CATALOG_FD_REGION], error);
}

mr_status mr_mix_open(struct mr_spec *spec, const mr_dataset_options *options,
                      int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    struct opening opening = {.options = options,
                              .kinds = spec->table,
                              .c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (opening.c_locale == (locale_t)0)
        return mr_error_memory(error, sizeof opening.c_locale);
    mr_status status = mr_catalog_builder_init(&opening.builder, MR_SCHEME_MIX, error);
    if (status == MR_OK)
        status = build(&opening, spec->paths[0], fds_out, error);
    mr_catalog_builder_fini(&opening.builder);
    freelocale(opening.c_locale);
    return status;
}
