/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: batches of a dataset, in the sampler's order, made by worker processes. */
#ifndef MILLRACE_LOADER_H
#define MILLRACE_LOADER_H

#include <millrace/batch.h>
#include <millrace/dataset.h>
#include <millrace/sampler.h>
#include <millrace/transform.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Value of num_workers: no workers; the caller's thread decodes inside mr_loader_next(). */
#define MR_NO_WORKERS UINT32_MAX
/** Value of cache_slowdown: workers fill the cache in idle time only. */
#define MR_CACHE_WHEN_IDLE UINT32_MAX
#define MR_MAX_WORKERS 1024

/** What happens to a damaged sample: one that cannot be read or decoded. */
typedef enum mr_on_error {
    MR_ON_ERROR_FAIL = 0, /* default: mr_loader_next() returns the error in place of the batch */
    MR_ON_ERROR_SKIP = 1, /* the next good dataset index (i + 1, i + 2, ...) takes the sample's
                             place */
    MR_ON_ERROR_ZERO = 2  /* the row is zeros, with mask 0 */
} mr_on_error;

/** How workers are started. */
typedef enum mr_start {
    MR_START_DEFAULT = 0, /* MR_START_EXEC, or MR_START_FORK for callbacks */
    MR_START_EXEC = 1,    /* small helper processes */
    MR_START_FORK = 2,    /* forked from a template process, which mr_loader_create() forks from the
                             program */
    MR_START_THREAD = 3   /* threads of this process: a crash ends the program */
} mr_start;

/** How workers read files. */
typedef enum mr_reader_kind {
    MR_READER_AUTO = 0, /* default: io_uring if the kernel allows it, otherwise pread; worker
                           processes copy short rows of tokens from mapped files (docs/tokens.md) */
    MR_READER_URING = 1,
    MR_READER_PREAD = 2
} mr_reader_kind;

/** What a cache stores for each image file. The batches are the same (docs/cache.md). */
typedef enum mr_cache_form {
    MR_CACHE_FORM_AUTO = 0,  /* default: dct if it fits, otherwise index */
    MR_CACHE_FORM_INDEX = 1, /* an index of each JPEG file, 2.3 % of its bytes: workers read the
                                parts of the file that a crop needs */
    MR_CACHE_FORM_DCT = 2    /* packed samples, 132 % of the files' bytes: the fastest */
} mr_cache_form;

/** CPUs of the workers. */
typedef enum mr_affinity {
    MR_AFFINITY_NONE = 0,   /* default: any CPU that this process may use */
    MR_AFFINITY_SPREAD = 1, /* worker i on the (i mod n)-th of the n CPUs of this process's mask */
    MR_AFFINITY_LIST = 2    /* worker i on affinity_cpus[i mod n_affinity_cpus] */
} mr_affinity;

/**
 * Options of a loader, by subject. Later versions add fields only at the end or in place of
 * reserved bytes, so offsets do not change.
 */
typedef struct mr_loader_options {
    size_t struct_size;

    /* What a batch is */
    uint32_t batch_size;       /* 1 to 65535; 0 means 64 */
    uint32_t dtype;            /* an mr_dtype, of images: MR_U8 (default), MR_F32, MR_F16, MR_BF16.
                                  Pixels of float dtypes are 0 to 1, or as the transform's normalize
                                  makes them */
    uint32_t layout;           /* an mr_layout, of images; default: MR_NCHW */
    uint32_t pad_channels;     /* 4 or 8: pad images with zero channels to this number; 0: no
                                  padding */
    uint32_t soft_labels;      /* if the transform mixes rows (docs/formats.md): number of classes
                                  of the array "soft_label", up to 2^20; 0: no such array. At least
                                  the dataset's number of classes, if that is known */
    bool drop_last;            /* leave out a last batch that is not full; not with MR_TAIL_EXACT */
    bool allow_empty_epoch;    /* accept epochs of 0 batches: a dataset smaller than a batch with
                                  drop_last, or than world_size with MR_TAIL_DROP; default:
                                  mr_loader_create() returns MR_ERR_INVALID */
    bool ragged;               /* each image keeps its own size: "image" has one dimension, and
                                  "image.offsets" and "image.shape" describe its rows (batch.h).
                                  Needs max_row_bytes; not with operations that erase or mix, nor
                                  with pad_channels. Floats are made by the workers, for every
                                  device. Default: rows are equal */
    uint8_t reserved_batch[1]; /* 0, as all fields reserved_... */
    uint64_t max_row_bytes;    /* with ragged: room for each image, 1 to 2^31; an image with more
                                  bytes (height x width x channels x bytes of an element) is
                                  damaged. A multiple of an element's bytes */

    /* Order and shard */
    uint32_t rank;         /* 0 to world_size - 1 */
    uint32_t world_size;   /* 0 means 1 */
    uint32_t tail;         /* an mr_tail; default: MR_TAIL_PAD */
    uint32_t order;        /* an mr_order; default: MR_ORDER_TORCH */
    uint64_t seed;         /* of the order and of all random draws; default: 0 */
    uint64_t epoch;        /* the first epoch of the loader; default: 0 */
    uint64_t n_epochs;     /* number of epochs that the program will use; after the last one nothing
                              is decoded ahead; 0: unknown */
    bool no_shuffle;       /* sequential order; default: shuffled */
    bool allow_same_epoch; /* do not warn if an epoch is used twice while shuffling */

    /* Repetition and weights, as in mr_sampler_options */
    bool no_replacement; /* with weights: draw no sample twice in an epoch */
    bool rank_slices;    /* ranks share a global batch of world_size * batch_size samples by taking
                            batch_size in a row, as Megatron's sampler; default: by turns, as
                            DistributedSampler. Not with weights */
    uint8_t reserved_order[4];
    uint32_t repeat;             /* 1 to 65535: repeated augmentation, with new random draws for
                                    each repetition; 0: none. Not with weights, and only with
                                    MR_TAIL_PAD */
    uint32_t repeat_form;        /* an mr_repeat_form, with repeat; default:
                                    MR_REPEAT_TORCHVISION */
    uint64_t n_draws;            /* with weights: draws of an epoch over all ranks; 0 means the
                                    number of samples */
    const char *weights;         /* draw samples in proportion to the weights in this .npy file,
                                    <f8, <f4, <i8 or <i4; NULL or "": none */
    const double *weight_values; /* instead of weights: the weights themselves, one for each
                                    sample; copied; NULL in mr_loader_resolved() */
    uint64_t n_weight_values;    /* entries of weight_values: the number of samples */

    /* Workers and reading */
    uint32_t num_workers; /* at most MR_MAX_WORKERS, or MR_NO_WORKERS. 0 means 4 for each device
                             that images go to. On the host it means this rank's part of the CPUs:
                             the launcher's CPUs, or fewer if a cgroup's quota allows fewer, divided
                             by the ranks of this machine; at least 1, at most the CPUs of this
                             process's mask (docs/training.md) */
    uint32_t start;       /* an mr_start; default: MR_START_EXEC, or MR_START_FORK for callbacks */
    int32_t nice;         /* added to the workers' nice level, 0 to 19; default: 0 */
    uint32_t affinity;    /* an mr_affinity; default: MR_AFFINITY_NONE */
    const int32_t *affinity_cpus; /* with MR_AFFINITY_LIST: the numbers of the CPUs */
    uint32_t n_affinity_cpus;
    uint32_t reader;       /* an mr_reader_kind; default: MR_READER_AUTO */
    uint32_t jpeg_decoder; /* an mr_jpeg_decoder; default: MR_JPEG_AUTO */
    uint32_t read_ahead;   /* samples whose reads are in flight per worker, 1 to 128; 0 means 4, and
                              for files at URLs as many as the measured delay needs, at most twice
                              the worker's part of `connections` (docs/remote.md) */
    uint32_t n_slots;      /* batches that may be decoded or lent at once, 2 to 1024; 0: chosen from
                              batch_size and num_workers */
    bool wait_when_lent;   /* if every slot or buffer is lent, mr_loader_next() waits until another
                              thread releases a batch; default: it returns MR_ERR_STATE at once */
    bool no_huge_pages;    /* use pages of the usual size for batches; default: larger pages if the
                              kernel offers them */
    bool verify_packs;     /* for packs: read each sample whole, not only the rows of its crop, and
                              compare its checksum before use; a difference is damage. Rows of
                              MR_PACK_DCT are always compared. Without this option, altered bytes
                              of other encodings mostly decode to other pixels without an error
                              (docs/formats.md) */
    uint8_t reserved_workers[1];

    /* Damaged samples */
    uint32_t on_error;       /* an mr_on_error; default: MR_ON_ERROR_FAIL */
    uint32_t time_limit_ms;  /* for decoding one sample; 0 means 60 000 */
    uint64_t max_file_bytes; /* larger files and packed samples are damaged; 0 means 1 GiB */
    uint64_t max_pixels;     /* larger images are damaged; 0 means 178 956 970, as Pillow.
                                Independent of this, a JPEG whose scans together visit more than
                                64 000 000 blocks of 8 x 8 is damaged (docs/formats.md) */

    /* Devices */
    const char *device;         /* "host" (default) or "cpu": the memory that workers write to;
                                   "cuda:N"; "cuda": "cuda:0"; "cuda:local": the GPU of LOCAL_RANK,
                                   or the only one; "auto": a GPU if there is one; "host:N": for
                                   tests, a device with separate buffers in host memory */
    const char *const *devices; /* instead of device: split each batch over these devices by
                                   sample; 2 to MR_MAX_DEVICES */
    uint32_t n_devices;
    uint32_t n_buffers;       /* batches that are on a device at once, 2 to 64; 0 means 3 */
    const char *label_device; /* the device of all arrays but the images; default: the images' */
    bool pin_memory;          /* with device "host": page-lock the batches' memory with CUDA, for
                                 copies that the program makes, and wait for the streams that
                                 batches are released on (docs/gpu.md). If that is not possible, a
                                 log line says why, and mr_loader_resolved() has false */
    bool finish_on_host;      /* workers make floats and layout, and floats are copied to the
                                 device; default: u8 is copied, and the device makes floats and
                                 layout */

    /* Diagnostics */
    bool with_timing; /* measure the time of each stage for the statistics */
    uint8_t reserved_devices[1];
    uint32_t max_boxes; /* of one sample, of a dataset with boxes: 1 to 65535; 0 means 1024. A
                           sample with more is damaged. A batch has room for so many of each */
    const char *trace;  /* write a Chrome trace to this file; default: the environment's MR_TRACE,
                           if set; "": none. If another loader is writing FILE, the trace goes to
                           FILE.2, FILE.3, ... */

    /* Cache */
    uint32_t cache_slowdown; /* percentage of the workers' time, beside idle time, that filling the
                                cache from local files may take: 1 to 100; 0 means 25;
                                MR_CACHE_WHEN_IDLE */
    uint32_t cache_form;     /* an mr_cache_form; default: MR_CACHE_FORM_AUTO; mr_loader_resolved()
                                has the form that was chosen */
    const char *cache;       /* directory in which workers store image files packed or indexed, and
                                all samples at URLs, for later epochs, later runs and other loaders;
                                created if it does not exist; NULL or "": no cache
                                (docs/cache.md) */
    uint64_t cache_bytes;    /* limit on the size of the cache; 0: the free space of the disk */

    /* Images of different sizes */
    uint32_t pad_batch;           /* instead of ragged: pad the images of a batch at the right and
                                     at the bottom to its largest height and width, with 0, and
                                     masks with 255. The value is the largest side of an image, 1
                                     to 65535; an image with a larger one is damaged. "image.shape"
                                     has the images' own sizes (batch.h). A batch has room for
                                     batch_size squares of this side. 0: images have one size */
    uint32_t aspect_ratio_groups; /* 1 to 100: batches of images of a similar shape, as
                                     create_aspect_ratio_groups(k) and GroupedBatchSampler of
                                     torchvision's references/detection make them, which use k = 3.
                                     A rank with n samples has n / batch_size whole batches: what is
                                     left of the groups is filled up with their first samples, or
                                     left out. An image whose header says no size counts as a
                                     square. A position continues only with the same world_size and
                                     batch_size. Not with MR_TAIL_EXACT, nor for callbacks.
                                     mr_loader_create() reads the header of every image, in 16
                                     threads, unless a pack's index, COCO's annotations or an
                                     earlier loader's notes in the user's cache folder have the
                                     sizes. 0: none */

    /* Files at URLs (docs/remote.md) */
    uint32_t retry_ms;    /* for how long a request that fails in a way that may pass is tried
                             again, 1 to 86 400 000; 0 means 30 000. time_limit_ms comes on top */
    uint32_t connections; /* to servers, of all workers together, 1 to 4096; 0 means 64. Divided
                             equally; each worker has at least one */

    /* Mixtures, the datasets mix:... (docs/mixtures.md) */
    uint32_t mix_order;   /* an mr_mix_order; default: MR_MIX_ORDER_EVEN */
    uint32_t mix_stop;    /* an mr_mix_stop; default: MR_MIX_STOP_NONE, an epoch without end */
    uint64_t mix_samples; /* samples of an epoch, over all ranks, instead of mix_stop; up to 2^40;
                             0: mix_stop decides */

    /* Batches by length: of documents, tokens:...?pack=none, or of `lengths` (docs/tokens.md) */
    uint32_t group_by_length; /* 1 to 65535: shuffle as LengthGroupedSampler of Hugging Face's
                                 transformers, with this number of batches (its gradient
                                 accumulation steps) as its batch_size; 0: no groups */
    uint32_t batch_multiple;  /* with max_tokens: the number of samples of a batch is a multiple of
                                 this or below it; 0 means 1 */
    uint64_t max_tokens;      /* cut the order of all ranks into batches as fairseq: the number of
                                 samples, at most batch_size, times the longest is at most this.
                                 Ranks take batches by turns. If the last ranks lack one, tail says
                                 what they get: the first batches again, none, or empty batches. Not
                                 with drop_last, rank_slices. 0: batches have batch_size samples */
    const char *lengths;      /* a .npy file with the length of each sample, <i4, <i8, <f4 or <f8;
                                 NULL or "": those of the dataset */
} mr_loader_options;

#define MR_MAX_DEVICES 16

#define MR_LOADER_OPTIONS_INIT MR_STRUCT_INIT(mr_loader_options)

/** Do as MR_LOADER_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_loader_options_init(mr_loader_options *options, size_t size);

/**
 * Set an option by its name and a text such as "batch_size", "64". It is for bindings,
 * configuration files and command lines.
 *
 * options  initialised with MR_LOADER_OPTIONS_INIT
 * name     of a field of mr_loader_options
 * value    for a number: decimal, within the field's limits; K, M, G or T, for powers of 1024, may
 *          follow in cache_bytes and max_file_bytes. For a bool: true, yes, on, 1, false, no, off,
 *          0. For an enum: the last word of a constant, as "skip", "keyed", "bf16"
 *
 * Words may be in any case. "default" sets the default of a number or an enum. "none" sets
 * num_workers to MR_NO_WORKERS, and "idle" sets cache_slowdown to MR_CACHE_WHEN_IDLE.
 * Returns MR_OK; MR_ERR_INVALID: the error names the option, the value and the limits, or the
 * nearest option name. The lists affinity_cpus, devices and weight_values, with their lengths, are
 * refused: set the fields. On failure the options are unchanged. Ownership: a string's text is not
 * copied; it must live until mr_loader_create() has returned.
 */
MR_API mr_status mr_loader_options_set(mr_loader_options *options, const char *name,
                                       const char *value, mr_error *error);

/**
 * Name of the i-th option of mr_loader_options_set() and mr_loader_options_get(); NULL past the
 * last.
 */
MR_API const char *mr_loader_option_name(size_t i);

/**
 * Write the value of an option as the text that mr_loader_options_set() reads: "64", "true",
 * "skip", "default".
 *
 * A string option that is NULL gives "".
 * text_out  at most size bytes with the final NUL; NULL only measures
 * len_out   NULL, or receives the text's length without the NUL
 * Returns MR_OK; MR_ERR_INVALID: an unknown name, or a list (lists have no text form).
 */
MR_API mr_status mr_loader_options_get(const mr_loader_options *options, const char *name,
                                       char *text_out, size_t size, size_t *len_out,
                                       mr_error *error);

typedef struct mr_loader mr_loader;

/**
 * Make a loader and start its workers. They begin the first epoch at once.
 *
 * transform  NULL: "train:224" for image files, none for raw images and records; it is copied
 * options    NULL: all defaults; they are copied
 * Returns MR_OK; MR_ERR_INVALID, MR_ERR_NO_MEMORY (with the sizes), MR_ERR_IO, MR_ERR_UNSUPPORTED,
 * MR_ERR_NO_DEVICE, MR_ERR_WORKER.
 * Ownership: *loader_out is the caller's, to be destroyed; NULL on failure. The loader holds a
 * reference to the dataset.
 * Threads: the thread that calls this may end before the loader. The call needs at most 32 KiB of
 * its stack.
 */
MR_API mr_status mr_loader_create(mr_dataset *dataset, const mr_transform *transform,
                                  const mr_loader_options *options, mr_loader **loader_out,
                                  mr_error *error);

/**
 * End the workers and free the loader. Batches that are still lent stay valid until they are
 * released. A call with NULL or in a forked child does nothing.
 *
 * Forked children of the program share the memory of batches on the host; they have no copies. A
 * child may read a lent batch until the program releases it. After that, later batches overwrite
 * the memory. When the loader is destroyed and its last batch released, the memory is returned to
 * the system even if a child still maps it: the child then reads zeros.
 *
 * Blocks: until every worker has ended and every issued copy has ended; a copy waits for the
 * streams that used its buffer before. With pin_memory: until the streams that batches were
 * released on have finished with them. Worker processes are killed, which takes milliseconds.
 * Worker threads finish their sample first, for at most 10 seconds.
 */
MR_API void mr_loader_destroy(mr_loader *loader);

/**
 * Wait for the next batch of this epoch, until its data is complete in the memory of its arrays.
 *
 * timeout_ms  0 polls once, MR_FOREVER waits without limit. With MR_NO_WORKERS it is checked
 *             between samples.
 * Returns MR_OK; MR_END after the last batch; MR_PENDING if the time ran out; MR_ERR_DAMAGED in
 * place of a batch with a damaged sample (on_error fail), MR_ERR_IO or MR_ERR_NO_MEMORY in place of
 * a batch that this machine could not make: after these three the next call returns the following
 * batch; MR_ERR_CANCELED; MR_ERR_STATE if every slot is lent (n_slots; not with wait_when_lent) or
 * in a forked child; MR_ERR_WORKER, MR_ERR_DEVICE, and MR_ERR_UNSUPPORTED for a sample that this
 * machine cannot decode: the loader has ended. mr_loader_error() has the text.
 * Ownership: on MR_OK *batch_out is lent until mr_batch_release(); otherwise it is set to NULL.
 * Threads: one thread at a time per loader. Batches may be released from any thread.
 */
MR_API mr_status mr_loader_next(mr_loader *loader, uint32_t timeout_ms, mr_batch **batch_out);

/**
 * Return the next batch as soon as its copy to the device is issued, and make a stream wait for
 * that copy.
 *
 * stream  as for mr_batch_use(): a cudaStream_t of the batch's device; NULL is its default stream
 *
 * If the batch has several parts, the stream belongs to the device of part 0. On the host this is
 * mr_loader_next(); with pin_memory it also does mr_batch_use() with the stream.
 * Returns as mr_loader_next(); also MR_ERR_STATE if the stream is being captured (the capture stays
 * valid) or if all n_buffers are lent (not with wait_when_lent), and MR_ERR_INVALID for a stream of
 * another device: after these the next call returns the same batch. MR_ERR_DEVICE if the device has
 * failed.
 * Blocks: until the batch is decoded and its copy is issued. A host that runs ahead of a stalled
 * stream gets all n_buffers batches, and then waits until that stream has released one.
 */
MR_API mr_status mr_loader_next_on(mr_loader *loader, uint32_t timeout_ms, void *stream,
                                   mr_batch **batch_out);

/**
 * Get a descriptor for event loops (epoll, libuv, asyncio). It is readable exactly while
 * mr_loader_next() with a timeout of 0 would not return MR_PENDING.
 *
 * Watch it, level-triggered, for input; do not read, write or close it. Whenever it is readable,
 * call mr_loader_next() with a timeout of 0. It is readable for a batch, for an error in place of
 * one, for MR_ERR_CANCELED, for MR_ERR_STATE (every slot or buffer is lent, without
 * wait_when_lent), once for MR_END, and permanently after the loader has failed. After MR_END was
 * returned it is not readable until mr_loader_set_epoch() and the like. The first call starts a
 * small thread in this process.
 * Returns MR_OK; MR_ERR_UNSUPPORTED with MR_NO_WORKERS; MR_ERR_IO, MR_ERR_WORKER, MR_ERR_INVALID,
 * MR_ERR_STATE in a forked child.
 * Ownership: the loader's, until mr_loader_destroy(); close-on-exec. Every call returns the same
 * one. -1 on failure.
 * Threads: as mr_loader_next(). Any thread may watch it.
 */
MR_API mr_status mr_loader_fd(mr_loader *loader, int *fd_out);

/**
 * The error of the last call on this loader that failed. Ownership: the loader's. Threads: the
 * thread of that call.
 */
MR_API const mr_error *mr_loader_error(const mr_loader *loader);

/**
 * Go to the start of an epoch. Batches that were decoded ahead for another epoch are dropped.
 *
 * Before the first batch of a new loader, a call with the epoch of the options changes nothing. One
 * warning is logged if an epoch is used twice while shuffling.
 * Returns MR_OK; MR_ERR_NO_MEMORY; MR_ERR_STATE in a forked child; or the error of a loader that
 * has ended, as mr_loader_next() returns it.
 */
MR_API mr_status mr_loader_set_epoch(mr_loader *loader, uint64_t epoch);

/**
 * Go to the start of an epoch whose order the caller gives, for example weighted draws, a subset or
 * a curriculum. A sample that occurs several times has new random draws each time.
 *
 * indices  n dataset indices of this rank (they are not sharded), each 0 to mr_dataset_n_samples()
 * - 1; copied Returns MR_OK; MR_ERR_INVALID (with the position); otherwise as
 * mr_loader_set_epoch().
 */
MR_API mr_status mr_loader_set_epoch_order(mr_loader *loader, uint64_t epoch,
                                           const int64_t *indices, int64_t n);

/**
 * Resume an order of mr_loader_set_epoch_order() after n_used of its samples were used. With the
 * same indices, the batches that follow are those of a loader that was not interrupted.
 * mr_loader_save() cannot save such a position; the caller stores it.
 *
 * n_used  a multiple of batch_size, or n
 * Returns as mr_loader_set_epoch_order(); MR_ERR_INVALID if n_used does not end on a batch.
 */
MR_API mr_status mr_loader_resume_epoch_order(mr_loader *loader, uint64_t epoch,
                                              const int64_t *indices, int64_t n, int64_t n_used);

/**
 * Make mr_loader_next() return MR_ERR_CANCELED once, now or at its next call. Threads: any, but not
 * in a signal handler.
 */
MR_API void mr_loader_cancel(mr_loader *loader);

/**
 * Number of batches, and of this rank's samples, in the current epoch. Blocks while packed
 * documents of this epoch are still counted.
 */
MR_API uint64_t mr_loader_n_batches(const mr_loader *loader);
MR_API int64_t mr_loader_n_samples(const mr_loader *loader);
/**
 * Number of batches that are lent now, of n_slots or, on a device, of n_buffers. Batches that are
 * held only by DLPack tensors count; copies of batches do not. Returns 0 in a forked child.
 * Threads: any.
 */
MR_API uint32_t mr_loader_n_lent(const mr_loader *loader);
/** The loader's current epoch. */
MR_API uint64_t mr_loader_epoch(const mr_loader *loader);
/** The options that the loader uses, with every default filled in. Ownership: the loader's. */
MR_API const mr_loader_options *mr_loader_resolved(const mr_loader *loader);

/** The most bytes that a saved position has, for memory of a fixed size. */
#define MR_LOADER_STATE_MAX 4096

/**
 * Number of bytes of this loader's saved position, at most MR_LOADER_STATE_MAX. It does not change
 * while the loader lives.
 */
MR_API size_t mr_loader_state_size(const mr_loader *loader);

/**
 * Save the loader's position: what mr_loader_next() has returned, not what was read ahead. The
 * bytes have a version and a checksum, and are the same for any number of workers.
 *
 * size  of state_out, in bytes: at least mr_loader_state_size()
 *
 * Returns MR_OK; MR_ERR_INVALID; MR_ERR_UNSUPPORTED after mr_loader_set_epoch_order(); MR_ERR_STATE
 * in a forked child. mr_loader_error() has the text. The outputs are written on success only.
 */
MR_API mr_status mr_loader_save(mr_loader *loader, void *state_out, size_t size, size_t *len_out);

/**
 * Continue at a saved position with the same samples. world_size and batch_size may differ from the
 * saved ones if the number of samples used so far is a multiple of world_size * batch_size of this
 * loader.
 *
 * len  of state, in bytes, as mr_loader_save() returned it
 *
 * Returns MR_OK; MR_ERR_INVALID with what differs, or if bytes are missing or altered; otherwise as
 * mr_loader_set_epoch(). On failure the loader stays where it was.
 */
MR_API mr_status mr_loader_restore(mr_loader *loader, const void *state, size_t len);

/** Statistics of a loader since its creation, from mr_loader_get_stats(). */
typedef struct mr_loader_stats {
    size_t struct_size;
    uint64_t n_batches; /* returned by mr_loader_next() since creation */
    uint64_t n_samples;
    /*
     * Rows whose sample was damaged, whatever on_error does with it, in the batches that were
     * returned or whose error was returned. A damaged sample that was only tried as a substitute
     * does not count.
     */
    uint64_t n_damaged;
    uint64_t n_warnings; /* decoder warnings that did not damage a sample */
    uint64_t read_ns;   /* time to read, summed over workers; needs with_timing, or files at URLs */
    uint64_t decode_ns; /* likewise; needs with_timing */
    uint64_t transform_ns; /* likewise */
    uint64_t wait_ns;      /* time that workers slept without a free slot; not only with_timing */
    uint64_t bytes_read;
    uint64_t consumer_wait_ns; /* time that mr_loader_next() waited for a batch */
    uint64_t elapsed_ns;       /* since the first call of mr_loader_next() */
    uint32_t n_ready;          /* batches that are decoded now and not yet returned */
    uint32_t n_slots;
    uint32_t num_workers;   /* living worker processes or threads */
    uint32_t n_buffers;     /* 0 if batches are lent from the slots */
    uint32_t n_copying;     /* batches that are being copied to a device now */
    uint32_t reserved;      /* 0 */
    uint64_t n_deaths;      /* workers that died and were replaced */
    double busy_share_min;  /* share of its time that the least busy worker spent on samples */
    double busy_share_mean; /* mean over workers */
    double busy_share_max;  /* the busiest worker */
    char reader[16];        /* "io_uring", "pread" or "http"; "none" for callbacks */
    double copying_mean;    /* mean of n_copying over the copies issued */
    uint64_t h2d_bytes;     /* copied to devices, in copies that have ended */
    uint64_t h2d_ns;        /* time of those copies on their streams; bytes / ns is GB/s */
    uint64_t n_steps;       /* batches for which the next field is known */
    uint64_t n_steps_ready; /* of n_steps: batches that were on the device when its stream reached
                               them */
    double ready_share;     /* n_steps_ready / n_steps */
    uint64_t n_cached;      /* samples that workers read from the cache, or by its index */
    uint64_t n_packed;      /* samples that workers added to the cache */
    /*
     * Number of different samples in n_damaged. If there is no memory to tell them apart, a log
     * line says so, and this is the number of samples that mr_loader_damaged() lists.
     */
    uint64_t n_damaged_distinct;
    /*
     * Page-locked bytes of the slots' memory, for a GPU or by pin_memory. 0: the memory is
     * pageable, and copies are slower; if page-locking failed, a log line says why. Known with the
     * first batch.
     */
    uint64_t page_locked_bytes;
} mr_loader_stats;

#define MR_LOADER_STATS_INIT MR_STRUCT_INIT(mr_loader_stats)

/** Do as MR_LOADER_STATS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_loader_stats_init(mr_loader_stats *stats, size_t size);

/**
 * Read the loader's statistics. Returns MR_OK; MR_ERR_INVALID; MR_ERR_STATE in a forked child.
 * Threads: any.
 */
MR_API mr_status mr_loader_get_stats(const mr_loader *loader, mr_loader_stats *stats_out);

/**
 * Write one line that says whether the loader or the program was the bottleneck since the first
 * mr_loader_next():
 *
 *   loader-bound: consumer waited 62 % of the time
 *   network-bound: consumer waited 62 % of the time, and workers waited for servers
 *   consumer-bound: consumer waited only 3 % of the time
 *   no batch was taken yet
 *
 * The loader is the bound if mr_loader_next() waited for 10 % of the time or more. The network is,
 * if workers also waited longer for files at URLs than they worked on samples.
 *
 * text_out  at most size bytes with the final NUL; NULL only measures
 * Returns the length of the whole line without the NUL; 0 for NULL or in a forked child.
 * Threads: any.
 */
MR_API size_t mr_loader_verdict(const mr_loader *loader, char *text_out, size_t size);

/**
 * A hash of the data and options of this loader, to compare ranks and runs. It covers the dataset's
 * names, sizes and labels, the transform, and the options that must be the same on all ranks
 * (batch_size, seed, no_shuffle, order, tail, repeat and weights, drop_last, world_size, dtype,
 * layout, on_error, max_file_bytes, max_pixels, the shape of a sample; not rank, epoch, workers,
 * devices or slots).
 *
 * Names are relative to the root, so the same folder at another path has the same hash. For a list
 * they are the paths as its lines have them, for records the last parts of the paths. Sizes, and
 * labels in files of records (at most 4096 bytes of each), are read for at most 65 536 files and
 * samples, evenly spread. For a pack all come from its index, with all checksums; its shards are
 * not read. For callbacks the hash covers only the number and the form of samples. The hash may
 * change with the version of the library. Returns 0 for NULL.
 * Blocks: while it reads files.
 */
MR_API uint64_t mr_loader_fingerprint(const mr_loader *loader);

/**
 * Read the i-th damaged sample, oldest first, each sample once. The first 1000 are listed;
 * n_damaged_distinct of mr_loader_stats counts all of them. If a batch has more than 64 damaged
 * samples, the errors of some may have only the name.
 *
 * Returns MR_OK, or MR_END past the last. Threads: the thread that calls mr_loader_next().
 */
MR_API mr_status mr_loader_damaged(const mr_loader *loader, uint64_t i, mr_error *error_out);

/**
 * Write for each worker the share of time spent on samples since the first mr_loader_next(), 0 to
 * 1, by worker number. At most n shares are written.
 *
 * Returns the number of workers, 1 with MR_NO_WORKERS. Threads: any.
 */
MR_API uint32_t mr_loader_worker_shares(const mr_loader *loader, double *busy_shares_out,
                                        uint32_t n);

/**
 * Write the process ids of the living workers, for monitoring. Worker threads have none. At most n
 * ids are written.
 *
 * Returns the number of ids, also if it is above n. Threads: any.
 */
MR_API uint32_t mr_loader_worker_pids(const mr_loader *loader, int64_t *pids_out, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif
