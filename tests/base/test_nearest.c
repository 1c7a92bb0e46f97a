/* SPDX-License-Identifier: Apache-2.0 */
/* The name that a user probably meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <millrace/status.h>

static const char *const names[] = {"list",  "bench", "preview", "imagefolder", "batch-size",
                                    "train", "tail",  "p",       "hflip"};
enum { N = sizeof names / sizeof *names };

static void expect(const char *word, const char *name)
{
    const char *found = mr_nearest_name(word, names, N);
    if (name == NULL && found == NULL)
        return;
    if (name == NULL || found == NULL)
        fail_msg("'%s' is near %s", word ? word : "(NULL)", found ? found : "nothing");
    assert_string_equal(found, name);
}

static void a_third_of_the_letters_rounded_up_may_be_wrong(void **state)
{
    (void)state;
    expect("imagefoldr", "imagefolder");   /* missing */
    expect("imagefoolder", "imagefolder"); /* too many */
    expect("image-folder", "imagefolder");
    expect("trian", "train"); /* swapped */
    expect("BEMCH", "bench"); /* wrong, in any case */
    expect("lst", "list");
    expect("filp", "hflip"); /* swapped, and one missing */
    expect("batchsize", "batch-size");
    expect("batch_sise", "batch-size");
}

static void other_words_are_near_nothing(void **state)
{
    (void)state;
    expect("polish", NULL);
    expect("q", NULL);
    expect("", NULL);
    expect(NULL, NULL);
    expect("ls", NULL);
    expect("gulp", NULL);
    expect("imagefolderimagefolderimagefolderimagefolder", NULL);
}

static void the_nearest_of_several_is_taken(void **state)
{
    (void)state;
    expect("tial", "tail");
    expect("trail", "train"); /* tail is as near, but train is first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_third_of_the_letters_rounded_up_may_be_wrong),
        cmocka_unit_test(other_words_are_near_nothing),
        cmocka_unit_test(the_nearest_of_several_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
