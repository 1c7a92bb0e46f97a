/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and opens the module of an engine. A module that exists but does not load, because a
 * library that it needs is missing, has a separate message: otherwise the user would look for a
 * file that exists.
 */
#include "dist/group/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <stdlib.h>

#include "base/error.h"

#define MAX_NAME 15 /* of an engine's name, bytes */

static bool is_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
    return len > 0 && len <= MAX_NAME && name[len] == '\0';
}

static bool has_all_functions(const struct mr_engine_device *device)
{
    return device && device->issue && device->test && device->wait && device->drop &&
           device->health && device->abort && device->sums_create && device->sums_add &&
           device->sums_destroy && device->ordinal;
}

/* Is the table compatible with this library? */
static mr_status check_table(const struct mr_engine_table *table, const char *path, mr_error *error)
{
    if (table->abi != MR_ENGINE_ABI)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s has interface %u, this library needs %u",
                            path, table->abi, MR_ENGINE_ABI);
    if (!table->name || !table->create || !table->destroy || (!table->run && !table->on_device))
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s lacks its name, create, destroy or run",
                            path);
    if (table->on_device && !has_all_functions(table->device))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s lacks a function that a device engine needs", path);
    return MR_OK;
}

static mr_status load_module(const char *path, const char *name,
                             const struct mr_engine_table **table_out, mr_error *error)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "cannot open backend %s: %s", name,
                            dlerror());
    const struct mr_engine_table *table = dlsym(module, MR_ENGINE_SYMBOL);
    if (!table)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s has no symbol %s", path,
                            MR_ENGINE_SYMBOL);
    mr_status status = check_table(table, path, error);
    if (!status)
        *table_out = table;
    return status;
}

/* Is the module in this folder? len: bytes of folder. path_out: PATH_MAX bytes. */
static bool is_in_folder(const char *folder, size_t len, const char *name, char *path_out)
{
    if (len == 0 || len > INT_MAX)
        return false;
    int n = snprintf(path_out, PATH_MAX, "%.*s/libmillrace-%s.so", (int)len, folder, name);
    return n > 0 && n < PATH_MAX && access(path_out, F_OK) == 0;
}

static bool find_in_list(const char *folders, const char *name, char *path_out)
{
    for (const char *at = folders; at && *at; at += strspn(at, ":")) {
        size_t len = strcspn(at, ":");
        if (is_in_folder(at, len, name, path_out))
            return true;
        at += len;
    }
    return false;
}

/* The folder of libmillrace.so, or of the program that it is linked into; "" if it is unknown. */
static void find_own_folder(char *folder_out, size_t size)
{
    Dl_info info;
    folder_out[0] = '\0';
    if (!dladdr((const void *)(uintptr_t)&mr_module_open, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash)
        snprintf(folder_out, size, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
}

/*
 * What to do if the module was not found. The package names are Debian's; other systems have
 * similar ones.
 */
static const char *describe_remedy(const char *name)
{
    if (strcmp(name, "mpi") == 0)
        return "; rebuild millrace where an MPI is installed (libopenmpi-dev)";
    if (strcmp(name, "gloo") == 0)
        return "; rebuild millrace where gloo is installed (libgloo-dev)";
    return strcmp(name, "nccl") == 0 ? "; rebuild millrace where CUDA and NCCL are installed" : "";
}

mr_status mr_module_open(const char *name, const struct mr_engine_table **table_out,
                         mr_error *error)
{
    *table_out = NULL;
    char path[PATH_MAX];
    char beside[PATH_MAX];
    if (!is_name(name))
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "there is no backend '%s'", name);
    find_own_folder(beside, sizeof beside);
    const char *folders = getenv("MR_MODULE_PATH");
    if (find_in_list(folders, name, path) || is_in_folder(beside, strlen(beside), name, path))
        return load_module(path, name, table_out, error);
    snprintf(path, sizeof path, "libmillrace-%s.so", name);
    mr_error why;
    mr_status status = load_module(path, name, table_out, &why);
    if (status)
        mr_error_set(error, status,
                     "%s (searched MR_MODULE_PATH '%s', '%s' and the dynamic linker's folders)%s",
                     why.text, folders ? folders : "", beside, describe_remedy(name));
    return status;
}

int32_t mr_module_fail(mr_error *error, int32_t status, const char *format, ...)
{
    char text[MR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mr_error_set(error, (mr_status)status, "%s", text);
}
