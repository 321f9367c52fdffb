// Sends messages between this rank and the other ranks of a group on one host. The messages go through the
// pipes of the group's segment.
//
// If a message fits into the free space of its pipe, the sender writes it at once, even if the receiver has
// not asked for it. The message stays in the pipe until the receiver asks for a message from that rank. If
// the receiver asks for a later message first, it moves the earlier message out of the pipe into its own
// memory. Between two ranks, messages with the same tag keep their order. Only one thread at a time can use a
// Messages.
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
  // Sends and receives as much data as possible now. Returns true if some data was sent or received. Appends
  // the requests that have ended to `ended`.
  bool advance(std::vector<std::shared_ptr<Request>>& ended);
  // Returns which ranks this rank waits for. Each bit stands for a rank.
  std::uint64_t mask() const;
  // pending() returns all messages that have not ended. missing() returns the ranks for which a message
  // waits.
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
    // The receive request that asked for the message while the message was arriving.
    std::shared_ptr<Message> for_whom;
  };
  struct Peer {
    std::deque<std::shared_ptr<Message>> sends;
    // The value of `taken` in the pipe at the time when this rank last woke the peer to read more.
    std::uint64_t called_at = ~std::uint64_t{0};
    // If `open` is true, a part of a message has arrived. Its data goes to `into`. If `into` is null, it goes
    // to the last element of `stored`.
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
