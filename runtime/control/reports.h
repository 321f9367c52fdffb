// What a worker tells its agent, and what the agent orders, as JSON datagrams on the socket that
// MUSTER_SOCKET names (docs/protocol.md).
//
// One object a datagram: {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":"..."}; 4 KiB at most.
// Sending never blocks and never fails the caller: a full socket loses the datagram. A thread
// ("muster-heart"), from construction to destruction, says hello, sends a heartbeat with the newest step and
// section every second and a profile every ten, and obeys: it writes all threads' stacks, and notes a notice
// of preemption. Safe from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
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
  ~Reports();

  // A "step", up to 100 at once and 100 a second: of faster steps the heartbeat brings the newest.
  void step(std::int64_t step);
  void send(std::string_view type, std::int64_t step, std::string_view text = {});
  // Where the time of the steps so far went; nothing before the first.
  void send_profile();
  // The program can save and leave in time when it gets notice.
  void offer_preemption();
  // The agent has given notice: this machine goes away.
  bool preemption_noticed() const { return noticed_.load(std::memory_order_relaxed); }
  // The newest step reported; -1 before the first.
  std::int64_t newest_step() const { return step_.load(std::memory_order_relaxed); }

 private:
  bool transmit(std::string_view type, const nlohmann::json& fields);
  void beat(const std::stop_token& stop);
  void say_hello();
  void send_heartbeat();
  void listen(std::chrono::milliseconds limit, int wake);
  void obey(std::string_view datagram);
  void write_stacks(const std::string& path);

  UniqueFd socket_;
  int rank_;
  std::uint64_t attempt_;
  bool writes_stacks_ = false;
  std::atomic<bool> offers_preemption_{false};
  std::atomic<bool> noticed_{false};
  std::atomic<bool> greeted_{false};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::chrono::steady_clock::rep> paid_until_{0};  // each step sent moves it on by 10 ms
  std::jthread heart_;                                         // last, so that it ends before what it uses
};

}  // namespace muster
