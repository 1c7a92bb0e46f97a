/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the command. Its outputs go to files in the working directory and not to pipes, so that
 * neither can block the other.
 */
#include "tests/tools/run_command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/die.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

enum { MAX_ARGS = 64 };

void mr_run_free(struct mr_run *run)
{
    free(run->out);
    free(run->err);
    *run = (struct mr_run){0};
}

char *mr_run_read_file(const char *path, size_t *len_out)
{
    struct stat info;
    FILE *file = fopen(path, "r");

    if (file == NULL || fstat(fileno(file), &info) < 0)
        mr_test_die(path);
    char *bytes = malloc((size_t)info.st_size + 1);
    if (bytes == NULL)
        mr_test_die(path);
    size_t len = fread(bytes, 1, (size_t)info.st_size, file);
    bytes[len] = '\0';
    fclose(file);
    if (len_out != NULL)
        *len_out = len;
    return bytes;
}

static void start_command(const char *stdout_path, const char *const *args)
{
    const char *argv[MAX_ARGS + 2] = {MR_TEST_MILLRACE};
    int in = open("/dev/null", O_RDONLY);
    int out = open(stdout_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int err = open(".stderr", O_WRONLY | O_CREAT | O_TRUNC, 0666);

    for (int i = 0; args[i] != NULL && i < MAX_ARGS; i++)
        argv[i + 1] = args[i];
    if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

void mr_run_command_to(struct mr_run *run, const char *stdout_path, unsigned interrupt_ms,
                       const char *const *args)
{
    mr_run_command_signal(run, stdout_path, interrupt_ms > 0 ? SIGINT : 0, interrupt_ms, args);
}

/* Wait for its end. */
static void finish_command(struct mr_run *run, pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            mr_test_die("waitpid");
    run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    run->err = mr_run_read_file(".stderr", NULL);
}

static pid_t begin_command(struct mr_run *run, const char *stdout_path, const char *const *args)
{
    pid_t pid = fork();

    mr_run_free(run);
    if (pid < 0)
        mr_test_die("fork");
    if (pid == 0)
        start_command(stdout_path, args);
    return pid;
}

void mr_run_command_signal(struct mr_run *run, const char *stdout_path, int signal_number,
                           unsigned after_ms, const char *const *args)
{
    struct timespec pause = {after_ms / 1000, (long)(after_ms % 1000) * 1000000};
    pid_t pid = begin_command(run, stdout_path, args);

    if (signal_number != 0) {
        nanosleep(&pause, NULL);
        kill(pid, signal_number);
    }
    finish_command(run, pid);
}

void mr_run_command_signal_at(struct mr_run *run, const char *stdout_path, int signal_number,
                              const char *path, const char *const *args)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    pid_t pid = begin_command(run, stdout_path, args);

    for (int i = 0; i < 6000 && !mr_run_exists(path); i++)
        nanosleep(&pause, NULL);
    kill(pid, signal_number);
    finish_command(run, pid);
}

void mr_run_command(struct mr_run *run, ...)
{
    const char *args[MAX_ARGS + 1] = {NULL};
    va_list list;

    va_start(list, run);
    for (int i = 0; i < MAX_ARGS && (args[i] = va_arg(list, const char *)) != NULL; i++)
        continue;
    va_end(list);
    mr_run_command_to(run, ".stdout", 0, args);
    run->out = mr_run_read_file(".stdout", &run->out_len);
}

int mr_run_enter_folder(void **state)
{
    char *folder = mr_test_folder_create();

    if (chdir(folder) < 0)
        mr_test_die(folder);
    *state = folder;
    return 0;
}

int mr_run_leave_folder(void **state)
{
    if (chdir("/") < 0)
        mr_test_die("/");
    mr_test_folder_remove(*state);
    return 0;
}

void mr_run_make_images(const char *name, unsigned n_classes, unsigned n_images)
{
    char path[256];

    if (mkdir(name, 0777) < 0)
        mr_test_die(name);
    for (unsigned c = 0; c < n_classes; c++) {
        snprintf(path, sizeof path, "%s/class_%u", name, c);
        if (mkdir(path, 0777) < 0)
            mr_test_die(path);
        for (unsigned i = 0; i < n_images; i++) {
            struct mr_test_jpeg options = {
                .width = 40 + 8 * i, .height = 30 + 5 * c, .seed = 100 * c + i};
            struct mr_test_image image = mr_test_jpeg(&options);
            snprintf(path, sizeof path, "%s/class_%u/%u.jpg", name, c, i);
            mr_test_image_save(&image, path);
            mr_test_image_free(&image);
        }
    }
}

void mr_run_write_file(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(bytes, 1, len, file) != len || fclose(file) != 0)
        mr_test_die(path);
}

bool mr_run_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

unsigned mr_run_count_entries(const char *part)
{
    unsigned count = 0;
    DIR *folder = opendir(".");

    if (folder == NULL)
        mr_test_die("opendir");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += strstr(entry->d_name, part) != NULL;
    closedir(folder);
    return count;
}

void mr_run_assert_same_files(const char *a, const char *b)
{
    size_t a_len, b_len;
    char *a_bytes = mr_run_read_file(a, &a_len);
    char *b_bytes = mr_run_read_file(b, &b_len);

    if (a_len != b_len || memcmp(a_bytes, b_bytes, a_len) != 0)
        fail_msg("%s (%zu bytes) and %s (%zu bytes) differ", a, a_len, b, b_len);
    free(a_bytes);
    free(b_bytes);
}
