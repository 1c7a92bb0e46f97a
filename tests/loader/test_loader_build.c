/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker helper from another build than the library, which can be installed: it reports that and
 * exits before it uses any offset. The slabs here belong to a loader without workers, so a helper
 * of the right build exits at once too (status 2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/control.h"
#include "loader/workers/worker_image.h"
#include "tests/support/assert_words.h"

#define WORDS "the slab is of another build than this worker (" MR_VERSION ")"

enum { SLAB_BYTES = 1 << 20, REFUSED = 1, NO_SUCH_WORKER = 2 };

static struct mr_slab make_slab(uint64_t len_bytes)
{
    struct mr_slab slab;
    mr_error error;
    assert_ok(mr_slab_create(len_bytes, MR_SLAB_PAGES_SMALL, &slab, &error), &error);
    return slab;
}

static struct mr_control *fill(const struct mr_slab *slab)
{
    struct mr_control *control = (void *)slab->base;
    control->magic = MR_CONTROL_MAGIC;
    control->build = mr_control_build();
    control->host_pid = getpid();
    control->layout.slab_bytes = slab->len_bytes;
    mr_control_lay_out(control, 0, 1);
    return control;
}

/* Run the helper program on the slab as worker 0. Returns its exit status and its output. */
static int run_worker(const struct mr_slab *slab, char output_out[500])
{
    int ends[2], status;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = fcntl(slab->fd, F_DUPFD, 50);
        if (dup2(ends[1], STDERR_FILENO) < 0 ||
            dup2(fd, MR_WORKER_FIRST_FD + MR_WORKER_FD_SLAB) < 0)
            _exit(99);
        alarm(10);
        execl(MR_TEST_WORKER, "millrace-worker", "0", (char *)NULL);
        _exit(98);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n = 1; n > 0 && len<499; len += n> 0 ? (size_t)n : 0)
        n = read(ends[0], output_out + len, 499 - len);
    output_out[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_refused(const struct mr_slab *slab)
{
    char said[500];
    struct mr_shared shared;
    mr_error error;
    assert_int_equal(mr_control_attach(slab, &shared, &error), MR_ERR_UNSUPPORTED);
    assert_string_equal(error.text, WORDS);
    assert_int_equal(run_worker(slab, said), REFUSED);
    assert_string_equal(said, "millrace-worker: " WORDS "\n");
}

static void a_worker_takes_a_slab_of_its_own_build(void **state)
{
    (void)state;
    char said[500];
    struct mr_slab slab = make_slab(SLAB_BYTES);
    struct mr_shared shared;
    struct mr_control *control = fill(&slab);
    assert_int_equal(mr_control_attach(&slab, &shared, NULL), MR_OK);
    assert_ptr_equal(shared.control, control);
    assert_int_equal(run_worker(&slab, said), NO_SUCH_WORKER);
    assert_string_equal(said, "");
    mr_slab_destroy(&slab);
}

static void a_worker_refuses_a_slab_of_another_build(void **state)
{
    (void)state;
    struct mr_slab slab = make_slab(SLAB_BYTES);
    struct mr_control *control = fill(&slab);
    control->build ^= UINT64_C(1) << 63;
    expect_refused(&slab);
    control->build = mr_control_build() + 1;
    expect_refused(&slab);
    mr_slab_destroy(&slab);
}

static void a_worker_refuses_memory_that_is_no_slab(void **state)
{
    (void)state;
    struct mr_slab slab = make_slab(SLAB_BYTES), small = make_slab(64);
    struct mr_control *control = fill(&slab);
    control->magic++;
    expect_refused(&slab);
    control->magic--;
    control->layout.slab_bytes = SLAB_BYTES + 4096;
    expect_refused(&slab);
    expect_refused(&small);
    mr_slab_destroy(&slab);
    mr_slab_destroy(&small);
}

static void a_worker_started_by_hand_says_what_it_is(void **state)
{
    (void)state;
    char said[200] = "";
    FILE *pipe = popen(MR_TEST_WORKER " 2>&1", "r");
    assert_non_null(pipe);
    assert_non_null(fgets(said, sizeof said, pipe));
    assert_string_equal(said, "millrace-worker is started by libmillrace, not by hand\n");
    assert_int_equal(WEXITSTATUS(pclose(pipe)), 2);
}

static void the_version_is_a_number_too(void **state)
{
    unsigned major, minor, patch;
    (void)state;
    assert_int_equal(sscanf(mr_version(), "%u.%u.%u", &major, &minor, &patch), 3);
    assert_int_equal(mr_version_number(), major * 10000 + minor * 100 + patch);
    assert_int_equal(mr_version_number(), MR_VERSION_NUMBER);
    assert_true(minor < 100 && patch < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_takes_a_slab_of_its_own_build),
        cmocka_unit_test(a_worker_refuses_a_slab_of_another_build),
        cmocka_unit_test(a_worker_refuses_memory_that_is_no_slab),
        cmocka_unit_test(a_worker_started_by_hand_says_what_it_is),
        cmocka_unit_test(the_version_is_a_number_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
