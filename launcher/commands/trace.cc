// `launch trace`: merges the traces of all ranks of a job into one file.
#include "launcher/core/view/trace.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/numbered.h"
#include "common/base/trace_file.h"
#include "common/wire/words.h"
#include "launcher/commands/invocation.h"
#include "launcher/commands/log_files.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kMostEventsBytes = 256 << 20;
constexpr std::uint64_t kMostTraceBytes = TraceFile::kLimitBytes + (1 << 20);

// The paths of trace files, by rank and attempt.
using TracePaths = std::map<Rank, std::map<std::uint64_t, std::string>>;

TracePaths find_traces(const std::string& directory) {
  TracePaths found;
  const auto look = [&](std::uint64_t attempt, const auto& attempts) {
    (void)for_each_numbered<std::int32_t>(attempts, "rank_", [&](std::int32_t rank, const auto& ranks) {
      const auto path = ranks / name_of(wire::LogFile::kTrace);
      std::error_code error;
      if (std::filesystem::exists(path, error)) found[Rank(rank)][attempt] = path.string();
    });
  };
  (void)for_each_numbered<std::uint64_t>(directory, "attempt_", look);
  return found;
}

struct TraceWishes {
  std::string file;
  std::optional<std::uint64_t> attempt;
  bool json = false;
};

Expected<TraceWishes> trace_wishes_of(const CommandArguments& arguments) {
  constexpr auto kWrong = ErrorCode::kInvalidArgument;
  TraceWishes wishes{.file = arguments.value("output"), .attempt = {}, .json = arguments.has("json")};
  if (wishes.file.empty())
    return failure(kWrong, "--output is missing: say where to write the trace, as in -o trace.json, or -o -");
  if (wishes.file == "-" && wishes.json)
    return failure(kWrong, "--output - and --json both go to stdout: give one of them");
  const auto attempt = attempt_of(arguments);
  if (!attempt) return std::unexpected(attempt.error());
  wishes.attempt = *attempt;
  return wishes;
}

using Write = std::function<Status(int fd)>;

// If the output is a regular file, writes it under a temporary name, and renames it when it is complete. If
// it is stdout, a pipe or something similar, writes to it directly. Calls `write` once, unless the output
// cannot be opened.
Status write_output(const std::string& path, const Write& write) {
  const auto write_to = [&](UniqueFd fd) {
    return fd ? write(fd.get()) : system_failure("cannot write " + path, errno);
  };
  if (path == "-") return write_to(UniqueFd(dup(STDOUT_FILENO)));
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return write_to(UniqueFd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY)));
  std::error_code error;  // replaces a link's target, not the link, if it can be followed
  const std::string replaced = std::filesystem::weakly_canonical(path, error).string();
  return replace_file(error ? path : replaced, [&](const std::string& temporary) {
    return write_to(UniqueFd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)));
  });
}

Status write_trace(int fd, const std::string& path, const TracePaths& paths, Trace& trace) {
  if (Status written = write_all(fd, trace.beginning(), path); !written) return written;
  for (const auto& [rank, path_of_attempt] : paths) {
    std::map<std::uint64_t, std::string> texts;
    for (const auto& [attempt, file] : path_of_attempt) {
      auto text = read_regular_file(file, kMostTraceBytes);
      if (!text) return std::unexpected(text.error());
      texts[attempt] = *std::move(text);
    }
    if (Status written = write_all(fd, trace.of_rank(rank, texts), path); !written) return written;
  }
  return write_all(fd, Trace::end(), path);
}

int tell(const JobRecord& job, const TraceWishes& wishes, const Trace::Summary& summary) {
  std::vector<std::string> remarks = summary.remarks;
  const auto world_size = static_cast<std::size_t>(job.world_size);
  if (summary.ranks < world_size)
    remarks.push_back(
        fmt::format("{} of {} ranks have no trace here: "
                    "a host that keeps its own logs sends traces only when an attempt has ended",
                    world_size - summary.ranks, world_size));
  if (wishes.json) {
    const nlohmann::ordered_json json = {{"job_id", job.job_id},         {"file", wishes.file},
                                         {"events", summary.events},     {"ranks", summary.ranks},
                                         {"seconds", summary.seconds()}, {"remarks", remarks}};
    return print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  for (const std::string& remark : remarks) say(remark);
  say(fmt::format("{} of {} over {:.1f} s{}", count_of(summary.events, "event"),
                  count_of(summary.ranks, "rank"), summary.seconds(),
                  wishes.file == "-" ? "" : fmt::format(": {}; open it in ui.perfetto.dev", wishes.file)));
  return 0;
}

Error no_trace(const JobRecord& job) {
  return {ErrorCode::kNotFound,
          fmt::format(
              "{} has no trace: only programs that use the runtime write one, in a job started with --trace",
              job.job_id)};
}

}  // namespace

int trace(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto wishes = trace_wishes_of(*arguments);
  if (!wishes) return refuse(wishes.error(), kExitUsage);
  const auto job = find_job(*arguments, invocation.here, Preferred::kRunningElseNewest);
  if (!job) return refuse(job.error(), kExitUsage);
  TracePaths paths = find_traces(job->record.directory);
  if (paths.empty()) return refuse(no_trace(job->record), 1);
  if (wishes->attempt) {
    for (auto& [rank, its] : paths)
      std::erase_if(its, [&](const auto& each) { return each.first != *wishes->attempt; });
    std::erase_if(paths, [](const auto& each) { return each.second.empty(); });
    if (paths.empty())
      return refuse(Error(ErrorCode::kNotFound, fmt::format("--attempt {}: {} has no trace of that attempt",
                                                            *wishes->attempt, job->record.job_id)),
                    kExitUsage);
  }
  const auto events = read_regular_file(job->record.directory + "/events.jsonl", kMostEventsBytes);
  if (!events) return refuse(events.error(), 1);
  Trace trace(job->record, *events, wishes->attempt);
  bool began = false;
  const Status written = write_output(wishes->file, [&](int fd) {
    began = true;
    return write_trace(fd, wishes->file, paths, trace);
  });
  if (!written) return refuse(written.error(), began ? 1 : kExitUsage);
  return tell(job->record, *wishes, trace.summary());
}

}  // namespace muster::launcher
