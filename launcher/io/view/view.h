// The interface between the launcher's core and people. It shows them the job, and keeps files for them.
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

  // Called for each decision. `age` is the time since the launch began. A Tell is a line for the user. A
  // Record is a line of events.jsonl. Other actions are logged with their reasons, but only if they are of
  // interest.
  virtual void show(const Decision& decision, Duration age) = 0;
  // Replaces the last progress line by this text. If the text is empty, only removes that line.
  virtual void show_progress(std::string_view text) = 0;
  // Shows output of a worker. Calls `taken` with the number of bytes in this output, after the program or
  // terminal at the other end of the launcher's stream has read these bytes. If ranks do not wait for this
  // reader, calls `taken` at once.
  virtual void show_output(NodeId node, const wire::Output& output, Taken taken) = 0;
  // Returns whether the reader of a worker's stream has taken anything in the last `period`. `stream` is 1
  // for stdout and 2 for stderr.
  virtual bool takes(int stream, Duration period) const = 0;
  virtual void show_stacks(const wire::WorkerStacks& stacks) = 0;
  // Whether somebody watches the ranks' usage.
  virtual bool wants_usage() const = 0;
  // The usage of a node's ranks.
  virtual void show_usage(const std::vector<wire::RankUsage>& usage) = 0;
  // Called for each report, in the order in which the rank made the reports. `values` has the values that the
  // rank's program has reported at this step, by name. They may be NaN or infinite.
  virtual void show_metrics(Rank rank, std::int64_t step, const std::map<std::string, double>& values) = 0;
  // Called for a job that is traced. `answer` says how far the clock of the node's host was ahead of the
  // launcher's.
  virtual void keep_clock(NodeId node, const std::string& host, const ClockOffset::Answer& answer) = 0;
  // Called when the rank logs of the node are in this directory of its host. The agent sends them in pieces.
  virtual void logs_are_elsewhere(NodeId node, const std::string& host, const std::string& directory) = 0;
  // Calls `answer` each time that more bytes of the file have been kept. The answer says how many bytes have
  // been kept so far, from the beginning of the file on.
  using LogAnswer = std::function<void(const wire::LogTaken& taken)>;
  virtual void keep_log(NodeId node, Attempt attempt, const wire::LogPiece& piece, LogAnswer answer) = 0;
  // Called when the connection to the node's agent has closed. After that, no more pieces come from this
  // agent.
  virtual void agent_closed(NodeId node) = 0;
  // Returns a text about logs that have not arrived yet, for a user who waits for the end. Returns an empty
  // text if all have arrived.
  virtual std::string logs_to_come() const = 0;
};

}  // namespace muster::launcher
