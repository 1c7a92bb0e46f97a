/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices are counted in a child process that may hang, crash or be reaped by other code; nothing
 * of it may be left.
 */
#include "pinned/device_count.h"

#include "base/clock.h"
#include "tests/pinned/counting_tables.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOON_MS = 300, LATE_MS = 20000 };

/* State shared by tests and their children. */
struct shared {
    _Atomic pid_t parent;
    _Atomic pid_t asked; /* the process that ran count last */
    _Atomic bool over;   /* for grandchildren; never reset */
};

static struct shared *shared_state(void)
{
    static struct shared *shared;
    if (!shared)
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared;
}

static int begin(void **state)
{
    (void)state;
    struct shared *shared = shared_state();
    if (shared == MAP_FAILED)
        return -1;
    shared->parent = getpid();
    shared->asked = 0;
    *counting_state() = (struct counting){0};
    return 0;
}

static uint32_t count_apart(uint32_t timeout_ms, mr_error *error)
{
    return mr_device_count_apart(mr_device_find(MR_DEVICE_CUDA), timeout_ms, error);
}

static mr_status count_5(uint32_t *n_out, mr_error *error)
{
    (void)error;
    shared_state()->asked = getpid();
    *n_out = 5;
    return MR_OK;
}

static void the_host_is_counted_without_a_child(void **state)
{
    (void)state;
    mr_error error;
    assert_int_equal(mr_device_count(MR_DEVICE_HOST, &error), 64);
    assert_int_equal(mr_device_count(MR_DEVICE_HOST, NULL), 64);
    assert_int_equal(mr_device_count((mr_device_kind)7, &error), 0);
    assert_int_equal(error.status, MR_ERR_INVALID);
}

static void no_child_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void cuda_is_asked_in_a_child(void **state)
{
    (void)state;
    counting_state()->count = count_5;
    mr_error error;
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, &error), 5);
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, NULL), 5);
    assert_int_not_equal(shared_state()->asked, 0);
    assert_int_not_equal(shared_state()->asked, getpid());
    assert_int_equal(counting_state()->n_calls, 0);
    no_child_is_left();
}

static void the_reason_for_none_comes_from_the_child(void **state)
{
    (void)state;
    mr_error error;
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, &error), 0);
    assert_int_equal(error.status, MR_ERR_NO_DEVICE);
    assert_string_equal(error.text, "no driver in this test");
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, NULL), 0);
    assert_int_equal(counting_state()->n_calls, 0);
}

static mr_status fail_with_a_number(uint32_t *n_out, mr_error *error)
{
    *n_out = 3;
    return mr_error_set(error, MR_ERR_DEVICE, "cudaGetDeviceCount: unknown error");
}

static void a_number_beside_a_failure_means_nothing(void **state)
{
    (void)state;
    counting_state()->count = fail_with_a_number;
    mr_error error;
    assert_int_equal(count_apart(LATE_MS, &error), 0);
    assert_string_equal(error.text, "cudaGetDeviceCount: unknown error");
    assert_int_equal(counting_state()->n_calls, 0);
}

static mr_status refuse_forks(uint32_t *n_out, mr_error *error)
{
    if (getpid() != shared_state()->parent)
        return mr_error_set(
            error, MR_ERR_DEVICE,
            "cudaGetDeviceCount: initialization error (cudaErrorInitializationError)");
    return count_5(n_out, error);
}

static void a_process_that_uses_cuda_already_counts_by_itself(void **state)
{
    (void)state;
    counting_state()->count = refuse_forks;
    mr_error error;
    assert_int_equal(count_apart(LATE_MS, &error), 5);
    assert_int_equal(shared_state()->asked, getpid());
    assert_int_equal(counting_state()->n_calls, 1);
    no_child_is_left();
}

static mr_status hang(uint32_t *n_out, mr_error *error)
{
    (void)n_out, (void)error;
    for (int i = 0; i < 2 * LATE_MS; i += 100)
        mr_clock_sleep_ms(100);
    return MR_OK;
}

static void a_hanging_child_is_killed(void **state)
{
    (void)state;
    counting_state()->count = hang;
    mr_error error;
    uint64_t begin_ns = mr_clock_now_ns();
    assert_int_equal(count_apart(SOON_MS, &error), 0);
    assert_in_range(mr_clock_now_ns() - begin_ns, SOON_MS * 1000000ull, LATE_MS * 1000000ull);
    assert_int_equal(error.status, MR_ERR_DEVICE);
    assert_string_equal(error.text, "counting devices took more than 300 ms");
    no_child_is_left();
}

static mr_status die(uint32_t *n_out, mr_error *error)
{
    (void)n_out, (void)error;
    raise(SIGKILL);
    return MR_OK;
}

static void a_dying_child_is_reported_at_once(void **state)
{
    (void)state;
    counting_state()->count = die;
    mr_error error;
    uint64_t begin_ns = mr_clock_now_ns();
    assert_int_equal(count_apart(LATE_MS, &error), 0);
    assert_true(mr_clock_now_ns() - begin_ns < LATE_MS / 2 * 1000000ull);
    assert_int_equal(error.status, MR_ERR_DEVICE);
    assert_string_equal(error.text, "the process that counted the devices died");
    no_child_is_left();
}

/* The grandchild keeps the pipe open: the end of the child must be noticed even so. */
static mr_status die_with_heirs(uint32_t *n_out, mr_error *error)
{
    if (fork() == 0) {
        for (int i = 0; i < LATE_MS / 10 && !shared_state()->over; i++)
            mr_clock_sleep_ms(10);
        _exit(0);
    }
    return die(n_out, error);
}

static void an_open_pipe_elsewhere_does_not_delay_the_answer(void **state)
{
    (void)state;
    counting_state()->count = die_with_heirs;
    mr_error error;
    uint64_t begin_ns = mr_clock_now_ns();
    assert_int_equal(count_apart(LATE_MS, &error), 0);
    shared_state()->over = true;
    assert_true(mr_clock_now_ns() - begin_ns < LATE_MS / 2 * 1000000ull);
    assert_string_equal(error.text, "the process that counted the devices died");
}

static void ignored_children_change_nothing(void **state)
{
    (void)state;
    counting_state()->count = count_5;
    mr_error error;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    assert_int_equal(count_apart(LATE_MS, &error), 5);
    counting_state()->count = hang;
    assert_int_equal(count_apart(SOON_MS, &error), 0);
    signal(SIGCHLD, before);
    no_child_is_left();
}

static void reap_all(int signal)
{
    (void)signal;
    int before = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    errno = before;
}

static void a_host_that_reaps_everything_changes_nothing(void **state)
{
    (void)state;
    counting_state()->count = count_5;
    mr_error error;
    void (*before)(int) = signal(SIGCHLD, reap_all);
    for (int i = 0; i < 20; i++)
        assert_int_equal(count_apart(LATE_MS, &error), 5);
    signal(SIGCHLD, before);
}

static mr_status count_slowly(uint32_t *n_out, mr_error *error)
{
    mr_clock_sleep_ms(50);
    return count_5(n_out, error);
}

static void do_nothing(int signal)
{
    (void)signal;
}

static void signals_do_not_shorten_the_wait(void **state)
{
    (void)state;
    counting_state()->count = count_slowly;
    mr_error error;
    struct sigaction handler = {.sa_handler = do_nothing}, before; /* without SA_RESTART */
    sigaction(SIGALRM, &handler, &before);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    uint32_t n = count_apart(LATE_MS, &error);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(n, 5);
    no_child_is_left();
}

static mr_status interrupt_itself(uint32_t *n_out, mr_error *error)
{
    raise(SIGTERM);
    raise(SIGINT);
    return count_5(n_out, error);
}

/* The host's handlers must not run in its copy, the child. */
static void the_childs_signals_wait_and_the_hosts_mask_does_not_change(void **state)
{
    (void)state;
    counting_state()->count = interrupt_itself;
    mr_error error;
    sigset_t mine, before, after;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &mine, &before);
    assert_int_equal(count_apart(LATE_MS, &error), 5);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    for (int i = 1; i < SIGRTMAX; i++)
        assert_int_equal(sigismember(&after, i) == 1, i == SIGUSR1);
}

static int n_open_files(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void no_descriptor_is_left(void **state)
{
    (void)state;
    mr_error error;
    int before = n_open_files();
    counting_state()->count = count_5;
    assert_int_equal(count_apart(LATE_MS, &error), 5);
    counting_state()->count = die;
    assert_int_equal(count_apart(LATE_MS, &error), 0);
    assert_int_equal(n_open_files(), before);
}

static void the_hosts_buffers_are_written_once(void **state)
{
    (void)state;
    counting_state()->count = count_5;
    mr_error error;
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs("once", file);
    assert_int_equal(count_apart(LATE_MS, &error), 5);
    fflush(file);
    assert_int_equal(ftell(file), 4);
    fseek(file, 0, SEEK_END);
    assert_int_equal(ftell(file), 4);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_host_is_counted_without_a_child, begin),
        cmocka_unit_test_setup(cuda_is_asked_in_a_child, begin),
        cmocka_unit_test_setup(the_reason_for_none_comes_from_the_child, begin),
        cmocka_unit_test_setup(a_number_beside_a_failure_means_nothing, begin),
        cmocka_unit_test_setup(a_process_that_uses_cuda_already_counts_by_itself, begin),
        cmocka_unit_test_setup(a_hanging_child_is_killed, begin),
        cmocka_unit_test_setup(a_dying_child_is_reported_at_once, begin),
        cmocka_unit_test_setup(an_open_pipe_elsewhere_does_not_delay_the_answer, begin),
        cmocka_unit_test_setup(ignored_children_change_nothing, begin),
        cmocka_unit_test_setup(a_host_that_reaps_everything_changes_nothing, begin),
        cmocka_unit_test_setup(signals_do_not_shorten_the_wait, begin),
        cmocka_unit_test_setup(the_childs_signals_wait_and_the_hosts_mask_does_not_change, begin),
        cmocka_unit_test_setup(no_descriptor_is_left, begin),
        cmocka_unit_test_setup(the_hosts_buffers_are_written_once, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
