// Makes a message to the user while the agents and workers of a job start. It is shown if the start takes
// noticeably long.
//
// Pure; the time is passed in.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "launcher/core/job/job.h"
#include "launcher/core/view/rank_table.h"

namespace muster::launcher {

struct StartProgress {
  std::size_t agents_joined = 0;
  std::size_t agents = 0;
  std::size_t workers_started = 0;
  std::size_t workers = 0;  // 0: unknown yet
  std::string waiting_for;  // one clause, or empty
};

// Returns nullopt if the job is not waiting for anything.
std::optional<StartProgress> start_progress(const Fleet& fleet, const Job& job, const RankTable& ranks,
                                            TimePoint now);
// Returns a text such as "starting: 1 of 2 agents joined; waiting for the agent of node1".
std::string progress_text(const StartProgress& progress);

}  // namespace muster::launcher
