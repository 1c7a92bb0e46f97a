/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a group: the state that its files share.
 *
 * A group whose engine works on host memory has two threads. The runner takes collectives in
 * program order and calls the engine. The watch checks every 50 ms whether a rank was lost or the
 * deadline has passed, and then tells the engine to stop. If no collective is under way, a blocking
 * call runs the engine in the caller's thread, which saves two thread switches. A group whose
 * engine works on a device has only the watch: device_watch.h.
 */
#ifndef DIST_GROUP_GROUP_H
#define DIST_GROUP_GROUP_H

#include "dist/group/collective_words.h"
#include "dist/group/engine_table.h"
#include "dist/rendezvous/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#define MR_GROUP_PREFIX 32         /* bytes of a group's key prefix */
#define MR_GROUP_DEVICE 64         /* bytes of a device's name */
#define MR_GROUP_WHOLE_PREFIX "g/" /* key prefix of a group that was not split from another */

/*
 * The connection to the store. A group and all groups that were split from it share it; the last
 * one closes it.
 */
struct mr_group_home {
    atomic_uint n_groups;
    struct mr_rendezvous rendezvous;
};

struct mr_group_work;   /* work_state.h */
struct mr_device_works; /* device_work.h */
struct mr_group_key;    /* group_keys.c */

struct mr_group {
    /* Constant after creation. */
    uint32_t rank;
    uint32_t world_size;
    uint32_t local_rank;
    uint32_t local_world_size;
    uint32_t node;
    uint32_t timeout_ms;
    uint32_t device_rank; /* local rank in the whole world; engines use it for "cuda:local" */
    int32_t ordinal;      /* of a device engine: N of its "cuda:N" */
    pid_t pid;            /* the process that created it, and may use it */
    bool is_checked;      /* MR_COMM_CHECK=1 */
    bool has_threads;
    uint32_t *
        world_ranks; /* of each rank of this group, its rank in the store's world; errors name it */
    char backend[16];
    char device[MR_GROUP_DEVICE];
    void *adopt;
    char prefix[MR_GROUP_PREFIX]; /* prefix of all its keys in the store */
    struct mr_group_home *home;
    const struct mr_engine_table *table; /* NULL: one rank, without an engine */
    void *engine;
    struct mr_device_works *device_works; /* of a device engine; else NULL */
    pthread_t runner;
    pthread_t watch;

    /* Used by the caller's thread. */
    mr_error error;         /* of the last failed call */
    uint64_t n_collectives; /* so far */
    uint64_t n_splits;
    uint64_t *n_sent; /* to each rank: messages between two ranks are counted separately */
    uint64_t *n_received;

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t
        changed; /* for the runner: a work was added, the engine is free, or the group closes */
    pthread_cond_t
        ended; /* for callers: a work ended, the engine is free, or the runner has ended */
    pthread_cond_t
        quit; /* for the watch: the group closes; on a device also a failure, or an issue ended */
    struct mr_group_work *first; /* in program order, without the current one */
    struct mr_group_work *last;
    struct mr_group_work *current; /* the runner's; set to NULL if the watch gave it up */
    bool is_busy;                  /* the engine is in use, by the runner or by a caller */
    bool is_given_up;              /* the engine does not return, and is not touched again */
    bool is_closing;
    bool has_canceled; /* destroy ended works that had not completed */
    bool runner_is_gone;
    bool is_dead; /* every further call returns dead */
    mr_error dead;
    /*
     * Set with is_dead or shortly before: the engine failed, or this rank cannot do its part. If a
     * group is dead without it, all ranks end the group for the same reason, and the engine is
     * closed in order.
     */
    bool has_failed;
    uint64_t deadline_ns;         /* of the current collective; 0: none */
    struct mr_collective running; /* the current one, while deadline_ns is set */
    uint64_t noted;               /* the highest number that late_ranks.c has noted */
    uint64_t stopped_ns;          /* when stop was set; 0: it is not set */
    uint32_t stop;                /* read by the engine without the lock: __atomic builtins */
    uint32_t n_references; /* the handle, the runner or a device's watch, each work of the user */
    struct mr_group_key *keys;
};

static inline struct mr_store_client *mr_group_client(const struct mr_group *group)
{
    return group->home->rendezvous.client;
}

/*
 * Create a group without an engine, with one reference. Ownership: takes one count of
 * home->n_groups.
 */
mr_status mr_group_new(struct mr_group_home *home, uint32_t rank, uint32_t world_size,
                       struct mr_group **group_out, mr_error *error);
/*
 * For the caller's thread: may this process use the group, and is it alive? If not,
 * mr_group_error() has the reason.
 */
mr_status mr_group_enter(struct mr_group *group);
/* Release a reference. The last one frees the group. */
void mr_group_drop(struct mr_group *group);
/* Does its engine work on a device? False for NULL, which is a world of one. */
bool mr_group_on_device(const struct mr_group *group);
/*
 * Ask the engine for its device, after the engine was made. Groups that are split from this one
 * have the same device.
 */
void mr_group_find_device(struct mr_group *group);
/* The ranks of this group that broke or fell silent; the text names them all. */
bool mr_group_broken(struct mr_group *group, mr_error *error_out);
/* Writes "rank 3 has left the group", "ranks 1, 3 have left the group", or "". Asks the store. */
void mr_group_left(struct mr_group *group, char words_out[MR_COLLECTIVE_WORDS]);
/*
 * Report to the store that this rank leaves. Bounded in time. False if the store does not answer;
 * the other ranks then see the connection end.
 */
bool mr_group_say_left(struct mr_group *group);

#endif
