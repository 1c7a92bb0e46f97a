/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects gloo's full mesh, over the group's store and from the address by which the others reach
 * this rank.
 *
 * gloo by itself takes the address of the host name, which fails between hosts; it reads rubbish if
 * an address cannot be resolved, and leaks if it cannot be bound. So the address is given, and
 * checked first. And gloo may take five times the timeout that it is given for a connection.
 */
#include "dist/gloo/gloo_mesh.hh"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace
{

/* The group's store as gloo wants one. */
class store_of_group : public gloo::rendezvous::Store
{
  public:
    store_of_group(const struct mr_engine_setup &setup, mr_error *error)
        : setup_(setup), error_(error)
    {
    }

    void set(const std::string &key, const std::vector<char> &data) override
    {
        int32_t status = setup_.store.set(setup_.store.user, prefix_key(key).c_str(), data.data(),
                                          (uint32_t)data.size(), error_);
        if (status != MR_OK)
            throw mr_gloo_failure(status, "");
    }

    std::vector<char> get(const std::string &key) override
    {
        /* At most one address for each rank, or a host name. */
        std::vector<char> data((size_t)setup_.world_size * gloo::transport::Address::kMaxByteSize +
                               1024);
        uint32_t len = 0;
        int32_t status = setup_.store.get(setup_.store.user, prefix_key(key).c_str(), data.data(),
                                          (uint32_t)data.size(), &len, setup_.deadline_ns, error_);
        if (status != MR_OK)
            throw mr_gloo_failure(status, "");
        data.resize(len);
        return data;
    }

    /* get() waits by itself, and until the deadline, whatever gloo's own timeout is. */
    void wait(const std::vector<std::string> &) override { all_pairs_made(); }
    void wait(const std::vector<std::string> &, const std::chrono::milliseconds &) override
    {
        all_pairs_made();
    }

    /* Has a rank broken off? Nobody sets this key, and nobody waits for it. */
    bool is_broken(mr_error *words)
    {
        char nothing;
        uint32_t len;
        return setup_.store.get(setup_.store.user, prefix_key("nothing").c_str(), &nothing,
                                sizeof nothing, &len, mr_gloo_watch_now_ns(), words) == MR_ERR_PEER;
    }

    /*
     * From the first wait on, gloo's list of pairs does not change and they may be closed from
     * outside.
     */
    std::function<void()> all_pairs_made;

  private:
    static std::string prefix_key(const std::string &key) { return "gloo/" + key; }

    const struct mr_engine_setup &setup_;
    mr_error *const error_;
};

/*
 * A device whose contexts are ours, and which remembers the one that gloo makes on it and then
 * hides.
 */
class device_of_ours : public gloo::transport::Device
{
  public:
    explicit device_of_ours(std::shared_ptr<gloo::transport::Device> real) : real_(std::move(real))
    {
    }

    std::string str() const override { return real_->str(); }
    const std::string &getPCIBusID() const override { return real_->getPCIBusID(); }
    int getInterfaceSpeed() const override { return real_->getInterfaceSpeed(); }
    bool hasGPUDirect() const override { return real_->hasGPUDirect(); }
    std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override
    {
        auto made = std::make_shared<mr_gloo_context>(real_->createContext(rank, size));
        last = made;
        return made;
    }

    std::weak_ptr<mr_gloo_context> last;

  private:
    const std::shared_ptr<gloo::transport::Device> real_;
};

/* 0, or an errno. */
int try_bind(const struct addrinfo &address)
{
    int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int result = bind(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
    ::close(fd);
    return result;
}

/* AF_INET or AF_INET6 of a numeric address, which must be one of this machine's. */
int family_of(const char *address)
{
    struct addrinfo hints = {};
    struct addrinfo *found = nullptr;
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    if (address == nullptr || getaddrinfo(address, nullptr, &hints, &found) != 0)
        throw mr_gloo_failure(MR_ERR_INVALID, std::string("gloo: no local address: ") +
                                                  (address == nullptr ? "" : address));
    int family = found->ai_family;
    int os_error = try_bind(*found);
    freeaddrinfo(found);
    if (os_error != 0)
        throw mr_gloo_failure(MR_ERR_IO, std::string("gloo: cannot bind ") + address + ": " +
                                             strerror(os_error));
    return family;
}

/* The first of the variables that is set; of a list, its first name. */
std::string interface_name()
{
    for (const char *variable : {"MR_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
        const char *value = getenv(variable);
        if (value == nullptr || *value == '\0')
            continue;
        std::string name(value, strcspn(value, ","));
        if (if_nametoindex(name.c_str()) == 0)
            throw mr_gloo_failure(MR_ERR_INVALID,
                                  std::string(variable) + "=" + value + ": no such interface");
        return name;
    }
    return "";
}

std::shared_ptr<gloo::transport::Device> open_device(const struct mr_engine_setup &setup)
{
    struct gloo::transport::tcp::attr attr;
    attr.ai_family = family_of(setup.local_address);
    attr.iface = interface_name();
    if (attr.iface.empty())
        attr.hostname = setup.local_address;
    return gloo::transport::tcp::CreateDevice(attr);
}

std::chrono::milliseconds connect_timeout(uint64_t deadline_ns)
{
    uint64_t now_ns = mr_gloo_watch_now_ns();
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 : 0;
    /* gloo multiplies by five; the watch ends it at the deadline in any case. */
    return std::chrono::milliseconds(std::clamp<uint64_t>(left_ms / 5 + 1, 1, 24u * 3600 * 1000));
}

} // namespace

std::string mr_gloo_mesh_words(const char *what)
{
    const char *start = what;
    const char *bracket = strstr(what, "] ");
    if (*what == '[' && bracket != nullptr)
        start = bracket + 2;
    std::string words = start;
    std::replace_if(
        words.begin(), words.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return words;
}

mr_gloo_mesh mr_gloo_mesh_connect(const struct mr_engine_setup &setup, mr_gloo_watch &watch,
                                  mr_error *error)
{
    auto ours = std::make_shared<device_of_ours>(open_device(setup));
    std::shared_ptr<gloo::transport::Device> device = ours;
    auto context =
        std::make_shared<gloo::rendezvous::Context>((int)setup.rank, (int)setup.world_size);
    context->setTimeout(connect_timeout(setup.deadline_ns));

    store_of_group store(setup, error);
    mr_error broken = {};
    bool watched = false;
    store.all_pairs_made = [&] {
        if (!watched)
            watch.begin_watch(ours->last.lock(), setup.deadline_ns, nullptr,
                              [&] { return store.is_broken(&broken); });
        watched = true;
    };
    try {
        context->connectFullMesh(store, device);
    } catch (const mr_gloo_failure &) {
        watch.end_watch();
        throw;
    } catch (const std::exception &failure) {
        mr_gloo_watch::verdict verdict = watch.end_watch();
        if (verdict == mr_gloo_watch::BROKEN)
            throw mr_gloo_failure(MR_ERR_PEER, broken.text);
        if (verdict == mr_gloo_watch::LATE || mr_gloo_watch_now_ns() >= setup.deadline_ns)
            throw mr_gloo_failure(MR_ERR_TIMEOUT,
                                  "gloo: not all ranks could be connected by the deadline: " +
                                      mr_gloo_mesh_words(failure.what()));
        throw;
    }
    mr_gloo_watch::verdict verdict = watch.end_watch();
    if (verdict == mr_gloo_watch::BROKEN)
        throw mr_gloo_failure(MR_ERR_PEER, broken.text);
    if (verdict == mr_gloo_watch::LATE)
        throw mr_gloo_failure(MR_ERR_TIMEOUT,
                              "gloo: not all ranks could be connected by the deadline");
    mr_gloo_mesh mesh = {context, ours->last.lock()};
    mesh.transport->post_sentinels();
    return mesh;
}
