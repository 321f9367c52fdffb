#include "launcher/core/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster::launcher {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kShownLines = 12;

template <class Number>
ordered_json or_null(const std::optional<Number>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json culprit_json(const Verdict& verdict) {
  ordered_json json = {{"rank", nullptr},
                       {"node", nullptr},
                       {"cause", verdict.cause},
                       {"exit_code", nullptr},
                       {"signal", nullptr}};
  if (verdict.node) json["node"] = verdict.node->value();
  if (!verdict.culprit) return json;
  const WorkerEnd& end = *verdict.culprit;
  json["rank"] = end.rank.value();
  json[end.signal != 0 ? "signal" : "exit_code"] = end.signal != 0 ? end.signal : end.exit_code;
  if (!end.message.empty()) json["message"] = end.message;
  json["last_lines"] = end.last_lines;
  return json;
}

ordered_json attempt_json(const AttemptHistory& attempt) {
  const bool failed = attempt.verdict && attempt.verdict->kind != Verdict::Kind::kSucceeded;
  return {{"attempt", attempt.attempt.value()},
          {"resumed_step", or_null(attempt.resumed_step)},
          {"last_step", or_null(attempt.last_step)},
          {"repeated_steps", or_null(attempt.repeated_steps)},
          {"committed_step", or_null(attempt.committed_step)},
          {"culprit", failed ? culprit_json(*attempt.verdict) : ordered_json(nullptr)}};
}

std::string count_of(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

double seconds(Duration duration) {
  return std::chrono::duration_cast<Seconds>(duration).count();
}

std::string success_line(const Outcome& outcome) {
  const std::string restarts =
      outcome.restart_count == 0
          ? ""
          : fmt::format(" after {}", count_of(static_cast<std::size_t>(outcome.restart_count), "restart"));
  return fmt::format("launch: {} succeeded in {:.1f} s{}; logs: {}\n",
                     count_of(static_cast<std::size_t>(outcome.plan.world_size()), "rank"),
                     seconds(outcome.duration), restarts, outcome.plan.job.log_directory);
}

void add_evidence(std::string& text, const WorkerEnd& end) {
  if (!end.message.empty()) text += fmt::format("  error       {}\n", end.message);
  if (end.last_lines.empty()) return;
  text += "  last lines\n";
  const std::size_t skipped = end.last_lines.size() - std::min(end.last_lines.size(), kShownLines);
  for (std::size_t i = skipped; i < end.last_lines.size(); ++i)
    text += fmt::format("    | {}\n", end.last_lines[i]);
}

std::string attempts_text(const Outcome& outcome) {
  std::string text = fmt::format("{}, {} of {} restarts used", count_of(outcome.attempts.size(), "attempt"),
                                 outcome.restart_count, outcome.plan.job.max_restarts);
  if (outcome.attempts.empty()) return text;
  const AttemptHistory& last = outcome.attempts.back();
  if (last.resumed_step) text += fmt::format("; the last resumed from step {}", *last.resumed_step);
  if (last.repeated_steps)
    text += fmt::format(" and repeated {}", count_of(static_cast<std::size_t>(*last.repeated_steps), "step"));
  if (last.committed_step) text += fmt::format("; committed up to step {}", *last.committed_step);
  return text;
}

}  // namespace

std::string report_as_json(const Outcome& outcome) {
  ordered_json attempts = ordered_json::array();
  for (const AttemptHistory& attempt : outcome.attempts) attempts.push_back(attempt_json(attempt));
  const bool failed = outcome.verdict.kind != Verdict::Kind::kSucceeded;
  const ordered_json json = {{"job_id", outcome.plan.job.job_id},
                             {"exit_code", outcome.verdict.exit_code},
                             {"origin", outcome.verdict.origin},
                             {"cause", outcome.verdict.cause},
                             {"culprit", failed ? culprit_json(outcome.verdict) : ordered_json(nullptr)},
                             {"collateral_count", outcome.verdict.collateral_count},
                             {"restarts", outcome.restart_count},
                             {"duration_seconds", seconds(outcome.duration)},
                             {"node_count", outcome.plan.nodes.size()},
                             {"world_size", outcome.plan.world_size()},
                             {"command", outcome.plan.job.command},
                             {"log_directory", outcome.plan.job.log_directory},
                             {"checkpoint_directory", outcome.plan.job.checkpoint_directory},
                             {"attempts", std::move(attempts)}};
  // What workers wrote need not be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string summary(const Outcome& outcome) {
  const Verdict& verdict = outcome.verdict;
  if (verdict.kind == Verdict::Kind::kSucceeded) return success_line(outcome);
  const bool stopped = verdict.kind == Verdict::Kind::kInterrupted;
  std::string text = fmt::format("launch: {} after {:.1f} s: {}\n", stopped ? "stopped" : "failed",
                                 seconds(outcome.duration), verdict.cause);
  if (verdict.culprit) add_evidence(text, *verdict.culprit);
  if (verdict.collateral_count > 0) {
    text += fmt::format("  collateral  {} ended because of it\n",
                        count_of(static_cast<std::size_t>(verdict.collateral_count), "other rank"));
  }
  text += fmt::format("  attempts    {}\n", attempts_text(outcome));
  text += fmt::format("  logs        {}\n", outcome.plan.job.log_directory);
  const bool translated = verdict.kind == Verdict::Kind::kWorkerFailed && verdict.culprit->signal == 0 &&
                          verdict.culprit->exit_code != verdict.exit_code;
  text += fmt::format("  exit code   {}{}\n", verdict.exit_code,
                      translated ? fmt::format(" (the worker's own, {}, is one of the launcher's verdicts)",
                                               verdict.culprit->exit_code)
                                 : "");
  return text;
}

}  // namespace muster::launcher
