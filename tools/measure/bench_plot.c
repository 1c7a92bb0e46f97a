/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs gnuplot as a child: it reads the script from stdin and writes the picture to a temporary
 * file. Titles come from the user and may contain quotes, control characters and gnuplot markup, so
 * they are escaped. If gnuplot dies early, writing to the closed pipe must not end this program:
 * mr_interrupt_catch() ignores SIGPIPE, and the child gets the default back.
 */
#include "tools/measure/bench_plot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/temporary_file.h"
#include "tools/say.h"

extern char **environ;

/*
 * Start `gnuplot -` with this stdin or, if input is negative, `gnuplot --version`. Returns 0 or an
 * errno.
 */
static int spawn_gnuplot(int input, pid_t *pid_out)
{
    static char name[] = "gnuplot", version[] = "--version", dash[] = "-";
    char *argv[] = {name, input < 0 ? version : dash, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    int failure = posix_spawn_file_actions_init(&actions);

    if (failure != 0)
        return failure;
    failure = posix_spawnattr_init(&attributes);
    if (failure != 0)
        goto free_actions;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (input < 0)
        failure =
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    else
        failure = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (failure == 0)
        failure =
            posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (failure == 0)
        failure = posix_spawnp(pid_out, name, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
free_actions:
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

static bool wait_for_child(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool mr_bench_plot_check(void)
{
    pid_t pid;
    int failure = spawn_gnuplot(-1, &pid);

    if (failure == 0 && wait_for_child(pid))
        return true;
    mr_say_error("--plot: gnuplot cannot be run%s%s; install the Debian package gnuplot-nox",
                 failure ? ": " : "", failure ? strerror(failure) : "");
    return false;
}

/* Write a text in single quotes, as gnuplot reads it. */
static void put_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\'')
            fputc('\'', script);
        fputc(c < 0x20 || c == 0x7f ? '?' : c, script);
    }
    fputc('\'', script);
}

static void put_titles(FILE *script, const struct mr_bench_meta *meta)
{
    char *title = NULL;
    const char *data = meta->data;
    size_t len = strlen(data);

    bool data_cut = len > 50, transform_cut = strlen(meta->transform) > 50;
    if (asprintf(&title, "%s%s, %.50s%s, %s, %s, batch %" PRIu32, data_cut ? "..." : "",
                 data_cut ? data + len - 50 : data, meta->transform, transform_cut ? "..." : "",
                 mr_dtype_name(meta->options.dtype),
                 meta->options.layout == MR_NHWC ? "nhwc" : "nchw", meta->options.batch_size) < 0)
        title = NULL;
    fprintf(script, "set label 1 ");
    put_quoted(script, title != NULL ? title : data);
    fprintf(script, " at graph 0.5, 1.045 center noenhanced\n");
    free(title);
    if (asprintf(&title, "worker processes (0: decoded by the caller); %" PRIu32 " CPUs, %s",
                 meta->n_cpus, meta->cpu_model) < 0)
        title = NULL;
    fprintf(script, "set xlabel ");
    put_quoted(script, title != NULL ? title : "worker processes");
    fprintf(script, " noenhanced\n");
    free(title);
}

/* Write the script. The bars have equal distances, whatever their numbers of workers. */
static void put_script(FILE *script, const char *output, const struct mr_bench_meta *meta,
                       const struct mr_bench_row *rows, size_t n)
{
    fprintf(script, "set terminal pngcairo size 960,600 font 'sans,12'\nset output ");
    put_quoted(script, output);
    fprintf(script, "\nset title 'millrace bench: images per second against workers' offset 0,1\n");
    put_titles(script, meta);
    fprintf(
        script,
        "set ylabel 'images per second'\nset yrange [0:*]\nset offsets 0.1, 0.1, graph 0.12, 0\n"
        "set xtics nomirror\nset ytics nomirror\nset grid ytics\nset border 3\nunset key\n"
        "set style fill solid 0.85\nset boxwidth 0.5\n$rows << END\n");
    for (size_t i = 0; i < n; i++)
        fprintf(script, "%zu %" PRIu32 " %.6g \"%.0f (%.2f x)\"\n", i, rows[i].workers,
                rows[i].img_s, rows[i].img_s, rows[i].ratio);
    fprintf(script, "END\nplot $rows using 1:3:xtic(2) with boxes linecolor rgb '#3b6ea5', "
                    "$rows using 1:3:4 with labels offset 0,0.8\n");
}

static char *make_script(const char *output, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n)
{
    char *text = NULL;
    size_t len;
    FILE *script = open_memstream(&text, &len);

    if (script == NULL)
        return NULL;
    put_script(script, output, meta, rows, n);
    if (fclose(script) == 0)
        return text;
    free(text);
    return NULL;
}

static bool feed_gnuplot(const char *script)
{
    size_t len = strlen(script);
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        mr_say_errno(errno, "pipe");
        return false;
    }
    int failure = spawn_gnuplot(ends[0], &pid);
    close(ends[0]);
    while (failure == 0 && len > 0) {
        ssize_t written = write(ends[1], script, len);
        if (written < 0 && errno != EINTR)
            break; /* gnuplot has ended; its exit status tells whether it failed */
        script += written > 0 ? written : 0;
        len -= written > 0 ? (size_t)written : 0;
    }
    close(ends[1]);
    if (failure != 0) {
        mr_say_errno(failure, "gnuplot (Debian package gnuplot-nox)");
        return false;
    }
    return wait_for_child(pid);
}

bool mr_bench_plot_store(const char *path, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n)
{
    struct mr_temporary_file picture;
    struct stat info;

    if (!mr_temporary_file_open_named(&picture, path))
        return false;
    char *script = make_script(picture.temporary, meta, rows, n);
    bool good = script != NULL && feed_gnuplot(script) && stat(picture.temporary, &info) == 0 &&
                info.st_size > 0;
    free(script);
    if (!good)
        mr_say_error("%s: gnuplot drew no picture", path);
    good = good && mr_temporary_file_sync(&picture) && mr_temporary_file_rename(&picture);
    mr_temporary_file_close(&picture);
    return good;
}
