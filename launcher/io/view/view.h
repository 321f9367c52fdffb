// The seam to the people: shows them the job, and keeps files for them.
//
// Never blocks. The view decides what goes to the terminal, events.jsonl, launcher.log, or the answers to
// `launch dump`. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "launcher/core/fleet/clock_offset.h"
#include "launcher/core/job/job_events.h"
#include "launcher/io/taken.h"

namespace muster::launcher {

class View {
 public:
  virtual ~View() = default;

  // Called for every decision, `age` after the launch. A Tell is a line for the user, a Record a line of
  // events.jsonl. The view logs other actions only if they are of interest, with their reasons.
  virtual void show(const Decision& decision, Duration age) = 0;
  // Replaces the last progress line; empty text only removes it.
  virtual void show_progress(std::string_view text) = 0;
  // Calls `taken` with the output's bytes when the reader has taken them; at once if ranks do not wait for
  // the reader.
  virtual void show_output(NodeId node, const wire::Output& output, Taken taken) = 0;
  // Whether the reader of a workers' stream has taken anything in the last `period`; `stream` 1 is stdout, 2
  // stderr.
  virtual bool takes(int stream, Duration period) const = 0;
  virtual void show_stacks(const wire::WorkerStacks& stacks) = 0;
  // Whether somebody watches the ranks' usage.
  virtual bool wants_usage() const = 0;
  // The usage of a node's ranks.
  virtual void show_usage(const std::vector<wire::RankUsage>& usage) = 0;
  // The values that the rank's program has reported at this step, by name; they may be NaN or infinite.
  // Called for every report, in the order in which the rank made them.
  virtual void show_metrics(Rank rank, std::int64_t step, const std::map<std::string, double>& values) = 0;
  // For a traced job: how far the clock of the node's host was ahead of the launcher's.
  virtual void keep_clock(NodeId node, const std::string& host, const ClockOffset::Answer& answer) = 0;
  // The node's rank logs are in this directory of its host; the agent sends them as pieces.
  virtual void logs_are_elsewhere(NodeId node, const std::string& host, const std::string& directory) = 0;
  // Calls `answer` with the number of the file's bytes that have been kept, each time that it grows.
  using LogAnswer = std::function<void(const wire::LogTaken& taken)>;
  virtual void keep_log(NodeId node, Attempt attempt, const wire::LogPiece& piece, LogAnswer answer) = 0;
  // Called when the connection to the node's agent has closed: the agent sends no more pieces.
  virtual void agent_closed(NodeId node) = 0;
  // A text about logs that are still to arrive, for a user who waits for the end; empty if there are none.
  virtual std::string logs_to_come() const = 0;
};

}  // namespace muster::launcher
