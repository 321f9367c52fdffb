// A simulated connection: carries bytes between two programs, in order, delayed, in pieces of any size, until
// a side closes it or one direction is cut.
//
// Each end is a net::Channel; received bytes go through wire::FrameReader as from a socket. As with TCP,
// nothing is lost, doubled or reordered: a direction that is cut keeps the bytes, for ever or until it heals.
// Not a model of bandwidth.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "common/net/channel.h"
#include "tests/simulation/program.h"

namespace muster::simulation {

struct Delays {
  Duration least = std::chrono::microseconds(50);
  Duration most = std::chrono::milliseconds(5);
};

class Line : public std::enable_shared_from_this<Line> {
 public:
  static std::shared_ptr<Line> make(Timeline& timeline, Chance& chance, Delays delays);
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // Side 0 or 1: the end of this program. Call close() or cut() when the program dies.
  std::shared_ptr<net::Channel> open(int side, std::weak_ptr<Program> holder);
  // Bytes of side `from`, and its close, arrive no earlier than `until`.
  void hold(int from, TimePoint until);
  // The arrival time, without the delay, of bytes that side `from` sends now.
  TimePoint clear_at(int from) const { return ways_[static_cast<std::size_t>(from)].held_until; }
  // Bytes of side `from` never arrive.
  void cut(int from);
  // Closes the connection, as the kernel does for a process that has ended.
  void close(int side);
  // Both sides see that the other has closed it.
  void reset();
  // Delivers bytes that no program sent, as if from that side.
  void inject(int from, std::string bytes);

 private:
  class End;
  struct Way {  // one direction
    TimePoint last_arrival;
    TimePoint held_until;
    bool cut = false;
    bool waits = false;  // a delivery at held_until is scheduled
    std::size_t on_its_way_bytes = 0;
    std::deque<std::string> held;
  };

  Line(Timeline& timeline, Chance& chance, Delays delays)
      : timeline_(timeline), chance_(chance), delays_(delays) {}
  void send(int from, std::string bytes);
  void arrive(int from, std::string bytes);
  void release(int from);
  void deliver(int from, std::string bytes);

  Timeline& timeline_;
  Chance& chance_;
  Delays delays_;
  std::array<Way, 2> ways_;
  std::array<std::weak_ptr<End>, 2> ends_;
};

}  // namespace muster::simulation
