#include "runtime/comm/shm/messages.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace muster::shm {
namespace {

// Each message in a pipe begins with a head. The position of a head in the pipe is a multiple of this many
// bytes. So a head is always in one piece, even at the end of the ring.
constexpr std::size_t kGrain = 16;
// When the sender has written this many bytes, it wakes the receiver. The receiver then copies these bytes
// while the sender writes the next ones.
constexpr std::size_t kPortion = std::size_t{64} << 10;

std::size_t padded(std::size_t bytes) {
  return (bytes + kGrain - 1) / kGrain * kGrain;
}

// Copies between memory and a pipe's ring.
void into_ring(std::byte* ring, std::size_t size, std::uint64_t at, const std::byte* from,
               std::size_t bytes) {
  const std::size_t begin = at & (size - 1);
  const std::size_t first = std::min(bytes, size - begin);
  std::memcpy(ring + begin, from, first);
  if (bytes > first) std::memcpy(ring, from + first, bytes - first);
}
void out_of_ring(const std::byte* ring, std::size_t size, std::uint64_t at, std::byte* to,
                 std::size_t bytes) {
  const std::size_t begin = at & (size - 1);
  const std::size_t first = std::min(bytes, size - begin);
  std::memcpy(to, ring + begin, first);
  if (bytes > first) std::memcpy(to + first, ring, bytes - first);
}

// A message with these bytes has arrived completely. `message` is the receive request that has asked for it,
// and gets the bytes.
void hand_over(Message& message, int from, const std::vector<std::byte>& bytes) {
  message.source = from;
  if (bytes.size() != message.bytes)
    message.wrong = fmt::format("a message of {} bytes arrived", bytes.size());
  else if (!bytes.empty())
    std::memcpy(message.data, bytes.data(), bytes.size());
}

}  // namespace

std::string Message::text() const {
  if (sends) return fmt::format("send of {} bytes", bytes);
  return fmt::format("recv of {} bytes", bytes);
}

Messages::Messages(const Segment& segment, int rank)
    : segment_(segment), rank_(rank), peers_(static_cast<std::size_t>(segment.ranks())) {}

void Messages::add(std::shared_ptr<Message> message) {
  if (message->sends)
    peers_[static_cast<std::size_t>(message->peer)].sends.push_back(std::move(message));
  else if (!take_stored(message))
    receives_.push_back(std::move(message));
}

// `message` is a receive request. Looks for a stored message that fits this request. If there is one, gives
// its bytes to the request and returns true. If the stored message has not arrived completely, the request
// gets the bytes later. Returns false if no stored message fits.
bool Messages::take_stored(const std::shared_ptr<Message>& message) {
  for (int from = 0; from < segment_.ranks(); ++from) {
    if (message->peer >= 0 && message->peer != from) continue;
    Peer& peer = peers_[static_cast<std::size_t>(from)];
    const auto found = std::ranges::find_if(peer.stored, [&](const Stored& each) {
      return each.head.tag == message->tag && each.for_whom == nullptr;
    });
    if (found == peer.stored.end()) continue;
    if (peer.open && peer.into == nullptr && std::next(found) == peer.stored.end()) {
      found->for_whom = message;
    } else {
      hand_over(*message, from, found->bytes);
      found_.push_back(message);
      peer.stored.erase(found);
    }
    return true;
  }
  return false;
}

bool Messages::asked_for(int from) const {
  return std::ranges::any_of(receives_,
                             [&](const auto& each) { return each->peer < 0 || each->peer == from; });
}

std::shared_ptr<Message> Messages::take_receive(int from, std::uint64_t tag) {
  const auto found = std::ranges::find_if(receives_, [&](const auto& each) {
    return each->tag == tag && (each->peer < 0 || each->peer == from);
  });
  if (found == receives_.end()) return nullptr;
  std::shared_ptr<Message> message = std::move(*found);
  receives_.erase(found);
  return message;
}

bool Messages::advance(Ended& ended) {
  bool moved = !found_.empty();
  for (auto& each : std::exchange(found_, {})) end(std::move(each), ended);
  for (int other = 0; other < segment_.ranks(); ++other) {
    moved = push(other, ended) || moved;
    moved = pull(other, ended) || moved;
  }
  return moved;
}

bool Messages::push(int to, Ended& ended) {
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  if (peer.sends.empty()) return false;
  Pipe& pipe = segment_.pipe(rank_, to);
  std::byte* const ring = segment_.pipe_memory(rank_, to);
  const std::size_t size = segment_.pipe_bytes();
  std::uint64_t written = pipe.written.load(std::memory_order_relaxed);
  const std::uint64_t before = written;
  const auto free = [&] { return size - (written - pipe.taken.load(std::memory_order_acquire)); };
  const auto publish = [&] {
    pipe.written.store(written, std::memory_order_release);
    segment_.announce(rank_, to);
  };
  while (!peer.sends.empty()) {
    Message& message = *peer.sends.front();
    if (!message.begun) {
      if (free() < sizeof(Head)) break;
      const Head head{message.bytes, message.tag};
      into_ring(ring, size, written, reinterpret_cast<const std::byte*>(&head), sizeof head);
      written += sizeof head;
      message.begun = true;
    }
    while (message.moved < message.bytes) {
      const std::size_t part = std::min({message.bytes - message.moved, free() / kGrain * kGrain, kPortion});
      if (part == 0) break;
      into_ring(ring, size, written, message.data + message.moved, part);
      written += padded(part);
      message.moved += part;
      if (message.moved < message.bytes) publish();
    }
    message.still_since_ = TimePoint();
    if (message.moved < message.bytes) break;
    end(std::move(peer.sends.front()), ended);
    peer.sends.pop_front();
  }
  if (written != before) publish();
  if (!peer.sends.empty()) {
    // The pipe is full. So this code wakes the receiver's own thread. That thread takes the data out of the
    // pipe, into the memory of the receive requests. The thread is not woken again before it has taken some
    // data.
    const std::uint64_t taken = pipe.taken.load(std::memory_order_relaxed);
    if (std::exchange(peer.called_at, taken) != taken) wake(segment_.state(to).call);
  }
  return written != before;
}

// Begins to read the next message in the pipe from the rank `from`. But if no receive request asks for a
// message from that rank, it does nothing. If a receive request asks for this message, the message goes to
// that request. Otherwise it goes into `stored`.
bool Messages::open(int from, Peer& peer) {
  Pipe& pipe = segment_.pipe(from, rank_);
  const std::uint64_t taken = pipe.taken.load(std::memory_order_relaxed);
  if (pipe.written.load(std::memory_order_acquire) == taken) return false;
  if (!asked_for(from)) return false;
  out_of_ring(segment_.pipe_memory(from, rank_), segment_.pipe_bytes(), taken,
              reinterpret_cast<std::byte*>(&peer.head), sizeof peer.head);
  peer.into = take_receive(from, peer.head.tag);
  if (peer.into == nullptr) {
    peer.stored.push_back({peer.head, std::vector<std::byte>(peer.head.bytes), nullptr});
  } else {
    peer.into->source = from;
    if (peer.into->bytes != peer.head.bytes)
      peer.into->wrong = fmt::format("a message of {} bytes arrived", peer.head.bytes);
  }
  peer.open = true;
  peer.come = 0;
  pipe.taken.store(taken + sizeof peer.head, std::memory_order_release);
  return true;
}

bool Messages::pull(int from, Ended& ended) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  if (!peer.open && receives_.empty()) return false;
  Pipe& pipe = segment_.pipe(from, rank_);
  bool moved = false;
  while (peer.open || open(from, peer)) {
    const std::uint64_t taken = pipe.taken.load(std::memory_order_relaxed);
    const std::uint64_t there = pipe.written.load(std::memory_order_acquire) - taken;
    const std::size_t part = std::min({peer.head.bytes - peer.come, there, kPortion});
    if (part == 0 && peer.come < peer.head.bytes) break;
    moved = true;
    if (part > 0) take(from, peer, part);
    if (peer.come == peer.head.bytes) finish(from, peer, ended);
  }
  return moved;
}

void Messages::take(int from, Peer& peer, std::size_t part) {
  Pipe& pipe = segment_.pipe(from, rank_);
  const std::uint64_t taken = pipe.taken.load(std::memory_order_relaxed);
  std::byte* to = nullptr;
  if (peer.into == nullptr)
    to = peer.stored.back().bytes.data() + peer.come;
  else if (peer.into->wrong.empty())
    to = peer.into->data + peer.come;
  if (to != nullptr) out_of_ring(segment_.pipe_memory(from, rank_), segment_.pipe_bytes(), taken, to, part);
  peer.come += part;
  if (peer.into != nullptr) peer.into->still_since_ = TimePoint();
  pipe.taken.store(taken + padded(part), std::memory_order_release);
  segment_.announce(rank_, from);
}

void Messages::finish(int from, Peer& peer, Ended& ended) {
  peer.open = false;
  std::shared_ptr<Message> message = std::move(peer.into);
  if (message == nullptr) {
    message = std::move(peer.stored.back().for_whom);
    if (message == nullptr) return;
    hand_over(*message, from, peer.stored.back().bytes);
    peer.stored.pop_back();
  }
  end(std::move(message), ended);
}

void Messages::end(std::shared_ptr<Message> message, Ended& ended) {
  message->through = true;
  message->error_ = message->wrong;
  ended.push_back(std::move(message));
}

std::vector<int> Messages::missing(const Message& message) const {
  if (message.sends) return {message.peer};
  if (message.source >= 0) return {message.source};
  if (message.peer >= 0) return {message.peer};
  std::vector<int> all;
  for (int other = 0; other < segment_.ranks(); ++other)
    if (other != rank_) all.push_back(other);
  return all;
}

std::vector<std::shared_ptr<Message>> Messages::pending() const {
  std::vector<std::shared_ptr<Message>> all(receives_.begin(), receives_.end());
  for (const Peer& peer : peers_) {
    all.insert(all.end(), peer.sends.begin(), peer.sends.end());
    if (peer.open && peer.into != nullptr) all.push_back(peer.into);
    if (peer.open && peer.into == nullptr && peer.stored.back().for_whom != nullptr)
      all.push_back(peer.stored.back().for_whom);
  }
  return all;
}

void Messages::clear() {
  found_.clear();
  receives_.clear();
  for (Peer& each : peers_) each = {};
}

std::uint64_t Messages::mask() const {
  std::uint64_t bits = 0;
  for (const auto& each : pending())
    for (const int rank : missing(*each)) bits |= std::uint64_t{1} << (rank % 64);
  return bits;
}

}  // namespace muster::shm
