// Messages between this rank and the others of a group on one host, through the pipes of its segment.
//
// A message that fits into what is free of its pipe is away at once, whether or not somebody receives it. One
// that nobody has asked for stays in the pipe; if the receiver asks for another from that rank, it is moved
// into the receiver's own memory to let that one through. Between two ranks, messages of one tag keep their
// order. For one thread at a time.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "runtime/comm/shm/request.h"
#include "runtime/comm/shm/segment.h"

namespace muster::shm {

// Tags from here on are of collectives.
constexpr std::uint64_t kTagOfCollectives = std::uint64_t{1} << 32;

class Messages {
 public:
  Messages(const Segment& segment, int rank);

  void add(std::shared_ptr<Message> message);
  // Moves what can be moved: whether there was anything. What ends is added to `ended`.
  bool advance(std::vector<std::shared_ptr<Request>>& ended);
  // Of ranks that it waits for.
  std::uint64_t mask() const;
  // All that have not ended, and for which ranks one waits.
  std::vector<std::shared_ptr<Message>> pending() const;
  std::vector<int> missing(const Message& message) const;
  void clear();

 private:
  struct Head {
    std::uint64_t bytes = 0;
    std::uint64_t tag = 0;
  };
  // In this rank's own memory: what it had not asked for when it came.
  struct Stored {
    Head head;
    std::vector<std::byte> bytes;
    std::shared_ptr<Message> for_whom;  // of one that is still coming
  };
  struct Peer {
    std::deque<std::shared_ptr<Message>> sends;
    std::uint64_t called_at = ~std::uint64_t{0};  // `taken` of the pipe when it was called to take more
    // The message that is coming in: for `into`, or else for the last of `stored`.
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
  std::list<std::shared_ptr<Message>> receives_;  // in the order in which they were asked for
  std::vector<std::shared_ptr<Message>> found_;   // receives of what was stored
};

}  // namespace muster::shm
