#include "launcher/core/view/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>

#include "common/base/step_shares.h"
#include "common/wire/json.h"
#include "launcher/core/job/attempt_history.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kSummaryLines = 10;
constexpr std::size_t kAllLines = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kFixedLines = 5;  // what happened, attempts, logs, exit code, next

// Rounds to three decimals, that is, milliseconds to microseconds. More decimals would be noise, and people
// read report.json, too.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

ordered_json rank_json(const RankSteps& steps) {
  const StepShares own = shares_of({steps});
  ordered_json parts = ordered_json::object();
  for (const StepShare& share : own.shares) parts[share.part] = rounded(share.mean_ms);
  return {{"rank", steps.rank},
          {"steps", steps.step_count},
          {"step_ms", rounded(own.step_ms)},
          {"parts_ms", std::move(parts)}};
}

StepShares mean_profile(const AttemptHistory& attempt) {
  std::vector<RankSteps> ranks;
  for (const RankSteps& each : attempt.profiles | std::views::values) ranks.push_back(each);
  return shares_of(ranks);
}

// Returns the step profile of the attempt: that of each rank, and their mean. Returns null if no rank
// reported its steps. docs/reference/formats.md describes the fields.
ordered_json profile_json(const AttemptHistory& attempt) {
  const StepShares all = mean_profile(attempt);
  if (all.step_count == 0) return nullptr;
  ordered_json parts = ordered_json::object();
  for (const StepShare& share : all.shares)
    parts[share.part] = {{"mean_ms", rounded(share.mean_ms)},
                         {"share", rounded(share.share)},
                         {"longest_ms", rounded(share.most_ms)},
                         {"longest_rank", share.most_rank}};
  ordered_json ranks = ordered_json::array();
  for (const RankSteps& each : attempt.profiles | std::views::values) ranks.push_back(rank_json(each));
  return {{"steps", all.step_count},
          {"step_ms", rounded(all.step_ms)},
          {"parts", std::move(parts)},
          {"ranks", std::move(ranks)}};
}

// Seconds since 1970, to the microsecond.
double unix_time(const Outcome& outcome, TimePoint at) {
  return std::round((outcome.now_unix - in_seconds(outcome.now - at)) * 1e6) / 1e6;
}

ordered_json numbers_of(const std::vector<Rank>& ranks) {
  ordered_json numbers = ordered_json::array();
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

ordered_json host_json(const Outcome& outcome, NodeId node) {
  const std::string host = outcome.names.host_of(node);
  return host.empty() ? ordered_json(nullptr) : ordered_json(host);
}

ordered_json culprit_json(const Outcome& outcome, const Verdict& verdict) {
  ordered_json json = {{"rank", nullptr},
                       {"suspects", numbers_of(verdict.suspects)},
                       {"node", nullptr},
                       {"host", nullptr},
                       {"class", name_of(verdict.kind)},
                       {"cause", verdict.cause},
                       {"time", nullptr},
                       {"step", or_null(verdict.step)},
                       {"exit_code", nullptr},
                       {"signal", nullptr},
                       {"evidence", verdict.evidence},
                       {"hint", verdict.hint}};
  if (verdict.rank) json["rank"] = verdict.rank->value();
  if (verdict.node) json["node"] = verdict.node->value();
  if (verdict.node) json["host"] = host_json(outcome, *verdict.node);
  if (verdict.at) json["time"] = unix_time(outcome, *verdict.at);
  if (!verdict.culprit) return json;
  const WorkerEnd& end = *verdict.culprit;
  json[end.signal != 0 ? "signal" : "exit_code"] = end.signal != 0 ? end.signal : end.exit_code;
  if (!end.message.empty()) json["message"] = end.message;
  if (!end.exception.empty()) json["exception"] = end.exception;
  json["last_lines"] = end.last_lines;
  return json;
}

ordered_json gave_up_json(Verdict::GaveUp gave_up) {
  switch (gave_up) {
    case Verdict::GaveUp::kNot: break;
    case Verdict::GaveUp::kNoProgress: return "no_progress";
    case Verdict::GaveUp::kBudget: return "budget";
  }
  return nullptr;
}

ordered_json stragglers_json(const Outcome& outcome, const AttemptHistory& attempt) {
  ordered_json all = ordered_json::array();
  for (const Slowness& each : attempt.stragglers)
    all.push_back({{"rank", each.rank.value()},
                   {"node", each.node.value()},
                   {"host", host_json(outcome, each.node)},
                   {"busy_ms", in_seconds(each.busy) * 1000},
                   {"usual_ms", in_seconds(each.usual) * 1000},
                   {"since_step", each.since_step},
                   {"until_step", or_null(each.until_step)}});
  return all;
}

ordered_json stalls_json(const Outcome& outcome, const AttemptHistory& attempt) {
  ordered_json all = ordered_json::array();
  for (const ToldStall& each : attempt.stalls)
    all.push_back(
        {{"what", each.what},
         {"since", unix_time(outcome, each.since)},
         {"until", each.until ? ordered_json(unix_time(outcome, *each.until)) : ordered_json(nullptr)}});
  return all;
}

ordered_json attempt_json(const Outcome& outcome, const AttemptHistory& attempt) {
  const bool failed = attempt.verdict && attempt.verdict->kind != Verdict::Kind::kSucceeded;
  return {{"attempt", attempt.attempt.value()},
          {"node_count", attempt.node_count},
          {"world_size", attempt.world_size},
          {"resumed_step", or_null(attempt.resumed_step)},
          {"last_step", or_null(attempt.last_step)},
          {"repeated_steps", or_null(attempt.repeated_steps)},
          {"committed_step", or_null(attempt.committed_step)},
          {"stragglers", stragglers_json(outcome, attempt)},
          {"stalls", stalls_json(outcome, attempt)},
          {"profile", profile_json(attempt)},
          {"culprit", failed ? culprit_json(outcome, *attempt.verdict) : ordered_json(nullptr)}};
}

// Returns the number of ranks in the last attempt. An elastic job may have had fewer than at full size.
std::int32_t world_size_of(const Outcome& outcome) {
  return outcome.attempts.empty() ? outcome.plan.world_size() : outcome.attempts.back().world_size;
}

// Returns how many steps must be repeated. After a success this is 0, because no checkpoint is needed any
// more.
std::optional<std::int64_t> lost_by(const Outcome& outcome) {
  const auto lost = lost_steps(outcome.attempts);
  return lost && outcome.verdict.kind == Verdict::Kind::kSucceeded ? 0 : lost;
}

std::string success_line(const Outcome& outcome) {
  const std::string restarts =
      outcome.restart_count == 0 ? "" : fmt::format(" after {}", count_of(outcome.restart_count, "restart"));
  return fmt::format("launch: {} succeeded in {:.1f} s{}; logs: {}\n",
                     count_of(world_size_of(outcome), "rank"), in_seconds(outcome.duration), restarts,
                     outcome.plan.job.log_directory);
}

// Returns how many lines at the end of `lines` are a call stack. Returns 0 if there is none. Counts the
// heading and the indented lines below it. If `lines` begin within the stack, the heading is missing, and all
// lines count. `torch_prefix` is a text such as "[rank0]: ", which torch may write before each line of a
// stack.
std::size_t stack_size(const std::vector<std::string>& lines, std::string_view torch_prefix) {
  bool has_frame = false;
  for (std::size_t size = 1; size <= lines.size(); ++size) {
    std::string_view line = lines[lines.size() - size];
    if (line.starts_with(torch_prefix)) line.remove_prefix(torch_prefix.size());
    if (line.starts_with("Traceback (most recent call last)")) return size;
    if (!line.starts_with(' ')) return 0;
    has_frame = has_frame || line.starts_with("  File \"");
  }
  return has_frame ? lines.size() : 0;
}

// Returns whether the terminal does not show the stderr of some rank.
bool hides_errors(const wire::JobSpec& job) {
  return std::ranges::any_of(job.redirects, [](std::int32_t streams) { return (streams & 2) != 0; });
}

// Returns the last lines of the rank, but without blank lines. The error itself is left out, because it is
// shown as the cause or in the error line. The call stack before the error is left out, too. If `with_stacks`
// is true, such a stack stays, together with its error.
std::vector<std::string> other_lines(const WorkerEnd& end, bool with_stacks) {
  const std::string own = fmt::format("rank {}: ", end.rank);
  const std::string torch = fmt::format("[rank{}]: ", end.rank);
  const auto is_error = [error = first_line(end.message), &own, &torch, &end](std::string_view line) {
    for (const std::string& prefix : {own, torch}) {
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    }
    return !line.empty() && (line == error || (end.exception + " (").starts_with(fmt::format("{} (", line)));
  };
  std::vector<std::string> lines;
  for (const std::string& line : end.last_lines) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!is_error(line)) {
      lines.push_back(line);
      continue;
    }
    const std::size_t stack = stack_size(lines, torch);
    if (with_stacks && stack > 0) {
      lines.push_back(line);
    } else {
      lines.resize(lines.size() - stack);
    }
  }
  return lines;
}

// Adds lines of evidence to the text, at most `room` of them; `room` must be at least 3. If there is much
// evidence, the worker's last lines still get a part of the room.
void add_evidence(std::string& text, const Verdict& verdict, std::size_t room, bool with_stacks) {
  const bool by_itself = verdict.culprit && verdict.kind != Verdict::Kind::kHang;
  WorkerEnd end = by_itself ? *verdict.culprit : WorkerEnd{};
  end.last_lines = other_lines(end, with_stacks);
  std::string error = first_line(end.message);
  if (verdict.cause.contains(error)) error.clear();
  if (!error.empty()) --room;
  const std::size_t spared = std::min<std::size_t>(end.last_lines.size(), error.empty() ? 2 : 1);
  const std::size_t evidence_count = std::min(verdict.evidence.size(), room - spared);
  for (std::size_t i = 0; i < evidence_count; ++i)
    text += fmt::format("  {:<12}{}\n", i == 0 ? "evidence" : "", verdict.evidence[i]);
  if (!error.empty())
    text += fmt::format("  error       {}{}\n", error, error.size() + 1 < end.message.size() ? " ..." : "");
  const std::size_t first = end.last_lines.size() - std::min(end.last_lines.size(), room - evidence_count);
  for (std::size_t i = first; i < end.last_lines.size(); ++i)
    text += fmt::format("  {:<12}| {}\n", i == first ? "last lines" : "", end.last_lines[i]);
}

std::string attempts_text(const Outcome& outcome) {
  const std::int32_t allowed = outcome.plan.job.max_restarts;
  std::string text = count_of(outcome.attempts.size(), "attempt");
  if (outcome.restart_count <= allowed) {
    text += fmt::format(", {} of {} restarts used", outcome.restart_count, allowed);
  } else {  // not all of them within the window
    text += fmt::format(", {} allowed within {:g} s", count_of(allowed, "restart"),
                        in_seconds(outcome.plan.recovery.restart_window));
  }
  if (outcome.attempts.empty()) return text;
  const AttemptHistory& last = outcome.attempts.back();
  if (last.resumed_step) text += fmt::format("; the last resumed from step {}", *last.resumed_step);
  if (last.repeated_steps) text += fmt::format(" and repeated {}", count_of(*last.repeated_steps, "step"));
  if (last.committed_step) text += fmt::format("; committed up to step {}", *last.committed_step);
  const std::string loss = loss_text(outcome.attempts);
  if (!loss.empty() && !outcome.verdict.cause.ends_with(loss)) text += "; " + loss;
  if (!outcome.verdict.final_because.empty() && outcome.restart_count < allowed)
    text += fmt::format("; not retried: {}", outcome.verdict.final_because);
  return text;
}

// Returns a text such as "resumed from step 40, repeated 17 steps; rank 2 (node1) was killed by SIGKILL at
// step 57".
std::string attempt_text(const AttemptHistory& attempt) {
  std::string text;
  if (attempt.resumed_step) text += fmt::format("resumed from step {}", *attempt.resumed_step);
  if (attempt.repeated_steps.value_or(0) > 0)
    text += fmt::format(", repeated {}", count_of(*attempt.repeated_steps, "step"));
  if (!text.empty()) text += "; ";
  if (attempt.verdict->kind != Verdict::Kind::kSucceeded) return text + attempt.verdict->cause_and_step();
  return text +
         (attempt.last_step ? fmt::format("succeeded after step {}", *attempt.last_step) : "succeeded");
}

// Says how each attempt ended. Only the full text has this part; otherwise it is empty.
std::string all_attempts_text(const Outcome& outcome, std::size_t most_lines) {
  std::string text;
  if (most_lines != kAllLines || outcome.attempts.size() < 2) return text;
  for (const AttemptHistory& attempt : outcome.attempts) {
    if (attempt.verdict)
      text += fmt::format("  {:<12}{}\n", fmt::format("attempt {}", attempt.attempt), attempt_text(attempt));
  }
  return text;
}

// Describes the newest stalls that ended by themselves. Only the full report has this part; the summary does
// not.
std::string stalls_text(const Outcome& outcome, std::size_t most_lines) {
  constexpr std::size_t kMostShown = 5;
  std::vector<std::string> lines;
  for (const AttemptHistory& attempt : outcome.attempts) {
    for (const ToldStall& each : attempt.stalls)
      if (each.until) lines.push_back(text_of(each));
  }
  std::string text;
  if (most_lines != kAllLines) return text;
  for (std::size_t i = lines.size() - std::min(lines.size(), kMostShown); i < lines.size(); ++i)
    text += fmt::format("  {:<12}{}\n", "stalled", lines[i]);
  return text;
}

// Returns how the time of the steps was spent, in the newest attempt that has a profile. In the full text,
// this is a table. In a summary, it is one line after a success, and nothing after a failure.
std::string profile_text(const Outcome& outcome, std::size_t most_lines) {
  for (const AttemptHistory& attempt : outcome.attempts | std::views::reverse) {
    const StepShares all = mean_profile(attempt);
    if (all.step_count == 0) continue;
    if (most_lines == kAllLines) return to_table(all, "  ");
    return outcome.verdict.kind == Verdict::Kind::kSucceeded ? fmt::format("launch: {}\n", to_line(all)) : "";
  }
  return {};
}

// Returns the command that the user should type next. It shows
// - the output of the culprit, if it has printed anything;
// - otherwise, in a summary, the report;
// - otherwise, in the report itself, all output. If there is no output, returns "".
std::string next_command(const Outcome& outcome, std::size_t most_lines) {
  const std::string job = outcome.plan.job.job_id + outcome.log_directory_flag;
  // If there was no attempt, the output of the host shell is all there is.
  if (outcome.attempts.empty() && outcome.verdict.node && !outcome.plan.hosts.empty())
    return "cat " + as_shell_word(outcome.plan.agent_log(*outcome.verdict.node));
  const bool is_silent = outcome.verdict.culprit && outcome.verdict.culprit->last_lines.empty();
  if (outcome.verdict.rank && outcome.has_output && !is_silent)
    return fmt::format("launch logs {} --rank {}", job, *outcome.verdict.rank);
  if (most_lines == kAllLines && !outcome.has_output) return "";
  return fmt::format("launch {} {}", most_lines == kAllLines ? "logs" : "report", job);
}

std::string_view outcome_word(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kInterrupted:
    case Verdict::Kind::kTimeLimit: return "stopped";
    case Verdict::Kind::kCancelled: return "cancelled";
    case Verdict::Kind::kPreempted: return "left";
    default: return "failed";
  }
}

// Returns the text about the outcome. After a failure, the text has at most `most_lines` lines. `most_lines`
// must be at least ten, because ten lines have room for a line of each kind.
std::string text_of(const Outcome& outcome, std::size_t most_lines) {
  const Verdict& verdict = outcome.verdict;
  const std::string profile = profile_text(outcome, most_lines);
  const std::string attempts = all_attempts_text(outcome, most_lines) + stalls_text(outcome, most_lines);
  if (verdict.kind == Verdict::Kind::kSucceeded) return success_line(outcome) + attempts + profile;
  std::string text = fmt::format("launch: {} after {:.1f} s: {}\n", outcome_word(verdict.kind),
                                 in_seconds(outcome.duration), cause_of_end(verdict.cause));
  const std::size_t further = (verdict.hint.empty() ? 0U : 1U) + (verdict.collateral_count > 0 ? 1U : 0U);
  // The console has usually just shown the stack. So a summary leaves it out.
  const bool with_stacks = most_lines == kAllLines || hides_errors(outcome.plan.job);
  add_evidence(text, verdict, most_lines - kFixedLines - further, with_stacks);
  if (!verdict.hint.empty()) text += fmt::format("  hint        {}\n", verdict.hint);
  if (verdict.collateral_count > 0) {
    text +=
        fmt::format("  collateral  {} ended after it\n", count_of(verdict.collateral_count, "other rank"));
  }
  text += fmt::format("  attempts    {}\n", attempts_text(outcome)) + attempts;
  text += fmt::format("  logs        {}\n", outcome.plan.job.log_directory);
  const bool translated = verdict.origin == "worker" && verdict.culprit->signal == 0 &&
                          verdict.culprit->exit_code != verdict.exit_code;
  text +=
      fmt::format("  exit code   {}{}\n", verdict.exit_code,
                  translated ? fmt::format(" (the worker's own, {}, {})", verdict.culprit->exit_code,
                                           verdict.culprit->exit_code != 0 ? "is reserved for the launcher"
                                                                           : "would mean success")
                             : "");
  const std::string next = next_command(outcome, most_lines);
  if (!next.empty()) text += fmt::format("  next        {}\n", next);
  return text + profile;
}

}  // namespace

std::string report_as_json(const Outcome& outcome) {
  ordered_json attempts = ordered_json::array();
  for (const AttemptHistory& attempt : outcome.attempts) attempts.push_back(attempt_json(outcome, attempt));
  const bool failed = outcome.verdict.kind != Verdict::Kind::kSucceeded;
  const ordered_json json = {
      {"job_id", outcome.plan.job.job_id},
      {"exit_code", outcome.verdict.exit_code},
      {"origin", outcome.verdict.origin},
      {"class", name_of(outcome.verdict.kind)},
      {"gave_up", gave_up_json(outcome.verdict.gave_up)},
      {"cause", outcome.verdict.cause},
      {"evidence", outcome.verdict.evidence},
      {"hint", outcome.verdict.hint},
      {"culprit", failed ? culprit_json(outcome, outcome.verdict) : ordered_json(nullptr)},
      {"collateral_count", outcome.verdict.collateral_count},
      {"collateral", numbers_of(outcome.verdict.collateral)},
      {"restarts", outcome.restart_count},
      {"lost_steps", or_null(lost_by(outcome))},
      {"duration_seconds", in_seconds(outcome.duration)},
      {"node_count", outcome.attempts.empty() ? static_cast<std::int32_t>(outcome.plan.nodes.size())
                                              : outcome.attempts.back().node_count},
      {"world_size", world_size_of(outcome)},
      {"command", outcome.plan.job.command},
      {"log_directory", outcome.plan.job.log_directory},
      {"checkpoint_directory", outcome.plan.job.checkpoint_directory},
      {"attempts", std::move(attempts)},
      {"summary", summary(outcome)},
      {"details", text_of(outcome, kAllLines)}};
  // Workers' texts may not be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string summary(const Outcome& outcome) {
  return text_of(outcome, kSummaryLines);
}

}  // namespace muster::launcher
