/* SPDX-License-Identifier: Apache-2.0 */
/* mr_launch(): environments, lines, exit statuses. Ends by signal are in test_launch_ends.c. */
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/dist/launch/launch_rig.h"
#include "tests/support/assert_words.h"

/* A program that writes one line of n bytes 'x', because a shell has no short way. */
#define LINE_OF(n) "head -c " #n " /dev/zero | tr '\\0' x; echo"

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

static void ranks_get_their_identity(void **state)
{
    struct mr_launched l;
    (void)state;
    setenv("RANK", "77", 1);
    setenv("TORCHELASTIC_RUN_ID", "outer", 1);
    setenv("MR_RUN_ID", "5", 1);
    setenv("OTHER", "kept", 1);
    mr_launched_script(&l, 3,
                       "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $OTHER "
                       "outer=$TORCHELASTIC_RUN_ID. $MASTER_ADDR $MASTER_PORT $MR_RUN_ID");
    mr_launched_wait(&l);
    unsetenv("RANK");
    unsetenv("TORCHELASTIC_RUN_ID");
    unsetenv("MR_RUN_ID");
    assert_int_equal(l.status, MR_OK);
    assert_int_equal(l.end, 0);
    assert_int_equal(l.result.rank, -1);
    assert_string_equal(l.err, "");
    const char *tail = strstr(l.out, "127.0.0.1 ");
    assert_non_null(tail);
    char end[80];
    snprintf(end, sizeof end, "%.*s", (int)strcspn(tail, "\n"), tail);
    unsigned port;
    unsigned long long id;
    assert_int_equal(sscanf(end, "127.0.0.1 %u %llu", &port, &id), 2);
    assert_true(port > 0 && port < 65536 && id != 0 && id != 5);
    for (int r = 0; r < 3; r++) {
        char line[200];
        snprintf(line, sizeof line, "%d: %d 3 %d 3 0 kept outer=. %s\n", r, r, r, end);
        assert_words(l.out, line);
    }
    mr_launched_free(&l);
}

/* A socket that binds it as rank 0's store does gets it. */
static void monitor_is_found_by_its_process_name(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 1, "cat /proc/$PPID/comm");
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    assert_string_equal(l.out, "0: millrace-launch\n");
    mr_launched_free(&l);
}

static void port_is_free_for_rank_0(void **state)
{
    struct mr_launched l;
    unsigned port = 0;
    (void)state;
    mr_launched_script(&l, 1, "echo $MASTER_PORT");
    mr_launched_wait(&l);
    assert_int_equal(sscanf(l.out, "0: %u", &port), 1);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    mr_launched_free(&l);
}

static void ranks_of_several_nodes_are_numbered_consecutively(void **state)
{
    static const char script[] =
        "echo $RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK $MASTER_ADDR $MASTER_PORT; "
        "echo id $MR_RUN_ID >&2";
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT, .script = script};
    struct mr_launched a, b, theirs;
    (void)state;
    c.options.nproc = 2;
    c.options.nnodes = 3;
    c.options.node_rank = 2;
    c.options.rendezvous = "[fd00::1]:2568";
    mr_launched_case(&a, &c);
    mr_launched_wait(&a);
    assert_words(a.out, "4: 4 6 0 2 fd00::1 2568\n");
    assert_words(a.out, "5: 5 6 1 2 fd00::1 2568\n");

    c.options.node_rank = 0; /* another machine has the same run id */
    mr_launched_case(&b, &c);
    mr_launched_wait(&b);
    assert_words(b.out, "1: 1 6 1 0 fd00::1 2568\n");
    assert_int_equal(strtoull(strstr(a.err, "id ") + 3, NULL, 10),
                     strtoull(strstr(b.err, "id ") + 3, NULL, 10));

    setenv("MR_RUN_ID", "a job's name", 1);
    mr_launched_case(&theirs, &c);
    mr_launched_wait(&theirs);
    unsetenv("MR_RUN_ID");
    assert_words(theirs.err, "0: id a job's name\n");
    mr_launched_free(&a);
    mr_launched_free(&b);
    mr_launched_free(&theirs);
}

static void lines_are_whole_and_have_their_rank(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 2,
                       "printf a$RANK; sleep 0.1; printf 'b\\n\\n'; printf '\\000\\377\\r x\\n'; "
                       "echo to stderr >&2; printf last");
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    for (int r = 0; r < 2; r++) {
        char first[16], last[16], binary[16];
        snprintf(first, sizeof first, "%d: a%db\n%d: \n", r, r, r);
        snprintf(last, sizeof last, "%d: last\n", r);
        int len = snprintf(binary, sizeof binary, "%d: ", r);
        memcpy(binary + len, "\0\377\r x\n", 6);
        assert_non_null(memmem(l.out, l.out_len, binary, (size_t)len + 6));
        assert_non_null(memmem(l.out, l.out_len, last, strlen(last)));
        snprintf(first, sizeof first, "%d: a%db\n", r, r);
        assert_non_null(memmem(l.out, l.out_len, first, strlen(first)));
        snprintf(first, sizeof first, "%d: to stderr\n", r);
        assert_words(l.err, first);
    }
    assert_int_equal(l.out_len, 2 * (strlen("0: a0b\n") + strlen("0: \n") + strlen("0: 12 x\n") +
                                     1 + strlen("0: last\n")));
    mr_launched_free(&l);
}

static void long_line_is_split_into_pieces(void **state)
{
    struct mr_launched l;
    size_t at = 0, lens[8], n = 0;
    (void)state;
    mr_launched_script(&l, 1, LINE_OF(10000) "; " LINE_OF(4080) "; " LINE_OF(4081));
    mr_launched_wait(&l);
    while (at < l.out_len && n < 8) {
        assert_memory_equal(l.out + at, "0: ", 3);
        lens[n++] = strcspn(l.out + at, "\n") - 3;
        at += lens[n - 1] + 4;
    }
    static const size_t expected[] = {4080, 4080, 1840, 4080, 4080, 1};
    assert_int_equal(n, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(lens[i], expected[i]);
    mr_launched_free(&l);
}

/* 12,500 lines of each rank, alternately on both streams, each complete and in order. */
static void hundred_thousand_lines_of_8_ranks_arrive(void **state)
{
    enum { RANKS = 8, LINES = 12500 };
    struct mr_launched l;
    unsigned next[RANKS] = {0};
    (void)state;
    mr_launched_script(
        &l, RANKS,
        "awk -v r=$RANK 'BEGIN { for (i = 0; i < 12500; i++) "
        "printf \"%d line %d %s\\n\", r, i, substr(\"abcdefghijklmnopqrstuvwxyz\", 1, i % 27) }'");
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    char *line = l.out, *after = l.out + l.out_len;
    /*
     * strchr() would look for the end of all of it each time where AddressSanitizer checks strings.
     */
    for (char *end; (end = memchr(line, '\n', (size_t)(after - line))) != NULL; line = end + 1) {
        unsigned prefix, rank, i;
        int tail = -1;
        *end = '\0';
        if (sscanf(line, "%u: %u line %u %n", &prefix, &rank, &i, &tail) != 3 || tail < 0)
            fail_msg("a broken line: '%s'", line);
        if (prefix != rank || rank >= RANKS || i != next[rank] || strlen(line + tail) != i % 27)
            fail_msg("line %u of rank %u is '%s'", next[rank % RANKS], rank, line);
        next[rank]++;
    }
    assert_ptr_equal(line, after);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(next[r], LINES);
    mr_launched_free(&l);
}

static void no_prefix_leaves_lines_unchanged(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "printf $RANK.; printf e >&2"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 2;
    c.options.no_prefix = true;
    mr_launched_case(&l, &c);
    mr_launched_wait(&l);
    assert_true(strcmp(l.out, "0.1.") == 0 || strcmp(l.out, "1.0.") == 0);
    assert_string_equal(l.err, "ee");
    mr_launched_free(&l);
}

static void each_rank_has_a_log(void **state)
{
    char folder[] = "/tmp/millrace-test-XXXXXX", path[64], name[96], text[64];
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "echo out $RANK; echo err $RANK >&2"};
    struct mr_launched l;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/new", folder);
    c.options.nproc = 2;
    c.options.nnodes = 2;
    c.options.node_rank = 1;
    c.options.rendezvous = "host:1";
    c.options.log_dir = path;
    for (int again = 0; again < 2; again++) { /* the folder may exist; logs are truncated */
        mr_launched_case(&l, &c);
        mr_launched_wait(&l);
        assert_int_equal(l.end, 0);
        assert_string_equal(l.out, "");
        mr_launched_free(&l);
    }
    for (int r = 2; r < 4; r++) {
        char expected[64];
        snprintf(name, sizeof name, "%s/rank-%d.log", path, r);
        FILE *file = fopen(name, "r");
        assert_non_null(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        snprintf(expected, sizeof expected, "out %d\nerr %d\n", r, r);
        assert_string_equal(text, expected);
        unlink(name);
    }
    snprintf(name, sizeof name, "%s/rank-2.log", path);
    assert_int_equal(mkfifo(name, 0600), 0);
    mr_launched_case(&l, &c);
    mr_launched_wait(&l);
    assert_int_equal(l.status, MR_ERR_IO);
    assert_words(l.error.text, "rank-2.log: not a regular file");
    mr_launched_free(&l);
    unlink(name);
    rmdir(path);

    c.options.log_dir = "/proc/none";
    mr_launched_case(&l, &c);
    mr_launched_wait(&l);
    assert_int_equal(l.status, MR_ERR_IO);
    assert_words(l.error.text, "/proc/none");
    mr_launched_free(&l);
    rmdir(folder);
}

static void only_rank_0_has_stdin(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "read x; echo \"got $x.\""};
    struct mr_launched l;
    int ends[2];
    (void)state;
    c.options.nproc = 3;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "word\n", 5), 5);
    mr_launched_start(&l, mr_launched_run_case, &c, ends[0]);
    close(ends[0]);
    close(ends[1]);
    mr_launched_wait(&l);
    assert_words(l.out, "0: got word.\n");
    assert_words(l.out, "1: got .\n");
    assert_words(l.out, "2: got .\n");
    mr_launched_free(&l);
}

static void program_that_cannot_be_run_is_named(void **state)
{
    static const struct {
        const char *program;
        int end;
        const char *words;
    } cases[] = {
        {"millrace-no-such-program", 127,
         "cannot run 'millrace-no-such-program': No such file or directory"},
        {"/etc/passwd", 126, "cannot run '/etc/passwd': Permission denied"},
        {"/", 126, "cannot run '/': Permission denied"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT, .program = cases[i].program};
        struct mr_launched l;
        c.options.nproc = 2;
        mr_launched_case(&l, &c);
        mr_launched_wait(&l);
        assert_int_equal(l.status, MR_OK);
        assert_int_equal(l.end, cases[i].end);
        assert_int_equal(l.result.exit_status, cases[i].end);
        assert_words(l.err, cases[i].words);
        assert_int_equal(count(l.err, "\n"), 1);
        mr_launched_free(&l);
    }
}

/* In this process, so that a leak is found at its end. */
static void wrong_options_are_refused_by_name(void **state)
{
    static const struct {
        mr_launch_options options;
        const char *words;
    } cases[] = {
        {{.nproc = 0}, "nproc 0 is not 1 to 256"},
        {{.nproc = 257}, "nproc 257 is not 1 to 256"},
        {{.nproc = 1, .nnodes = 70000}, "nnodes 70000"},
        {{.nproc = 1, .nnodes = 2, .rendezvous = "h:1", .node_rank = 2},
         "node_rank 2 is not below nnodes 2"},
        {{.nproc = 1, .node_rank = 1}, "node_rank 1"},
        {{.nproc = 1, .nnodes = 2}, "2 nodes need a rendezvous"},
        {{.nproc = 1, .rendezvous = "host"}, "rendezvous 'host'"},
        {{.nproc = 1, .rendezvous = ":12"}, "rendezvous ':12'"},
        {{.nproc = 1, .rendezvous = "[]:12"}, "rendezvous '[]:12'"},
        {{.nproc = 1, .rendezvous = "::1:12"}, "rendezvous '::1:12'"},
        {{.nproc = 1, .rendezvous = "a b:12"}, "rendezvous 'a b:12'"},
        {{.nproc = 1, .rendezvous = "h:0"}, "'0' is not a port"},
        {{.nproc = 1, .rendezvous = "h:65536"}, "'65536' is not a port"},
        {{.nproc = 1, .rendezvous = "h:+1"}, "'+1' is not a port"},
        {{.nproc = 1, .rendezvous = "h:99999999999999999999"}, "is not a port"},
    };
    char *const argv[] = {(char[]){"true"}, NULL}, *const none[] = {NULL};
    mr_launch_result result = {.struct_size = sizeof result, .rank = 5};
    mr_error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_launch_options o = cases[i].options;
        o.struct_size = sizeof o;
        assert_int_equal(mr_launch(&o, argv, &result, &error), MR_ERR_INVALID);
        assert_words(error.text, cases[i].words);
    }
    mr_launch_options o = MR_LAUNCH_OPTIONS_INIT;
    o.nproc = 1;
    assert_int_equal(mr_launch(NULL, argv, &result, &error), MR_ERR_INVALID);
    assert_int_equal(mr_launch(&o, NULL, &result, &error), MR_ERR_INVALID);
    assert_int_equal(mr_launch(&o, none, &result, &error), MR_ERR_INVALID);
    assert_int_equal(mr_launch(&o, argv, NULL, NULL), MR_ERR_INVALID);
    o.struct_size = 0;
    assert_int_equal(mr_launch(&o, argv, &result, &error), MR_ERR_INVALID);
    assert_words(
        error.text,
        "struct_size of the mr_launch_options is 0: initialise it with MR_LAUNCH_OPTIONS_INIT");
    o.struct_size = sizeof o;
    result.struct_size = 0;
    assert_int_equal(mr_launch(&o, argv, &result, &error), MR_ERR_INVALID);
    assert_words(error.text, "struct_size of the mr_launch_result is 0");
    assert_int_equal(result.rank, 5); /* written on success only */
}

static unsigned count_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void caller_is_unchanged_afterwards(void **state)
{
    char *const argv[] = {(char[]){"true"}, NULL};
    mr_launch_options o = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    sigset_t before, after;
    unsigned n_before = count_descriptors();
    (void)state;
    o.nproc = 2;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    sigprocmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(mr_launch(&o, argv, &result, NULL), MR_OK);
    assert_int_equal(result.exit_status, 0);
    assert_int_equal(result.rank, -1);
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    assert_int_equal(count_descriptors(), n_before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_get_their_identity),
        cmocka_unit_test(monitor_is_found_by_its_process_name),
        cmocka_unit_test(port_is_free_for_rank_0),
        cmocka_unit_test(ranks_of_several_nodes_are_numbered_consecutively),
        cmocka_unit_test(lines_are_whole_and_have_their_rank),
        cmocka_unit_test(long_line_is_split_into_pieces),
        cmocka_unit_test(hundred_thousand_lines_of_8_ranks_arrive),
        cmocka_unit_test(no_prefix_leaves_lines_unchanged),
        cmocka_unit_test(each_rank_has_a_log),
        cmocka_unit_test(only_rank_0_has_stdin),
        cmocka_unit_test(program_that_cannot_be_run_is_named),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(caller_is_unchanged_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
