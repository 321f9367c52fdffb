// Clients of a c10d store that send any bytes, cut anywhere, and connect and disconnect, in a store with
// little memory.
#include "agent/core/store/store.h"

#include <map>
#include <set>

#include "common/base/check.h"
#include "tests/fuzz/input.h"

namespace muster::agent {
namespace {

constexpr StoreLimits kLimits{.key_bytes = 64,
                              .value_bytes = 256,
                              .keys_per_command = 16,
                              .command_bytes = 2048,
                              .reply_bytes = 4096,
                              .key_count = 24,
                              .total_bytes = 8192};
constexpr unsigned kClientCount = 3;

class Clients {
 public:
  void feed(unsigned number, std::string_view bytes) {
    const StoreClientId id = client(number);
    const Status fed = store_.feed(id, bytes, output_);
    CHECK(store_.total_bytes() <= kLimits.total_bytes, "{} bytes", store_.total_bytes());
    std::set<StoreClientId> released;
    for (const StoreClientId other : output_.released) {
      CHECK(other != id && is_connected(other), "released client {}", other);
      CHECK(released.insert(other).second, "client {} was released twice", other);
    }
    if (!fed) disconnect(number);
  }
  void disconnect(unsigned number) {
    const auto found = ids_.find(number);
    if (found == ids_.end()) return;
    store_.disconnected(found->second);
    ids_.erase(found);
  }

 private:
  StoreClientId client(unsigned number) {
    const auto [place, is_new] = ids_.try_emplace(number, next_);
    if (is_new) {
      store_.connected(place->second);
      next_ = StoreClientId(next_.value() + 1);
    }
    return place->second;
  }
  bool is_connected(StoreClientId id) const {
    for (const auto& [number, known] : ids_) {
      if (known == id) return true;
    }
    return false;
  }

  Store store_{kLimits};
  StoreOutput output_;
  std::map<unsigned, StoreClientId> ids_;
  StoreClientId next_{1};
};

}  // namespace
}  // namespace muster::agent

// One byte is the client, or a client that disconnects; the next is the number of its bytes, which follow.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::FuzzInput input(data, size);
  muster::agent::Clients clients;
  while (!input.empty()) {
    const unsigned who = input.byte();
    if (who >= 2 * muster::agent::kClientCount) {
      clients.disconnect(who % muster::agent::kClientCount);
    } else {
      clients.feed(who % muster::agent::kClientCount, input.take(input.byte()));
    }
  }
  return 0;
}
