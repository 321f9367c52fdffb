// Messages between this rank and the others of a group on one host, through the pipes of its segment.
//
// A message that fits into the free space of its pipe is sent at once, whether or not the receiver has asked
// for it. A message that nobody has asked for stays in the pipe. If the receiver asks for a later message
// from the same rank, it moves the earlier message into its own memory to let the later one through. Between
// two ranks, messages with the same tag keep their order. For one thread at a time.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "runtime/comm/shm/request.h"
#include "runtime/comm/shm/segment.h"

namespace muster::shm {

// Tags from here on belong to collectives.
constexpr std::uint64_t kTagOfCollectives = std::uint64_t{1} << 32;

class Messages {
 public:
  Messages(const Segment& segment, int rank);

  void add(std::shared_ptr<Message> message);
  // Moves all data that can be moved; returns true if there was any. Appends finished requests to `ended`.
  bool advance(std::vector<std::shared_ptr<Request>>& ended);
  // Returns the ranks that this rank waits for, as bits.
  std::uint64_t mask() const;
  // pending() returns all unfinished messages; missing() returns the ranks that a message waits for.
  std::vector<std::shared_ptr<Message>> pending() const;
  std::vector<int> missing(const Message& message) const;
  void clear();

 private:
  struct Head {
    std::uint64_t bytes = 0;
    std::uint64_t tag = 0;
  };
  // A message that arrived before this rank asked for it. It is kept in this rank's own memory.
  struct Stored {
    Head head;
    std::vector<std::byte> bytes;
    std::shared_ptr<Message> for_whom;  // the receive that asked for the message while it was arriving
  };
  struct Peer {
    std::deque<std::shared_ptr<Message>> sends;
    // the pipe's `taken` when the peer was last asked to read more
    std::uint64_t called_at = ~std::uint64_t{0};
    // If `open`, a message is arriving: in `into`, or in the last of `stored` if `into` is null.
    bool open = false;
    Head head;
    std::size_t come = 0;
    std::shared_ptr<Message> into;
    std::list<Stored> stored;
  };
  using Ended = std::vector<std::shared_ptr<Request>>;

  bool push(int to, Ended& ended);
  bool pull(int from, Ended& ended);
  bool open(int from, Peer& peer);
  void take(int from, Peer& peer, std::size_t part);
  void finish(int from, Peer& peer, Ended& ended);
  static void end(std::shared_ptr<Message> message, Ended& ended);
  bool take_stored(const std::shared_ptr<Message>& message);
  std::shared_ptr<Message> take_receive(int from, std::uint64_t tag);
  bool asked_for(int from) const;

  const Segment& segment_;
  int rank_;
  std::vector<Peer> peers_;
  std::list<std::shared_ptr<Message>> receives_;  // in the order of the requests
  std::vector<std::shared_ptr<Message>> found_;   // receives of stored messages
};

}  // namespace muster::shm
