// The status of a running job. The job's launcher makes it, and sends it over the control socket as one line
// of JSON. `launch status` shows it.
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
  std::optional<double> last_sign_seconds{};  // since its last report; nullopt if the program does not report
  std::string section{};
  std::string state{};                     // "not started", "running", or a remark such as a stall
  std::optional<wire::RankUsage> usage{};  // for `launch top`
};

struct ToldEvent {
  double seconds_ago = 0;
  std::string text;
};

struct JobStatus {
  std::string job_id;
  std::string phase;
  std::string waiting_for;  // empty if nothing
  std::uint64_t attempt = 0;
  std::int32_t restart_count = 0;
  std::int32_t max_restarts = 0;
  double elapsed_seconds = 0;
  std::optional<std::int64_t> committed_step{};
  std::vector<NodePlan> nodes{};  // in the attempt
  NodeNames names{};
  std::vector<RankStatus> ranks{};
  std::vector<ToldEvent> events{};  // the last messages to the user, oldest first
};

std::string_view name_of(Phase phase);
std::vector<RankStatus> statuses_of(const RankTable& table, const Steps& steps,
                                    const std::vector<NodePlan>& members, TimePoint now);

// One line, including its newline.
std::string status_as_line(const JobStatus& status);
Expected<JobStatus> parse_status(std::string_view line);
// `columns` is the width of the terminal. 0 means that the table can have any width.
std::string status_as_text(const JobStatus& status, std::size_t columns = 0);

}  // namespace muster::launcher
