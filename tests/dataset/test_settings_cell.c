/* SPDX-License-Identifier: Apache-2.0 */
/* The cell of settings: whole sets while it is written, in other processes, and out of cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"
#include "dataset/remote/stores/settings_cell.h"

enum { N_WRITES = 20000 };

static void *write_many(void *unused)
{
    static uint64_t words[MR_SETTINGS_CELL_BYTES / 8];
    (void)unused;
    for (uint64_t n = 0; n < N_WRITES; n++) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            words[i] = n;
        if (mr_settings_cell_write(words, sizeof words, NULL) != MR_OK)
            break;
    }
    return NULL;
}

/* Read until the writer has written its last set. False: a set was mixed, or older than another. */
static bool read_many(void)
{
    uint64_t words[MR_SETTINGS_CELL_BYTES / 8], before = 0, last = 0, version;
    do {
        version = mr_settings_cell_read(words, sizeof words);
        for (size_t i = 1; version > 0 && i < sizeof words / sizeof *words; i++)
            if (words[i] != words[0])
                return false;
        if (version < before || (version > 0 && words[0] < last))
            return false;
        before = version;
        last = version > 0 ? words[0] : 0;
    } while (last < N_WRITES - 1);
    return true;
}

static void readers_see_whole_sets_while_they_are_written(void **state)
{
    (void)state;
    static const uint64_t first[MR_SETTINGS_CELL_BYTES / 8];
    struct mr_thread writer;
    mr_error error;
    int end;
    assert_int_equal(mr_settings_cell_read(&(uint64_t){0}, 8), 0);
    assert_int_equal(mr_settings_cell_fd(), -1);
    assert_int_equal(mr_settings_cell_write(first, sizeof first, &error), MR_OK);
    pid_t pid = fork();
    if (pid == 0)
        _exit(mr_settings_cell_attach(mr_settings_cell_fd(), &error) == MR_OK && read_many() ? 0
                                                                                             : 1);
    assert_int_equal(mr_thread_run(&writer, "a writer", write_many, NULL, &error), MR_OK);
    assert_true(read_many());
    mr_thread_join(&writer);
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    assert_int_equal(mr_settings_cell_version(), N_WRITES + 1);
}

static void a_child_that_writes_has_its_own_cell(void **state)
{
    (void)state;
    uint64_t word = 7, version = mr_settings_cell_version();
    int end;
    pid_t pid = fork();
    if (pid == 0)
        _exit(mr_settings_cell_write(&word, 8, NULL) == MR_OK &&
                      mr_settings_cell_read(&word, 8) == 1 && word == 7
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    assert_int_equal(mr_settings_cell_version(), version);
}

static void core_dumps_leave_the_cell_out(void **state)
{
    (void)state;
    char line[300];
    bool is_cell = false;
    int n_cells = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (!file)
        skip();
    while (fgets(line, sizeof line, file)) {
        is_cell |= strstr(line, "millrace-settings") != NULL;
        if (!is_cell || strncmp(line, "VmFlags:", 8) != 0)
            continue;
        assert_non_null(strstr(line, " dd"));
        n_cells++;
        is_cell = false;
    }
    fclose(file);
    assert_int_equal(n_cells, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_whole_sets_while_they_are_written),
        cmocka_unit_test(a_child_that_writes_has_its_own_cell),
        cmocka_unit_test(core_dumps_leave_the_cell_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
