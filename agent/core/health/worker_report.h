// Parses the reports of workers, which arrive as datagrams on MUSTER_SOCKET. Decides which reports go to the
// launcher, and when.
//
// A datagram is {"v":1,"type":T,"rank":R,"attempt":A,"step":S,"pid":P,"text":".."}, see docs/protocol.md.
// - Metrics and rare reports (hello, profile, resumed, saved, committed, saving, preempted, fenced, finished)
//   are passed on at once.
// - Progress (step, heartbeat) is passed on at most once per kInterval for each rank, and then only the
//   newest report.
// - Sections, idle, answers to commands (stacks), reports about memory (memory_slots, held) and last_line are
//   not passed on.
//
// No sockets, no clock.
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
  std::optional<std::string> section;  // section: its name; heartbeat: the innermost section, or ""
  Duration section_time{};             // heartbeat: time spent in it so far
  bool entered = false;                // section: it was entered, not left
  std::string activity;                // heartbeat: the part of the step that the rank is in; may be empty
  bool may_be_late = false;            // heartbeat: the next one may come late
  std::uint64_t slot_bytes = 0;        // memory_slots
  std::int32_t pid = 0;                // last_line: the sender's pid; the sender may be a child of the rank
};

// Parses a datagram. Returns kCorrupt if it is not a report of version 1.
Expected<Report> parse_report(std::string_view datagram);

// Returns whether the agent passes this report on to the launcher.
bool is_for_launcher(const Report& report);

class Reports {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(100);
  static constexpr std::int32_t kMostInSpite = 100;

  // Takes a report, and returns the reports to pass on now. If an earlier progress report of the same rank
  // was held back, that report comes first.
  std::vector<wire::WorkerReported> on(const wire::WorkerReported& report, TimePoint now);
  // Returns the progress reports that were held back and are due now.
  std::vector<wire::WorkerReported> due(TimePoint now);
  // Returns everything that is held back for this rank. Call when the rank has ended.
  std::vector<wire::WorkerReported> take(Rank rank);
  std::optional<TimePoint> next_deadline() const;
  // Decides whether a report from on(), due() or take() is sent to the launcher. Returns false if it is not,
  // and counts it as dropped. If `crowded` is true, the launcher does not keep up. Then a report is sent
  // only if it affects decisions about the job or its sweep: `hello`, `saved`, `committed`, `preempted`,
  // `fenced` and `metric`. At most kMostInSpite of these are sent for each rank and kind.
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
