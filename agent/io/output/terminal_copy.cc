#include "agent/io/output/terminal_copy.h"

#include <utility>

#include "agent/core/output/lines.h"

namespace muster::agent {

void TerminalCopy::lines(std::string_view lines) {
  if (!shown_) return;
  if (link_.drops(source_.stream)) {
    dropped_line_count_ += count_lines(lines);
  } else {
    send(lines);
  }
}

void TerminalCopy::end() {
  if (dropped_line_count_ > 0) send({});
}

void TerminalCopy::send(std::string_view lines) {
  const wire::Output output{.rank = source_.rank,
                            .local_rank = source_.local_rank,
                            .stream = source_.stream,
                            .text = {},
                            .dropped_line_count = std::exchange(dropped_line_count_, 0)};
  link_.send(source_.attempt, output, lines);
}

}  // namespace muster::agent
