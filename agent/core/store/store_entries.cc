// The functions of Store that handle its keys, the clients that wait for keys, and the memory limit. The
// commands in store.cc use them.
#include <algorithm>

#include "agent/core/store/store.h"

namespace muster::agent {
namespace {

constexpr std::size_t kEntryBytes = 192;   // about how many bytes a key takes in addition to its text
constexpr std::size_t kWaitingBytes = 24;  // about how many bytes one client's wait for one key takes

}  // namespace

const Store::Node* Store::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &*found;
}

std::string_view Store::value_of(std::string_view key) const {
  const Node* node = find(key);
  return node != nullptr && node->second.value ? std::string_view(*node->second.value) : std::string_view();
}

Expected<Store::Node*> Store::find_or_create(std::string_view key) {
  if (Node* node = find(key)) return node;
  if (entries_.size() >= limits_.key_count) {
    return failure(ErrorCode::kUnavailable, "the store is full: {} keys", limits_.key_count);
  }
  if (Status room = take_room(key.size() + kEntryBytes); !room) return std::unexpected(room.error());
  return &*entries_.try_emplace(std::string(key)).first;
}

void Store::erase_if_unused(Node& node) {
  const Entry& entry = node.second;
  if (entry.value || entry.queue || !entry.waiting.empty()) return;
  total_bytes_ -= node.first.size() + kEntryBytes;
  entries_.erase(entries_.find(node.first));
}

Status Store::assign(Node& node, std::string_view value) {
  Status kept = keep(node, value);
  if (kept) release(node, false);
  return kept;
}

Status Store::keep(Node& node, std::string_view value) {
  std::optional<std::string>& held = node.second.value;
  const std::size_t old_bytes = held ? held->size() : 0;
  if (value.size() > old_bytes) {
    if (Status room = take_room(value.size() - old_bytes); !room) {
      erase_if_unused(node);
      return room;
    }
  } else {
    total_bytes_ -= old_bytes - value.size();
  }
  if (held) {
    held->assign(value);
    return {};
  }
  held.emplace(value);
  ++value_count_;
  return {};
}

Status Store::take_room(std::size_t bytes) {
  if (total_bytes_ + bytes > limits_.total_bytes) {
    return failure(ErrorCode::kUnavailable, "the store is full: {} bytes", limits_.total_bytes);
  }
  total_bytes_ += bytes;
  return {};
}

Status Store::wait(Client& client, StoreFields fields) {
  end_wait(client);
  std::vector<Awaited>& awaited = client.awaited;
  Status status;
  for (auto left = fields.number<std::uint64_t>(); left > 0 && status; --left) {
    const std::string_view key = fields.blob();
    if (const Node* node = find(key); node != nullptr && node->second.present()) continue;
    const Expected<Node*> node = find_or_create(key);
    if (node) awaited.push_back({*node, false});
    if (!node) status = std::unexpected(node.error());
  }
  std::ranges::sort(awaited, {}, &Awaited::node);
  const auto duplicates = std::ranges::unique(awaited, {}, &Awaited::node);
  awaited.erase(duplicates.begin(), duplicates.end());
  if (status) status = take_room(awaited.size() * kWaitingBytes);
  if (!status) {
    for (const Awaited& key : awaited) erase_if_unused(*key.node);
    awaited.clear();
    return status;
  }
  if (awaited.empty()) return reply_bytes({&kStopWaiting, 1});
  client.missing_count = awaited.size();
  for (const Awaited& key : awaited) key.node->second.waiting.push_back(&client);
  return {};
}

// Lets clients wait until as many as `world_size` have arrived. The value of the barrier's key is the number
// of clients that have arrived so far, including those that have disconnected since. Although the key has a
// value, a client waits until the last client arrives. The last client releases all clients that wait for the
// key.
Status Store::barrier(Client& client, StoreFields fields) {
  end_wait(client);
  const std::string_view key = fields.blob();
  const auto world_size = fields.number<std::int64_t>();
  const Expected<Node*> node = find_or_create(key);
  if (!node) return std::unexpected(node.error());
  const Expected<std::int64_t> old = number_in((*node)->second);
  if (!old) return std::unexpected(old.error());
  const auto count = static_cast<std::int64_t>(static_cast<std::uint64_t>(*old) + 1);
  const fmt::format_int text(count);
  if (Status kept = keep(**node, {text.data(), text.size()}); !kept) return kept;
  if (count >= world_size) {
    release(**node, false);
    return reply_bytes({&kStopWaiting, 1});
  }
  if (Status room = take_room(kWaitingBytes); !room) return room;
  client.awaited.push_back({*node, false});
  client.missing_count = 1;
  (*node)->second.waiting.push_back(&client);
  return {};
}

void Store::end_wait(Client& client) {
  for (const Awaited& key : client.awaited) {
    if (key.arrived) continue;
    std::vector<Client*>& waiting = key.node->second.waiting;
    waiting.erase(std::ranges::find(waiting, &client));
    erase_if_unused(*key.node);
  }
  total_bytes_ -= client.awaited.size() * kWaitingBytes;
  client.awaited.clear();
  client.missing_count = 0;
}

void Store::release(Node& node, bool only_one) {
  std::vector<Client*>& waiting = node.second.waiting;
  std::size_t seen_count = 0;
  while (seen_count < waiting.size()) {
    const bool released = arrived(*waiting[seen_count++], node);
    if (released && only_one) break;
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(seen_count));
}

bool Store::arrived(Client& client, Node& node) {
  std::ranges::lower_bound(client.awaited, &node, {}, &Awaited::node)->arrived = true;
  if (--client.missing_count > 0) return false;
  end_wait(client);
  if (&client == fed_) {
    output_->reply.push_back(kStopWaiting);
  } else {
    output_->released.push_back(client.id);
  }
  return true;
}

}  // namespace muster::agent
