#include "agent/core/store/store.h"

#include <cerrno>
#include <cstdlib>

#include "common/base/check.h"

namespace muster::agent {
namespace {

constexpr std::size_t kQueuedBytes = sizeof(std::string);
constexpr std::size_t kKeptBufferBytes = 64 << 10;

}  // namespace

template <class Number>
Status Store::reply(Number number) {
  return reply_bytes({reinterpret_cast<const char*>(&number), sizeof number});
}

Status Store::reply_blob(std::string_view bytes) {
  if (Status sent = reply<std::uint64_t>(bytes.size()); !sent) return sent;
  return reply_bytes(bytes);
}

Status Store::reply_bytes(std::string_view bytes) {
  if (output_->reply.size() + bytes.size() > limits_.reply_bytes) {
    return failure(ErrorCode::kCorrupt, "replies of more than {} bytes at once", limits_.reply_bytes);
  }
  output_->reply.append(bytes);
  return {};
}

void Store::connected(StoreClientId id) {
  const bool fresh =
      clients_.try_emplace(id, Client{.id = id, .unfinished = {}, .scanner = {}, .awaited = {}}).second;
  CHECK(fresh, "client {} is connected already", id);
}

void Store::disconnected(StoreClientId id) {
  Client& client = clients_.at(id);
  end_wait(client);
  total_bytes_ -= client.unfinished.size();
  clients_.erase(id);
}

Status Store::feed(StoreClientId id, std::string_view bytes, StoreOutput& output) {
  output.reply.clear();
  output.released.clear();
  Client& client = clients_.at(id);
  output_ = &output;
  fed_ = &client;
  const bool joined = !client.unfinished.empty();
  if (joined) {
    if (Status room = take_room(bytes.size()); !room) return room;
    client.unfinished.append(bytes);
    bytes = client.unfinished;
  }
  while (!bytes.empty()) {
    if (!client.validated && bytes[0] != static_cast<char>(StoreCommand::kValidate)) {
      return failure(ErrorCode::kCorrupt, "the first byte is {}, not the command of a c10d client",
                     static_cast<unsigned char>(bytes[0]));
    }
    const Expected<std::size_t> size = client.scanner.scan(bytes, limits_);
    if (!size) return std::unexpected(size.error());
    if (*size == 0) break;
    client.scanner.reset();
    if (Status done = execute(client, bytes.substr(0, *size)); !done) return done;
    bytes.remove_prefix(*size);
  }
  if (joined) {
    total_bytes_ -= client.unfinished.size() - bytes.size();
    client.unfinished.erase(0, client.unfinished.size() - bytes.size());
    if (client.unfinished.capacity() > kKeptBufferBytes && client.unfinished.empty())
      client.unfinished.shrink_to_fit();
  } else if (!bytes.empty()) {
    if (Status room = take_room(bytes.size()); !room) return room;
    client.unfinished.assign(bytes);
  }
  return {};
}

Status Store::execute(Client& client, std::string_view bytes) {
  const auto command = static_cast<StoreCommand>(bytes[0]);
  StoreFields fields(bytes.substr(1));
  switch (command) {
    case StoreCommand::kValidate:
      if (client.validated) return failure(ErrorCode::kCorrupt, "VALIDATE a second time");
      if (fields.number<std::uint32_t>() != kStoreMagic)
        return failure(ErrorCode::kCorrupt, "VALIDATE with a wrong number");
      client.validated = true;
      return {};
    case StoreCommand::kSet: {
      const std::string_view key = fields.blob();
      return set(key, fields.blob());
    }
    case StoreCommand::kCompareSet: return compare_set(fields);
    case StoreCommand::kGet: return reply_blob(value_of(fields.blob()));
    case StoreCommand::kAdd: return add(fields);
    case StoreCommand::kCheck: return reply<std::uint8_t>(check(fields) ? 0 : 1);
    case StoreCommand::kWait: return wait(client, fields);
    case StoreCommand::kGetNumKeys: return reply<std::int64_t>(static_cast<std::int64_t>(value_count_));
    case StoreCommand::kDeleteKey: return reply<std::int64_t>(remove(fields.blob()));
    case StoreCommand::kAppend: {
      const std::string_view key = fields.blob();
      return append(key, fields.blob());
    }
    case StoreCommand::kMultiGet: return multi_get(fields);
    case StoreCommand::kMultiSet: return multi_set(fields);
    case StoreCommand::kCancelWait: end_wait(client); return reply(kWaitCanceled);
    case StoreCommand::kPing: return reply(fields.number<std::uint32_t>());
    case StoreCommand::kQueuePush: {
      const std::string_view key = fields.blob();
      return push(key, fields.blob());
    }
    case StoreCommand::kQueuePop: return pop(fields.blob());
    case StoreCommand::kQueueLen:
      return reply<std::int64_t>(static_cast<std::int64_t>(queue_length(fields.blob())));
    case StoreCommand::kListKeys: return list_keys();
    case StoreCommand::kBarrier: return barrier(client, fields);
  }
  return failure(ErrorCode::kCorrupt, "unknown command {}", static_cast<int>(command));
}

Status Store::set(std::string_view key, std::string_view value) {
  const Expected<Node*> node = find_or_create(key);
  if (!node) return std::unexpected(node.error());
  return assign(**node, value);
}

Status Store::compare_set(StoreFields fields) {
  const std::string_view key = fields.blob();
  const std::string_view expected = fields.blob();
  const std::string_view desired = fields.blob();
  Node* node = find(key);
  const bool set_already = node != nullptr && node->second.value;
  // torch has this rule for a key that is not set: the expected value matches only if it is empty. If the
  // expected value does not match, the reply is the expected value.
  const bool matches = set_already ? *node->second.value == expected : expected.empty();
  if (matches) {
    if (Status done = set(key, desired); !done) return done;
    return reply_blob(desired);
  }
  return reply_blob(set_already ? std::string_view(*node->second.value) : expected);
}

// Parses the value in the same way as torch's server. Blanks before the number and any text after it are
// ignored. If the key is not set, the number is 0.
Expected<std::int64_t> Store::number_in(const Entry& entry) {
  if (!entry.value) return 0;
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(entry.value->c_str(), &end, 10);
  if (end == entry.value->c_str() || errno == ERANGE)
    return failure(ErrorCode::kCorrupt, "ADD or BARRIER at a key whose value is not a number");
  return number;
}

Status Store::add(StoreFields fields) {
  const std::string_view key = fields.blob();
  const auto delta = fields.number<std::uint64_t>();
  const Expected<Node*> node = find_or_create(key);
  if (!node) return std::unexpected(node.error());
  const Expected<std::int64_t> old = number_in((*node)->second);
  if (!old) return std::unexpected(old.error());
  const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(*old) + delta);  // wraps around
  const fmt::format_int text(sum);
  if (Status done = assign(**node, {text.data(), text.size()}); !done) return done;
  return reply(sum);
}

Status Store::append(std::string_view key, std::string_view more) {
  const Expected<Node*> node = find_or_create(key);
  if (!node) return std::unexpected(node.error());
  std::optional<std::string>& value = (*node)->second.value;
  if (!value) return assign(**node, more);
  if (value->size() + more.size() > limits_.reply_bytes) {
    return failure(ErrorCode::kCorrupt, "APPEND to more than {} bytes", limits_.reply_bytes);
  }
  if (Status room = take_room(more.size()); !room) return room;
  value->append(more);
  release(**node, false);
  return {};
}

Status Store::push(std::string_view key, std::string_view value) {
  const Expected<Node*> node = find_or_create(key);
  if (!node) return std::unexpected(node.error());
  if (Status room = take_room(value.size() + kQueuedBytes); !room) {
    erase_if_unused(**node);
    return room;
  }
  Entry& entry = (*node)->second;
  if (!entry.queue) entry.queue = std::make_unique<std::deque<std::string>>();
  entry.queue->emplace_back(value);
  release(**node, true);
  return {};
}

Status Store::pop(std::string_view key) {
  const std::size_t length = queue_length(key);
  if (Status sent = reply<std::int64_t>(static_cast<std::int64_t>(length)); !sent || length == 0) return sent;
  Node& node = *find(key);
  std::deque<std::string>& queue = *node.second.queue;
  if (Status sent = reply_blob(queue.front()); !sent) return sent;
  total_bytes_ -= queue.front().size() + kQueuedBytes;
  queue.pop_front();
  if (queue.empty()) node.second.queue.reset();
  erase_if_unused(node);
  return {};
}

Status Store::multi_get(StoreFields fields) {
  Status sent;
  for (auto left = fields.number<std::uint64_t>(); left > 0 && sent; --left)
    sent = reply_blob(value_of(fields.blob()));
  return sent;
}

Status Store::multi_set(StoreFields fields) {
  Status done;
  for (auto left = fields.number<std::uint64_t>(); left > 0 && done; --left) {
    const std::string_view key = fields.blob();
    done = set(key, fields.blob());
  }
  return done;
}

Status Store::list_keys() {
  Status sent = reply<std::int64_t>(static_cast<std::int64_t>(value_count_));
  for (auto node = entries_.begin(); node != entries_.end() && sent; ++node) {
    if (node->second.value) sent = reply_blob(node->first);
  }
  return sent;
}

bool Store::check(StoreFields fields) const {
  for (auto left = fields.number<std::uint64_t>(); left > 0; --left) {
    const Node* node = find(fields.blob());
    if (node == nullptr || !node->second.present()) return false;
  }
  return true;
}

std::int64_t Store::remove(std::string_view key) {
  Node* node = find(key);
  if (node == nullptr || !node->second.value) return 0;
  total_bytes_ -= node->second.value->size();
  node->second.value.reset();
  --value_count_;
  erase_if_unused(*node);
  return 1;
}

std::size_t Store::queue_length(std::string_view key) const {
  const Node* node = find(key);
  return node != nullptr && node->second.queue ? node->second.queue->size() : 0;
}

}  // namespace muster::agent
