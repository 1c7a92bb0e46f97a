/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys and values of the store's server, and the gets that wait; the only user is rank_store.c. Both number and
 * bytes have limits. The hash has a random key, so that nobody can choose keys that fall into one chain.
 */
#ifndef COMM_STORE_TABLE_H
#define COMM_STORE_TABLE_H

#include <stdlib.h>
#include <string.h>

#include "comm/store_peer.h"

#define MR_STORE_BUCKETS 16384u
#define MR_STORE_WAITS 256u      /* of one peer */
#define MR_STORE_HIGH (1u << 20) /* while so many bytes wait to go out to a peer, its requests wait too */

struct mr_store_entry {
    struct mr_store_entry *next;
    uint64_t hash;
    uint16_t key_len;
    uint32_t value_len;
    uint8_t bytes[]; /* key, value */
};

/* A get that waits for its key. */
struct mr_store_wait {
    struct mr_store_wait *next;
    struct mr_store_peer *peer;
    uint64_t id;
    uint64_t hash;
    uint16_t key_len;
    uint8_t key[MR_STORE_KEY];
};

struct mr_store_table {
    struct mr_store_entry **buckets;
    size_t total; /* bytes of all entries, with what describes them */
    uint32_t n_keys;
    uint8_t hash_key[16];
    bool is_broken;
    struct mr_store_wait *waits;
};

static inline uint64_t mr_store_table_hash(const struct mr_store_table *table, const uint8_t *key, uint16_t key_len)
{
    uint8_t hash[16];
    mr_store_wire_hash(table->hash_key, key, key_len, hash);
    return mr_store_wire_u64(hash);
}

/* Where the entry hangs; *result is NULL when it is not there. */
static inline struct mr_store_entry **mr_store_table_find(const struct mr_store_table *table, uint64_t hash,
                                                          const uint8_t *key, uint16_t key_len)
{
    struct mr_store_entry **at = &table->buckets[hash % MR_STORE_BUCKETS];
    while (*at && ((*at)->hash != hash || (*at)->key_len != key_len || memcmp((*at)->bytes, key, key_len) != 0))
        at = &(*at)->next;
    return at;
}

static inline void mr_store_table_erase(struct mr_store_table *table, struct mr_store_entry **at)
{
    struct mr_store_entry *entry = *at;
    *at = entry->next;
    table->total -= sizeof *entry + entry->key_len + entry->value_len;
    table->n_keys--;
    free(entry);
}

/* The frame's key and value, in place of what the key had before. NULL when the table is full; it is then as before. */
static inline struct mr_store_entry *mr_store_table_insert(struct mr_store_table *table, uint64_t hash,
                                                           const struct mr_store_frame *frame)
{
    struct mr_store_entry **at = mr_store_table_find(table, hash, frame->key, frame->key_len), *old = *at;
    size_t size = sizeof *old + frame->key_len + frame->value_len;
    size_t before = old ? sizeof *old + old->key_len + old->value_len : 0;
    if (table->total - before + size > MR_STORE_TOTAL || (!old && table->n_keys >= MR_STORE_KEYS))
        return NULL;
    struct mr_store_entry *entry = malloc(size);
    if (!entry)
        return NULL;
    if (old)
        mr_store_table_erase(table, at);
    *entry =
        (struct mr_store_entry){.next = *at, .hash = hash, .key_len = frame->key_len, .value_len = frame->value_len};
    memcpy(entry->bytes, frame->key, frame->key_len);
    if (frame->value_len > 0)
        memcpy(entry->bytes + frame->key_len, frame->value, frame->value_len);
    *at = entry;
    table->total += size;
    table->n_keys++;
    return entry;
}

/* Add the frame's number to the key's, which counts as 0 when it is not there. enum mr_store_code. */
static inline uint8_t mr_store_table_add(struct mr_store_table *table, uint64_t hash,
                                         const struct mr_store_frame *frame, struct mr_store_entry **entry_out)
{
    const struct mr_store_entry *old = *mr_store_table_find(table, hash, frame->key, frame->key_len);
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
    *entry_out = mr_store_table_insert(table, hash, &sum);
    return *entry_out ? MR_STORE_FINE : MR_STORE_FULL;
}

static inline void answer_with(struct mr_store_peer *peer, uint64_t id, const struct mr_store_entry *entry)
{
    mr_store_peer_answer(peer, id, MR_STORE_FINE, entry->bytes + entry->key_len, entry->value_len);
}

static inline void end_wait(struct mr_store_wait **at)
{
    struct mr_store_wait *wait = *at;
    *at = wait->next;
    wait->peer->n_waits--;
    free(wait);
}

/* A rank has broken: who waits now, or asks later for a key that is not there, is told so. */
static inline void mr_store_table_break(struct mr_store_table *table)
{
    table->is_broken = true;
    while (table->waits) {
        mr_store_peer_answer(table->waits->peer, table->waits->id, MR_STORE_PEER_BROKEN, NULL, 0);
        end_wait(&table->waits);
    }
}

static inline void mr_store_table_forget(struct mr_store_table *table, const struct mr_store_peer *peer)
{
    for (struct mr_store_wait **at = &table->waits; *at;) {
        if ((*at)->peer == peer)
            end_wait(at);
        else
            at = &(*at)->next;
    }
}

/* Answer the waits whose key is there: for one key, or of one peer (then entry is NULL). */
static inline void mr_store_table_serve(struct mr_store_table *table, const struct mr_store_entry *entry,
                                        const struct mr_store_peer *peer)
{
    for (struct mr_store_wait **at = &table->waits; *at;) {
        struct mr_store_wait *wait = *at;
        const struct mr_store_entry *found = entry;
        if (!entry && wait->peer == peer)
            found = *mr_store_table_find(table, wait->hash, wait->key, wait->key_len);
        if (found && wait->hash == found->hash && wait->key_len == found->key_len &&
            memcmp(wait->key, found->bytes, wait->key_len) == 0 && wait->peer->out.len < MR_STORE_HIGH) {
            answer_with(wait->peer, wait->id, found);
            end_wait(at);
        } else {
            at = &wait->next;
        }
    }
}

static void add_wait(struct mr_store_table *table, struct mr_store_peer *peer, uint64_t hash,
                     const struct mr_store_frame *frame)
{
    struct mr_store_wait *wait = peer->n_waits < MR_STORE_WAITS ? malloc(sizeof *wait) : NULL;
    if (!wait) {
        mr_store_peer_answer(peer, frame->id, MR_STORE_TOO_MANY, NULL, 0);
        return;
    }
    *wait = (struct mr_store_wait){
        .next = table->waits, .peer = peer, .id = frame->id, .hash = hash, .key_len = frame->key_len};
    memcpy(wait->key, frame->key, frame->key_len);
    table->waits = wait;
    peer->n_waits++;
}

static void on_set(struct mr_store_table *table, struct mr_store_peer *peer, uint64_t hash,
                   const struct mr_store_frame *frame)
{
    const struct mr_store_entry *entry = mr_store_table_insert(table, hash, frame);
    mr_store_peer_answer(peer, frame->id, entry ? MR_STORE_FINE : MR_STORE_FULL, NULL, 0);
    if (entry)
        mr_store_table_serve(table, entry, NULL);
}

static void on_get(struct mr_store_table *table, struct mr_store_peer *peer, uint64_t hash,
                   const struct mr_store_frame *frame)
{
    const struct mr_store_entry *entry = *mr_store_table_find(table, hash, frame->key, frame->key_len);
    if (entry)
        answer_with(peer, frame->id, entry);
    else if (table->is_broken)
        mr_store_peer_answer(peer, frame->id, MR_STORE_PEER_BROKEN, NULL, 0);
    else
        add_wait(table, peer, hash, frame);
}

static void on_add(struct mr_store_table *table, struct mr_store_peer *peer, uint64_t hash,
                   const struct mr_store_frame *frame)
{
    struct mr_store_entry *entry = NULL;
    uint8_t code = mr_store_table_add(table, hash, frame, &entry);
    if (code != MR_STORE_FINE) {
        mr_store_peer_answer(peer, frame->id, code, NULL, 0);
        return;
    }
    answer_with(peer, frame->id, entry);
    mr_store_table_serve(table, entry, NULL);
}

static void on_remove(struct mr_store_table *table, struct mr_store_peer *peer, uint64_t hash,
                      const struct mr_store_frame *frame)
{
    struct mr_store_entry **at = mr_store_table_find(table, hash, frame->key, frame->key_len);
    if (*at)
        mr_store_table_erase(table, at);
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

/* What a peer asks for; what is no request dooms it. */
static inline void mr_store_table_request(struct mr_store_table *table, struct mr_store_peer *peer,
                                          const struct mr_store_frame *frame)
{
    if (!mr_store_wire_is_request(frame)) {
        mr_store_peer_doom(peer, MR_STORE_NONSENSE);
        return;
    }
    uint64_t hash = mr_store_table_hash(table, frame->key, frame->key_len);
    switch (frame->kind) {
    case MR_STORE_SET: on_set(table, peer, hash, frame); break;
    case MR_STORE_GET: on_get(table, peer, hash, frame); break;
    case MR_STORE_ADD: on_add(table, peer, hash, frame); break;
    case MR_STORE_REMOVE: on_remove(table, peer, hash, frame); break;
    case MR_STORE_CANCEL: on_cancel(table, peer, frame->id); break;
    case MR_STORE_BEAT: mr_store_peer_put(peer, &(struct mr_store_frame){.kind = MR_STORE_BEAT}); break;
    default: mr_store_peer_doom(peer, MR_STORE_FINE); break;
    }
}

static inline int mr_store_table_init(struct mr_store_table *table)
{
    *table = (struct mr_store_table){.buckets = calloc(MR_STORE_BUCKETS, sizeof(struct mr_store_entry *))};
    return table->buckets ? mr_store_wire_random(table->hash_key, sizeof table->hash_key) : -1;
}

static inline void mr_store_table_fini(struct mr_store_table *table)
{
    for (uint32_t b = 0; table->buckets && b < MR_STORE_BUCKETS; b++)
        while (table->buckets[b])
            mr_store_table_erase(table, &table->buckets[b]);
    free(table->buckets);
    table->buckets = NULL;
}

#endif
