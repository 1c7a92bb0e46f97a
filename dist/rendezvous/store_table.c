/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, values and waiting gets. The keys are in the C library's balanced tree, so that a client
 * cannot choose keys that slow down the other clients.
 *
 * Invariant: no value is queued while MR_STORE_HIGH bytes are queued for that rank. Its get keeps
 * waiting and is served when there is room.
 */
#include "dist/rendezvous/store_table.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    const uint8_t *key; /* points to bytes; in a search, to the key that is looked for */
    uint16_t key_len;
    uint32_t value_len;
    uint8_t bytes[]; /* key, then value */
};

/* A get that waits for its key. */
struct mr_store_wait {
    struct mr_store_wait *next;
    struct mr_store_peer *peer;
    uint64_t id;
    uint16_t key_len;
    uint8_t key[MR_STORE_KEY];
};

static int compare_keys(const void *a, const void *b)
{
    const struct pair *one = a, *other = b;
    if (one->key_len != other->key_len)
        return one->key_len < other->key_len ? -1 : 1;
    return memcmp(one->key, other->key, one->key_len);
}

static size_t get_size(const struct pair *pair)
{
    return sizeof *pair + pair->key_len + pair->value_len;
}

static struct pair *find_pair(const struct mr_store_table *table, const uint8_t *key,
                              uint16_t key_len)
{
    const struct pair sought = {.key = key, .key_len = key_len};
    struct pair *const *at = tfind(&sought, &table->root, compare_keys);
    return at ? *at : NULL;
}

static struct pair *make_pair(const struct mr_store_frame *frame)
{
    struct pair *pair = malloc(sizeof *pair + frame->key_len + frame->value_len);
    if (!pair)
        return NULL;
    *pair =
        (struct pair){.key = pair->bytes, .key_len = frame->key_len, .value_len = frame->value_len};
    memcpy(pair->bytes, frame->key, frame->key_len);
    if (frame->value_len > 0)
        memcpy(pair->bytes + frame->key_len, frame->value, frame->value_len);
    return pair;
}

/*
 * Insert the frame's key and value; replaces an old value. NULL if the table is full, which is then
 * unchanged.
 */
static struct pair *insert_pair(struct mr_store_table *table, const struct mr_store_frame *frame)
{
    struct pair *old = find_pair(table, frame->key, frame->key_len);
    size_t size = sizeof *old + frame->key_len + frame->value_len, before = old ? get_size(old) : 0;
    if (table->total - before + size > MR_STORE_TOTAL || (!old && table->n_keys >= MR_STORE_KEYS))
        return NULL;
    struct pair *pair = make_pair(frame);
    struct pair **at = pair ? tsearch(pair, &table->root, compare_keys) : NULL;
    if (!at) {
        free(pair);
        return NULL;
    }
    *at = pair; /* replaces an old pair of the same key */
    free(old);
    table->total += size - before;
    table->n_keys += !old;
    return pair;
}

/* Add the frame's number to the key's; a missing key counts as 0. Returns an enum mr_store_code. */
static uint8_t add_number(struct mr_store_table *table, const struct mr_store_frame *frame,
                          struct pair **pair_out)
{
    const struct pair *old = find_pair(table, frame->key, frame->key_len);
    struct mr_store_frame sum = *frame;
    uint8_t bytes[8];
    int64_t value = 0;
    if (old && old->value_len != sizeof bytes)
        return MR_STORE_NO_NUMBER;
    if (old)
        value = (int64_t)mr_store_wire_u64(old->bytes + old->key_len);
    if (__builtin_add_overflow(value, (int64_t)mr_store_wire_u64(frame->value), &value))
        return MR_STORE_NO_NUMBER;
    mr_store_wire_put_u64(bytes, (uint64_t)value);
    sum.value = bytes;
    *pair_out = insert_pair(table, &sum);
    return *pair_out ? MR_STORE_FINE : MR_STORE_FULL;
}

/* Waits. */

static void answer_with(struct mr_store_peer *peer, uint64_t id, const struct pair *pair)
{
    mr_store_peer_answer(peer, id, MR_STORE_FINE, pair->bytes + pair->key_len, pair->value_len);
}

static void end_wait(struct mr_store_wait **at)
{
    struct mr_store_wait *wait = *at;
    *at = wait->next;
    wait->peer->n_waits--;
    free(wait);
}

static void add_wait(struct mr_store_table *table, struct mr_store_peer *peer,
                     const struct mr_store_frame *frame)
{
    struct mr_store_wait *wait = peer->n_waits < MR_STORE_WAITS ? malloc(sizeof *wait) : NULL;
    if (!wait) {
        mr_store_peer_answer(peer, frame->id, MR_STORE_TOO_MANY, NULL, 0);
        return;
    }
    *wait = (struct mr_store_wait){
        .next = table->waits, .peer = peer, .id = frame->id, .key_len = frame->key_len};
    memcpy(wait->key, frame->key, frame->key_len);
    table->waits = wait;
    peer->n_waits++;
}

static void serve_key(struct mr_store_table *table, const struct pair *pair)
{
    for (struct mr_store_wait **at = &table->waits; *at;) {
        struct mr_store_wait *wait = *at;
        if (wait->key_len == pair->key_len && memcmp(wait->key, pair->key, wait->key_len) == 0 &&
            wait->peer->out.len < MR_STORE_HIGH) {
            answer_with(wait->peer, wait->id, pair);
            end_wait(at);
        } else {
            at = &wait->next;
        }
    }
}

void mr_store_table_serve(struct mr_store_table *table, const struct mr_store_peer *peer)
{
    for (struct mr_store_wait **at = &table->waits; *at && peer->out.len < MR_STORE_HIGH;) {
        struct mr_store_wait *wait = *at;
        const struct pair *found =
            wait->peer == peer ? find_pair(table, wait->key, wait->key_len) : NULL;
        if (found) {
            answer_with(wait->peer, wait->id, found);
            end_wait(at);
        } else {
            at = &wait->next;
        }
    }
}

void mr_store_table_break(struct mr_store_table *table)
{
    table->is_broken = true;
    while (table->waits) {
        mr_store_peer_answer(table->waits->peer, table->waits->id, MR_STORE_PEER_BROKEN, NULL, 0);
        end_wait(&table->waits);
    }
}

void mr_store_table_forget(struct mr_store_table *table, const struct mr_store_peer *peer)
{
    for (struct mr_store_wait **at = &table->waits; *at;) {
        if ((*at)->peer == peer)
            end_wait(at);
        else
            at = &(*at)->next;
    }
}

/* Requests. */

static void on_set(struct mr_store_table *table, struct mr_store_peer *peer,
                   const struct mr_store_frame *frame)
{
    const struct pair *pair = insert_pair(table, frame);
    mr_store_peer_answer(peer, frame->id, pair ? MR_STORE_FINE : MR_STORE_FULL, NULL, 0);
    if (pair)
        serve_key(table, pair);
}

static void on_get(struct mr_store_table *table, struct mr_store_peer *peer,
                   const struct mr_store_frame *frame)
{
    const struct pair *pair = find_pair(table, frame->key, frame->key_len);
    if (pair)
        answer_with(peer, frame->id, pair);
    else if (table->is_broken)
        mr_store_peer_answer(peer, frame->id, MR_STORE_PEER_BROKEN, NULL, 0);
    else
        add_wait(table, peer, frame);
}

static void on_add(struct mr_store_table *table, struct mr_store_peer *peer,
                   const struct mr_store_frame *frame)
{
    struct pair *pair = NULL;
    uint8_t code = add_number(table, frame, &pair);
    if (code != MR_STORE_FINE) {
        mr_store_peer_answer(peer, frame->id, code, NULL, 0);
        return;
    }
    answer_with(peer, frame->id, pair);
    serve_key(table, pair);
}

static void on_remove(struct mr_store_table *table, struct mr_store_peer *peer,
                      const struct mr_store_frame *frame)
{
    struct pair *pair = find_pair(table, frame->key, frame->key_len);
    if (pair) {
        tdelete(pair, &table->root, compare_keys);
        table->total -= get_size(pair);
        table->n_keys--;
        free(pair);
    }
    mr_store_peer_answer(peer, frame->id, MR_STORE_FINE, NULL, 0);
}

static void on_cancel(struct mr_store_table *table, const struct mr_store_peer *peer, uint64_t id)
{
    for (struct mr_store_wait **at = &table->waits; *at; at = &(*at)->next) {
        if ((*at)->peer == peer && (*at)->id == id) {
            end_wait(at);
            return;
        }
    }
}

void mr_store_table_request(struct mr_store_table *table, struct mr_store_peer *peer,
                            const struct mr_store_frame *frame)
{
    if (!mr_store_wire_is_request(frame)) {
        mr_store_peer_doom(peer, MR_STORE_NONSENSE);
        return;
    }
    switch (frame->kind) {
    case MR_STORE_SET: on_set(table, peer, frame); break;
    case MR_STORE_GET: on_get(table, peer, frame); break;
    case MR_STORE_ADD: on_add(table, peer, frame); break;
    case MR_STORE_REMOVE: on_remove(table, peer, frame); break;
    case MR_STORE_CANCEL: on_cancel(table, peer, frame->id); break;
    case MR_STORE_BEAT:
        mr_store_peer_put(peer, &(struct mr_store_frame){.kind = MR_STORE_BEAT});
        break;
    default: mr_store_peer_doom(peer, MR_STORE_FINE); break;
    }
}

void mr_store_table_fini(struct mr_store_table *table)
{
    tdestroy(table->root, free);
    table->root = NULL;
}
