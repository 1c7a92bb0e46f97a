/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group inside: what group.c, work.c, device_work.c, split.c and check.c share.
 *
 * Two threads belong to a group with an engine of the host: the runner takes collectives in the order of the program
 * and calls the engine; the watch looks every 50 ms whether a rank broke off or the time is over, and then tells the
 * engine to stop. A blocking call that finds nothing under way runs the engine in the caller's thread and spares two
 * changes of thread. A group with an engine of a device has the watch alone: device_work.c.
 */
#ifndef DIST_GROUP_GROUP_H
#define DIST_GROUP_GROUP_H

#include "dist/group/engine_table.h"
#include "dist/rendezvous/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#define MR_GROUP_PREFIX 32 /* bytes of a key that belong to the group */
#define MR_GROUP_DEVICE 64 /* bytes of a device's name */
#define MR_GROUP_WORDS 160 /* "all_reduce 17 (1000 f32, sum)" */

/* The connection to the store; shared by a group and all that were split from it, and left by the last of them. */
struct mr_group_home {
    atomic_uint n_groups;
    struct mr_rendezvous rendezvous;
};

/* A key that this rank has set for an engine. */
struct mr_group_key {
    struct mr_group_key *next;
    uint32_t len; /* of value */
    char name[MR_STORE_KEY + 1];
    unsigned char value[]; /* kept in a world of one only, where it can be got here */
};

struct mr_work {
    struct mr_work *next;
    struct mr_group *group; /* one reference of it, while the user holds the work */
    struct mr_collective collective;
    bool has_ended; /* under the group's lock */
    mr_error error; /* constant once it has ended; its status is the work's */
    /* device_work.c's, under the lock. */
    struct mr_work *before;
    void *ticket;      /* the engine's, while the work is in the list of those under way */
    bool is_listed;    /* in that list */
    bool is_abandoned; /* the user has freed it */
};

struct mr_device_works; /* device_work.h */

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
    pid_t pid;            /* who may use it */
    bool is_checked;      /* MR_COMM_CHECK=1 */
    bool has_threads;
    uint32_t *world_ranks; /* the number in the store's world of each rank of this group; errors name that one */
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
    pthread_cond_t changed; /* for the runner: a work came, the engine is free, or the end */
    pthread_cond_t ended;   /* for callers: a work ended, the engine is free, or the runner is gone */
    pthread_cond_t quit;    /* for the watch: the end; of a device's engine also a failure, and the end of an issue */
    struct mr_work *first;  /* in the order of the program; without the current one */
    struct mr_work *last;
    struct mr_work *current; /* the runner's; NULL again when the watch has given it up */
    bool is_busy;            /* the engine is in use, by the runner or by a caller */
    bool is_given_up;        /* the engine does not come back and is never touched again */
    bool is_closing;
    bool has_canceled; /* destroy ended works that were under way */
    bool runner_is_gone;
    bool is_dead; /* dead is what every further call returns */
    mr_error dead;
    bool has_failed; /* with is_dead, or about to: the engine did not do its part, or this rank cannot do its own. Else
                        a dead group is one that all ranks end by the same word, and its engine ends in good order */
    uint64_t deadline_ns;  /* of the current collective; 0: none */
    uint64_t stopped_ns;   /* when stop was set; 0: it is not */
    uint32_t stop;         /* read by the engine without the lock: __atomic builtins */
    uint32_t n_references; /* the handle, the runner or a device's watch, each work of the user */
    struct mr_group_key *keys;
};

static inline struct mr_store_client *mr_group_client(const struct mr_group *group)
{
    return group->home->rendezvous.client;
}

/* group.c: the parts of creation that a split needs too. A new group takes over one count of home->n_groups. */
mr_status mr_group_new(struct mr_group_home *home, uint32_t rank, uint32_t world_size, struct mr_group **group_out,
                       mr_error *error);
/* For the caller's thread: may this process use it, and is it alive? Otherwise mr_group_error() says why not. */
mr_status mr_group_enter(struct mr_group *group);
void mr_group_drop(struct mr_group *group);
/* Is its engine one of a device? NULL is a world of one. */
bool mr_group_on_device(const struct mr_group *group);
/* After its engine was made: which device is it? Groups that are split from this one have the same. */
void mr_group_find_device(struct mr_group *group);
/* Ranks of this group that broke off or fell silent; the words name them all. */
bool mr_group_broken(struct mr_group *group, mr_error *error_out);
/* "rank 3 has left the group", "ranks 1, 3 have left the group", or "". Asks the store. */
void mr_group_left(struct mr_group *group, char words_out[MR_GROUP_WORDS]);

/* group_keys.c: what engines are given. setup_out points into the group. */
void mr_group_keys_setup(struct mr_group *group, uint64_t deadline_ns, struct mr_engine_setup *setup_out);
/* Forget the keys that this rank has set for engines; removes: from the store too, when all have read them. */
void mr_group_keys_forget(struct mr_group *group, bool removes);

/* work.c */
mr_status mr_work_start_threads(struct mr_group *group, mr_error *error);
/* End what is under way, and the engine. Bounded, also when the engine does not come back. */
void mr_work_stop_threads(struct mr_group *group);
/* Give a collective a number and do it; work_out NULL: wait for it. Arguments have been checked. */
mr_status mr_work_submit(struct mr_group *group, struct mr_collective *collective, struct mr_work **work_out);
/* The engine for the caller's thread alone, after all works; then give it back, sound or not. Returns as a collective.
 */
mr_status mr_work_take_engine(struct mr_group *group, uint64_t deadline_ns);
void mr_work_give_engine(struct mr_group *group, bool is_sound);
/*
 * The group is at its end: error is what all further calls return. Sets mr_group_error(). end: all ranks end it, each
 * by itself, and some may still be in the collective that told them so. fail: this rank alone; what is under way ends,
 * and the others see it break off.
 */
mr_status mr_work_end_group(struct mr_group *group, const mr_error *error);
mr_status mr_work_fail_group(struct mr_group *group, const mr_error *error);

/* For works and the watch, with the lock. */
void mr_work_set_dead(struct mr_group *group, const mr_error *error);
/* Dead, and the engine is not to be relied on. */
void mr_work_set_failed(struct mr_group *group, const mr_error *error);
void mr_work_set_stop(struct mr_group *group);
void mr_work_end(struct mr_group *group, struct mr_work *work, const mr_error *error);
/* How it stands, in the group's words too. */
mr_status mr_work_state(struct mr_work *work);
struct timespec mr_work_time_at(uint64_t ns);

/*
 * device_work.c: the same for engines of devices. Submit only issues. leave gives a work back, and true says that it
 * may be freed; otherwise the list keeps it until it has ended.
 */
mr_status mr_device_work_submit(struct mr_group *group, struct mr_work *work);
mr_status mr_device_work_sync(struct mr_work *work, uint32_t timeout_ms);
mr_status mr_device_work_wait(struct mr_work *work, void *stream);
bool mr_device_work_leave(struct mr_work *work);
void mr_device_work_forget(struct mr_group *group);
/* device_watch.c: the thread of such a group. */
mr_status mr_device_watch_start(struct mr_group *group, mr_error *error);
void mr_device_watch_stop(struct mr_group *group);
/* device_sums.c: sums on the device, of metrics. MR_ERR_UNSUPPORTED where the engine is none of a device's. */
mr_status mr_device_sums_create(struct mr_group *group, uint32_t n, void **sums_out);
mr_status mr_device_sums_add(struct mr_group *group, void *sums, uint32_t at, const void *value, mr_dtype dtype,
                             double count, void *stream);
void mr_device_sums_destroy(struct mr_group *group, void *sums);

/*
 * collectives.c: the library's own, whose few numbers are in the host's memory whatever the engine. sums: of this
 * group's device, to be added, or NULL.
 */
mr_status mr_collectives_all_reduce(struct mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                    mr_reduction op);
mr_status mr_collectives_all_reduce_async(struct mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                          mr_reduction op, void *sums, struct mr_work **work_out);
mr_status mr_collectives_all_gather(struct mr_group *group, const void *in, void *out, uint64_t count, mr_dtype dtype);
/* May a collective of this group use this buffer? Its name is for the words. */
mr_status mr_collectives_check_memory(const struct mr_group *group, const char *name, const void *buffer,
                                      mr_error *error);

/*
 * execute.c: one collective by the engine. The error names it, and the rank that is lost where that is known.
 * *is_verdict_out: MR_ERR_PEER is what check.c tells all ranks, and nothing has begun.
 */
mr_status mr_execute_collective(struct mr_group *group, const struct mr_collective *collective, uint64_t deadline_ns,
                                bool *is_verdict_out, mr_error *error);
/*
 * What the engine said, what the store knows, and which collective it was, in one line. Without the lock; asks the
 * store, for less than a second.
 */
mr_status mr_execute_explain(struct mr_group *group, const struct mr_collective *collective, mr_status status,
                             mr_error *error);
/* "all_reduce 17 (1000 f32, sum)", or without the number. */
void mr_execute_describe(const struct mr_collective *collective, bool with_number, char words_out[MR_GROUP_WORDS]);
/* "600 s", "1500 ms" */
void mr_execute_describe_time(uint32_t ms, char words_out[MR_GROUP_WORDS]);

/*
 * check.c: do all ranks do the same? MR_ERR_PEER and MR_ERR_TIMEOUT are in their final words; MR_ERR_IO is the store's
 * and MR_ERR_CANCELED follows stop.
 */
mr_status mr_check_collective(struct mr_group *group, const struct mr_collective *collective, uint64_t deadline_ns,
                              mr_error *error);

#endif
