/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads limits on memory from /proc and /sys/fs/cgroup. Every enclosing cgroup may have a limit,
 * not only the process's own cgroup.
 */
#include "pinned/memory_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* The first number of a small file; false when it is missing, unreadable or "max". */
static bool read_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fscanf(file, "%" SCNu64, out) == 1;
    fclose(file);
    return ok;
}

/* A file below root; NULL when it is missing, unreadable, or its path too long. */
static FILE *open_below(const char *root, const char *name)
{
    char path[PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s%s", root, name);
    return len > 0 && (size_t)len < sizeof path ? fopen(path, "re") : NULL;
}

static bool read_available(const char *root, uint64_t *out)
{
    FILE *file = open_below(root, "/proc/meminfo");
    if (!file)
        return false;
    char line[256];
    uint64_t kib = 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1;
    fclose(file);
    *out = kib * 1024;
    return found;
}

/* What a limit leaves, and which limit that is. */
struct room {
    uint64_t bytes;
    char whose[128];
};

static void take_smaller(struct room *least, uint64_t bytes, const char *format, const char *name)
{
    if (bytes >= least->bytes)
        return;
    least->bytes = bytes;
    (void)snprintf(least->whose, sizeof least->whose, format, name);
}

/*
 * Apply one cgroup's limit, less what it uses. Its page cache can be given back, so it does not
 * count as used.
 */
static void apply_group(const char *dir, const char *limit_name, const char *used_name,
                        const char *stat_key, struct room *least)
{
    char path[PATH_BYTES + 64];
    uint64_t limit;
    uint64_t used;
    snprintf(path, sizeof path, "%s/%s", dir, limit_name);
    if (!read_number(path, &limit))
        return;
    snprintf(path, sizeof path, "%s/%s", dir, used_name);
    if (!read_number(path, &used))
        return;
    uint64_t cache = 0;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    FILE *file = fopen(path, "re");
    char line[256];
    char key[64];
    uint64_t value;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %" SCNu64, key, &value) == 2 && strcmp(key, stat_key) == 0)
            cache = value;
    if (file)
        fclose(file);
    used = used > cache ? used - cache : 0;
    const char *name = strrchr(dir, '/');
    take_smaller(least, limit > used ? limit - used : 0, "the memory limit of cgroup %.80s",
                 name ? name : dir);
}

/*
 * Apply the limits of the cgroup's directory below mount and of every directory above it, up to
 * mount itself.
 */
static void apply_enclosing_groups(const char *root, const char *mount, const char *group,
                                   const char *limit_name, const char *used_name,
                                   const char *stat_key, struct room *least)
{
    char dir[PATH_BYTES];
    size_t top = strlen(root) + strlen(mount);
    int len =
        snprintf(dir, sizeof dir, "%s%s%s", root, mount, strcmp(group, "/") == 0 ? "" : group);
    if (len < 0 || (size_t)len >= sizeof dir)
        return;
    for (;;) {
        apply_group(dir, limit_name, used_name, stat_key, least);
        if (strlen(dir) <= top)
            return;
        *strrchr(dir, '/') = '\0';
    }
}

/*
 * True if word is an entry of a comma-separated list. Version 1 may mount controllers together:
 * "cpu,memory".
 */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
            return true;
    return false;
}

/*
 * Apply one line of /proc/self/cgroup: "0::/path" is version 2, "7:memory:/path" the memory
 * controller of version 1.
 */
static void apply_line(const char *root, char *line, struct room *least)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return;
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0')
        apply_enclosing_groups(root, "/sys/fs/cgroup", group, "memory.max", "memory.current",
                               "inactive_file", least);
    else if (has_word(controllers, "memory"))
        apply_enclosing_groups(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file", least);
}

static void apply_all_groups(const char *root, struct room *least)
{
    char line[PATH_BYTES];
    FILE *file = open_below(root, "/proc/self/cgroup");
    while (file && fgets(line, sizeof line, file))
        apply_line(root, line, least);
    if (file)
        fclose(file);
}

mr_status mr_memory_limit_check_below(const char *root, uint64_t len_bytes, mr_error *error)
{
    struct room least = {.bytes = UINT64_MAX};
    uint64_t available;
    if (read_available(root, &available))
        take_smaller(&least, available, "%s", "available memory");
    apply_all_groups(root, &least);
    if (len_bytes <= least.bytes)
        return MR_OK;
    return mr_error_set(error, MR_ERR_NO_MEMORY,
                        "the slab needs %.1f MB, %s leaves %.1f MB: %.1f MB too little; lower "
                        "batch_size or n_slots",
                        (double)len_bytes / 1e6, least.whose, (double)least.bytes / 1e6,
                        (double)(len_bytes - least.bytes) / 1e6);
}

mr_status mr_memory_limit_check(uint64_t len_bytes, mr_error *error)
{
    return mr_memory_limit_check_below("", len_bytes, error);
}
