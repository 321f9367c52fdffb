#include "launcher/io/view/local_view.h"

#include "launcher/core/journal/event_codec.h"
#include "launcher/core/text/words.h"
#include "launcher/core/view/events.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

// Returns whether the action is written to launcher.log. Records are written to events.jsonl instead.
// Connections and looks for leftovers are too frequent to be of interest.
bool is_logged(const decltype(Decision::action)& action) {
  return !std::holds_alternative<Record>(action) && !std::holds_alternative<AcceptConnection>(action) &&
         !std::holds_alternative<CloseConnection>(action) &&
         !std::holds_alternative<LookForLeftovers>(action);
}

}  // namespace

LocalView::LocalView(Console& console, Enquiries& enquiries, net::LogWriter& files, const Plan& plan,
                     bool quiet)
    : console_(console),
      enquiries_(enquiries),
      remote_(!plan.hosts.empty()),
      traced_(plan.job.trace),
      events_(files, plan.job.log_directory + "/events.jsonl",
              [&console](const std::string& what) { console.say(what); }),
      log_(files, plan.job.log_directory + "/launcher.log",
           [&console](const std::string& what) { console.say(what); }),
      rank_logs_(files, plan.job.log_directory, plan.job.limits.log_limit_bytes,
                 [&console](const std::string& what) { console.say(what); }),
      quiet_(quiet) {}

void LocalView::show(const Decision& decision, Duration age) {
  if (const auto* record = std::get_if<Record>(&decision.action)) {
    events_.append(
        event_line(*record, unix_now(), traced_ ? std::optional<TimePoint>(Clock::now()) : std::nullopt));
  }
  if (const auto* sent = std::get_if<Send>(&decision.action); sent && remote_) {
    if (const auto* plan = std::get_if<wire::PrepareAttempt>(&sent->message))
      rank_logs_.arrivals().belong(sent->node, sent->attempt, plan->first_rank, plan->local_world_size);
    if (std::holds_alternative<wire::Leave>(sent->message)) rank_logs_.arrivals().told_to_leave(sent->node);
  }
  if (is_logged(decision.action)) log_.append(fmt::format("{:.6f} {}\n", in_seconds(age), text_of(decision)));
  if (const auto* told = std::get_if<Tell>(&decision.action); told && !quiet_) console_.say(told->text);
}

void LocalView::show_progress(std::string_view text) {
  if (!quiet_) console_.show_progress(text);
}

void LocalView::show_output(NodeId node, const wire::Output& output, Taken taken) {
  const std::string_view text = output.text.view();
  console_.show_output(node, output.rank, output.stream, text, output.dropped_line_count, output.local_rank);
  console_.tell_when_taken(output.stream, text.size(), std::move(taken));
}

void LocalView::keep_clock(NodeId node, const std::string& host, const ClockOffset::Answer& answer) {
  events_.append(clock_line(node, host, answer, unix_now()));
}

void LocalView::logs_are_elsewhere(NodeId node, const std::string& host, const std::string& directory) {
  rank_logs_.arrivals().kept_elsewhere(node, host, directory);
}

std::string LocalView::logs_to_come() const {
  const std::string text = rank_logs_.arrivals().to_come();
  return text.empty() ? "" : text + "; Ctrl-C leaves them on their hosts";
}

}  // namespace muster::launcher
