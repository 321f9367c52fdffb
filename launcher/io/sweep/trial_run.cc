#include "launcher/io/sweep/trial_run.h"

#include <fcntl.h>

#include "common/base/text.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher::sweep {

namespace {

constexpr Duration kPublishAfter = std::chrono::milliseconds(10);

// Returns whether the verdict says that memory was used up. GPUs, torch's allocator, Python and C++ report
// this as an exception, which the kernel's counters do not show.
bool tells_of_memory(const Verdict& verdict) {
  constexpr std::string_view kMarks[] = {"out of memory", "can't allocate memory", "MemoryError",
                                         "std::bad_alloc"};
  const std::string text = verdict.culprit ? verdict.culprit->text() : "";
  return std::ranges::any_of(kMarks, [&text](std::string_view mark) { return text.contains(mark); });
}

// Returns the cause, and the last line that the program printed. This line usually says why it ended.
std::string text_of_end(const Verdict& verdict) {
  const bool has_line =
      verdict.culprit && verdict.culprit->exception.empty() && !verdict.culprit->last_lines.empty();
  return has_line ? fmt::format("{}: {}", verdict.cause, one_line(verdict.culprit->last_lines.back()))
                  : verdict.cause;
}

RunEnd end_of(const Verdict& verdict) {
  using enum Verdict::Kind;
  switch (verdict.kind) {
    case kSucceeded: return RunEnd::kFinished;
    case kOutOfMemory: return RunEnd::kInfeasible;
    case kInterrupted:
    case kCancelled:
    case kPreempted: return RunEnd::kCancelled;
    case kNodeLost: return RunEnd::kLost;
    default: break;
  }
  const bool too_few = verdict.kind == kRefused && verdict.exit_code == kExitNodesMissing;
  if (too_few || verdict.lost_before_start || verdict.never_came || verdict.refused_by_node)
    return RunEnd::kLost;
  return tells_of_memory(verdict) ? RunEnd::kInfeasible : RunEnd::kFailed;
}

}  // namespace

TrialRun::TrialRun(Plan plan, Parts parts, std::int64_t newest_step)
    : plan_(std::move(plan)),
      parts_(std::move(parts)),
      line_steps_(newest_step),
      job_(plan_, {.context = parts_.context,
                   .time = parts_.time,
                   .console = console_,
                   .files = parts_.files,
                   .agent_program = parts_.agent_program,
                   .quiet = true,
                   .started_unix = unix_now(),
                   .finished = [this] { finish(); },
                   .phase_changed =
                       [this](Phase phase) {
                         if (phase == Phase::kRunning) parts_.started();
                         if (phase >= Phase::kLeaving && !std::exchange(leaving_, true)) leave();
                       },
                   .agents = parts_.agents,
                   .kept = parts_.kept,
                   .publish_after = kPublishAfter}) {}

void TrialRun::end(bool save, const std::string& why) {
  if (over_at_) return;
  if (ended_for_.empty()) ended_for_ = why;
  job_.launcher().cancel(/*now=*/!save);
}

// A job that was cancelled by `launch cancel` has exit code 130. But if the sweep itself has ended this job,
// the end is not a failure. Then the verdict is "stopped by the sweep", with exit code 0.
Verdict TrialRun::reported_verdict() const {
  Verdict verdict = job_.job().verdict();
  if (verdict.kind != Verdict::Kind::kCancelled || ended_for_.empty()) return verdict;
  verdict.kind = Verdict::Kind::kInterrupted;
  verdict.exit_code = 0;
  verdict.origin = "launcher";
  verdict.cause = "stopped by the sweep: " + ended_for_;
  return verdict;
}

// When this function is called, the agents have not been told to leave yet. So it posts a function, which
// runs when they have been told.
void TrialRun::leave() {
  if (parts_.kept != nullptr) return;
  asio::post(parts_.context, [this] {
    if (parts_.agents != nullptr) parts_.agents->expect(plan_.job.job_id);
    tell_end();
  });
}

void TrialRun::tell_end() {
  told_end_ = true;
  const Verdict& verdict = job_.job().verdict();
  const RunEnd end = end_of(verdict);
  const bool lost = end == RunEnd::kLost && verdict.node;
  parts_.ended(end, text_of_end(verdict), lost ? job_.job().names().host_of(*verdict.node) : "");
}

// When this is called, the context is still working for the job. So the job is closed in the next turn of the
// context.
void TrialRun::finish() {
  asio::post(parts_.context, [this] {
    over_at_ = Clock::now();
    job_.close();
    if (!told_end_) tell_end();
  });
}

bool TrialRun::close() {
  if (!over_at_) return false;
  if (!std::exchange(reported_, true)) write_report();
  return job_.closed();
}

void TrialRun::write_report() {
  job_.flush();
  const Job& job = job_.job();
  const Outcome outcome{.plan = plan_,
                        .verdict = reported_verdict(),
                        .attempts = job.history(),
                        .restart_count = job.restart_count(),
                        .duration = *over_at_ - started_,
                        .now = *over_at_,
                        .now_unix = unix_now() - in_seconds(Clock::now() - *over_at_),
                        .log_directory_flag = parts_.log_directory_flag,
                        .names = job.names(),
                        .has_output = true};
  // Only the journal of the sweep has to survive a crash. So this file is not synced.
  const std::string path = plan_.job.log_directory + "/report.json";
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const Status written = file ? write_all(file.get(), report_as_json(outcome), path)
                              : system_failure("cannot create " + path, errno);
  if (!written) parts_.say(written.error().message());
}

void TrialRun::TrialConsole::show_output(NodeId, Rank rank, int stream, std::string_view text, std::uint64_t,
                                         LocalRank) {
  if (stream != 1) return;
  for (const std::string_view line : split(text, '\n')) run_.hear_line(rank, line);
}

void TrialRun::hear_line(Rank rank, std::string_view line) {
  const auto read = read_metric_line(line);
  if (!read) return;
  if (!*read) {
    if (!std::exchange(told_unreadable_, true))
      parts_.say(fmt::format("{}: {}{}", plan_.job.job_id, kMetricMark, read->error().message()));
    return;
  }
  hear_metrics(line_steps_.step_of(job_.job().attempt(), rank, **read), (*read)->values);
}

void TrialRun::hear_metrics(std::int64_t step, const std::map<std::string, double>& values) {
  if (!told_end_) parts_.reported(step, values);  // afterwards the slot is another trial's
}

}  // namespace muster::launcher::sweep
