// Sends the lines of one stream of a worker to the launcher, which shows them.
//
// If the launcher has not caught up in time, lines are dropped and counted. The count is sent with the next
// lines, or with end(). The log file has all lines. One thread.
#pragma once

#include <string>
#include <string_view>

#include "agent/io/link.h"

namespace muster::agent {

class TerminalCopy {
 public:
  struct Source {
    Attempt attempt;
    Rank rank;
    LocalRank local_rank;
    std::int32_t stream = 1;  // 1 stdout, 2 stderr
  };
  // If `shown` is false, nothing is sent, and only the log file has the lines.
  TerminalCopy(Link& link, Source source, bool shown) : link_(link), source_(source), shown_(shown) {}
  void lines(std::string_view lines);
  // Returns whether the worker should wait before it writes more lines.
  bool hold() { return shown_ && link_.hold(source_.stream); }
  void end();

 private:
  void send(std::string_view lines);

  Link& link_;
  Source source_;
  bool shown_;
  std::uint64_t dropped_line_count_ = 0;
};

}  // namespace muster::agent
