/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The speed of light as rows of bench/peers: plain processes that read the files of the same boxes
 * and decode them, whole or only the box, and do nothing else. This process has read every
 * photograph once, and all must decode, so the files are the loader's.
 */
#include "bench/peers/moments.h"
#include "bench/photos.h"
#include "bench/roi_decode.h"

#include <argp.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PHOTOS = 100000, N_WARM_EPOCHS = 2, KEEP_BYTES = 32 << 20 };

struct light {
    const char *data;
    bool whole;
    uint32_t n_processes;
    double seconds;
    struct mr_photos photos;
};

/* Like roi_decode.c's job, but for the whole image. */
struct whole {
    struct mr_roi_file *file;
    struct mr_roi_decode *decode;
};

static void *begin_whole(const void *user)
{
    struct whole *whole = calloc(1, sizeof *whole);
    mallopt(M_MMAP_THRESHOLD, KEEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, 8 * KEEP_BYTES);
    if (whole) {
        whole->file = mr_roi_file_create(user);
        whole->decode = mr_roi_decode_create();
    }
    /* a process that cannot work ends */
    return whole && whole->file && whole->decode ? whole : NULL;
}

static bool run_whole(void *state, const void *user, uint64_t item)
{
    struct whole *whole = state;
    const struct mr_photos *photos = user;
    const struct mr_photo *photo = &photos->photo[item % photos->n];
    const struct mr_box all = {.width = photo->width, .height = photo->height};
    const uint8_t *bytes;
    size_t len = mr_roi_file_read(whole->file, photo->path, &bytes);
    return len == photo->len && mr_roi_decode_run(whole->decode, bytes, len, all, NULL);
}

static mr_status run_epochs(const struct light *light, uint64_t first_epoch, uint64_t n_epochs,
                            double *seconds_out, mr_error *error)
{
    const struct mr_roi_job boxes = {.photos = &light->photos, .first_epoch = first_epoch};
    const struct mr_forked_job job =
        light->whole
            ? (struct mr_forked_job){.begin = begin_whole, .run = run_whole, .user = &light->photos}
            : mr_roi_decode_job(&boxes);
    uint64_t n_wrong = 0;
    mr_status status = mr_forked_run(&job, light->n_processes, light->photos.n * n_epochs,
                                     seconds_out, &n_wrong, error);
    if (status == MR_OK && n_wrong > 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%llu images did not decode",
                              (unsigned long long)n_wrong);
    return status;
}

static mr_status run_light(struct light *light, mr_error *error)
{
    double warm = 0, seconds = 0;
    mr_status status = mr_photos_load(light->data, MAX_PHOTOS, &light->photos, error);
    if (status == MR_OK && light->photos.n_left_out > 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%llu files are not photographs",
                              (unsigned long long)light->photos.n_left_out);
    if (status == MR_OK)
        status = run_epochs(light, 0, N_WARM_EPOCHS, &warm, error);
    if (status != MR_OK)
        return status;
    /*
     * Whole epochs, as many as come closest to the wanted time, so that every row decodes the same
     * mix of photographs.
     */
    double fit = light->seconds * N_WARM_EPOCHS / warm;
    uint64_t n_epochs = fit > 1 ? (uint64_t)(fit + 0.5) : 1;
    if (!mr_moments_say("begin"))
        return mr_error_set(error, MR_ERR_CANCELED, "the runner has ended");
    status = run_epochs(light, N_WARM_EPOCHS, n_epochs, &seconds, error);
    if (status == MR_OK && !mr_moments_say("end"))
        status = mr_error_set(error, MR_ERR_CANCELED, "the runner has ended");
    if (status == MR_OK)
        printf("{\"mark\": \"done\", \"seconds\": %.6f, \"images\": %llu, \"failed\": 0, "
               "\"exact_epochs\": false, "
               "\"versions\": {}, \"gaps\": [], \"labels\": []}\n",
               seconds, (unsigned long long)(light->photos.n * n_epochs));
    return status;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct light *light = state->input;
    char *end = text;
    switch (key) {
    case 'd': light->data = text; break;
    case 'c': break; /* decoding is the same for every contract */
    case 'f': light->whole = true; break;
    case 'w':
        light->n_processes = (uint32_t)strtoul(text, &end, 10);
        if (*end || light->n_processes < 1)
            argp_error(state, "%s is not a number of processes", text);
        break;
    case 's':
        light->seconds = strtod(text, &end);
        if (*end || !(light->seconds > 0 && light->seconds <= 3600))
            argp_error(state, "%s is not a number of seconds", text);
        break;
    case ARGP_KEY_END:
        if (!light->data)
            argp_error(state, "--data is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"data", 'd', "SPEC", 0, "folder of photographs, or of class folders of them, or list:FILE",
         0},
        {"contract", 'c', "NAME", 0, "ignored", 0},
        {"full", 'f', NULL, 0, "decode the whole image, not the box", 0},
        {"workers", 'w', "N", 0, "processes (2)", 0},
        {"seconds", 's', "S", 0, "measured time (10)", 0},
        {0},
    };
    const struct argp argp = {
        .options = options, .parser = parse_option, .doc = "libjpeg-turbo alone."};
    struct light light = {.n_processes = 2, .seconds = 10};
    mr_error error = {0};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &light) != 0)
        return 2;
    mr_status status = run_light(&light, &error);
    if (status != MR_OK)
        fprintf(stderr, "%s\n", error.text);
    mr_photos_free(&light.photos);
    return status != MR_OK;
}
