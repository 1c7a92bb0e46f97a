/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo's own all_reduce, the baseline of comm_gloo.c. Each call takes a new tag. One tag would also
 * work, because the bytes of one connection keep their order, but programs usually count.
 */
#include "bench/bare_gloo.h"

#include <gloo/allreduce.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdint>
#include <cstdio>
#include <memory>

namespace
{

struct bare {
    std::shared_ptr<gloo::rendezvous::Context> context;
    uint32_t tag = 0;
};

} // namespace

void *mr_bare_gloo_connect(const char *folder, int rank, int world_size)
{
    try {
        struct gloo::transport::tcp::attr attr("127.0.0.1");
        auto device = gloo::transport::tcp::CreateDevice(attr);
        gloo::rendezvous::FileStore store(folder);
        auto made = std::make_unique<bare>();
        made->context = std::make_shared<gloo::rendezvous::Context>(rank, world_size);
        made->context->connectFullMesh(store, device);
        return made.release();
    } catch (const std::exception &failure) {
        fprintf(stderr, "rank %d: gloo: %s\n", rank, failure.what());
        return nullptr;
    }
}

bool mr_bare_gloo_reduce(void *self, double *buffer, int count)
{
    auto *b = static_cast<bare *>(self);
    try {
        gloo::AllreduceOptions options(b->context);
        options.setOutput(buffer, (size_t)count);
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<double>));
        options.setTag(b->tag++);
        gloo::allreduce(options);
        return true;
    } catch (const std::exception &failure) {
        fprintf(stderr, "gloo: %s\n", failure.what());
        return false;
    }
}

void mr_bare_gloo_close(void *self)
{
    delete static_cast<bare *>(self);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *mr_bare_gloo_version(void)
{
    return TEXT(GLOO_VERSION_MAJOR) "." TEXT(GLOO_VERSION_MINOR) "." TEXT(GLOO_VERSION_PATCH);
}
