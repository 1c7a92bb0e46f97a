/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's settings for huge pages. A free page of the pool may be promised to a mapping
 * that has not touched it yet. The setting for shared memory is not the one for private memory.
 */
#include "pinned/huge_pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define TRANSPARENT "/sys/kernel/mm/transparent_hugepage/"

enum { PATH_BYTES = 4096, TEXT_BYTES = 128 };

/* Read the start of a small file; the text is empty if it cannot be read. */
static void read_text(const char *root, const char *path, char text_out[TEXT_BYTES])
{
    char name[PATH_BYTES];
    ssize_t len = -1;
    snprintf(name, sizeof name, "%s%s", root, path);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        len = read(fd, text_out, TEXT_BYTES - 1);
        close(fd);
    }
    text_out[len > 0 ? len : 0] = '\0';
}

static uint64_t read_number(const char *root, const char *path)
{
    char text[TEXT_BYTES];
    read_text(root, path, text);
    return strtoull(text, NULL, 10);
}

uint64_t mr_huge_pages_free(const char *root)
{
    uint64_t n_free = read_number(root, POOL "free_hugepages");
    uint64_t n_promised = n_free > 0 ? read_number(root, POOL "resv_hugepages") : 0;
    return n_free > n_promised ? (n_free - n_promised) * MR_HUGE_PAGES_BYTES : 0;
}

/* True if this word is the one in brackets. */
static bool is_chosen(const char *text, const char *word)
{
    const char *open = strchr(text, '[');
    size_t len = strlen(word);
    return open && strncmp(open + 1, word, len) == 0 && open[1 + len] == ']';
}

static bool offers_pages(const char *text)
{
    return is_chosen(text, "always") || is_chosen(text, "within_size") ||
           is_chosen(text, "advise") || is_chosen(text, "force");
}

bool mr_huge_pages_on_request(const char *root)
{
    char text[TEXT_BYTES];
    read_text(root, TRANSPARENT "hugepages-2048kB/shmem_enabled", text); /* Linux 6.11 */
    if (text[0] != '\0' && !is_chosen(text, "inherit"))
        return offers_pages(text);
    read_text(root, TRANSPARENT "shmem_enabled", text);
    return offers_pages(text);
}
