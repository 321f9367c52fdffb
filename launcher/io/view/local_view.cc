#include "launcher/io/view/local_view.h"

#include <chrono>

#include "launcher/core/text/words.h"
#include "launcher/core/view/events.h"

namespace muster::launcher {

namespace {

// In launcher.log; nothing for what is not kept there: records go to events.jsonl, and how agents connect and
// what is looked for is of no interest.
const char* name_of(const decltype(Decision::action)& action) {
  constexpr const char* kNames[] = {"start agent",   "kill agent",          nullptr, nullptr, nullptr,
                                    "begin attempt", "look for checkpoint", "send",  "tell",  nullptr,
                                    "finish"};
  return kNames[action.index()];
}

}  // namespace

LocalView::LocalView(Terminal& terminal, Enquiries& enquiries, net::LogWriter& files,
                     const std::string& log_directory, bool quiet)
    : terminal_(terminal),
      enquiries_(enquiries),
      events_(files, log_directory + "/events.jsonl",
              [this](const std::string& what) { terminal_.say(what); }),
      log_(files, log_directory + "/launcher.log", [this](const std::string& what) { terminal_.say(what); }),
      quiet_(quiet) {}

void LocalView::show(const Decision& decision, Duration age) {
  if (const auto* record = std::get_if<Record>(&decision.action)) {
    const Seconds since_1970 = std::chrono::system_clock::now().time_since_epoch();
    events_.append(event_line(*record, since_1970.count()));
  }
  const auto* told = std::get_if<Tell>(&decision.action);
  if (const char* name = name_of(decision.action)) {
    log_.append(fmt::format("{:.6f} {}{} ({})\n", in_seconds(age), name, told ? ": " + told->text : "",
                            decision.reason));
  }
  if (told && !quiet_) terminal_.say(told->text);
}

void LocalView::show_progress(std::string_view text) {
  if (!quiet_) terminal_.show_progress(text);
}

void LocalView::show_output(NodeId node, const wire::Output& output, Taken taken) {
  const std::string_view text = output.text.view();
  terminal_.show_output(node, output.rank, output.stream, text, output.dropped_line_count, output.local_rank);
  terminal_.tell_when_taken(output.stream, text.size(), std::move(taken));
}

}  // namespace muster::launcher
