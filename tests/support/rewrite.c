/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rewrite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/die.h"
#include "tests/support/images.h"

enum { FILE_BYTES = 16000 };

/* Insert a comment after the first marker that fills the file up to FILE_BYTES. */
static void pad(const struct mr_test_image *image, uint8_t out[FILE_BYTES])
{
    size_t len = FILE_BYTES - image->len - 2; /* includes the length field, not the marker */
    if (image->len + 4 > FILE_BYTES)
        mr_test_die("a photograph is too large");
    memset(out, 0, FILE_BYTES);
    memcpy(out, image->bytes, 2);
    out[2] = 0xff;
    out[3] = 0xfe;
    out[4] = (uint8_t)(len >> 8);
    out[5] = (uint8_t)len;
    memcpy(out + FILE_BYTES - (image->len - 2), image->bytes + 2, image->len - 2);
}

void mr_test_rewrite(const char *path, uint32_t seed, int64_t second)
{
    static uint8_t bytes[FILE_BYTES];
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 120, .height = 100, .seed = seed});
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1577836800 + second}};
    pad(&image, bytes);
    mr_test_image_free(&image);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || pwrite(fd, bytes, FILE_BYTES, 0) != FILE_BYTES || futimens(fd, times) != 0 ||
        close(fd) != 0)
        mr_test_die(path);
}
