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

/* A failure with its status. If words is empty, the error record has them already. */
class mr_gloo_failure : public std::exception
{
  public:
    mr_gloo_failure(int32_t code, std::string text) : status(code), words(std::move(text)) {}
    const char *what() const noexcept override { return words.c_str(); }

    const int32_t status;
    const std::string words;
};

/* gloo's message in one line, without its source file and line. */
std::string mr_gloo_mesh_words(const char *what);

struct mr_gloo_mesh {
    std::shared_ptr<gloo::Context> context;
    std::shared_ptr<mr_gloo_context> transport; /* of the same context: ends its waits */
};

/*
 * Connect to all ranks by setup.deadline_ns. Throws mr_gloo_failure and gloo's exceptions. The
 * watch must not be running.
 */
mr_gloo_mesh mr_gloo_mesh_connect(const struct mr_engine_setup &setup, mr_gloo_watch &watch,
                                  mr_error *error);

#endif
