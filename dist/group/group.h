/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group from inside: what its files share.
 *
 * A group whose engine works on the host's memory has two threads: the runner takes collectives in
 * the order of the program and calls the engine; the watch looks every 50 ms whether a rank broke
 * off or the time is over, and then tells the engine to stop. A blocking call that finds nothing
 * under way runs the engine in the caller's thread, which saves two changes of thread. A group
 * whose engine works on a device has the watch alone: device_watch.h.
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

#define MR_GROUP_PREFIX 32         /* bytes of a key that belong to the group */
#define MR_GROUP_DEVICE 64         /* bytes of a device's name */
#define MR_GROUP_WHOLE_PREFIX "g/" /* of the keys of a group that was not split from another */

/*
 * The connection to the store; shared by a group and all that were split from it, and left by the
 * last of them.
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
    uint32_t device_rank; /* local rank in the whole world: engines find "cuda:local" by it */
    int32_t ordinal;      /* of an engine of a device: N of its "cuda:N" */
    pid_t pid;            /* the process that may use it */
    bool is_checked;      /* MR_COMM_CHECK=1 */
    bool has_threads;
    uint32_t *world_ranks; /* the number in the store's world of each rank of this group; errors
                              name that one */
    char backend[16];
    char device[MR_GROUP_DEVICE];
    void *adopt;
    char prefix[MR_GROUP_PREFIX]; /* of all its keys in the store */
    struct mr_group_home *home;
    const struct mr_engine_table *table; /* NULL: a world of one without an engine */
    void *engine;
    struct mr_device_works *device_works; /* of an engine of a device; else NULL */
    pthread_t runner;
    pthread_t watch;

    /* Of the caller's thread. */
    mr_error error;         /* of the last call that failed */
    uint64_t n_collectives; /* so far */
    uint64_t n_splits;
    uint64_t *n_sent; /* to each rank: what passes between two ranks has numbers of its own */
    uint64_t *n_received;

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;      /* for the runner: a work came, the engine is free, or the end */
    pthread_cond_t ended;        /* for callers: a work ended, the engine is free, or the runner is
                                    gone */
    pthread_cond_t quit;         /* for the watch: the end; of a device's engine also a failure, and
                                    the end of an issue */
    struct mr_group_work *first; /* in the order of the program; without the current one */
    struct mr_group_work *last;
    struct mr_group_work *current; /* the runner's; NULL again when the watch has given it up */
    bool is_busy;                  /* the engine is in use, by the runner or by a caller */
    bool is_given_up;              /* the engine does not come back and is never touched again */
    bool is_closing;
    bool has_canceled; /* destroy ended works that were under way */
    bool runner_is_gone;
    bool is_dead; /* dead is what every further call returns */
    mr_error dead;
    bool has_failed;      /* with is_dead, or about to: the engine did not do its part, or this rank
                             cannot do its own. Else a dead group is one that all ranks end by the
                             same word, and its engine ends in good order */
    uint64_t deadline_ns; /* of the current collective; 0: none */
    struct mr_collective running; /* the current one, while there is a deadline */
    uint64_t noted;               /* the highest number that late_ranks.c has noted */
    uint64_t stopped_ns;          /* when stop was set; 0: it is not */
    uint32_t stop;                /* read by the engine without the lock: __atomic builtins */
    uint32_t n_references;        /* the handle, the runner or a device's watch, each work of the
                                     user */
    struct mr_group_key *keys;
};

static inline struct mr_store_client *mr_group_client(const struct mr_group *group)
{
    return group->home->rendezvous.client;
}

/* A group without an engine, one reference. It takes over one count of home->n_groups. */
mr_status mr_group_new(struct mr_group_home *home, uint32_t rank, uint32_t world_size,
                       struct mr_group **group_out, mr_error *error);
/*
 * For the caller's thread: may this process use it, and is it alive? Otherwise mr_group_error()
 * says why not.
 */
mr_status mr_group_enter(struct mr_group *group);
/* One reference less; the last one frees the group. */
void mr_group_drop(struct mr_group *group);
/* Is its engine one of a device? NULL is a world of one. */
bool mr_group_on_device(const struct mr_group *group);
/*
 * After its engine was made: which device is it? Groups that are split from this one have the same.
 */
void mr_group_find_device(struct mr_group *group);
/* Ranks of this group that broke off or fell silent; the words name them all. */
bool mr_group_broken(struct mr_group *group, mr_error *error_out);
/* "rank 3 has left the group", "ranks 1, 3 have left the group", or "". Asks the store. */
void mr_group_left(struct mr_group *group, char words_out[MR_COLLECTIVE_WORDS]);
/*
 * Tell the store that this rank leaves. Bounded: where the store does not answer, the others see
 * the connection end; false then.
 */
bool mr_group_say_left(struct mr_group *group);

#endif
