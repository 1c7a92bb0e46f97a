/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and checks the values of options, to the last character. A wrong value ends the program by
 * argp_error() with the names of option and value.
 */
#ifndef TOOLS_ARG_VALUE_H
#define TOOLS_ARG_VALUE_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <millrace/loader.h>

struct mr_arg_choice {
    const char *name; /* NULL ends a list */
    int value;
};

/* A whole number from lo to hi, decimal. */
uint64_t mr_arg_value_number(struct argp_state *state, const char *option, const char *text,
                             uint64_t lo, uint64_t hi);
/* A number of bytes, at least lo: decimal; K, M, G or T after it are powers of 1024. */
uint64_t mr_arg_value_bytes(struct argp_state *state, const char *option, const char *text,
                            uint64_t lo);
/* A list of 1 to n whole numbers separated by commas. Returns how many. */
size_t mr_arg_value_list(struct argp_state *state, const char *option, const char *text,
                         uint64_t lo, uint64_t hi, uint64_t *values_out, size_t n);
/* A size in pixels as "500x375": width and height, each from 1 to hi. */
void mr_arg_value_size(struct argp_state *state, const char *option, const char *text, uint32_t hi,
                       uint32_t *width_out, uint32_t *height_out);
/* A decimal fraction from lo to hi. */
double mr_arg_value_real(struct argp_state *state, const char *option, const char *text, double lo,
                         double hi);
/* One or three decimal fractions, above `above`, separated by commas. Returns how many. */
unsigned mr_arg_value_channels(struct argp_state *state, const char *option, const char *text,
                               double above, double values_out[3]);
/* A path whose last component is a name with this extension. Returns text. */
const char *mr_arg_value_path(struct argp_state *state, const char *option, const char *text,
                              const char *extension);

/* Set a field of the loader's options by mr_loader_options_set(). text NULL sets a switch. */
void mr_arg_value_field(struct argp_state *state, const char *option, const char *field,
                        const char *text, mr_loader_options *loader);
/* The value of one of the names, in upper or lower case. */
int mr_arg_value_choice(struct argp_state *state, const char *option, const char *text,
                        const struct mr_arg_choice *choices);

#endif
