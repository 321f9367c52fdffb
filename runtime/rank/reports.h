// What a worker tells its agent, and what the agent orders, as JSON datagrams on the socket that
// MUSTER_SOCKET names (docs/protocol.md).
//
// One object a datagram: {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":"..."}; 4 KiB at most.
// Sending never fails the caller, and does not block but at the worker's end. A full socket loses what the
// next report makes up for (steps, heartbeats, sections, profiles); all else is kept until the agent takes
// it. A thread ("muster-heart"), from construction to destruction, says hello, sends a heartbeat with the
// newest step and section every second and a profile every ten, sends again what was kept, and obeys: it
// writes all threads' stacks, and notes a notice of preemption. Safe from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/file.h"

namespace muster {

struct FlightRecord {
  std::string backend;  // "gloo"
  std::string json;     // as torch writes it, for its own tools
  // For each group what its newest collective is: "collective 41 of the group 'world', which has ended 40:
  // all_reduce of Float [4]". Groups that the program has made have their number: 'trainers (group 1)'.
  std::vector<std::string> lines;
};

class Reports {
 public:
  // Without a socket that can be reached nothing is ever sent. The thread calls `flight_records` each time
  // that it writes the stacks; empty: there are none.
  Reports(const std::string& socket_path, int rank, std::uint64_t attempt,
          std::function<std::vector<FlightRecord>()> flight_records = {});
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;
  ~Reports();

  // A "step", up to 100 at once and 100 a second: of faster steps the heartbeat brings the newest.
  void step(std::int64_t step);
  // The next step's loss, and its samples on this rank (0: not said).
  void describe_step(std::optional<double> loss, std::int64_t samples);
  // What decides about the job, or is told once. A worker that has sent "preempted", or on notice
  // "committed", leaves next: that waits for some seconds until the agent has taken all.
  void send(std::string_view type, std::int64_t step, std::string_view text = {});
  // Where the time of the steps so far went; nothing before the first.
  void send_profile();
  struct MemorySlot {
    int rank;
    UniqueFd fd;
  };
  // Asks the agent for memory that outlives this process: two files of so many bytes for this rank, in place
  // of those that it has of another size; 0: none are made. All that the agent has, of this node's ranks.
  // kUnavailable says why there is none.
  Expected<std::vector<MemorySlot>> memory_slots(std::uint64_t slot_bytes) const;
  // The program can save and leave in time when it gets notice.
  void offer_preemption();
  // The agent has given notice: this machine goes away.
  bool preemption_noticed() const { return noticed_.load(std::memory_order_relaxed); }
  // The newest step reported; -1 before the first.
  std::int64_t newest_step() const { return step_.load(std::memory_order_relaxed); }

 private:
  std::pair<std::optional<double>, std::int64_t> take_numbers();
  std::string datagram(std::string_view type, const nlohmann::json& fields) const;
  bool transmit(std::string_view type, const nlohmann::json& fields);
  bool hand_over(const std::string& bytes);
  bool hand_over_kept();
  void hand_over_within(std::chrono::milliseconds limit);
  void beat(const std::stop_token& stop);
  void say_hello();
  void send_heartbeat();
  void listen(std::chrono::milliseconds limit);
  void obey(std::string_view datagram);
  void write_stacks(const std::string& path);

  std::string socket_path_;
  UniqueFd socket_;
  UniqueFd wake_;  // of the heart: an eventfd
  int rank_;
  std::uint64_t attempt_;
  std::function<std::vector<FlightRecord>()> flight_records_;
  bool writes_stacks_ = false;
  std::atomic<bool> offers_preemption_{false};
  std::atomic<bool> noticed_{false};
  std::atomic<bool> greeted_{false};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::chrono::steady_clock::rep> paid_until_{0};  // each step sent moves it on by 10 ms
  std::mutex numbers_mutex_;
  std::optional<double> loss_;  // of the next step
  std::int64_t samples_ = 0;
  std::mutex kept_mutex_;
  std::deque<std::string> kept_;  // datagrams that the socket had no room for, in order
  std::jthread heart_;            // last, so that it ends before what it uses
};

}  // namespace muster
