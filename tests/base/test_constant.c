/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_constant() knows every number of the public headers: each value of an enum, each macro, the
 * size of each struct.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <millrace/dist.h>
#include <millrace/millrace.h>

enum { MAX_NAME = 64 };

static unsigned n_known;

static void expect_known(const char *name, const char *header)
{
    int64_t value = INT64_MIN;
    if (mr_constant(name, &value) != MR_OK || value == INT64_MIN)
        fail_msg("%s of %s is unknown to mr_constant()", name, header);
    n_known++;
}

/* Read "#define MR_NAME number". Any value that is neither text nor code counts as a number. */
static bool read_macro(const char *line, char name_out[MAX_NAME])
{
    char value[16];
    if (sscanf(line, "#define %63s %15s", name_out, value) != 2)
        return false;
    return !strchr(name_out, '(') && strncmp(name_out, "MR_API", 6) != 0 && value[0] != '"' &&
           strncmp(value, "MR_STRUCT_INIT", 14) != 0 && strncmp(value, "__attribute", 11) != 0;
}

/* Find the next "MR_NAME = " from *at on, and move *at past the name. */
static bool read_value(const char **at, char name_out[MAX_NAME])
{
    for (const char *p; (p = strstr(*at, "MR_")) != NULL;) {
        size_t len = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        *at = p + len;
        if (strncmp(*at, " = ", 3) == 0 && len < MAX_NAME) {
            snprintf(name_out, MAX_NAME, "%.*s", (int)len, p);
            return true;
        }
    }
    return false;
}

static void expect_line_known(const char *line, const char *header, bool *in_enum)
{
    char name[MAX_NAME], size[MAX_NAME + 8];
    const char *at = line;
    if (strncmp(line, "typedef enum ", 13) == 0)
        *in_enum = true;
    while (*in_enum && read_value(&at, name))
        expect_known(name, header);
    if (strchr(line, '}'))
        *in_enum = false;
    if (read_macro(line, name))
        expect_known(name, header);
    if (sscanf(line, "typedef struct %63[a-z_] {", name) == 1 && strchr(line, '{')) {
        snprintf(size, sizeof size, "sizeof(%s)", name);
        expect_known(size, header);
    }
}

static void every_number_of_the_headers_is_known(void **state)
{
    (void)state;
    glob_t headers;
    char line[512];
    assert_int_equal(glob(MR_TEST_HEADERS "/*.h", 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++) {
        FILE *file = fopen(headers.gl_pathv[i], "r");
        bool in_enum = false;
        assert_non_null(file);
        while (fgets(line, sizeof line, file))
            expect_line_known(line, headers.gl_pathv[i], &in_enum);
        fclose(file);
    }
    globfree(&headers);
    assert_true(n_known >= 90);
}

static void values_are_those_of_the_headers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t value;
    } cases[] = {
        {"MR_FOREVER", MR_FOREVER},
        {"MR_NO_INDEX", MR_NO_INDEX},
        {"MR_NO_WORKERS", MR_NO_WORKERS},
        {"MR_CACHE_WHEN_IDLE", MR_CACHE_WHEN_IDLE},
        {"MR_ERR_DAMAGED", MR_ERR_DAMAGED},
        {"MR_MEAN", MR_MEAN},
        {"sizeof(mr_loader_options)", sizeof(mr_loader_options)},
        {"sizeof(mr_error)", sizeof(mr_error)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        assert_int_equal(mr_constant(cases[i].name, &value), MR_OK);
        assert_int_equal(value, cases[i].value);
    }
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"",  "MR_", "mr_forever", "MR_VERSION", "sizeof(mr_loader)",
                                        NULL};
    int64_t value = 5;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(mr_constant(names[i], &value), MR_ERR_INVALID);
    assert_int_equal(mr_constant("MR_OK", NULL), MR_ERR_INVALID);
    assert_int_equal(value, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_the_headers_is_known),
        cmocka_unit_test(values_are_those_of_the_headers),
        cmocka_unit_test(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
