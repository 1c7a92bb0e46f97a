/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds, medians, ratios, the table and the JSON.
 *
 * Invariant: a ratio is the median of the ratios within rounds, which compare runs side by side; a
 * ratio of two medians would not.
 */
#include "bench/engine.h"

#include <millrace/status.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct bench_case {
    const char *name;
    mr_case_fn run;
    void *user;
    uint64_t n_items; /* of one run */
    uint64_t n_wrong; /* over all runs, including the warm-up */
    double seconds[MR_ENGINE_MAX_REPEATS];
    double per_s[MR_ENGINE_MAX_REPEATS];
    double value[MR_ENGINE_MAX_REPEATS];
};

struct ratio {
    const char *name;
    const char *unit;
    double median;
    double lowest;
    double highest;
    enum mr_aim aim;
    double bound;
};

struct mr_engine {
    char program[64];
    char item[16];
    json_t *facts;
    uint32_t n_repeats;
    uint32_t n_cases;
    struct bench_case cases[MR_ENGINE_MAX_CASES];
    uint32_t n_ratios;
    struct ratio ratios[MR_ENGINE_MAX_CASES];
};

static void add_cpu_fact(struct mr_engine *engine)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        mr_engine_fact(engine, "cpu", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

mr_status mr_engine_create(const char *program, const char *item, struct mr_engine **engine_out,
                           mr_error *error)
{
    struct mr_engine *engine = calloc(1, sizeof *engine);
    json_t *facts = json_object();
    *engine_out = NULL;
    if (!engine || !facts) {
        free(engine);
        json_decref(facts);
        return mr_error_memory(error, sizeof *engine);
    }
    snprintf(engine->program, sizeof engine->program, "%s", program);
    snprintf(engine->item, sizeof engine->item, "%s", item);
    engine->facts = facts;
    struct utsname name;
    mr_engine_fact(engine, "version", MR_VERSION);
    add_cpu_fact(engine);
    mr_engine_fact_int(engine, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    if (uname(&name) == 0)
        mr_engine_fact(engine, "kernel", name.release);
    *engine_out = engine;
    return MR_OK;
}

void mr_engine_destroy(struct mr_engine *engine)
{
    if (!engine)
        return;
    json_decref(engine->facts);
    free(engine);
}

void mr_engine_fact(struct mr_engine *engine, const char *name, const char *text)
{
    json_object_set_new(engine->facts, name, json_stringn_nocheck(text, strlen(text)));
}

void mr_engine_fact_int(struct mr_engine *engine, const char *name, int64_t value)
{
    json_object_set_new(engine->facts, name, json_integer(value));
}

void mr_engine_add(struct mr_engine *engine, const char *name, mr_case_fn run, void *user)
{
    assert(engine->n_cases < MR_ENGINE_MAX_CASES);
    engine->cases[engine->n_cases++] = (struct bench_case){.name = name, .run = run, .user = user};
}

static mr_status run_case(struct bench_case *c, bool check, uint32_t repeat, mr_error *error)
{
    struct mr_run run = {.check = check};
    mr_status status = c->run(c->user, &run, error);
    if (status != MR_OK)
        return status;
    c->n_wrong += run.n_wrong;
    c->n_items = run.n_items;
    if (check)
        return MR_OK;
    c->seconds[repeat] = run.seconds;
    c->per_s[repeat] = run.seconds > 0 ? (double)run.n_items / run.seconds : 0;
    c->value[repeat] = run.value;
    return MR_OK;
}

static void show_progress(const struct mr_engine *engine, const char *name, uint32_t round)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kround %u of %u: %s", round, engine->n_repeats, name);
}

mr_status mr_engine_rounds(struct mr_engine *engine, uint32_t n_repeats, mr_error *error)
{
    assert(n_repeats >= 1 && n_repeats <= MR_ENGINE_MAX_REPEATS);
    engine->n_repeats = n_repeats;
    mr_status status = MR_OK;
    for (uint32_t round = 0; round <= n_repeats && status == MR_OK; round++)
        for (uint32_t i = 0; i < engine->n_cases && status == MR_OK; i++) {
            show_progress(engine, engine->cases[i].name, round);
            status = run_case(&engine->cases[i], round == 0, round ? round - 1 : 0, error);
        }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Lowest, median and highest of n values. */
static void summarize_values(const double *values, uint32_t n, double out[3])
{
    double sorted[MR_ENGINE_MAX_REPEATS];
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    out[0] = sorted[0];
    out[1] = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    out[2] = sorted[n - 1];
}

static const struct bench_case *find_case(const struct mr_engine *engine, const char *name)
{
    for (uint32_t i = 0; i < engine->n_cases; i++)
        if (strcmp(engine->cases[i].name, name) == 0)
            return &engine->cases[i];
    return NULL;
}

static void add_ratio(struct mr_engine *engine, const char *name, const char *unit,
                      const double *values, enum mr_aim aim, double bound)
{
    assert(engine->n_ratios < MR_ENGINE_MAX_CASES);
    double low_mid_high[3];
    summarize_values(values, engine->n_repeats, low_mid_high);
    engine->ratios[engine->n_ratios++] = (struct ratio){.name = name,
                                                        .unit = unit,
                                                        .lowest = low_mid_high[0],
                                                        .median = low_mid_high[1],
                                                        .highest = low_mid_high[2],
                                                        .aim = aim,
                                                        .bound = bound};
}

void mr_engine_ratio(struct mr_engine *engine, const char *name, const char *a, const char *b,
                     enum mr_aim aim, double bound)
{
    const struct bench_case *over = find_case(engine, a), *under = find_case(engine, b);
    assert(over && under);
    double values[MR_ENGINE_MAX_REPEATS];
    for (uint32_t i = 0; i < engine->n_repeats; i++)
        values[i] = under->per_s[i] > 0 ? over->per_s[i] / under->per_s[i] : 0;
    add_ratio(engine, name, "", values, aim, bound);
}

void mr_engine_time_ratio(struct mr_engine *engine, const char *name, const char *a, const char *b,
                          enum mr_aim aim, double bound)
{
    const struct bench_case *over = find_case(engine, a), *under = find_case(engine, b);
    assert(over && under);
    double values[MR_ENGINE_MAX_REPEATS];
    for (uint32_t i = 0; i < engine->n_repeats; i++)
        values[i] = under->seconds[i] > 0 ? over->seconds[i] / under->seconds[i] : 0;
    add_ratio(engine, name, "", values, aim, bound);
}

void mr_engine_bound_value(struct mr_engine *engine, const char *name, const char *a,
                           const char *unit, enum mr_aim aim, double bound)
{
    const struct bench_case *c = find_case(engine, a);
    assert(c);
    add_ratio(engine, name, unit, c->value, aim, bound);
}

static bool is_met(const struct ratio *ratio)
{
    switch (ratio->aim) {
    case MR_AIM_AT_LEAST: return ratio->median >= ratio->bound;
    case MR_AIM_BELOW: return ratio->median < ratio->bound;
    case MR_AIM_NONE: break;
    }
    return true;
}

static uint64_t count_wrong(const struct mr_engine *engine)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < engine->n_cases; i++)
        n += engine->cases[i].n_wrong;
    return n;
}

static void print_facts(const struct mr_engine *engine)
{
    const char *name;
    json_t *value;
    printf("%s\n", engine->program);
    json_object_foreach(engine->facts, name, value)
    {
        if (json_is_string(value))
            printf("  %-12s %s\n", name, json_string_value(value));
        else
            printf("  %-12s %lld\n", name, (long long)json_integer_value(value));
    }
    printf("  %-12s %u, after one to warm up\n", "rounds", engine->n_repeats);
}

static void print_cases(const struct mr_engine *engine)
{
    char unit[32];
    snprintf(unit, sizeof unit, "%s/s", engine->item);
    printf("\n%-28s %8s %12s %12s %12s %7s\n", "case", "n", "median us", "best us", unit, "wrong");
    for (uint32_t i = 0; i < engine->n_cases; i++) {
        const struct bench_case *c = &engine->cases[i];
        double t[3], items = c->n_items ? (double)c->n_items : 1;
        summarize_values(c->seconds, engine->n_repeats, t);
        printf("%-28s %8llu %12.1f %12.1f %12.1f %7llu\n", c->name, (unsigned long long)c->n_items,
               t[1] * 1e6 / items, t[0] * 1e6 / items, t[1] > 0 ? items / t[1] : 0,
               (unsigned long long)c->n_wrong);
    }
}

static void print_ratios(const struct mr_engine *engine)
{
    static const char *const signs[] = {"", ">= ", "< "};
    if (engine->n_ratios)
        printf("\n%-44s %10s %10s %10s %9s %s\n", "figure", "median", "lowest", "highest", "aim",
               "met");
    for (uint32_t i = 0; i < engine->n_ratios; i++) {
        const struct ratio *r = &engine->ratios[i];
        char aim[32] = "";
        if (r->aim != MR_AIM_NONE)
            snprintf(aim, sizeof aim, "%s%g", signs[r->aim], r->bound);
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", r->name, r->unit[0] ? ", " : "", r->unit);
        printf("%-44s %10.4g %10.4g %10.4g %9s %s\n", name, r->median, r->lowest, r->highest, aim,
               r->aim == MR_AIM_NONE ? ""
               : is_met(r)           ? "yes"
                                     : "NO");
    }
}

static json_t *make_case_json(const struct mr_engine *engine, const struct bench_case *c)
{
    double t[3], items = c->n_items ? (double)c->n_items : 1;
    summarize_values(c->seconds, engine->n_repeats, t);
    json_t *seconds = json_array();
    for (uint32_t i = 0; i < engine->n_repeats; i++)
        json_array_append_new(seconds, json_real(c->seconds[i]));
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:o}", "name", c->name, "n",
                     (json_int_t)c->n_items, "median_us", t[1] * 1e6 / items, "best_us",
                     t[0] * 1e6 / items, "per_s", t[1] > 0 ? items / t[1] : 0.0, "wrong",
                     (json_int_t)c->n_wrong, "seconds", seconds);
}

static json_t *make_ratio_json(const struct ratio *r)
{
    json_t *object =
        json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "name", r->name, "unit", r->unit, "median",
                  r->median, "lowest", r->lowest, "highest", r->highest, "met", is_met(r));
    if (r->aim != MR_AIM_NONE)
        json_object_set_new(object, r->aim == MR_AIM_BELOW ? "below" : "at_least",
                            json_real(r->bound));
    return object;
}

static mr_status save_json(const struct mr_engine *engine, const char *path, mr_error *error)
{
    json_t *cases = json_array(), *figures = json_array();
    for (uint32_t i = 0; i < engine->n_cases; i++)
        json_array_append_new(cases, make_case_json(engine, &engine->cases[i]));
    for (uint32_t i = 0; i < engine->n_ratios; i++)
        json_array_append_new(figures, make_ratio_json(&engine->ratios[i]));
    json_t *root = json_pack("{s:s, s:O, s:i, s:o, s:o, s:I}", "program", engine->program, "facts",
                             engine->facts, "rounds", (int)engine->n_repeats, "cases", cases,
                             "figures", figures, "wrong", (json_int_t)count_wrong(engine));
    int rc = root ? json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : -1;
    int os_error = errno;
    json_decref(root);
    return rc == 0 ? MR_OK : mr_error_os(error, MR_ERR_IO, os_error, "write %s", path);
}

mr_status mr_engine_report(struct mr_engine *engine, const char *json_path, mr_error *error)
{
    print_facts(engine);
    print_cases(engine);
    print_ratios(engine);
    printf("\nwrong results: %llu\n", (unsigned long long)count_wrong(engine));
    return json_path ? save_json(engine, json_path, error) : MR_OK;
}

int mr_engine_exit_code(const struct mr_engine *engine, bool strict)
{
    for (uint32_t i = 0; strict && i < engine->n_ratios; i++)
        if (!is_met(&engine->ratios[i]))
            return 1;
    return count_wrong(engine) ? 1 : 0;
}
