/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace list` counts and names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tools/run_command.h"

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 2, 3); /* 40, 48, 56 wide; 30 and 35 high */
    return 0;
}

static void classes_formats_and_sizes_are_counted(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "list", "--data", "photos", NULL);
    assert_int_equal(run.status, 0);
    assert_contains(run.out, "photos: 6 samples, 2 classes\n");
    assert_contains(run.out, "     0        3  class_0\n     1        3  class_1\n");
    assert_contains(run.out, "jpeg            6\n");
    assert_contains(run.out, "width              40           48           56\n");
    assert_contains(run.out, "height             30           35           35\n");
    assert_string_equal(run.err, "");
    mr_run_command(&run, "list", "--data", "photos", "--no-inspect", NULL);
    assert_int_equal(run.status, 0);
    assert_contains(run.out, "class_1\n");
    assert_null(strstr(run.out, "jpeg"));
    mr_run_free(&run);
}

static void what_is_no_image_is_named(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("mixed", 1, 1);
    mr_run_write_file("mixed/class_0/text.jpg", "hello, world", 12);
    mr_run_write_file("mixed/class_0/empty.jpg", "", 0);
    mr_run_command(&run, "list", "--data", "mixed", NULL);
    assert_int_equal(run.status, 0);
    assert_contains(run.out, "does not look like a whole image: 2\n");
    assert_contains(run.out, "  mixed/class_0/empty.jpg\n");
    assert_contains(run.out, "  mixed/class_0/text.jpg\n");
    assert_null(strstr(run.out, "  mixed/class_0/0.jpg\n"));
    mr_run_free(&run);
}

static void file_that_cannot_be_read_exits_1(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("looping", 1, 1);
    assert_int_equal(symlink("loop.jpg", "looping/class_0/loop.jpg"), 0);
    mr_run_command(&run, "list", "--data", "looping", NULL);
    assert_int_equal(run.status, 1);
    assert_contains(run.err, "looping/class_0/loop.jpg");
    assert_contains(run.out, "jpeg            1\n");
    mr_run_free(&run);
}

static void saved_list_lists_the_same(void **state)
{
    struct mr_run folder = {0}, list = {0};

    (void)state;
    mr_run_command(&folder, "list", "--data", "photos", NULL);
    mr_run_command(&list, "list", "--data", "photos", "--no-inspect", "--save", "photos.list", NULL);
    assert_int_equal(list.status, 0);
    mr_run_command(&list, "list", "--data", "list:photos.list", NULL);
    assert_int_equal(list.status, 0);
    assert_string_equal(strchr(folder.out, ':'), strchr(strstr(list.out, ".list"), ':'));
    mr_run_free(&folder);
    mr_run_free(&list);
}

static void records_have_no_names_and_no_list(void **state)
{
    struct mr_run run = {0};
    char bytes[40] = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        bytes[10 * i] = (char)(i / 3);
    mr_run_write_file("r.bin", bytes, sizeof bytes);
    mr_run_command(&run, "list", "--data", "records:r.bin?bytes=9&header=0&stride=10&label_off=0&label_bytes=1", NULL);
    if (run.status == 0)
        assert_contains(run.out, "raw             4\n");
    else
        fail_msg("exits with %d: %s", run.status, run.err);
    mr_run_command(&run, "list", "--data", "records:r.bin?bytes=10", "--save", "r.list", NULL);
    assert_int_equal(run.status, 1);
    assert_false(mr_run_exists("r.list"));
    mr_run_free(&run);
}

static void cifar_names_its_classes(void **state)
{
    static unsigned char record[3073];
    struct mr_run run = {0};
    char names[] = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";

    (void)state;
    record[0] = 3;
    mr_run_write_file("test_batch.bin", record, sizeof record);
    mr_run_write_file("batches.meta.txt", names, sizeof names - 1);
    mr_run_command(&run, "list", "--data", "cifar10:.?split=test", NULL);
    if (run.status != 0)
        fail_msg("exits with %d: %s", run.status, run.err);
    assert_contains(run.out, "     3        1  cat\n");
    assert_contains(run.out, "     4        0  deer\n");
    assert_contains(run.out, "width              32           32           32\n");
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_formats_and_sizes_are_counted), cmocka_unit_test(what_is_no_image_is_named),
        cmocka_unit_test(file_that_cannot_be_read_exits_1),      cmocka_unit_test(saved_list_lists_the_same),
        cmocka_unit_test(records_have_no_names_and_no_list),     cmocka_unit_test(cifar_names_its_classes),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
