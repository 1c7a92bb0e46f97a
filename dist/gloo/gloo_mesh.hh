/* SPDX-License-Identifier: Apache-2.0 */
/* The connections between all ranks: from the setup to a connected gloo context. */
#ifndef DIST_GLOO_GLOO_MESH_HH
#define DIST_GLOO_GLOO_MESH_HH

#include "dist/group/engine_table.h"
#include "dist/gloo/gloo_watch.hh"

#include <gloo/context.h>

#include <exception>
#include <memory>
#include <string>

/* A failure with its status. With empty words they are in the error record already. */
class mr_gloo_failure : public std::exception
{
  public:
    mr_gloo_failure(int32_t code, std::string text) : status(code), words(std::move(text)) {}
    const char *what() const noexcept override { return words.c_str(); }

    const int32_t status;
    const std::string words;
};

/* gloo's words in one line, without the place in its source. */
std::string mr_gloo_mesh_words(const char *what);

struct mr_gloo_mesh {
    std::shared_ptr<gloo::Context> context;
    std::shared_ptr<mr_gloo_context> transport; /* the same one's, to end it by */
};

/*
 * Throws mr_gloo_failure, and gloo's own exceptions. By setup->deadline_ns; no watch may be under
 * way.
 */
mr_gloo_mesh mr_gloo_mesh_connect(const struct mr_engine_setup &setup, mr_gloo_watch &watch,
                                  mr_error *error);

#endif
