// A worker's reports to its agent, and the agent's orders, as JSON datagrams on the socket that MUSTER_SOCKET
// names (docs/protocol.md).
//
// Each datagram has one object: {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":"..."}, at most
// 4 KiB. Sending never fails for the caller, and blocks only when the worker is about to end. If the socket
// is full, reports that a later report replaces (steps, heartbeats, sections, profiles) are dropped; all
// others, metrics too, are kept until the agent takes them. A thread ("muster-heart") runs from construction
// to destruction. It sends hello, a heartbeat with the newest step and section every second, and a profile
// every ten seconds; sends kept reports again; and obeys orders: it writes all threads' stacks, and records a
// notice of preemption. Any thread can call the functions.
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
  // A line for each group, about its newest collective: "newest collective in group 'world': #41 all_reduce
  // of Float [4], finished up to #40". The name of a group that the program has made is followed by its
  // number: 'trainers (group 1)'.
  std::vector<std::string> lines;
};

class Reports {
 public:
  // If the socket cannot be reached, this object never sends anything. The heartbeat thread calls
  // `flight_records` each time that it writes the stacks. If `flight_records` is null, the file with the
  // stacks has no records.
  Reports(const std::string& socket_path, int rank, std::uint64_t attempt,
          std::function<std::vector<FlightRecord>()> flight_records = {});
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;
  ~Reports();

  // Sends a "step" report. The first 100 reports can follow each other without a pause. After that, at most
  // 100 are sent per second. If steps come faster, some steps get no report, and the heartbeat reports the
  // newest step.
  void step(std::int64_t step);
  // Sets the loss of the next step, and the number of its samples on this rank. If the number is 0, it is
  // unknown.
  void describe_step(std::optional<double> loss, std::int64_t samples);
  // Sends a report that must not get lost. If the socket is full, the report is kept and sent later. After
  // "preempted", and after a "committed" that follows a notice, the worker ends. So for these two, send()
  // waits up to 5 s until the agent has taken all reports.
  void send(std::string_view type, std::int64_t step, std::string_view text = {});
  // Sends the values of metrics at this step. All of them arrive, and in order. A NaN or infinite value is
  // sent as a word. wire::is_metric_name() must be true for each name.
  void metrics(std::int64_t step, const std::map<std::string, double>& values);
  // Sends how the time of the steps so far is divided into parts, such as "compute". Before the first step it
  // sends nothing.
  void send_profile();
  struct MemorySlot {
    int rank;
    UniqueFd fd;
  };
  // Asks the agent for memory that outlives this process. The agent makes two files of slot_bytes for this
  // rank. If it has files of another size, the new ones replace them. If slot_bytes is 0, it makes no files.
  // Returns all slots that the agent has for the ranks of this node. If the agent has none, returns
  // kUnavailable with the reason.
  Expected<std::vector<MemorySlot>> memory_slots(std::uint64_t slot_bytes) const;
  // Declares that the program can save and leave in time when it gets a notice.
  void offer_preemption();
  // Returns true if the agent has given notice that this machine is about to go away.
  bool preemption_noticed() const { return noticed_.load(std::memory_order_relaxed); }
  // Returns the newest step that was reported. Returns -1 if no step was reported.
  std::int64_t newest_step() const { return step_.load(std::memory_order_relaxed); }

 private:
  std::pair<std::optional<double>, std::int64_t> take_numbers();
  std::string datagram(std::string_view type, const nlohmann::json& fields) const;
  bool transmit(std::string_view type, const nlohmann::json& fields);
  bool hand_over(const std::string& bytes);
  bool hand_over(std::deque<std::string>& kept);
  bool hand_over_kept();
  std::size_t kept_count();
  // Hands the kept reports over to the agent. Gives up if the agent takes none of them for `limit`.
  void hand_over_within(std::chrono::milliseconds limit);
  void beat(const std::stop_token& stop);
  void say_hello();
  void send_heartbeat();
  void listen(std::chrono::milliseconds limit);
  void obey(std::string_view datagram);
  void write_stacks(const std::string& path);

  std::string socket_path_;
  UniqueFd socket_;
  UniqueFd wake_;  // an eventfd that wakes the heartbeat thread
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
  std::deque<std::string> kept_metrics_;  // kept apart, so that they displace no other report
  std::jthread heart_;                    // last, so that the thread ends before the members that it uses
};

}  // namespace muster
