/* SPDX-License-Identifier: Apache-2.0 */
/* A call and its arguments as JSON, which can be replayed, or in words for a reader. */
#ifndef TRANSFORMS_CALL_TEXT_H
#define TRANSFORMS_CALL_TEXT_H

#include "base/text_writer.h"
#include "transforms/image_ops/image_call.h"

/* A function with its keywords; `args` are its values. */
struct mr_call_text {
    const char *name;
    const struct mr_image_arg *keywords; /* MR_CALL_MAX_NAMED, or up to the first without a name */
    const double *args;
};

struct mr_call_text mr_call_text_of(const struct mr_image_call *call);

/* True if the call changes nothing of this image: no pixel, neither its size nor its channels. */
bool mr_call_text_is_identity(const struct mr_call_text *call, const struct mr_image *image);

/* ["rotate",{"angle":-13.5,"interpolation":0,"fill":[0,0,0]}] */
void mr_call_text_put_json(struct mr_text_writer *w, const struct mr_call_text *call,
                           const struct mr_image *image);

/* rotate(angle=-13.5,interpolation=nearest,fill=0:0:0); numbers have four digits. */
void mr_call_text_put_words(struct mr_text_writer *w, const struct mr_call_text *call,
                            const struct mr_image *image);

/*
 * The numbers alone, for narrow places: "rotate -13.5". A crop shows its box: "resized_crop
 * 90x80+2+1". adjust_brightness becomes "brightness". Filters, fills and the output's size are left
 * out.
 */
void mr_call_text_put_brief(struct mr_text_writer *w, const struct mr_call_text *call,
                            const struct mr_image *image);

#endif
