/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace list` counts and names. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/shards.h"
#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

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
    assert_words(run.out, "photos: 6 samples, 2 classes\n");
    assert_words(run.out, "     0        3  class_0\n     1        3  class_1\n");
    assert_words(run.out, "jpeg            6\n");
    assert_words(run.out, "width              40           48           56\n");
    assert_words(run.out, "height             30           35           35\n");
    assert_string_equal(run.err, "");
    mr_run_command(&run, "list", "--data", "photos", "--no-inspect", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "class_1\n");
    assert_null(strstr(run.out, "jpeg"));
    mr_run_free(&run);
}

/* A sample that is lost in its shard is named and counted; the others are counted as usual. */
static void a_broken_shard_is_counted_as_far_as_it_goes(void **state)
{
    struct mr_run run = {0};
    struct mr_test_shard shard = {0};

    (void)state;
    mr_test_shard_add_text(&shard, "a.cls", "4");
    mr_test_shard_add_text(&shard, "a.jpg", "no image");
    mr_test_shard_add_text(&shard, "b.cls", "4");
    mr_run_write_file("s.tar", shard.bytes, shard.len);
    mr_test_shard_free(&shard);
    mr_run_command(&run, "list", "--data", "tar:s.tar", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.out, "tar:s.tar: 2 samples\n");
    assert_words(run.out, "     4        1  \n     ?        1  (the label cannot be read)\n");
    assert_words(run.out, "       1  empty   s.tar/b.cls\n");
    assert_words(run.err, "s.tar/b.cls (index 1): the sample has no image member");
    mr_run_free(&run);
}

static void a_pack_is_counted_without_its_shards_being_read(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("packed", 2, 3);
    mr_run_write_file("packed/class_1/text.jpg", "hello, world", 12);
    mr_run_command(&run, "pack", "packed", "p", NULL);
    assert_int_equal(run.status, 0);
    mr_run_command(&run, "list", "--data", "pack:p", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "pack:p: 7 samples, 2 classes\n");
    assert_words(run.out, "     0        3  class_0\n     1        4  class_1\n");
    assert_words(run.out, "dct             6\ntext            1\n");
    assert_words(run.out, "width              40           48           56\n");
    assert_words(run.out, "without a header of an image that can be decoded: 1\n");
    assert_words(run.out, "  class_1/text.jpg\n");
    mr_run_command(&run, "list", "--data", "pack:p", "--save", "l", NULL);
    assert_int_equal(run.status, 2);
    assert_words(run.err, "only a dataset with one file per sample can be saved as a list");
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
    assert_words(run.out, "without a header of an image that can be decoded: 2\n");
    assert_words(run.out, "  mixed/class_0/empty.jpg\n");
    assert_words(run.out, "  mixed/class_0/text.jpg\n");
    assert_null(strstr(run.out, "  mixed/class_0/0.jpg\n"));
    mr_run_free(&run);
}

/* Its header is whole, so only decoding finds the damage. */
static void an_image_that_is_damaged_after_its_header_counts_and_check_is_named(void **state)
{
    struct mr_run run = {0};
    size_t len;

    (void)state;
    mr_run_make_images("cut", 1, 2);
    char *bytes = mr_run_read_file("cut/class_0/1.jpg", &len);
    mr_run_write_file("cut/class_0/1.jpg", bytes, (uint32_t)len - 60);
    free(bytes);
    mr_run_command(&run, "list", "cut", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "jpeg            2\n");
    assert_words(run.out, "\nonly headers were read, so damage after them was not found; "
                          "millrace check decodes all\n");
    mr_run_command(&run, "check", "cut", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.out, "1 of 2 samples damaged");
    mr_run_command(&run, "list", "cut", "--no-inspect", NULL);
    assert_null(strstr(run.out, "headers"));
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
    assert_words(run.err, "looping/class_0/loop.jpg");
    assert_words(run.out, "jpeg            1\n");
    mr_run_free(&run);
}

static void fifo_is_named_as_what_it_is_and_blocks_nobody(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("piped", 1, 1);
    assert_int_equal(mkfifo("piped/class_0/pipe.jpg", 0666), 0);
    mr_run_command(&run, "list", "--data", "piped", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "piped/class_0/pipe.jpg: not a regular file\n");
    mr_run_free(&run);
}

static void many_classes_are_shortened_unless_asked_for(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("twenty", 20, 1);
    mr_run_command(&run, "list", "--data", "twenty", "--no-inspect", NULL);
    assert_null(strstr(run.out, "..."));
    assert_words(run.out, "    19        1  class_9\n"); /* names are sorted as text */
    mr_run_make_images("more", 21, 1);
    mr_run_command(&run, "list", "--data", "more", "--no-inspect", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "     9        1  class_17\n   ... 8 more; --classes prints all\n    18  "
                          "      1  class_7\n");
    assert_words(run.out, "    20        1  class_9\n");
    mr_run_command(&run, "list", "--data", "more", "--no-inspect", "--classes", NULL);
    assert_null(strstr(run.out, "..."));
    assert_words(run.out, "     9        1  class_17\n    10        1  class_18\n");
    mr_run_free(&run);
}

static void saved_list_lists_the_same(void **state)
{
    struct mr_run folder = {0}, list = {0};

    (void)state;
    mr_run_command(&folder, "list", "--data", "photos", NULL);
    mr_run_command(&list, "list", "--data", "photos", "--no-inspect", "--save", "photos.list",
                   NULL);
    assert_int_equal(list.status, 0);
    mr_run_command(&list, "list", "--data", "list:photos.list", NULL);
    assert_int_equal(list.status, 0);
    assert_string_equal(strchr(folder.out, ':'), strchr(strstr(list.out, ".list"), ':'));
    mr_run_free(&folder);
    mr_run_free(&list);
}

/* A signal may come before, during or after the writing. */
static void interrupted_save_leaves_no_temporary_file(void **state)
{
    const char *const args[] = {"list",   "--no-inspect", "--data", "list:long.list",
                                "--save", "again.list",   NULL};
    struct mr_run run = {0};
    FILE *list = fopen("long.list", "w");

    (void)state;
    assert_non_null(list);
    for (int i = 0; i < 300000; i++)
        fprintf(list, "photos/class_0/%d.jpg\t%d\n", i % 3, i % 2);
    assert_int_equal(fclose(list), 0);
    for (unsigned ms = 4; ms < 100; ms += 8) {
        mr_run_command_signal(&run, ".stdout", SIGTERM, ms, args);
        assert_true(run.status == 0 || run.status == 128 + SIGTERM);
        assert_int_equal(mr_run_count_entries(".tmp"), 0);
    }
    mr_run_free(&run);
}

static void records_have_no_names_and_no_list(void **state)
{
    struct mr_run run = {0};
    char bytes[40] = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        bytes[10 * i] = (char)(i / 3);
    mr_run_write_file("r.bin", bytes, sizeof bytes);
    mr_run_command(&run, "list", "--data",
                   "records:r.bin?bytes=9&header=0&stride=10&label_off=0&label_bytes=1", NULL);
    if (run.status == 0)
        assert_words(run.out, "raw             4\n");
    else
        fail_msg("exits with %d: %s", run.status, run.err);
    mr_run_command(&run, "list", "--data", "records:r.bin?bytes=10", "--save", "r.list", NULL);
    assert_int_equal(run.status, 2);
    assert_string_equal(run.out, ""); /* before anything is counted */
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
    mr_run_command(&run, "list", "--data", "CIFAR10:.?SPLIT=Test", NULL);
    if (run.status != 0)
        fail_msg("exits with %d: %s", run.status, run.err);
    assert_words(run.out, "     3        1  cat\n");
    assert_words(run.out, "     4        0  deer\n");
    assert_words(run.out, "width              32           32           32\n");
    mr_run_free(&run);
}

/* Run with stderr on a terminal of this kind; text gets its output. */
static void list_on_a_terminal(const char *term, char *text, size_t size)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    size_t used = 0;

    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(end >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("TERM", term, 1);
        if (freopen("/dev/null", "w", stdout) != NULL && dup2(end, STDERR_FILENO) >= 0)
            execl(MR_TEST_MILLRACE, MR_TEST_MILLRACE, "list", "--data", "photos", (char *)NULL);
        _exit(127);
    }
    close(end);
    for (ssize_t n; used < size - 1 && (n = read(terminal, text + used, size - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(terminal);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_dumb_terminal_gets_no_escapes(void **state)
{
    char text[4096];

    (void)state;
    list_on_a_terminal("xterm", text, sizeof text);
    assert_non_null(strchr(text, '\033'));
    list_on_a_terminal("dumb", text, sizeof text);
    assert_null(strchr(text, '\033'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_formats_and_sizes_are_counted),
        cmocka_unit_test(a_broken_shard_is_counted_as_far_as_it_goes),
        cmocka_unit_test(a_pack_is_counted_without_its_shards_being_read),
        cmocka_unit_test(what_is_no_image_is_named),
        cmocka_unit_test(fifo_is_named_as_what_it_is_and_blocks_nobody),
        cmocka_unit_test(many_classes_are_shortened_unless_asked_for),
        cmocka_unit_test(an_image_that_is_damaged_after_its_header_counts_and_check_is_named),
        cmocka_unit_test(file_that_cannot_be_read_exits_1),
        cmocka_unit_test(saved_list_lists_the_same),
        cmocka_unit_test(interrupted_save_leaves_no_temporary_file),
        cmocka_unit_test(records_have_no_names_and_no_list),
        cmocka_unit_test(cifar_names_its_classes),
        cmocka_unit_test(a_dumb_terminal_gets_no_escapes),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
