// The seam to the people: what they are shown of a job, and what is kept for them.
//
// Nothing here waits. What is made of it (a terminal's lines, events.jsonl, launcher.log, answers to `launch
// dump`) is the view's. One thread.
#pragma once

#include <cstdint>
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

  // Every decision, `age` after the launch. A Tell is a line for the user, a Record one of events.jsonl; of
  // all else the view keeps what may be of interest later, with its reason.
  virtual void show(const Decision& decision, Duration age) = 0;
  // The line takes the place of the one that was shown so before; an empty one only removes that.
  virtual void show_progress(std::string_view text) = 0;
  // `taken` hears of the output's bytes once its reader has taken them, or at once where no reader is waited
  // for.
  virtual void show_output(NodeId node, const wire::Output& output, Taken taken) = 0;
  // Whether a stream of the workers' was taken in the last `period`; `stream` 1 is stdout, 2 stderr.
  virtual bool takes(int stream, Duration period) const = 0;
  virtual void show_stacks(const wire::WorkerStacks& stacks) = 0;
  // Whether somebody looks at what the ranks use; and what those of a node use.
  virtual bool wants_usage() const = 0;
  virtual void show_usage(const std::vector<wire::RankUsage>& usage) = 0;
  // Of a job that is traced: how far the clock of the node, on this host, was ahead of the launcher's.
  virtual void keep_clock(NodeId node, const std::string& host, const ClockOffset::Answer& answer) = 0;
  // The ranks' logs of a node are in this directory of its host, and come as pieces.
  virtual void logs_are_elsewhere(NodeId node, const std::string& host, const std::string& directory) = 0;
  // `answer` hears, each time that it has become more, how much of the piece's file has been kept.
  using LogAnswer = std::function<void(const wire::LogTaken& taken)>;
  virtual void keep_log(NodeId node, Attempt attempt, const wire::LogPiece& piece, LogAnswer answer) = 0;
  // The connection to the node's agent is closed: nothing more comes of it.
  virtual void agent_closed(NodeId node) = 0;
  // Which logs are still to come, for a user who waits for the end; empty if none are known of.
  virtual std::string logs_to_come() const = 0;
};

}  // namespace muster::launcher
