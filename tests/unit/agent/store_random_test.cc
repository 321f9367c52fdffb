#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

#include "agent/core/store/store.h"
#include "tests/unit/agent/store_messages.h"

namespace muster::agent {
namespace {

using enum StoreCommand;

// Random commands, split anywhere, from clients that come and go, in a small store.
class RandomRun {
 public:
  explicit RandomRun(std::uint32_t seed) : random_(seed) {}

  void run() {
    for (int step = 0; step < 400; ++step) {
      while (clients_.size() < 4) connect();
      auto client = clients_.begin();
      std::advance(client, pick(4));
      if (pick(40) == 0) {
        disconnect(client->first);
      } else {
        feed(client->first, client->second);
      }
    }
    while (!clients_.empty()) disconnect(clients_.begin()->first);
  }

  // Deletes all keys that are left and returns the bytes that the store still counts.
  std::size_t bytes_left() {
    connect();
    const StoreClientId client = clients_.begin()->first;
    for (int key = 0; key < 6; ++key) {
      EXPECT_TRUE(store_.feed(client, command(kDeleteKey, {name(key)}), output_));
      do EXPECT_TRUE(store_.feed(client, pop(name(key)), output_));
      while (output_.reply.size() > sizeof(std::int64_t));
    }
    disconnect(client);
    return store_.total_bytes();
  }

 private:
  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  static std::string name(int index) { return "key" + std::to_string(index); }
  std::string key() { return name(pick(6)); }

  std::string any_command() {
    const std::string value(static_cast<std::size_t>(pick(120)), '7');
    switch (pick(16)) {
      case 0: return set(key(), value);
      case 1: return get(key());
      case 2: return add(key(), pick(9));
      case 3: return command(kCompareSet, {key(), value, "1"});
      case 4: return check({key(), key()});
      case 5:
      case 6: return wait({key(), key(), key()});
      case 7: return command(kCancelWait);
      case 8: return command(kDeleteKey, {key()});
      case 9: return command(kAppend, {key(), value});
      case 10: return keys(kMultiGet, {key(), key()});
      case 11: return counted(kMultiSet, {key(), value, key(), value}, 2);
      case 12: return push(key(), value);
      case 13: return pop(key());
      case 14: return barrier(key(), pick(4));
      default: return pick(8) == 0 ? std::string(1, static_cast<char>(pick(256))) : command(kListKeys);
    }
  }

  void connect() {
    const StoreClientId id(next_++);
    store_.connected(id);
    ASSERT_TRUE(store_.feed(id, validate(), output_));
    clients_[id] = "";
  }

  void disconnect(StoreClientId id) {
    store_.disconnected(id);
    clients_.erase(id);
  }

  void feed(StoreClientId id, std::string& unsent) {
    for (int count = pick(3); count >= 0; --count) unsent += any_command();
    const std::string now =
        unsent.substr(0, static_cast<std::size_t>(pick(static_cast<int>(unsent.size()) + 1)));
    unsent.erase(0, now.size());
    const Status fed = store_.feed(id, now, output_);
    std::set<StoreClientId> released(output_.released.begin(), output_.released.end());
    EXPECT_EQ(released.size(), output_.released.size()) << "a wait ends once";
    for (const StoreClientId other : released) EXPECT_TRUE(other != id && clients_.contains(other));
    if (!fed) disconnect(id);
  }

  std::mt19937 random_;
  Store store_{
      {.value_bytes = 110, .command_bytes = 300, .reply_bytes = 600, .key_count = 5, .total_bytes = 2500}};
  StoreOutput output_;
  std::map<StoreClientId, std::string> clients_;  // with the bytes still to be sent
  std::uint64_t next_ = 1;
};

TEST(StoreUnderRandomCommands, IsEmptyWhenAllIsDeleted) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    RandomRun run(seed);
    run.run();
    ASSERT_EQ(run.bytes_left(), 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster::agent
