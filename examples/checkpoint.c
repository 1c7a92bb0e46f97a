/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Easy to get wrong: without fsync() before rename() a crash of the machine can leave an empty file under the good
 * name, and a full disk may be told only by fsync() or fclose().
 */
#include "examples/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "MRTRAIN1";

static bool fail(const char *path, const char *words)
{
    fprintf(stderr, "%s: %s\n", path, words);
    return false;
}

static bool write_all(FILE *file, const struct checkpoint *head, const struct convnet *net)
{
    size_t size = mr_dtype_size(net->dtype);

    return fwrite(head, sizeof *head, 1, file) == 1 &&
           fwrite(net->weights, size, net->n_params, file) == net->n_params &&
           fwrite(net->velocity, size, net->n_params, file) == net->n_params && fflush(file) == 0 &&
           fsync(fileno(file)) == 0;
}

static bool write_aside(const char *path, const char *aside, const struct checkpoint *head, const struct convnet *net)
{
    FILE *file = fopen(aside, "we");

    if (file == NULL)
        return fail(aside, strerror(errno));
    bool good = write_all(file, head, net);
    int error = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && rename(aside, path) == 0)
        return true;
    fail(path, strerror(good ? errno : error));
    unlink(aside);
    return false;
}

bool checkpoint_write(const char *folder, const char *name, struct checkpoint *head, const struct convnet *net)
{
    char *path = NULL, *aside = NULL;
    bool good = asprintf(&path, "%s/%s", folder, name) >= 0 && asprintf(&aside, "%s/%s.tmp", folder, name) >= 0;

    memcpy(head->magic, magic, sizeof magic);
    head->dtype = net->dtype;
    head->n_params = net->n_params;
    if (good)
        good = write_aside(path, aside, head, net);
    else
        fail(name, "no memory");
    free(path);
    free(aside);
    return good;
}

static bool read_all(FILE *file, const char *path, struct checkpoint *head_out, struct convnet *net)
{
    size_t size = mr_dtype_size(net->dtype), n = net->n_params;

    if (fread(head_out, sizeof *head_out, 1, file) != 1 || memcmp(head_out->magic, magic, sizeof magic) != 0)
        return fail(path, "no checkpoint of this program");
    if (head_out->dtype != (uint64_t)net->dtype || head_out->n_params != n)
        return fail(path, "a checkpoint of another network or --dtype");
    if (fread(net->weights, size, n, file) != n || fread(net->velocity, size, n, file) != n || fgetc(file) != EOF)
        return fail(path, "a checkpoint of another length than its head says");
    return true;
}

bool checkpoint_read(const char *path, struct checkpoint *head_out, struct convnet *net)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return fail(path, strerror(errno));
    bool good = read_all(file, path, head_out, net);
    fclose(file);
    return good;
}
