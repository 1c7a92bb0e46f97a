/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_pack_unpack(): no file is replaced, none is outside the folder, and good samples are written
 * despite damaged ones.
 */
#include "tests/packs/pack_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/pack_format.h"
#include "tests/support/packs.h"
#include "tests/support/assert_words.h"

/* Unpacking. */

static void unpack_goes_on_and_replaces_no_file(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    char path[PACK_RIG_PATH * 2];
    pack_rig_pack(rig, "source", &options);
    mr_pack_report report = pack_rig_unpack(rig, "source", "target", NULL);
    assert_true(report.bytes_written > 0);
    snprintf(path, sizeof path, "%s/%s", pack_rig_path(rig, "target"), pack_rig_name(rig, 3));
    assert_int_equal(unlink(path), 0);
    report = pack_rig_unpack(rig, "source", "target", NULL); /* existing files stay */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(report.bytes_written, st.st_size);
    mr_dataset *pack = pack_rig_open(rig, "source");
    for (int i = 0; i < 2; i++) { /* a file with one byte more, or with one byte changed */
        int fd = open(path, O_WRONLY | (i == 0 ? O_APPEND : 0));
        assert_int_equal(write(fd, "x", 1), 1);
        assert_int_equal(ftruncate(fd, st.st_size + 1 - i), 0);
        close(fd);
        assert_error(mr_pack_unpack(pack, pack_rig_path(rig, "target"), NULL, NULL, &error),
                     MR_ERR_INVALID, &error, pack_rig_name(rig, 3));
    }
    mr_dataset_destroy(pack);
}

/* What renaming does: works, is not supported (a network's file system), or comes too late. */
static enum { RENAMES, RENAMES_NOT, RENAMES_LATE } renaming;

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (renaming == RENAMES_LATE)
        close(openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL, 0666));
    if (renaming != RENAMES_NOT)
        return __real_renameat2(from_fd, from, to_fd, to, flags);
    errno = EINVAL;
    return -1;
}

static void file_that_somebody_else_makes_meanwhile_is_not_replaced(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    struct stat st;
    char path[PACK_RIG_PATH * 2];
    pack_rig_pack(rig, "raced", &options);
    mr_dataset *pack = pack_rig_open(rig, "raced");
    renaming = RENAMES_LATE;
    mr_status status = mr_pack_unpack(pack, pack_rig_path(rig, "race"), NULL, NULL, &error);
    renaming = RENAMES;
    assert_int_equal(status, MR_ERR_INVALID);
    mr_dataset_destroy(pack);
    snprintf(path, sizeof path, "%s/%s", pack_rig_path(rig, "race"), pack_rig_name(rig, 0));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
}

static unsigned count_entries(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n - 2;
}

static void file_systems_without_renameat2_replace_no_file_either(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    char path[PACK_RIG_PATH * 2];
    pack_rig_pack(rig, "afar", &options);
    renaming = RENAMES_NOT;
    pack_rig_unpack(rig, "afar", "near", NULL);
    renaming = RENAMES;
    assert_int_equal(count_entries(pack_rig_path(rig, "near/class_0")),
                     /* no temporary file is left */
                     count_entries(pack_rig_path(rig, "photos/class_0")));
    snprintf(path, sizeof path, "%s/%s", pack_rig_path(rig, "near"), pack_rig_name(rig, 0));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    mr_dataset *pack = pack_rig_open(rig, "afar");
    assert_int_equal(mr_pack_unpack(pack, pack_rig_path(rig, "near"), NULL, NULL, &error),
                     MR_ERR_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_error(mr_pack_unpack(pack, pack_rig_path(rig, "near"), NULL, NULL, &error),
                 MR_ERR_INVALID, &error, path);
    mr_dataset_destroy(pack);
}

static void full_disk_leaves_whole_files_only(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    struct rlimit before, little;
    mr_error error = {0};
    pack_rig_pack(rig, "large", &options);
    mr_dataset *pack = pack_rig_open(rig, "large");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    mr_status status = mr_pack_unpack(pack, pack_rig_path(rig, "small"), NULL, NULL, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    mr_dataset_destroy(pack);
    assert_int_equal(status, MR_ERR_IO);
    assert_int_equal(error.os_error, EFBIG);
    assert_words(error.text, "small/class_0/000.jpg");
    assert_int_equal(count_entries(pack_rig_path(rig, "small/class_0")), 0);
    pack_rig_unpack(rig, "large", "small", NULL);
}

static void damaged_samples_keep_no_other_from_being_unpacked(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    pack_rig_pack(rig, "hurt", &options);
    mr_test_packs_flip(pack_rig_path(rig, "hurt"), 4, 11);
    mr_dataset *pack = pack_rig_open(rig, "hurt");
    rig->n_notices = 0;
    assert_int_equal(mr_pack_unpack(pack, pack_rig_path(rig, "rescued"), &options, NULL, &error),
                     MR_ERR_DAMAGED);
    mr_dataset_destroy(pack);
    assert_words(error.text, "1 of ");
    assert_int_equal(rig->n_notices, 1);
    assert_int_equal(rig->noticed[0], 4);
    for (int64_t i = 0; i < rig->n; i++) {
        char path[PACK_RIG_PATH * 2];
        snprintf(path, sizeof path, "%s/%s", pack_rig_path(rig, "rescued"), pack_rig_name(rig, i));
        assert_int_equal(access(path, F_OK) == 0, i != 4);
    }
}

/* As long as the name that they replace, "class_0/000.jpg". */
static const char *const unsafe_names[] = {"../ss_0/000.jpg", "/lass_0/000.jpg", "class_0/../0jpg",
                                           "class_0/000/../", "class_0/000jpg/", "...............",
                                           "file/under0.jpg"};

static void set_name(uint8_t *index, int64_t which)
{
    const struct mr_pack_header *header = (const void *)index;
    const struct mr_pack_sample *samples =
        (const void *)(index + header->sections[MR_PACK_SAMPLES].off);
    char *names = (char *)index + header->sections[MR_PACK_NAMES].off;
    assert_int_equal(strlen(names + samples[0].name), strlen(unsafe_names[which]));
    memcpy(names + samples[0].name, unsafe_names[which], strlen(unsafe_names[which]));
}

static void names_that_lead_out_of_the_folder_are_refused(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    pack_rig_pack(rig, "hostile", &options);
    for (int64_t k = 0; k < 5; k++) { /* the sixth is strange, but a valid name */
        mr_error error = {0};
        char out[16];
        snprintf(out, sizeof out, "inside%d", (int)k);
        mr_test_packs_edit(pack_rig_path(rig, "hostile"), set_name, k);
        mr_dataset *pack = pack_rig_open(rig, "hostile");
        rig->n_notices = 0;
        assert_int_equal(mr_pack_unpack(pack, pack_rig_path(rig, out), &options, NULL, &error),
                         MR_ERR_DAMAGED);
        assert_int_equal(rig->n_notices, 1);
        assert_words(rig->texts[0], unsafe_names[k]);
        mr_dataset_destroy(pack);
    }
    assert_int_not_equal(access(pack_rig_path(rig, "ss_0"), F_OK), 0);
    mr_test_packs_edit(pack_rig_path(rig, "hostile"), set_name, 5);
    pack_rig_unpack(rig, "hostile", "inside5", NULL);
    assert_int_equal(access(pack_rig_path(rig, "inside5/................jpg"), F_OK), 0);
}

static void name_below_another_file_keeps_no_other_from_being_unpacked(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    char path[PACK_RIG_PATH * 2];
    pack_rig_pack(rig, "odd", &options);
    mr_test_packs_edit(pack_rig_path(rig, "odd"), set_name, 6);
    assert_int_equal(mkdir(pack_rig_path(rig, "taken"), 0777), 0);
    close(open(pack_rig_path(rig, "taken/file"), O_WRONLY | O_CREAT, 0666));
    mr_dataset *pack = pack_rig_open(rig, "odd");
    rig->n_notices = 0;
    assert_int_equal(mr_pack_unpack(pack, pack_rig_path(rig, "taken"), &options, NULL, &error),
                     MR_ERR_DAMAGED);
    mr_dataset_destroy(pack);
    assert_int_equal(rig->n_notices, 1);
    assert_int_equal(rig->noticed[0], 0);
    assert_words(error.text, strerror(ENOTDIR));
    snprintf(path, sizeof path, "%s/%s", pack_rig_path(rig, "taken"),
             pack_rig_name(rig, rig->n - 1));
    assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PACK_TEST(unpack_goes_on_and_replaces_no_file),
        PACK_TEST(file_that_somebody_else_makes_meanwhile_is_not_replaced),
        PACK_TEST(file_systems_without_renameat2_replace_no_file_either),
        PACK_TEST(full_disk_leaves_whole_files_only),
        PACK_TEST(damaged_samples_keep_no_other_from_being_unpacked),
        PACK_TEST(names_that_lead_out_of_the_folder_are_refused),
        PACK_TEST(name_below_another_file_keeps_no_other_from_being_unpacked),
    };
    return cmocka_run_group_tests(tests, pack_rig_set_up, pack_rig_tear_down);
}
