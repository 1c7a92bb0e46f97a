/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of pack, check and unpack. A path becomes part of a SPEC, in which some bytes
 * have a meaning, so it is escaped.
 * Invariant: the live line is cleared before anything else is written.
 */
#include "tools/pack_watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/say.h"
#include "tools/shown_dataset.h"

enum { MAGIC_BYTES = 8 };

const struct mr_arg_choice mr_pack_watch_decoders[] = {
    {"auto", MR_JPEG_AUTO}, {"stock", MR_JPEG_STOCK}, {NULL, 0}};

static const char magic[] = "mrpIndx1"; /* docs/pack-format.md */

/* True if the folder has an index or, if that is missing or damaged, a shard. */
static bool holds_pack(const char *path)
{
    char head[MAGIC_BYTES];
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    int fd = openat(folder, "index", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool found = fd >= 0 && read(fd, head, sizeof head) == MAGIC_BYTES &&
                 memcmp(head, magic, MAGIC_BYTES) == 0;
    if (fd >= 0)
        close(fd);
    if (!found)
        found = faccessat(folder, "shard-00000", F_OK, 0) == 0;
    close(folder);
    return found;
}

bool mr_pack_watch_is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && !holds_pack(path);
}

const char *mr_pack_watch_spec(const char *text, char spec_out[MR_PACK_WATCH_SPEC_BYTES])
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";

    if (strlen(text) >= PATH_MAX || !holds_pack(text))
        return text;
    char *out = stpcpy(spec_out, "pack:");
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            *out++ = *text;
        else
            out += sprintf(out, "%%%02X", (unsigned char)*text);
    }
    *out = '\0';
    return spec_out;
}

int mr_pack_watch_open(struct mr_pack_watch *watch, const char *text,
                       const mr_dataset_options *options, mr_dataset **dataset_out)
{
    mr_error error = {0};
    char spec[MR_PACK_WATCH_SPEC_BYTES];

    *dataset_out = NULL;
    mr_status status = mr_shown_dataset_open(&watch->progress, mr_pack_watch_spec(text, spec),
                                             options, dataset_out, &error);
    if (status < 0)
        return mr_say_status(status, &error);
    if (mr_dataset_n_samples(*dataset_out) > 0)
        return MR_EXIT_OK;
    mr_say_error("%s has no samples", text);
    mr_dataset_destroy(*dataset_out);
    *dataset_out = NULL;
    return MR_EXIT_FAILED;
}

/* ", 812/s, 1:02:03 left". */
static void format_left(char *text, size_t size, double rate, uint64_t n_left)
{
    double seconds = (double)n_left / rate;
    unsigned long s = seconds < 1e7 ? (unsigned long)seconds : 9999999;

    if (s >= 3600)
        snprintf(text, size, ", %.0f/s, %lu:%02lu:%02lu left", rate, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, ", %.0f/s, %lu:%02lu left", rate, s / 60, s % 60);
}

static bool on_progress(void *user, const mr_pack_progress *progress)
{
    struct mr_pack_watch *watch = user;
    uint64_t n_new = progress->n_done - progress->n_resumed;
    char left[48] = "";

    if (mr_interrupt_came())
        return true;
    if (!mr_progress_due(&watch->progress))
        return false;
    double rate = progress->seconds > 0 ? (double)n_new / progress->seconds : 0;
    if (rate > 0)
        format_left(left, sizeof left, rate, progress->n_samples - progress->n_done);
    mr_progress_draw(&watch->progress, "%s: %" PRIu64 " of %" PRIu64 "%s", watch->verb,
                     progress->n_done, progress->n_samples, left);
    return false;
}

static void on_notice(void *user, int64_t index, const char *name, const char *text)
{
    struct mr_pack_watch *watch = user;

    (void)index;
    watch->n_notices++;
    if (watch->max_named > 0 && watch->n_notices > watch->max_named)
        return;
    mr_progress_clear(&watch->progress);
    mr_say_error("%s: %s", name, text);
}

void mr_pack_watch_begin(struct mr_pack_watch *watch, mr_pack_options *options)
{
    options->progress = on_progress;
    options->notice = on_notice;
    options->user = watch;
    mr_interrupt_catch();
}

int mr_pack_watch_end(struct mr_pack_watch *watch, mr_status status, const mr_error *error)
{
    mr_progress_clear(&watch->progress);
    if (watch->max_named > 0 && watch->n_notices > watch->max_named)
        mr_say_error("and %" PRIu64 " more", watch->n_notices - watch->max_named);
    if (status == MR_OK)
        return MR_EXIT_OK;
    if (status != MR_ERR_CANCELED)
        return mr_say_status(status, error);
    mr_say_error("interrupted%s", watch->resumes ? "; the same command continues it" : "");
    return MR_EXIT_FAILED;
}

void mr_pack_watch_line(FILE *stream, const char *name, const char *text)
{
    mr_say_put(stream, name);
    fputs(": ", stream);
    mr_say_put(stream, text);
    fputc('\n', stream);
}

struct mr_pack_watch_size mr_pack_watch_bytes(uint64_t n_bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB"};
    struct mr_pack_watch_size size;
    double value = (double)n_bytes / 1e3;
    size_t i = 0;

    for (; value >= 999.95 && i + 1 < sizeof units / sizeof *units; i++)
        value /= 1e3;
    snprintf(size.text, sizeof size.text, "%.1f %s", value, units[i]);
    return size;
}
