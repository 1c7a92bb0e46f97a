/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation of decoding a file fails, alone or with all later ones, in the codecs and in
 * their libraries. Then a sound file is never damaged and never has other pixels. Some libraries
 * crash, so child processes decode the files. The other direction: what a damaged file costs.
 */
#include "tests/support/format_corpus.h"
#include "tests/support/allocations.h"
#include "transforms/codec.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_BYTES = 1 << 16, ROWS_OF_CALL = 5, MAX_ALLOCATIONS = 20000, N_MADE = 8 };

static const struct mr_codec_limits limits;
static struct mr_format_example *examples;
static size_t n_examples;

/* What the child processes have found in a file; shared with them. */
struct findings {
    size_t next; /* the allocation that is refused next */
    size_t n_refused, n_wrong;
    bool ended;
    char words[200]; /* of the first wrong one */
};

static struct findings *findings;

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);

/* codec.c's calls. malloc's own calls do not come here. */
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    if (len > allocations.len_largest)
        allocations.len_largest = len;
    if (!allocations.onwards || allocations.refused == 0 || allocations.n_met < allocations.refused)
        return __real_mmap(at, len, prot, flags, fd, off);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Allocates nothing itself. */
static mr_status decode(struct mr_codec *codec, const struct mr_test_image *file,
                        struct mr_image_head *head, uint8_t *out, mr_error *error)
{
    const uint8_t *rows[ROWS_OF_CALL];
    mr_status status = mr_codec_open(codec, file->bytes, file->len, head, error);
    if (status != MR_OK)
        return status;
    status = mr_codec_begin(codec, 0, 0, head->width, head->height, error);
    for (uint32_t y = 0, n = 0; status == MR_OK && y < head->height; y += n) {
        status = mr_codec_rows(codec, rows, ROWS_OF_CALL, &n, error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++)
            memcpy(out + (size_t)(y + i) * head->width * 3, rows[i], (size_t)head->width * 3);
    }
    mr_codec_close(codec);
    return status;
}

static void note_wrong(const char *words)
{
    if (findings->n_wrong++ == 0)
        snprintf(findings->words, sizeof findings->words, "allocation %zu: %.150s",
                 findings->next - 1, words);
}

/* Runs in a child process, from findings->next on. */
static void refuse_in_turn(const struct mr_test_image *file, const struct mr_image_head *head,
                           const uint8_t *pixels, bool onwards)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    static uint8_t out[MAX_BYTES];
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], SIG_DFL); /* cmocka would continue here */
    size_t len = (size_t)head->width * head->height * 3;
    while (!findings->ended && findings->next < MAX_ALLOCATIONS) {
        struct mr_codec *codec;
        struct mr_image_head got = {0};
        mr_error error = {0};
        if (mr_codec_create(&limits, &codec, NULL) != MR_OK)
            _exit(1);
        memset(out, 0xa5, len);
        allocations = (struct allocations){.refused = findings->next++, .onwards = onwards};
        mr_status status = decode(codec, file, &got, out, &error);
        findings->ended = allocations.n_met < allocations.refused;
        allocations.refused = 0;
        findings->n_refused += !findings->ended;
        if (status != MR_OK &&
            (status != MR_ERR_NO_MEMORY || error.status != status || !error.text[0]))
            note_wrong(error.text);
        if (status == MR_OK &&
            (memcmp(&got, head, sizeof got) != 0 || memcmp(out, pixels, len) != 0))
            note_wrong("another image");
        mr_codec_destroy(codec);
    }
    _exit(0);
}

/* Returns how often the libraries crashed. */
static size_t sweep(const char *name, const struct mr_test_image *file, bool onwards,
                    size_t *n_refused)
{
    static uint8_t pixels[MAX_BYTES];
    struct mr_codec *codec;
    struct mr_image_head head = {0};
    mr_error error;
    size_t n_crashes = 0;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    if (decode(codec, file, &head, pixels, &error) != MR_OK)
        fail_msg("%s: %s", name, error.text);
    mr_codec_destroy(codec);
    *findings = (struct findings){.next = 1};
    while (!findings->ended) {
        int how;
        pid_t child = fork();
        if (child == 0)
            refuse_in_turn(file, &head, pixels, onwards);
        assert_int_equal(waitpid(child, &how, 0), child);
        n_crashes += WIFSIGNALED(how);
        if (!WIFSIGNALED(how) && !findings->ended)
            fail_msg("%s: exit %d at allocation %zu", name, WEXITSTATUS(how), findings->next);
    }
    *n_refused += findings->n_refused;
    if (findings->n_wrong > 0)
        print_error("%s: %zu of %zu are wrong: %s\n", name, findings->n_wrong, findings->n_refused,
                    findings->words);
    return n_crashes;
}

static void sweep_examples(const char *how, bool onwards)
{
    size_t n_crashes = 0, n_refused = 0, n_wrong = 0;
    for (size_t i = 0; i < n_examples; i++) {
        n_crashes += sweep(examples[i].name, &examples[i].file, onwards, &n_refused);
        n_wrong += findings->n_wrong;
    }
    print_message("%s: %zu allocations, libraries crash at %zu\n", how, n_refused + n_crashes,
                  n_crashes);
    assert_int_equal(n_wrong, 0);
}

static void one_allocation_that_fails_damages_nothing(void **state)
{
    (void)state;
    sweep_examples("each alone", false);
}

static void allocations_that_fail_from_one_on_damage_nothing(void **state)
{
    (void)state;
    sweep_examples("each with all later ones", true);
}

/* A damaged file is decoded at most twice, and no more memory is asked for than the limit says. */
static void a_damaged_file_costs_at_most_twice_as_much(void **state)
{
    (void)state;
    static uint8_t out[MAX_BYTES];
    const struct mr_codec_limits low = {.max_decoder_bytes = 6 << 20};
    size_t n_damaged = 0;
    for (size_t i = 0; i < n_examples; i++) {
        struct mr_test_image file = examples[i].file;
        struct mr_codec *codec;
        struct mr_image_head head;
        mr_error error;
        if (mr_codec_create(&low, &codec, NULL) != MR_OK)
            fail();
        allocations = (struct allocations){0};
        mr_status status = decode(codec, &file, &head, out, &error);
        size_t n_sound = allocations.n_met;
        file.len -= 1 + file.len / 3;
        allocations = (struct allocations){0};
        if (status == MR_OK &&
            (status = decode(codec, &file, &head, out, &error)) == MR_ERR_DAMAGED) {
            n_damaged++;
            if (allocations.n_met > 2 * n_sound + 2 ||
                allocations.len_largest > low.max_decoder_bytes)
                fail_msg("%s: %zu allocations instead of %zu, one of %zu bytes", examples[i].name,
                         allocations.n_met, n_sound, allocations.len_largest);
        }
        mr_codec_destroy(codec);
    }
    assert_true(n_damaged > n_examples / 2);
}

static void add(const char *name, struct mr_test_image file)
{
    struct mr_format_example *example = &examples[n_examples++];
    *example = (struct mr_format_example){.file = file};
    snprintf(example->name, sizeof example->name, "%s", name);
}

/* JPEG and PNG, and the other formats that this build supports. */
static int load_all(void **state)
{
    (void)state;
    size_t n_all;
    struct mr_format_example *all = mr_format_corpus_load(&n_all);
    struct mr_codec *codec;
    struct mr_image_head head;
    mr_error error;
    examples = calloc(n_all + N_MADE, sizeof *examples);
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    for (size_t i = 0; i < n_all; i++) {
        mr_status status = mr_codec_open(codec, all[i].file.bytes, all[i].file.len, &head, &error);
        if (status == MR_OK)
            mr_codec_close(codec);
        if (status == MR_OK)
            add(all[i].name, all[i].file);
        else
            mr_test_image_free(&all[i].file);
    }
    free(all);
    mr_codec_destroy(codec);
    struct mr_test_jpeg jpeg = {.width = 50, .height = 70, .orientation = 3};
    struct mr_test_png png = {.width = 50, .height = 70, .orientation = 3};
    add("jpeg", mr_test_jpeg(&jpeg));
    jpeg.progressive = true;
    add("progressive jpeg", mr_test_jpeg(&jpeg));
    jpeg = (struct mr_test_jpeg){.width = 50, .height = 70, .arithmetic = true};
    add("arithmetic jpeg", mr_test_jpeg(&jpeg));
    jpeg = (struct mr_test_jpeg){.width = 50, .height = 70, .colour = MR_TEST_CMYK};
    add("cmyk jpeg", mr_test_jpeg(&jpeg));
    add("grey png", mr_test_png(&png));
    png.depth = 16;
    add("16-bit png", mr_test_png(&png));
    png = (struct mr_test_png){.width = 50, .height = 70, .colour_type = 3, .transparency = true};
    add("palette png", mr_test_png(&png));
    png = (struct mr_test_png){.width = 50, .height = 70, .colour_type = 6, .interlaced = true};
    add("interlaced png", mr_test_png(&png));
    findings =
        mmap(NULL, sizeof *findings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return findings == MAP_FAILED ? -1 : 0;
}

static int free_all(void **state)
{
    (void)state;
    mr_format_corpus_free(examples, n_examples);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_allocation_that_fails_damages_nothing),
        cmocka_unit_test(allocations_that_fail_from_one_on_damage_nothing),
        cmocka_unit_test(a_damaged_file_costs_at_most_twice_as_much),
    };
    return cmocka_run_group_tests(tests, load_all, free_all);
}
