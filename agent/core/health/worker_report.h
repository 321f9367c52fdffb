// What workers say over MUSTER_SOCKET: parsing one datagram, and how often it is passed on to the launcher.
//
// A datagram is {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":".."}, see docs/protocol.md.
// What happens rarely (hello, profile, resumed, saved, committed, saving, preempted, fenced, finished) is
// passed on at once; progress (step, heartbeat) at most every kInterval per rank, the newest of it; sections,
// answers to commands and what is about memory (memory_slots, held) are the agent's own business. No sockets,
// no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace muster::agent {

constexpr std::size_t kMaxReportBytes = 8 << 10;

struct Report {
  Attempt attempt;
  wire::WorkerReported message;
  std::optional<std::string> section;  // section: which; heartbeat: the innermost one, "" for none
  Duration section_time{};             // heartbeat: in it so far
  bool entered = false;                // section
  std::string activity;                // heartbeat: what it is at within a step; may be empty
  bool may_be_late = false;            // heartbeat: the next one is not missed
  std::uint64_t slot_bytes = 0;        // memory_slots
};

// kCorrupt if it is no report of version 1.
Expected<Report> parse_report(std::string_view datagram);

// Whether the launcher hears of it; the rest is for the agent.
bool is_for_launcher(const Report& report);

class Reports {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(100);
  static constexpr std::int32_t kMostInSpite = 100;

  // What is to be passed on now: progress that was held back first, so that order is kept.
  std::vector<wire::WorkerReported> on(const wire::WorkerReported& report, TimePoint now);
  // Progress whose time has come.
  std::vector<wire::WorkerReported> due(TimePoint now);
  // All that is held back of this rank: it has ended.
  std::vector<wire::WorkerReported> take(Rank rank);
  std::optional<TimePoint> next_deadline() const;
  // Whether a report that on(), due() or take() gave is to be sent. When the launcher does not keep up
  // (`crowded`), only reports that decide about the job are (`hello`, `saved`, `committed`, `preempted`,
  // `fenced`), up to kMostInSpite of each kind and rank. Reports that are not sent are counted.
  bool admit(const wire::WorkerReported& report, bool crowded);
  std::uint64_t dropped_count() const { return dropped_count_; }

 private:
  struct Progress {
    std::optional<TimePoint> sent;
    std::optional<wire::WorkerReported> held;
  };
  std::map<Rank, Progress> progress_;
  std::map<std::pair<Rank, wire::ReportKind>, std::int32_t>
      sent_in_spite_;  // while crowded, by rank and kind
  std::uint64_t dropped_count_ = 0;
};

}  // namespace muster::agent
