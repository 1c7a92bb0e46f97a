/* SPDX-License-Identifier: Apache-2.0 */
/* The live line. The linker redirects isatty() to this file, and the line is written to a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/progress.h"

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    (void)fd;
    return 1;
}

static void one_file_is_not_files(void **state)
{
    char text[256];
    struct mr_progress progress;
    FILE *file = tmpfile();

    (void)state;
    assert_non_null(file);
    setenv("TERM", "xterm", 1);
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    mr_progress_init(&progress);
    for (uint64_t n = 1; n <= 2; n++) {
        progress.due_s = 0;
        mr_progress_files(&progress, n);
    }
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, "\r\033[Klisting: 1 file\r\033[Klisting: 2 files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_is_not_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
