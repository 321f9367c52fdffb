// The contract of the c10d store with the wheel's C++ client: it must get the same from our server as from
// torch's own.
#include <algorithm>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "agent/io/store/store_server.h"
#include "runtime/torch_versions.h"

namespace muster::agent {
namespace {

using c10d::PrefixStore;
using c10d::TCPStore;
using StorePtr = c10::intrusive_ptr<TCPStore>;
using Seen = std::vector<std::string>;

constexpr std::chrono::milliseconds kLong(30000), kShort(200);

StorePtr connect(std::uint16_t port, std::chrono::milliseconds timeout = kLong) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<TCPStore>("127.0.0.1", options);
}

// Our server on a thread of its own, as the agent's thread would run it.
class OurServer {
 public:
  OurServer() : server_(StoreServer::open(io_, {}).value()), thread_([this] { io_.run(); }) {}
  ~OurServer() {
    io_.stop();
    thread_.join();
  }
  OurServer(const OurServer&) = delete;
  OurServer& operator=(const OurServer&) = delete;
  std::uint16_t port() const { return server_.port(); }

 private:
  boost::asio::io_context io_{1};
  StoreServer server_;
  std::thread thread_;
};

StorePtr torch_server() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<TCPStore>("127.0.0.1", options);
}

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// The first line of the error, without the position in torch's sources after it.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

Seen values(std::uint16_t port) {
  const StorePtr store = connect(port);
  store->set("a", bytes("1"));
  store->append("a", bytes("23"));
  store->multiSet({"b", "c"}, {bytes(std::string(1 << 20, 'b')), bytes("")});
  Seen seen = {text(store->get("a")),
               std::to_string(store->getNumKeys()),
               std::to_string(store->check({"a", "c"})),
               std::to_string(store->check({"a", "d"})),
               std::to_string(store->deleteKey("a")),
               std::to_string(store->deleteKey("a"))};
  for (const auto& value : store->multiGet({"b", "c"})) seen.push_back(text(value));
  std::vector<std::string> keys = muster::compat::list_keys(*store);
  std::ranges::sort(keys);
  seen.insert(seen.end(), keys.begin(), keys.end());
  return seen;
}

Seen numbers(std::uint16_t port) {
  const StorePtr store = connect(port);
  return {std::to_string(store->add("n", 5)),
          std::to_string(store->add("n", -8)),
          text(store->get("n")),
          text(store->compareSet("k", bytes("x"), bytes("y"))),
          text(store->compareSet("k", {}, bytes("y"))),
          text(store->compareSet("k", bytes("z"), bytes("w"))),
          text(store->compareSet("k", bytes("y"), bytes("w")))};
}

Seen queues(std::uint16_t port) {
  const StorePtr store = connect(port, kShort);
  Seen seen = {error_of([&] { store->queuePop("q", false); }), error_of([&] { store->queuePop("q", true); })};
  for (const char* item : {"a", "b"}) store->queuePush("q", bytes(item));
  seen.insert(seen.end(), {std::to_string(store->queueLen("q")), text(store->queuePop("q", true)),
                           text(store->queuePop("q", false)), std::to_string(store->queueLen("q"))});
  return seen;
}

Seen timeouts(std::uint16_t port) {
  const StorePtr store = connect(port, kShort);
  return {error_of([&] { store->get("none"); }), error_of([&] { store->wait({"a", "b"}, kShort); }),
          std::to_string(store->getNumKeys()), error_of([&] { store->wait({}); })};
}

Seen barriers(std::uint16_t port) {
  constexpr int kClients = 16;
  std::vector<std::thread> threads;
  Seen seen(kClients);
  for (int index = 0; index < kClients; ++index) {
    threads.emplace_back([index, port, &seen] {
      const auto store = c10::make_intrusive<PrefixStore>("job", connect(port));
      for (int round = 0; round < 20; ++round) {
        const std::string number = std::to_string(round);
        if (store->add("arrived" + number, 1) == kClients) store->set("go" + number, bytes("1"));
        store->wait({"go" + number});
      }
      seen[static_cast<std::size_t>(index)] = text(store->get("arrived19"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return seen;
}

Seen late_value(std::uint16_t port) {
  const StorePtr waiting = connect(port), setting = connect(port);
  std::string got;
  std::thread thread([&] { got = text(waiting->get("late")); });
  setting->set("late", bytes("value"));
  thread.join();
  return {got};
}

Seen halves(std::uint16_t port) {
  const StorePtr store = connect(port);
  store->_splitSet("key", bytes("a value that comes a second after its key"));
  return {text(store->get("key"))};
}

class StoreContract : public testing::TestWithParam<std::pair<const char*, Seen (*)(std::uint16_t)>> {};

TEST_P(StoreContract, TheCppClientGetsWhatItGetsFromTorchsServer) {
  const auto scenario = GetParam().second;
  Seen ours;
  {
    const OurServer server;
    ours = scenario(server.port());
  }
  const StorePtr torchs = torch_server();
  EXPECT_EQ(ours, scenario(torchs->getPort()));
}

INSTANTIATE_TEST_SUITE_P(Scenario, StoreContract,
                         testing::Values(std::pair{"values", &values}, std::pair{"numbers", &numbers},
                                         std::pair{"queues", &queues}, std::pair{"timeouts", &timeouts},
                                         std::pair{"barriers", &barriers},
                                         std::pair{"late_value", &late_value}, std::pair{"halves", &halves}),
                         [](const auto& scenario) { return std::string(scenario.param.first); });

}  // namespace
}  // namespace muster::agent
