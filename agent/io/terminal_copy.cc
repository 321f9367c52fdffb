#include "agent/io/terminal_copy.h"

#include <utility>

#include "agent/core/lines.h"

namespace muster::agent {

void TerminalCopy::lines(std::string_view lines) {
  if (!shown_) return;
  for (const std::string_view piece : in_pieces(lines)) {
    if (link_.crowded()) {
      dropped_line_count_ += count_lines(piece);
    } else {
      send(piece);
    }
  }
}

void TerminalCopy::end() {
  if (dropped_line_count_ > 0) send({});
}

void TerminalCopy::send(std::string_view lines) {
  link_.send(source_.attempt, wire::Output{source_.rank,
                                           source_.local_rank,
                                           source_.stream,
                                           {lines.begin(), lines.end()},
                                           std::exchange(dropped_line_count_, 0)});
}

}  // namespace muster::agent
