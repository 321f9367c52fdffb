// The place where people see the lines of a job. It is a terminal, or a sweep that shows a table of its own.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/io/taken.h"

namespace muster::launcher {

class Console {
 public:
  virtual ~Console() = default;
  // Shows whole lines of a worker. If `stream` is 1, they are from its stdout, and if it is 2, from its
  // stderr. `dropped` is the number of lines that the agent dropped before these.
  virtual void show_output(NodeId node, Rank rank, int stream, std::string_view text, std::uint64_t dropped,
                           LocalRank local_rank) = 0;
  // Calls `taken` with `bytes` later: when the reader of this stream has taken all output that was shown
  // before this call.
  virtual void tell_when_taken(int stream, std::size_t bytes, Taken taken) = 0;
  // Returns whether the reader of a worker's stream has taken anything in the last `period`.
  virtual bool takes(int stream, Duration period) const = 0;
  // Shows a line of the launcher, after everything shown before.
  virtual void say(std::string_view text) = 0;
  // Shows a progress line, which the next line overwrites. If the text is empty, only removes the last
  // progress line.
  virtual void show_progress(std::string_view text) = 0;
  // Like View::show_metrics(). A terminal does not show metrics.
  virtual void show_metrics(Rank /*rank*/, std::int64_t /*step*/,
                            const std::map<std::string, double>& /*values*/) {}
};

}  // namespace muster::launcher
