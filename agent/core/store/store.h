// The c10d store of one attempt. It does the work of torch's TCPStore server: it takes the bytes that clients
// send, and computes the content of the store and the answers.
//
// The store owns the values, the queues and the clients that wait for keys. StoreServer
// (io/store/store_server.h) owns the sockets. The store answers in the same way as torch's libuv server (2.9
// to 2.15), with these exceptions:
// - a COMPARE_SET that sets nothing releases no client;
// - for WAIT, a key whose queue has entries is not missing;
// - a QUEUE_PUSH releases a waiting client once.
// No correct program depends on these differences. If a client breaks the protocol or a limit, feed() fails
// for that client only. No clock, no threads, no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/core/store/store_wire.h"
#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster::agent {

using StoreClientId = Id<struct StoreClientTag, std::uint64_t>;  // one connection; never reused

// The bytes that have to be sent. The caller uses one StoreOutput for all calls, so that no call has to
// allocate memory.
struct StoreOutput {
  std::string reply;                    // to the client that sent the bytes
  std::vector<StoreClientId> released;  // other clients whose wait is over: send kStopWaiting to each
};

class Store {
 public:
  explicit Store(StoreLimits limits = {}) : limits_(limits) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void connected(StoreClientId client);
  void disconnected(StoreClientId client);

  // Takes the next bytes of a connected client, and executes every complete command. The bytes can be cut
  // into pieces anywhere. The content of `output` is replaced. If this fails, the error says what the client
  // did wrong. In that case, send `output` all the same, and then disconnect the client.
  Status feed(StoreClientId client, std::string_view bytes, StoreOutput& output);

  // Whether the client's first command has shown that it speaks the protocol.
  bool validated(StoreClientId client) const { return clients_.at(client).validated; }
  std::size_t total_bytes() const { return total_bytes_; }

 private:
  struct Client;
  struct Entry {
    std::optional<std::string> value;
    std::unique_ptr<std::deque<std::string>> queue;  // never empty
    std::vector<Client*> waiting;                    // in order of arrival
    bool present() const { return value || queue; }
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Entries = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;
  using Node = Entries::value_type;  // does not move while its key exists
  struct Awaited {
    Node* node;
    bool arrived;
  };
  struct Client {
    StoreClientId id;
    bool validated = false;
    std::string unfinished;  // bytes of an incomplete command
    StoreCommandScanner scanner;
    std::vector<Awaited> awaited;  // sorted by node
    std::size_t missing_count = 0;
  };

  Status execute(Client& client, std::string_view command);
  Status set(std::string_view key, std::string_view value);
  Status compare_set(StoreFields fields);
  Status add(StoreFields fields);
  Status append(std::string_view key, std::string_view more);
  Status push(std::string_view key, std::string_view value);
  Status pop(std::string_view key);
  Status multi_get(StoreFields fields);
  Status multi_set(StoreFields fields);
  Status list_keys();
  Status wait(Client& client, StoreFields fields);
  Status barrier(Client& client, StoreFields fields);
  bool check(StoreFields fields) const;
  std::int64_t remove(std::string_view key);
  std::size_t queue_length(std::string_view key) const;

  const Node* find(std::string_view key) const;
  Node* find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }
  std::string_view value_of(std::string_view key) const;
  Expected<Node*> find_or_create(std::string_view key);
  void erase_if_unused(Node& node);
  Status assign(Node& node, std::string_view value);
  Status keep(Node& node, std::string_view value);
  static Expected<std::int64_t> number_in(const Entry& entry);
  Status take_room(std::size_t bytes);
  void end_wait(Client& client);
  void release(Node& node, bool only_one);
  bool arrived(Client& client, Node& node);

  template <class Number>
  Status reply(Number number);
  Status reply_blob(std::string_view bytes);
  Status reply_bytes(std::string_view bytes);

  const StoreLimits limits_;
  Entries entries_;
  std::unordered_map<StoreClientId, Client> clients_;
  std::size_t value_count_ = 0;
  std::size_t total_bytes_ = 0;
  StoreOutput* output_ = nullptr;  // of the current call
  Client* fed_ = nullptr;          // of the current call
};

}  // namespace muster::agent
