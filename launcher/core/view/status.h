// How a running job is doing, as a value: made by its launcher, sent over the control socket as one line of
// JSON, shown by `launch status`.
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job/job.h"
#include "launcher/core/view/rank_table.h"

namespace muster::launcher {

struct RankStatus {
  Rank rank;
  NodeId node;
  std::int32_t pid = 0;  // 0: not started
  std::optional<std::int64_t> step{};
  std::optional<std::int64_t> resumed_step{};
  std::optional<double> steps_per_second{};
  std::optional<double> loss{};
  std::optional<double> samples_per_second{};
  std::optional<double> last_sign_seconds{};  // since its last report; nothing of a program that reports none
  std::string section{};
  std::string state{};                     // "not started", "running", or what is remarkable about it
  std::optional<wire::RankUsage> usage{};  // for those who look at it with `launch top`
};

struct ToldEvent {
  double seconds_ago = 0;
  std::string text;
};

struct JobStatus {
  std::string job_id;
  std::string phase;
  std::string waiting_for;  // what keeps it, or empty
  std::uint64_t attempt = 0;
  std::int32_t restart_count = 0;
  std::int32_t max_restarts = 0;
  double elapsed_seconds = 0;
  std::optional<std::int64_t> committed_step{};
  std::vector<NodePlan> nodes{};  // of the attempt
  NodeNames names{};
  std::vector<RankStatus> ranks{};
  std::vector<ToldEvent> events{};  // the last that the user was told, oldest first
};

std::string_view name_of(Phase phase);
std::vector<RankStatus> statuses_of(const RankTable& table, const Steps& steps,
                                    const std::vector<NodePlan>& members, TimePoint now);

// One line, its newline included.
std::string status_as_line(const JobStatus& status);
Expected<JobStatus> parse_status(std::string_view line);
std::string status_as_text(const JobStatus& status);

}  // namespace muster::launcher
