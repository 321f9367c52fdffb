// `launch logs`: prints the workers' output from the log files.
#include <ctime>
#include <deque>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <unistd.h>

#include "common/base/color.h"
#include "common/base/numbered.h"
#include "launcher/commands/invocation.h"
#include "launcher/commands/log_files.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/core/view/line_prefix.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

constexpr Duration kLookAtLogs = std::chrono::milliseconds(100);
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

struct Wishes {
  NumberRanges ranks;
  NumberRanges nodes;
  std::optional<Pattern> pattern;
  std::optional<double> since;
  std::optional<std::size_t> tail;
  std::optional<std::uint64_t> attempt;
  LocalTime local;
  bool json = false;
  bool follow = false;
};

LocalTime local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return {unix_now(), static_cast<double>(local.tm_gmtoff)};
}

Expected<Wishes> wishes_of(const CommandArguments& arguments) {
  Wishes wishes;
  wishes.local = local_time();
  wishes.json = arguments.has("json");
  wishes.follow = arguments.has("follow");
  const auto ranks = NumberRanges::parse(arguments.value("rank"), "--rank");
  if (!ranks) return std::unexpected(ranks.error());
  const auto nodes = NumberRanges::parse(arguments.value("node"), "--node");
  if (!nodes) return std::unexpected(nodes.error());
  wishes.ranks = *ranks;
  wishes.nodes = *nodes;
  if (arguments.has("grep")) {
    auto pattern = Pattern::compile(arguments.value("grep"));
    if (!pattern) return std::unexpected(pattern.error());
    wishes.pattern = std::move(*pattern);
  }
  const auto tail = arguments.count("tail", "lines");
  if (!tail) return std::unexpected(tail.error());
  wishes.tail = *tail;
  if (arguments.has("since")) {
    const auto since = parse_since(arguments.value("since"), wishes.local);
    if (!since) return std::unexpected(since.error());
    wishes.since = *since;
  }
  return wishes;
}

// Collects lines, and writes them in large pieces. With --tail, it only keeps the last lines of each rank.
// show_kept() then shows them.
class Printer {
 public:
  explicit Printer(const Wishes& wishes)
      : wishes_(wishes), color_(isatty(STDOUT_FILENO) != 0 && colors_wanted()), keeps_(wishes.tail) {}
  ~Printer() { flush(); }

  // Adds a line. `newest` is the newest attempt of the job.
  void add(const LogSource& source, std::string_view line, double time, std::uint64_t newest) {
    if (wishes_.since && time < *wishes_.since) return;
    line = last_version(line);
    if (wishes_.pattern && !wishes_.pattern->matches(line)) return;
    if (!keeps_) return write(source, line, newest);
    auto& kept = kept_[source.rank];
    kept.emplace_back(source, line);
    if (kept.size() > *keeps_) kept.pop_front();
  }
  void show_kept(std::uint64_t newest) {
    keeps_.reset();
    std::map<std::uint64_t, std::vector<Line>> attempts;
    for (auto& [rank, kept] : std::exchange(kept_, {})) {
      for (Line& line : kept) attempts[line.first.attempt].push_back(std::move(line));
    }
    for (const auto& [attempt, lines] : attempts) {
      for (const auto& [source, text] : lines) write(source, text, newest);
    }
  }
  void flush() { print(std::exchange(text_, {})); }
  bool has_shown() const { return attempt_ != 0; }

 private:
  using Line = std::pair<LogSource, std::string>;

  void write(const LogSource& source, std::string_view line, std::uint64_t newest) {
    const std::uint64_t before = std::exchange(attempt_, source.attempt);
    // If the job has only one attempt, there is no header that names the attempt.
    const bool is_marked = before == 0 ? newest != attempt_ : before != attempt_;
    if (wishes_.json) {
      text_ += as_json(source, line);
    } else {
      if (is_marked) text_ += fmt::format("---- attempt {} ----\n", attempt_);
      text_ += line_prefix(source.node, source.rank, color_, source.stream == 1 ? "" : "stderr");
      text_ += line;
      text_ += '\n';
    }
    if (text_.size() >= kBufferBytes) flush();
  }
  static std::string as_json(const LogSource& source, std::string_view line) {
    const nlohmann::ordered_json json = {{"attempt", source.attempt},
                                         {"node", source.node.value()},
                                         {"rank", source.rank.value()},
                                         {"stream", source.stream == 1 ? "stdout" : "stderr"},
                                         {"text", line}};
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }

  const Wishes& wishes_;
  bool color_;
  std::optional<std::size_t> keeps_;
  std::map<Rank, std::deque<Line>> kept_;
  std::uint64_t attempt_ = 0;  // of the line printed last
  std::string text_;
};

// Sets the attempt to the one that --attempt or --previous names.
Status choose_attempt(const CommandArguments& arguments, const JobRecord& job, Wishes& wishes) {
  if (!arguments.has("attempt") && !arguments.has("previous")) return {};
  const auto given = attempt_of(arguments);
  if (!given) return std::unexpected(given.error());
  if (*given && arguments.has("previous"))
    return failure(ErrorCode::kInvalidArgument, "--previous and --attempt {}: give one of them", **given);
  std::set<std::uint64_t> attempts;
  (void)for_each_numbered<std::uint64_t>(
      job.directory, "attempt_", [&](std::uint64_t attempt, const auto&) { attempts.insert(attempt); });
  if (arguments.has("previous")) {
    if (attempts.size() < 2)
      return failure(ErrorCode::kNotFound, "--previous: {} has no attempt before its last one", job.job_id);
    wishes.attempt = *std::prev(attempts.end(), 2);
    return {};
  }
  if (!attempts.contains(**given))
    return failure(ErrorCode::kNotFound, "--attempt {}: {} has logs of {} {}", **given, job.job_id,
                   attempts.size() == 1 ? "attempt" : "attempts",
                   attempts.empty() ? "none" : fmt::format("{}", fmt::join(attempts, ", ")));
  wishes.attempt = **given;
  return {};
}

// " for --rank 2"; or "".
std::string chosen_by(std::initializer_list<const char*> flags, const CommandArguments& arguments) {
  std::string chosen;
  for (const char* flag : flags) {
    if (arguments.has(flag))
      chosen += fmt::format("{} --{} {}", chosen.empty() ? " for" : "", flag, arguments.value(flag));
  }
  return chosen;
}

Error no_such_rank(const CommandArguments& arguments, const JobRecord& job) {
  const NodePlan& last = job.nodes.back();
  return {ErrorCode::kNotFound, fmt::format("{} has no logs{}: its plan has ranks 0 to {} on nodes 0 to {}",
                                            job.job_id, chosen_by({"rank", "node"}, arguments),
                                            last.first_rank.value() + last.worker_count - 1, last.node)};
}

}  // namespace

int logs(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  auto wishes = wishes_of(*arguments);
  if (!wishes) return refuse(wishes.error(), kExitUsage);
  auto job = find_job(*arguments, invocation.here, Preferred::kRunningElseNewest);
  if (!job) return refuse(job.error(), kExitUsage);
  if (wishes->ranks.beyond(job->record.world_size))
    return refuse(no_such_rank(*arguments, job->record), kExitUsage);
  if (const Status chosen = choose_attempt(*arguments, job->record, *wishes); !chosen)
    return refuse(chosen.error(), kExitUsage);
  tell_which(*job, *arguments);

  Printer printer(*wishes);
  const auto wanted = [&](const LogSource& source) {
    return wishes->ranks.contains(source.rank.value()) && wishes->nodes.contains(source.node.value()) &&
           wishes->attempt.value_or(source.attempt) == source.attempt;
  };
  int exit_code = 0;
  LogFiles files(job->record, wishes->local, wanted, [&exit_code](const std::string& what, bool is_wanted) {
    const int code = refuse(Error(ErrorCode::kUnavailable, what), 1);
    if (!is_wanted) exit_code = code;
  });
  const auto show = [&](const LogSource& source, std::string_view line, double time) {
    printer.add(source, line, time, files.newest_attempt());
  };
  for (bool is_new = false;; is_new = true) {
    // First asks whether the job has ended, and reads after that. If the job has ended by then, the files are
    // complete when they are read.
    const bool last = !wishes->follow || !job->may_run();
    if (const Status read = files.read(show, {is_new, last}); !read) return refuse(read.error(), 1);
    printer.show_kept(files.newest_attempt());
    if (last) break;
    printer.flush();
    std::this_thread::sleep_for(kLookAtLogs);
    job = read_job(job->record.directory);
    if (!job) return refuse(job.error(), 1);
  }
  if (files.empty()) return refuse(no_such_rank(*arguments, job->record), kExitUsage);
  if (!printer.has_shown() && !wishes->follow && wishes->tail != 0 && exit_code == 0)
    say(fmt::format("{} has no lines{}", job->record.job_id,
                    chosen_by({"rank", "node", "attempt", "grep", "since"}, *arguments)));
  return exit_code;
}

}  // namespace muster::launcher
