// What a worker tells its agent, as JSON datagrams on the socket that MUSTER_SOCKET names (docs/protocol.md).
//
// One object a datagram: {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":"..."}, T being
// heartbeat, step, resumed, committed, fenced or finished; 4 KiB at most. Sending never blocks and never
// fails the caller: a full socket loses the datagram. A thread ("muster-heart") sends a heartbeat with the
// newest step every second, from construction to destruction. Safe from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/file.h"

namespace muster {

class Reports {
 public:
  // No socket, or one that cannot be reached: nothing is ever sent.
  Reports(const std::string& socket_path, int rank, std::uint64_t attempt);
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  // A "step", up to 100 at once and 100 a second: of faster steps the heartbeat brings the newest.
  void step(std::int64_t step);
  void send(std::string_view type, std::int64_t step, std::string_view text = {});
  // The newest step reported; -1 before the first.
  std::int64_t newest_step() const { return step_.load(std::memory_order_relaxed); }

 private:
  void beat(const std::stop_token& stop);

  UniqueFd socket_;
  int rank_;
  std::uint64_t attempt_;
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::chrono::steady_clock::rep> paid_until_{0};  // each step sent moves it on by 10 ms
  std::jthread heart_;                                         // last, so that it ends before what it uses
};

}  // namespace muster
