// Reads the workers' log files, as they grow, for all attempts of a job.
//
// The files are LOG_DIR/JOB/attempt_A/rank_R/{stdout,stderr}.log, with the older parts that --log-limit cut
// off. The lines of both streams come in the order of order.log, if that exists. Each reading continues where
// the last one ended. The files are complete even if the terminal dropped lines. If a file cannot be read,
// this is reported once. Blocking.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/commands/log_stream.h"
#include "launcher/core/view/events.h"
#include "launcher/core/view/job_list.h"
#include "launcher/core/view/log_filter.h"

namespace muster::launcher {

struct LogSource {
  std::uint64_t attempt = 0;
  Rank rank;
  NodeId node;
  int stream = 1;  // 1 stdout, 2 stderr
};

class LogFiles {
 public:
  using Wanted = std::function<bool(const LogSource& source)>;
  // A line without its newline, and its time.
  using OnLine = std::function<void(const LogSource& source, std::string_view line, double time)>;

  // Called when lines are missing. `what` is a clause that says why. `wanted` says whether the reason is
  // --log-limit, which the user wanted.
  using OnProblem = std::function<void(const std::string& what, bool wanted)>;

  LogFiles(JobRecord job, LocalTime local, Wanted wanted, OnProblem on_problem);
  struct Reading {
    bool is_new = false;   // the new lines were written just now
    bool is_last = false;  // no other reading follows
  };
  // Calls `on_line` for each new line. The lines come attempt by attempt, and within an attempt rank by rank.
  // If a line has no newline yet, it waits until its attempt is over, or until the last reading.
  Status read(const OnLine& on_line, Reading reading);
  // True if no wanted file has been found.
  bool empty() const { return ranks_.empty(); }
  std::uint64_t newest_attempt() const { return newest_attempt_; }

 private:
  struct File {
    LogSource source;
    LogStream stream;
    std::string unread{};       // bytes read from the file; order.log says when it is their turn
    std::size_t unread_at = 0;  // the bytes of `unread` before this have been taken
    std::uint64_t taken_bytes = 0;
    std::uint64_t due_bytes = 0;  // bytes that order.log has listed so far
    std::string rest{};           // the beginning of a line
    std::optional<LineTimes> times{};
    bool failed = false;   // on_problem_ knows of an error
    bool has_gap = false;  // on_problem_ knows of a gap
  };
  // One rank in one attempt.
  struct RankLogs {
    LogStream order;
    std::string order_rest{};
    std::array<File, 2> files;
  };
  Status look_for_files();
  void look_for_ranks(std::uint64_t attempt, const std::string& directory);
  void read_events();
  NodeId node_of(std::uint64_t attempt, Rank rank) const;
  void read_rank(RankLogs& logs, const OnLine& on_line, bool is_new);
  void take(File& file, std::uint64_t bytes, const OnLine& on_line, bool is_new);
  bool fill(File& file);
  void take_lines(File& file, const OnLine& on_line);

  JobRecord job_;
  LocalTime local_;
  Wanted wanted_;
  OnProblem on_problem_;
  std::map<std::pair<std::uint64_t, Rank>, RankLogs> ranks_;  // by attempt and rank
  std::uint64_t newest_attempt_ = 0;
  StartedRanks started_;
};

}  // namespace muster::launcher
