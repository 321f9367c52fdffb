// A worker's reports to its agent, and the agent's orders, as JSON datagrams on the socket that MUSTER_SOCKET
// names (docs/protocol.md).
//
// Each datagram has one object: {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":"..."}, at most
// 4 KiB. Sending never fails for the caller, and blocks only when the worker is about to end. If the socket
// is full, reports that a later one replaces (steps, heartbeats, sections, profiles) are dropped; all others,
// metrics too, are kept until the agent takes them. A thread ("muster-heart") runs from construction to
// destruction. It sends hello, a heartbeat with the newest step and section every second, and a profile every
// ten seconds; sends kept reports again; and obeys orders: it writes all threads' stacks, and records a
// notice of preemption. Safe from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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
  std::string json;     // in torch's own format, for torch's tools
  // The newest collective of each group: "newest collective in group 'world': #41 all_reduce of Float [4],
  // finished up to #40". Groups that the program has made have their number: 'trainers (group 1)'.
  std::vector<std::string> lines;
};

class Reports {
 public:
  // If the socket cannot be reached, no function ever sends anything. The thread calls `flight_records` each
  // time it writes the stacks; null: no records.
  Reports(const std::string& socket_path, int rank, std::uint64_t attempt,
          std::function<std::vector<FlightRecord>()> flight_records = {});
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;
  ~Reports();

  // Sends a "step", at most 100 at once and 100 per second; beyond that the heartbeat reports the newest
  // step.
  void step(std::int64_t step);
  // Sets the next step's loss, and its samples on this rank (0: unknown).
  void describe_step(std::optional<double> loss, std::int64_t samples);
  // Sends a report that must not get lost: keeps it while the socket is full. After "preempted", and after a
  // "committed" that follows a notice, the worker ends. So for these two send() waits up to 5 s until the
  // agent has taken all reports.
  void send(std::string_view type, std::int64_t step, std::string_view text = {});
  // Sends the values of metrics at this step, all of them and in order. A NaN or infinite value is sent as a
  // word. The names must be wire::is_metric_name().
  void metrics(std::int64_t step, const std::map<std::string, double>& values);
  // Sends where the time of the steps so far went; nothing before the first step.
  void send_profile();
  struct MemorySlot {
    int rank;
    UniqueFd fd;
  };
  // Asks the agent for memory that outlives this process: two files of slot_bytes for this rank, which
  // replace files of another size. If slot_bytes is 0, the agent creates none. Returns all slots that the
  // agent has for this node's ranks. If the agent has none, returns kUnavailable with the reason.
  Expected<std::vector<MemorySlot>> memory_slots(std::uint64_t slot_bytes) const;
  // Declares that the program can save and leave in time when it gets a notice.
  void offer_preemption();
  // True once the agent has given notice: this machine is about to go away.
  bool preemption_noticed() const { return noticed_.load(std::memory_order_relaxed); }
  // The newest step reported; -1 before the first.
  std::int64_t newest_step() const { return step_.load(std::memory_order_relaxed); }

 private:
  std::pair<std::optional<double>, std::int64_t> take_numbers();
  std::string datagram(std::string_view type, const nlohmann::json& fields) const;
  bool transmit(std::string_view type, const nlohmann::json& fields);
  bool hand_over(const std::string& bytes);
  bool hand_over(std::deque<std::string>& kept);
  bool hand_over_kept();
  std::size_t kept_count();
  // Gives up when the agent has taken nothing for so long.
  void hand_over_within(std::chrono::milliseconds limit);
  void beat(const std::stop_token& stop);
  void say_hello();
  void send_heartbeat();
  void listen(std::chrono::milliseconds limit);
  void obey(std::string_view datagram);
  void write_stacks(const std::string& path);

  std::string socket_path_;
  UniqueFd socket_;
  UniqueFd wake_;  // an eventfd that wakes the heart
  int rank_;
  std::uint64_t attempt_;
  std::function<std::vector<FlightRecord>()> flight_records_;
  bool writes_stacks_ = false;
  std::atomic<bool> offers_preemption_{false};
  std::atomic<bool> noticed_{false};
  std::atomic<bool> greeted_{false};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::chrono::steady_clock::rep> paid_until_{0};  // rate limit of step(): each report adds 10 ms
  std::mutex numbers_mutex_;
  std::optional<double> loss_;  // for the next step
  std::int64_t samples_ = 0;
  std::mutex kept_mutex_;
  std::deque<std::string> kept_;          // datagrams that the socket had no room for, in order
  std::deque<std::string> kept_metrics_;  // apart, so that they displace no other report
  std::jthread heart_;                    // last, so that the thread ends before the members that it uses
};

}  // namespace muster
