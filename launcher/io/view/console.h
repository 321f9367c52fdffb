// Where people see a job's lines: a terminal, or a sweep that shows its own table instead.
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
  // Shows whole lines of a worker; `stream` 1 is its stdout, 2 its stderr. `dropped`: the number of lines
  // before these that the agent dropped.
  virtual void show_output(NodeId node, Rank rank, int stream, std::string_view text, std::uint64_t dropped,
                           LocalRank local_rank) = 0;
  // Calls `taken` with `bytes` when the reader has taken everything shown so far on this stream of the
  // workers.
  virtual void tell_when_taken(int stream, std::size_t bytes, Taken taken) = 0;
  // Whether the reader of a worker's stream has taken anything in the last `period`.
  virtual bool takes(int stream, Duration period) const = 0;
  // Shows a line of the launcher, after everything shown before.
  virtual void say(std::string_view text) = 0;
  // Shows a progress line, which the next line overwrites. Empty text only removes the last progress line.
  virtual void show_progress(std::string_view text) = 0;
  // As View::show_metrics. A terminal does not show them.
  virtual void show_metrics(Rank /*rank*/, std::int64_t /*step*/,
                            const std::map<std::string, double>& /*values*/) {}
};

}  // namespace muster::launcher
