/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Used by every part: statuses, the error record, log lines, seeds, the time and the version.
 *
 * A status of zero is success. A positive status is a normal outcome that is not success. A
 * negative status is a failure.
 *
 * Every handle (mr_batch, mr_dataset, mr_group, mr_group_work, mr_loader, mr_metrics, mr_sampler,
 * mr_transform) may be NULL. Functions that free or release it then do nothing and return MR_OK.
 * Other functions that return an mr_status return MR_ERR_INVALID. mr_loader_error() and the like
 * return an error that says that the handle is NULL. All other functions return 0, NULL, "", or
 * what their comment names. For functions that say so, a NULL mr_group is a world of one.
 *
 * Structs: initialise a struct that begins with struct_size by its MR_..._INIT, whether you or the
 * library fill in the other fields. mr_..._init(struct, size) does the same for languages without
 * macros: it sets size bytes to zero and struct_size to size, the size of the caller's struct. It
 * does nothing for NULL. Fields called reserved, or reserved_..., must be 0 in structs that you
 * fill in, and are 0 in structs that the library fills in.
 *
 * Later versions add fields at a struct's end or in place of reserved ones. Programs that were
 * compiled with earlier headers keep working, because struct_size says which fields they know. The
 * library writes no more than struct_size bytes. It returns MR_ERR_INVALID for a size of 0 and for
 * a size above its own. An options struct may be larger than the library's if the fields that the
 * library does not know are zero. In structs that callbacks receive (mr_sample, mr_pack_progress)
 * the library sets the size. mr_error and mr_device never change. mr_array may get fields at its
 * end; only the library makes one.
 */
#ifndef MILLRACE_STATUS_H
#define MILLRACE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MR_API __attribute__((visibility("default")))
#define MR_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define MR_API
#define MR_PRINTF(at, first)
#endif

/* MR_..._INIT expands to this: every field zero, struct_size set. */
#if defined(__cplusplus)
#define MR_STRUCT_INIT(type)                                                                       \
    [] {                                                                                           \
        type value_{};                                                                             \
        value_.struct_size = sizeof(type);                                                         \
        return value_;                                                                             \
    }()
#else
#define MR_STRUCT_INIT(type)                                                                       \
    {                                                                                              \
        .struct_size = sizeof(type)                                                                \
    }
#endif

#define MR_VERSION_MAJOR 0
#define MR_VERSION_MINOR 1
#define MR_VERSION_PATCH 0
#define MR_VERSION "0.1.0"
/* As mr_version_number(), but of the headers. */
#define MR_VERSION_NUMBER (MR_VERSION_MAJOR * 10000 + MR_VERSION_MINOR * 100 + MR_VERSION_PATCH)

/** Outcome of a call. Failures are grouped by what the caller can do about them. */
typedef enum mr_status {
    MR_OK = 0,
    MR_END = 1,              /* the epoch has no further batch */
    MR_PENDING = 2,          /* the time ran out; call again */
    MR_ERR_INVALID = -1,     /* an argument or option is wrong: correct the call */
    MR_ERR_NO_MEMORY = -2,   /* memory, or a limit on it, is too small: request less */
    MR_ERR_IO = -3,          /* the operating system refused; os_error says why */
    MR_ERR_DAMAGED = -4,     /* a sample cannot be decoded or read: choose skip or zero, or
                                repair it */
    MR_ERR_UNSUPPORTED = -5, /* this build or this machine cannot do it */
    MR_ERR_WORKER = -6,      /* the workers cannot continue; the loader has ended */
    MR_ERR_CANCELED = -7,    /* mr_loader_cancel() was called */
    MR_ERR_STATE = -8,       /* not allowed now, for example in a forked child */
    MR_ERR_NO_DEVICE = -9,   /* the device does not exist */
    MR_ERR_DEVICE = -10,     /* the device failed */
    MR_ERR_TIMEOUT = -11,    /* other ranks did not arrive or answer in time */
    MR_ERR_PEER = -12        /* another rank disconnected, fell silent, or differs in what must
                                be the same */
} mr_status;

/** Value of a timeout_ms argument: wait without limit. */
#define MR_FOREVER UINT32_MAX

/** Index of an error that is not about a sample, and of a position outside a sampler's order. */
#define MR_NO_INDEX (-1)
#define MR_ERROR_TEXT 1000

/**
 * The record of a failure, with one line of text. It holds no pointers, so it can be copied, also
 * into shared memory.
 *
 * Every function that takes an mr_error * accepts NULL. The record is valid only if the function
 * has failed.
 */
typedef struct mr_error {
    int32_t status;   /* an mr_status */
    int32_t os_error; /* errno of the failed call, 0 if none */
    int64_t index;    /* dataset index of the sample, MR_NO_INDEX if none */
    char text[MR_ERROR_TEXT];
} mr_error;

/** Name of a status, for example "MR_ERR_DAMAGED". Never NULL. */
MR_API const char *mr_status_name(mr_status status);

/** Importance of a log line. */
typedef enum mr_log_level { MR_LOG_ERROR = 1, MR_LOG_WARNING = 2, MR_LOG_INFO = 3 } mr_log_level;

/**
 * A function that receives one log line, without a newline. Threads: called from any thread of this
 * process.
 */
typedef void (*mr_log_fn)(void *user, mr_log_level level, const char *line);

/**
 * Send the log lines of libmillrace and libmillrace-dist to fn; NULL restores stderr ("millrace:
 * warning: ...").
 *
 * Threads: call it before any loader or group is created.
 */
MR_API void mr_log_set(mr_log_fn fn, void *user);

/**
 * Store log lines in memory for mr_log_take(), instead of calling a function. It is for bindings to
 * languages whose functions cannot be called from any thread. 64 lines are stored; later lines are
 * dropped and counted. A call drops the lines stored so far. A forked child must call it again,
 * before any other function of the library. Threads: as mr_log_set().
 */
MR_API void mr_log_queue(void);

/**
 * Take the oldest line that mr_log_queue() has stored, without a newline. If later lines were
 * dropped, one more line counts them.
 *
 * line_out  at most size bytes with the final NUL; 1200 are enough
 * len_out   NULL, or receives the line's length without the NUL; size or more: it was cut
 * Returns MR_OK; MR_END if there is none; MR_ERR_INVALID. Threads: any.
 */
MR_API mr_status mr_log_take(mr_log_level *level_out, char *line_out, size_t size, size_t *len_out);

/**
 * Derive a seed for one purpose ("sampler", "init", ...) from the seed of a run. It is the same on
 * all ranks; mr_group_seed() in run.h gives each rank a different one. No two purposes or ranks
 * share a stream (Philox, by counter).
 *
 * The rule never changes, so other programs can compute it. key = {seed, 0}; for every 32 bytes of
 * the purpose, padded with zeros, as four little-endian words w: key = the first two words of
 * Philox4x64-10(counter w, key). The seed is the first word of Philox4x64-10(counter {bytes of the
 * purpose, tag, 0, 0}, key), where tag is 0, or rank + 1 for one rank's. mr_seed(0, "sampler") is
 * 0xeb915d626e1f6d4c. purpose NULL is "".
 */
MR_API uint64_t mr_seed(uint64_t seed, const char *purpose);

/**
 * Seconds since the process began, by the monotonic clock. The kernel reports the start to 10 ms.
 * Threads: any.
 */
MR_API double mr_elapsed(void);

/**
 * Find the name closest to a misspelled word, for "did you mean". It is for programs with options
 * of their own, such as the command millrace; the library's errors already name the closest word.
 *
 * At most a third of the word's letters, rounded up, may be wrong, missing, too many, or swapped
 * with the next one. The case of A to Z does not matter. Names of fewer than 3 or more than 31
 * letters are ignored. Returns NULL if no name is close enough, or if word is NULL. Threads: any.
 */
MR_API const char *mr_nearest_name(const char *word, const char *const *names, size_t n);

/**
 * Read the value of a constant of these headers, for bindings that cannot read macros. The constant
 * is an enumerator or a number ("MR_ERR_DAMAGED", "MR_FOREVER", "MR_NO_WORKERS"), or the size of a
 * struct ("sizeof(mr_loader_options)").
 *
 * MR_..._INIT makes a struct of zeros with its size in the first field. Returns MR_OK;
 * MR_ERR_INVALID for an unknown name: *value_out is not written. Threads: any.
 */
MR_API mr_status mr_constant(const char *name, int64_t *value_out);

/** Version of the linked library, for example "0.1.0". */
MR_API const char *mr_version(void);

/**
 * Version of the linked library as a number: major * 10000 + minor * 100 + patch, for example 100
 * for "0.1.0".
 */
MR_API uint32_t mr_version_number(void);

/**
 * Features of the linked library in one line, for example "io_uring jpeg png bmp ppm tiff webp voc
 * coco libdeflate no-cuda".
 */
MR_API const char *mr_features(void);

#ifdef __cplusplus
}
#endif

#endif
