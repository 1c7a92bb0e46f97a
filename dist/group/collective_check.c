/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MR_COMM_CHECK=1: before each collective every rank that takes part writes a description of its
 * call into the store. The leader (rank 0, or the sender) compares them, and all ranks return its
 * verdict. It is a debugging aid and costs some ten milliseconds per collective.
 *
 * A rank that waits here must still end when the group is stopped, so it queries the store
 * repeatedly, each time for a short while.
 *
 * Invariant: the keys of a collective are removed only after all ranks have read them, which is
 * known one collective later.
 */
#include "dist/group/collective_check.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "dist/group/collective_words.h"

#define MS 1000000u     /* ns */
#define SLICE_MS 100u   /* waiting time between two checks of stop */
#define PRESENT_MS 200u /* to read a key that may exist: the rank with the store may be busy */
#define WORDS (MR_ERROR_TEXT - 100)

/* One check. Ranks are the group's ranks. If is_pair, only pair[] takes part, else all n ranks. */
struct check {
    struct mr_group *group;
    const struct mr_collective *collective;
    uint32_t pair[2]; /* sender, receiver */
    bool is_pair;
    uint32_t n;
    uint64_t deadline_ns;
};

static uint32_t get_rank(const struct check *check, uint32_t i)
{
    return check->is_pair ? check->pair[i] : i;
}

static uint32_t get_world_rank(const struct check *check, uint32_t i)
{
    return check->group->world_ranks[get_rank(check, i)];
}

static void begin_check(struct check *check, struct mr_group *group, const struct mr_collective *c,
                        uint64_t deadline_ns)
{
    bool sends = c->kind == MR_COLLECTIVE_SEND;
    *check = (struct check){.group = group,
                            .collective = c,
                            .is_pair = sends || c->kind == MR_COLLECTIVE_RECV,
                            .n = group->world_size,
                            .deadline_ns = deadline_ns};
    if (!check->is_pair)
        return;
    check->n = 2;
    check->pair[0] = sends ? group->rank : c->root;
    check->pair[1] = sends ? c->root : group->rank;
}

/* The key of a rank's description (what is "") or of the verdict ("v") of collective `number`. */
static void format_key(const struct check *check, uint64_t number, const char *what, uint32_t i,
                       char key_out[MR_STORE_KEY + 1])
{
    if (check->is_pair)
        snprintf(key_out, MR_STORE_KEY + 1, "%sp%u.%u/%llu/%s%u", check->group->prefix,
                 check->pair[0], check->pair[1], (unsigned long long)number, what, i);
    else
        snprintf(key_out, MR_STORE_KEY + 1, "%sc/%llu/%s%u", check->group->prefix,
                 (unsigned long long)number, what, i);
}

/* Both ends of a message write the same text. */
static void describe_call(const struct check *check, char words_out[MR_COLLECTIVE_WORDS])
{
    struct mr_collective asked = *check->collective;
    if (check->is_pair) {
        asked.kind = MR_COLLECTIVE_SEND;
        asked.root = check->pair[1];
    }
    mr_collective_words_describe(&asked, false, words_out);
}

/*
 * Reads a text from the store and adds a zero. Waits until the deadline, or until the group is
 * stopped.
 */
static mr_status read_text(const struct check *check, const char *key, uint64_t deadline_ns,
                           char *text_out, uint32_t size, mr_error *error)
{
    for (;;) {
        uint32_t len = 0;
        uint64_t until = mr_clock_now_ns() + SLICE_MS * (uint64_t)MS;
        uint64_t limit = until < deadline_ns ? until : deadline_ns;
        mr_status status = mr_store_get(mr_group_client(check->group), key, text_out, size - 1,
                                        &len, limit, error);
        if (!status) {
            text_out[len] = '\0';
            return MR_OK;
        }
        if (__atomic_load_n(&check->group->stop, __ATOMIC_ACQUIRE))
            return MR_ERR_CANCELED; /* a rank was lost, or the group is being destroyed */
        if (status != MR_ERR_TIMEOUT)
            return MR_ERR_IO;
        if (mr_clock_now_ns() >= deadline_ns)
            return MR_ERR_TIMEOUT;
    }
}

static mr_status write_text(const struct check *check, const char *key, const char *text,
                            mr_error *error)
{
    mr_status status =
        mr_store_set(mr_group_client(check->group), key, text, (uint32_t)strlen(text), error);
    return status ? MR_ERR_IO : MR_OK;
}

static void append_words(char *text, const char *words)
{
    size_t len = strlen(text);
    snprintf(text + len, WORDS - len, "%s%s", len ? ", " : "", words);
}

/* Names the ranks that have not written their description; "" if all have. */
static mr_status find_missing(const struct check *check, char missing_out[WORDS], mr_error *error)
{
    missing_out[0] = '\0';
    for (uint32_t i = 0; i < check->n; i++) {
        char key[MR_STORE_KEY + 1];
        char text[MR_COLLECTIVE_WORDS];
        char words[32];
        format_key(check, check->collective->number, "", i, key);
        mr_status status = read_text(check, key, mr_clock_now_ns() + PRESENT_MS * (uint64_t)MS,
                                     text, sizeof text, error);
        snprintf(words, sizeof words, "rank %u", get_world_rank(check, i));
        if (status == MR_ERR_TIMEOUT)
            append_words(missing_out, words);
        else if (status)
            return status;
    }
    return MR_OK;
}

static mr_status fail_missing(const struct check *check, mr_error *error)
{
    char what[MR_COLLECTIVE_WORDS];
    char time[MR_COLLECTIVE_WORDS];
    char missing[WORDS];
    mr_status status = find_missing(check, missing, error);
    if (status)
        return status;
    mr_collective_words_describe(check->collective, true, what);
    mr_collective_words_time(check->group->timeout_ms, time);
    return mr_error_set(error, MR_ERR_TIMEOUT, "%s timed out after %s: %s%s", what, time,
                        missing[0] ? missing : "all have joined, but too late for this rank",
                        missing[0] ? " did not join" : "");
}

/*
 * For the leader. verdict_out is "" if all calls are equal. MR_ERR_TIMEOUT: not all ranks have
 * joined.
 */
static mr_status compare_calls(const struct check *check, const char *own, char verdict_out[WORDS],
                               mr_error *error)
{
    char differ[WORDS] = "";
    for (uint32_t i = 1; i < check->n; i++) {
        char key[MR_STORE_KEY + 1];
        char text[MR_COLLECTIVE_WORDS];
        char words[2 * MR_COLLECTIVE_WORDS];
        format_key(check, check->collective->number, "", i, key);
        mr_status status = read_text(check, key, check->deadline_ns, text, sizeof text, error);
        if (status)
            return status;
        snprintf(words, sizeof words, "rank %u calls %s", get_world_rank(check, i), text);
        if (strcmp(text, own) != 0)
            append_words(differ, words);
    }
    verdict_out[0] = '\0';
    if (differ[0])
        snprintf(verdict_out, WORDS, "ranks differ in call %llu: rank %u calls %s, %.700s",
                 (unsigned long long)check->collective->number, get_world_rank(check, 0), own,
                 differ);
    return MR_OK;
}

/* All ranks have written for this collective, so all have read the verdict on the previous one. */
static void remove_previous(const struct check *check)
{
    char key[MR_STORE_KEY + 1];
    uint64_t number = check->collective->number - 1;
    for (uint32_t i = 0; i < check->n && number > 0; i++) {
        format_key(check, number, "", i, key);
        (void)mr_store_remove(mr_group_client(check->group), key, NULL);
    }
    format_key(check, number, "v", 0, key);
    if (number > 0)
        (void)mr_store_remove(mr_group_client(check->group), key, NULL);
}

static mr_status lead_check(const struct check *check, const char *own, char verdict_out[WORDS],
                            mr_error *error)
{
    char key[MR_STORE_KEY + 1];
    mr_status status = compare_calls(check, own, verdict_out, error);
    if (status)
        return status;
    remove_previous(check);
    format_key(check, check->collective->number, "v", 0, key);
    return write_text(check, key, verdict_out, error);
}

mr_status mr_collective_check_run(struct mr_group *group, const struct mr_collective *collective,
                                  uint64_t deadline_ns, mr_error *error)
{
    struct check check;
    char key[MR_STORE_KEY + 1];
    char own[MR_COLLECTIVE_WORDS];
    char verdict[WORDS];
    if (!mr_group_client(group))
        return MR_OK;
    begin_check(&check, group, collective, deadline_ns);
    describe_call(&check, own);
    uint32_t i = check.is_pair ? check.pair[0] != group->rank : group->rank;
    format_key(&check, collective->number, "", i, key);
    mr_status status = write_text(&check, key, own, error);
    format_key(&check, collective->number, "v", 0, key);
    if (!status && i == 0)
        status = lead_check(&check, own, verdict, error);
    else if (!status)
        status = read_text(&check, key, deadline_ns, verdict, sizeof verdict, error);
    if (status == MR_ERR_TIMEOUT)
        return fail_missing(&check, error);
    if (!status && verdict[0])
        return mr_error_set(error, MR_ERR_PEER, "%s", verdict);
    return status;
}
