/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects gloo's full mesh. Ranks find each other over the group's store; each one listens on the
 * address at which the other ranks reach it.
 *
 * By default gloo uses the address of the host name, which fails between hosts. It reads undefined
 * memory if an address cannot be resolved, and leaks if it cannot be bound. So the address is
 * passed in, and checked first. gloo may also take five times the timeout that it is given.
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

/* The group's store, with gloo's interface. */
class group_store : public gloo::rendezvous::Store
{
  public:
    group_store(const struct mr_engine_setup &setup, mr_error *error) : setup_(setup), error_(error)
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
        /* A value is a host name or at most one address for each rank. */
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

    /* get() itself waits until the deadline, so gloo's timeout is not used here. */
    void wait(const std::vector<std::string> &) override { on_first_wait(); }
    void wait(const std::vector<std::string> &, const std::chrono::milliseconds &) override
    {
        on_first_wait();
    }

    /* Has a rank disconnected? No rank sets this key, and the call does not wait for it. */
    bool is_broken(mr_error *words)
    {
        char nothing;
        uint32_t len;
        return setup_.store.get(setup_.store.user, prefix_key("nothing").c_str(), &nothing,
                                sizeof nothing, &len, mr_gloo_watch_now_ns(), words) == MR_ERR_PEER;
    }

    /*
     * Called at gloo's first wait. From then on gloo's list of pairs does not change, and another
     * thread may close them.
     */
    std::function<void()> on_first_wait;

  private:
    static std::string prefix_key(const std::string &key) { return "gloo/" + key; }

    const struct mr_engine_setup &setup_;
    mr_error *const error_;
};

/*
 * A device that makes our contexts. It remembers the last one, because gloo does not give it out.
 */
class our_device : public gloo::transport::Device
{
  public:
    explicit our_device(std::shared_ptr<gloo::transport::Device> real) : real_(std::move(real)) {}

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

/* Returns 0 or an errno. */
int try_bind(const struct addrinfo &address)
{
    int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int result = bind(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
    ::close(fd);
    return result;
}

/* Returns AF_INET or AF_INET6 of a numeric address. Throws if it is not one of this machine. */
int find_family(const char *address)
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

/* The first variable that is set counts. If it is a list, its first name does. */
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
    attr.ai_family = find_family(setup.local_address);
    attr.iface = interface_name();
    if (attr.iface.empty())
        attr.hostname = setup.local_address;
    return gloo::transport::tcp::CreateDevice(attr);
}

std::chrono::milliseconds connect_timeout(uint64_t deadline_ns)
{
    uint64_t now_ns = mr_gloo_watch_now_ns();
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 : 0;
    /* gloo multiplies by five. The watch ends the connecting at the deadline in any case. */
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
    auto ours = std::make_shared<our_device>(open_device(setup));
    std::shared_ptr<gloo::transport::Device> device = ours;
    auto context =
        std::make_shared<gloo::rendezvous::Context>((int)setup.rank, (int)setup.world_size);
    context->setTimeout(connect_timeout(setup.deadline_ns));

    group_store store(setup, error);
    mr_error broken = {};
    bool watched = false;
    store.on_first_wait = [&] {
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
