/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template of forked workers: stopped, killed, short of descriptors, and forked from within. No
 * wait for it is endless, and no worker lives that its loader does not know.
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/epochs.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum { N_WORKERS = 4, N_FDS = 64, N_SAMPLES = 1000 };

static int get_sample(void *user, int64_t index, mr_sample *sample)
{
    static float element;
    (void)user;
    sample->bytes = &element;
    sample->len_bytes = sizeof element;
    sample->label = index;
    return 0;
}

static const mr_callbacks plain = {.struct_size = sizeof plain, .get = get_sample};

static mr_loader *make_loader_of(const mr_callbacks *callbacks, mr_start start, uint32_t n_workers)
{
    mr_callbacks c = *callbacks;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    mr_dataset *dataset;
    mr_error error;
    c.n_samples = N_SAMPLES;
    c.dtype = MR_F32;
    c.ndim = 1;
    c.shape[0] = 1;
    assert_ok(mr_dataset_from_callbacks(&c, &dataset, &error), &error);
    o.batch_size = 16;
    o.num_workers = n_workers;
    o.start = start;
    mr_loader *loader = mr_test_loader(dataset, NULL, &o);
    mr_dataset_destroy(dataset);
    return loader;
}

static mr_loader *make_loader(void)
{
    return make_loader_of(&plain, MR_START_FORK, N_WORKERS);
}

/* The child of this program with this name; 0 if there is none. */
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
        if (after && sscanf(after, ") %c %d", &state, &parent) == 2 && parent == getpid() &&
            strstr(line, name))
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
    uint64_t begin = mr_clock_now_ns();
    mr_status status = MR_END;
    for (uint64_t epoch = 0; status == MR_END; epoch++) {
        struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
        status = e.status;
        mr_test_epoch_free(&e);
    }
    assert_int_equal(status, MR_ERR_WORKER);
    assert_words(mr_loader_error(loader)->text, "template");
    assert_true(mr_clock_now_ns() - begin < UINT64_C(5000000000));
    mr_loader_destroy(loader);
}

/*
 * A slab that this process has open: the one with this inode, or any one if it is 0. st_blocks is 0
 * if there is none.
 */
static struct stat find_slab(pid_t pid, ino_t inode)
{
    struct stat found = {0}, st;
    for (int fd = 0; fd < N_FDS; fd++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        bool is_slab = len > 0 && strstr(target, "memfd:millrace-slab") && stat(path, &st) == 0;
        if (is_slab && (inode == 0 || st.st_ino == inode))
            found = st;
    }
    return found;
}

static void a_template_does_not_keep_the_memory_of_an_older_loader(void **state)
{
    (void)state;
    mr_loader *older = make_loader_of(&plain, MR_START_THREAD, N_WORKERS);
    struct stat slab = find_slab(getpid(), 0);
    assert_true(slab.st_blocks > 0);
    mr_loader *loader = make_loader();
    pid_t template_pid = find_child("(millrace-templ)");
    assert_true(find_slab(template_pid, slab.st_ino).st_blocks > 0);
    mr_loader_destroy(older);
    assert_int_equal(find_slab(template_pid, slab.st_ino).st_blocks, 0);
    mr_loader_destroy(loader);
}

/* What the processes of a loader share when one of its callbacks forks. */
struct family {
    bool in_release; /* fork in release, not in get */
    _Atomic bool has_forked;
    _Atomic bool has_ended; /* the child that returned from the callback ended too, by _exit(1) */
    _Atomic pid_t child;
};

static void await_end(struct family *family, pid_t child)
{
    int status;
    pid_t ended = 0;
    for (int k = 0; k < 2000 && ended == 0; k++) {
        ended = waitpid(child, &status, WNOHANG);
        mr_test_sleep_ms(ended == 0 ? 10 : 0);
    }
    family->has_ended = ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void fork_once(struct family *family, int64_t index)
{
    if (family->child == getpid())
        _exit(2); /* it works, which is wrong */
    if (index != N_SAMPLES / 10 || atomic_exchange(&family->has_forked, true))
        return;
    pid_t child = fork();
    if (child == 0)
        family->child = getpid();
    else
        await_end(family, child);
}

static int get_and_fork(void *user, int64_t index, mr_sample *sample)
{
    struct family *family = user;
    if (!family->in_release)
        fork_once(family, index);
    return get_sample(NULL, index, sample);
}

static void release_and_fork(void *user, mr_sample *sample)
{
    struct family *family = user;
    if (family->in_release)
        fork_once(family, sample->label);
}

static void check_family(struct family *family, mr_start start, uint32_t n_workers)
{
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.get = get_and_fork;
    callbacks.release = release_and_fork;
    callbacks.user = family;
    mr_loader *loader = make_loader_of(&callbacks, start, n_workers);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    uint8_t seen[N_SAMPLES] = {0};
    assert_int_equal(e.status, MR_END);
    assert_int_equal(e.n_valid, N_SAMPLES);
    for (uint64_t k = 0; k < e.n_samples; k++)
        assert_int_equal(seen[e.indices[k]]++, 0);
    mr_test_epoch_free(&e);
    assert_true(family->has_ended);
    mr_loader_destroy(loader);
}

/* In every mode, also if this thread itself calls the callbacks, inside next(). */
static void a_child_that_a_callback_forks_does_not_work(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct family *family =
            mmap(NULL, sizeof *family, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(family != MAP_FAILED);
        family->in_release = k % 2;
        check_family(family, k < 2 ? MR_START_FORK : MR_START_THREAD,
                     k < 4 ? N_WORKERS : MR_NO_WORKERS);
        munmap(family, sizeof *family);
    }
}

/* Takes every descriptor that becomes free. */
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
    for (int i = 0; i < 2000 && mr_loader_worker_pids(loader, NULL, 0) < N_WORKERS; i++)
        mr_test_sleep_ms(10);
    assert_int_equal(mr_loader_worker_pids(loader, NULL, 0), N_WORKERS);
    mr_test_sleep_ms(50); /* until they have their names */
    assert_int_equal(mr_test_await_workers(getpid(), N_WORKERS), N_WORKERS);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_template_does_not_keep_the_loader_from_ending),
        cmocka_unit_test(a_killed_template_ends_the_loader_with_an_error),
        cmocka_unit_test(a_template_does_not_keep_the_memory_of_an_older_loader),
        cmocka_unit_test(a_child_that_a_callback_forks_does_not_work),
        cmocka_unit_test(a_worker_whose_descriptor_is_lost_does_not_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
