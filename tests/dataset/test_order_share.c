/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes take an order from another one, and which wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "dataset/tokens/order_share.h"

enum { NAME = 64 };

static void make_name(char name[NAME], const char *what)
{
    snprintf(name, NAME, "mr-test-%s-%d", what, (int)getpid());
}

static void only_a_sealed_region_is_taken(void **state)
{
    (void)state;
    char name[NAME];
    int region, lock;
    make_name(name, "sealed");
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    mr_order_share_take(name, &region, &lock);
    assert_int_equal(region, -1);
    assert_true(lock >= 0);
    close(lock);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    mr_order_share_take(name, &region, &lock);
    assert_true(region >= 0);
    assert_int_equal(lock, -1);
    close(region);
    close(fd);
}

/* Without a descriptor for the lock, nothing is waited for: nobody has it. */
static void a_lock_that_cannot_be_made_is_not_waited_for(void **state)
{
    (void)state;
    char name[NAME];
    int region, lock;
    struct rlimit before, none;
    make_name(name, "limit");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    time_t begin = time(NULL);
    mr_order_share_take(name, &region, &lock);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(region, -1);
    assert_int_equal(lock, -1);
    assert_true(time(NULL) - begin < 50); /* of the minute that a lock is waited for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_sealed_region_is_taken),
        cmocka_unit_test(a_lock_that_cannot_be_made_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
