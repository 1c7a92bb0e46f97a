/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads checkpoints. Without fsync() before rename(), a crash of the machine can leave
 * an empty file under the final name. Without fsync() of the folder after rename(), it can leave
 * the older checkpoint. A full disk may be reported only by fsync() or fclose().
 */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "MRTRAIN1";

static bool print_failure(const char *path, const char *words)
{
    fprintf(stderr, "%s: %s\n", path, words);
    return false;
}

static bool write_all(FILE *file, const struct checkpoint *head, const void *numbers)
{
    size_t size = mr_dtype_size((mr_dtype)head->dtype), n = 2 * head->n_params;

    return fwrite(head, sizeof *head, 1, file) == 1 && fwrite(numbers, size, n, file) == n &&
           fflush(file) == 0 && fsync(fileno(file)) == 0;
}

static bool write_aside(const char *path, const char *aside, const struct checkpoint *head,
                        const void *numbers)
{
    FILE *file = fopen(aside, "we");

    if (file == NULL)
        return print_failure(aside, strerror(errno));
    bool good = write_all(file, head, numbers);
    int error = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && rename(aside, path) == 0)
        return true;
    print_failure(path, strerror(good ? errno : error));
    unlink(aside);
    return false;
}

/* Not every file system can do this, so failures are ignored. */
static void sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
}

bool checkpoint_write(const char *folder, const char *name, const struct checkpoint *head,
                      const void *numbers)
{
    char *path = NULL, *aside = NULL;
    bool good = asprintf(&path, "%s/%s", folder, name) >= 0 &&
                asprintf(&aside, "%s/%s.tmp", folder, name) >= 0;
    struct checkpoint marked = *head;

    memcpy(marked.magic, magic, sizeof magic);
    if (good)
        good = write_aside(path, aside, &marked, numbers);
    else
        print_failure(name, "no memory");
    if (good)
        sync_folder(folder);
    free(path);
    free(aside);
    return good;
}

static bool read_all(FILE *file, const char *path, struct checkpoint *head, void *numbers)
{
    size_t size = mr_dtype_size((mr_dtype)head->dtype), n = 2 * head->n_params;
    struct checkpoint saved;

    if (fread(&saved, sizeof saved, 1, file) != 1 || memcmp(saved.magic, magic, sizeof magic) != 0)
        return print_failure(path, "not a checkpoint of this program");
    if (saved.dtype != head->dtype || saved.n_params != head->n_params)
        return print_failure(path, "the checkpoint is of another network or --dtype");
    if (fread(numbers, size, n, file) != n || fgetc(file) != EOF)
        return print_failure(path, "the file's length does not match its head");
    *head = saved;
    return true;
}

bool checkpoint_read(const char *path, struct checkpoint *head, void *numbers)
{
    struct stat st;
    /* opening a FIFO would wait for its writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (file == NULL) {
        bool failed = print_failure(path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return failed;
    }
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
                    ? read_all(file, path, head, numbers)
                    : print_failure(path, "not a regular file");
    fclose(file);
    return good;
}
