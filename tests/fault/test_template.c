/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template of forked workers: stopped, killed, and short of descriptors. Nobody waits for it for ever, and no
 * worker lives that its loader does not know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/epochs.h"
#include "tests/support/processes.h"

enum { N_WORKERS = 4, N_FDS = 64 };

static int get_sample(void *user, int64_t index, mr_sample *sample)
{
    static float element;
    (void)user;
    sample->bytes = &element;
    sample->len_bytes = sizeof element;
    sample->label = index;
    return 0;
}

static mr_loader *make_loader(void)
{
    mr_callbacks c = MR_CALLBACKS_INIT;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    mr_dataset *dataset;
    mr_error error;
    c.n_samples = 1000;
    c.get = get_sample;
    c.dtype = MR_F32;
    c.ndim = 1;
    c.shape[0] = 1;
    if (mr_dataset_from_callbacks(&c, &dataset, &error) != MR_OK)
        fail_msg("%s", error.text);
    o.batch_size = 16;
    o.num_workers = N_WORKERS;
    o.start = MR_START_FORK;
    mr_loader *loader = mr_test_loader(dataset, NULL, &o);
    mr_dataset_destroy(dataset);
    return loader;
}

/* The child of this program that is called so; 0 when there is none. */
static pid_t find_child(const char *name)
{
    pid_t found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300], line[512] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = atoi(entry->d_name) > 0 ? fopen(path, "re") : NULL;
        const char *after = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        char state;
        int parent;
        if (after && sscanf(after, ") %c %d", &state, &parent) == 2 && parent == getpid() && strstr(line, name))
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    if (proc)
        closedir(proc);
    return found;
}

static void a_stopped_template_does_not_keep_the_loader_from_ending(void **state)
{
    (void)state;
    mr_loader *loader = make_loader();
    pid_t template_pid = find_child("(millrace-templ)");
    assert_true(template_pid > 0);
    kill(template_pid, SIGSTOP);
    uint64_t begin = mr_clock_now_ns();
    mr_loader_destroy(loader);
    assert_true(mr_clock_now_ns() - begin < UINT64_C(9000000000));
    assert_int_equal(find_child("(millrace-templ)"), 0);
    assert_int_equal(mr_test_count_workers(getpid()), 0);
}

static void a_killed_template_ends_the_loader_with_an_error(void **state)
{
    (void)state;
    mr_loader *loader = make_loader();
    kill(find_child("(millrace-templ)"), SIGKILL);
    mr_status status = MR_END;
    for (uint64_t epoch = 0; status == MR_END; epoch++) {
        struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
        status = e.status;
        mr_test_epoch_free(&e);
    }
    assert_int_equal(status, MR_ERR_WORKER);
    assert_non_null(strstr(mr_loader_error(loader)->text, "template"));
    mr_loader_destroy(loader);
}

/* Takes every descriptor that comes free. */
struct hog {
    _Atomic bool stop;
    int fds[N_FDS];
    int n;
};

static void *take_descriptors(void *arg)
{
    struct hog *hog = arg;
    while (!hog->stop) {
        int fd = hog->n < N_FDS ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0)
            hog->fds[hog->n++] = fd;
    }
    return NULL;
}

static void a_worker_whose_descriptor_is_lost_does_not_live(void **state)
{
    (void)state;
    struct rlimit before, low;
    struct hog hog = {.n = 0};
    int64_t pids[N_WORKERS];
    pthread_t thread;
    mr_loader *loader = make_loader();
    assert_int_equal(mr_loader_worker_pids(loader, pids, N_WORKERS), N_WORKERS);
    getrlimit(RLIMIT_NOFILE, &before);
    low = (struct rlimit){.rlim_cur = N_FDS, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    assert_int_equal(pthread_create(&thread, NULL, take_descriptors, &hog), 0);
    mr_test_sleep_ms(50);
    for (int i = 0; i < N_WORKERS; i++) {
        kill((pid_t)pids[i], SIGKILL);
        mr_test_sleep_ms(20);
    }
    hog.stop = true;
    pthread_join(thread, NULL);
    for (int i = 0; i < hog.n; i++)
        close(hog.fds[i]);
    setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 500 && mr_loader_worker_pids(loader, NULL, 0) < N_WORKERS; i++)
        mr_test_sleep_ms(10);
    assert_int_equal(mr_loader_worker_pids(loader, NULL, 0), N_WORKERS);
    mr_test_sleep_ms(50); /* they take their names */
    assert_int_equal(mr_test_await_workers(getpid(), N_WORKERS), N_WORKERS);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_template_does_not_keep_the_loader_from_ending),
        cmocka_unit_test(a_killed_template_ends_the_loader_with_an_error),
        cmocka_unit_test(a_worker_whose_descriptor_is_lost_does_not_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
