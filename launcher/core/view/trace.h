// Merges the trace files of a job's ranks and its events.jsonl into one trace (common/base/trace_file.h), on
// the launcher's clock, from the job's beginning on.
//
// In the trace each rank is a process, with its rank as number, over all attempts; the launcher is one more
// process. If events of a track overlap without nesting, such as those of several loading threads, some go to
// additional tracks of the same name. Skips lines that are not events, such as the torn last line of a killed
// rank. Pure: the caller reads the texts and writes the results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/view/events.h"
#include "launcher/core/view/job_list.h"
#include "launcher/core/view/trace_clock.h"

namespace muster::launcher {

class Trace {
 public:
  // Only events of this attempt belong to the trace. If `attempt` is nullopt, all events do.
  Trace(const JobRecord& job, std::string_view events, std::optional<std::uint64_t> attempt);

  // The pieces of the trace. First call beginning(), then of_rank() for each rank, and at last end().
  std::string beginning();
  std::string of_rank(Rank rank, const std::map<std::uint64_t, std::string>& text_of_attempt);
  static std::string end() { return "\n]}\n"; }

  struct Summary {
    std::size_t events = 0;
    std::size_t ranks = 0;
    std::optional<std::int64_t> first_ns{};
    std::optional<std::int64_t> last_ns{};
    std::vector<std::string> remarks{};  // notes for the user, one per line
    double seconds() const { return first_ns ? static_cast<double>(*last_ns - *first_ns) / 1e9 : 0; }
  };
  const Summary& summary() const { return summary_; }

 private:
  struct Span {
    std::int64_t track = 0;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::string name{};
    std::string arguments{};
    std::uint64_t attempt = 0;  // only for events of the launcher
    bool is_moment = false;
  };
  struct Tracks {
    std::int64_t process = 0;
    std::string name;
    std::int64_t place = 0;
    std::map<std::int64_t, std::string_view> names{};
  };

  void read_event(std::string_view line, std::map<NodeId, std::vector<ClockOffset::Answer>>& answers);
  std::string rank_name(Rank rank, std::uint64_t attempt) const;
  std::size_t read_rank(std::string_view text, const TraceClock& clock, std::vector<Span>& spans) const;
  std::string write(const Tracks& tracks, std::vector<Span> spans);
  void write_span(std::string& text, const Span& span, std::int64_t process, std::int64_t track);

  std::string job_id_;
  std::optional<std::uint64_t> only_;
  std::optional<std::int64_t> began_ns_;
  std::vector<Span> launcher_;  // events of the launcher
  StartedRanks started_;
  std::map<NodeId, TraceClock> clocks_;  // by node
  std::set<NodeId> strange_clocks_;      // nodes that a remark has already named
  Summary summary_;
};

}  // namespace muster::launcher
