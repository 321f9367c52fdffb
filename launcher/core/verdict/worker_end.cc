#include "launcher/core/verdict/worker_end.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <ranges>

#include "launcher/core/text/words.h"
#include "launcher/core/verdict/exception_text.h"
#include "launcher/core/verdict/hints.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

// Only the launcher itself ends with these exit codes. A worker's exit code is not passed on if it is one of
// them, because it could be mistaken for the launcher's verdict.
constexpr int kOwnExitCodes[] = {kExitNodesMissing, kExitPreempted, kExitTimeOut, kExitInternal,
                                 kExitOutOfMemory};

// The number of last lines that a WorkerEnd keeps. The search for an exception reads more lines than that.
constexpr std::size_t kShownLines = 20;

std::string exception_of(const ErrorFile& error, const std::vector<std::string>& last_lines) {
  std::vector<std::string> callstack;
  for (const auto line : error.callstack | std::views::split('\n'))
    callstack.emplace_back(line.begin(), line.end());
  const std::string raised = exception_in(callstack);
  if (!raised.empty()) return raised;
  return error.message.empty() ? exception_in(last_lines) : shortened(error.message);
}

std::vector<std::string> last_of(const std::vector<std::string>& lines, std::size_t count) {
  return {lines.end() - static_cast<std::ptrdiff_t>(std::min(count, lines.size())), lines.end()};
}

}  // namespace

WorkerEnd worker_end(NodeId node, const wire::WorkerExited& exited, bool killing) {
  const ErrorFile error = read_error_file(exited.error_file);
  // Decides whether a worker that was told to stop has ended for this reason. This is true if the worker
  // ended with any exit code, or by SIGTERM. It is also true if the worker ended by SIGKILL after the job had
  // sent SIGKILL. If another signal ended the worker, there is another reason.
  const bool as_told =
      exited.signal == 0 || exited.signal == SIGTERM || (exited.signal == SIGKILL && killing);
  return {.rank = exited.rank,
          .node = node,
          .exit_code = exited.exit_code,
          .signal = exited.signal,
          .at = TimePoint(from_ns(exited.at_ns)),
          .after_stop = exited.after_stop,
          .by_stop = exited.after_stop && as_told,
          .message = error.message,
          .final = error.final,
          .told = error.told,
          .exception = exception_of(error, exited.last_lines),
          .cause = error.cause,
          .last_lines = last_of(exited.last_lines, kShownLines),
          .oom_kill_count = exited.oom_kill_count,
          .memory_limit_bytes = exited.memory_limit_bytes,
          .peak_memory_bytes = exited.peak_memory_bytes,
          .core_dumped = exited.core_dumped,
          .ran_last_line = exited.ran_last_line,
          .gpu_fault = exited.gpu_fault,
          .mpi_fault = exited.mpi_fault};
}

bool WorkerEnd::out_of_memory() const {
  return signal == SIGKILL && oom_kill_count > 0;
}

std::string WorkerEnd::text() const {
  std::string all = message;
  for (const std::string& line : last_lines) all += "\n" + line;
  return all;
}

bool WorkerEnd::is_about_another() const {
  return told || shows_lost_peer(text());
}

int exit_code_for(const WorkerEnd& end) {
  if (end.signal != 0) return exit_code_of_signal(end.signal);
  if (end.exit_code == 0 && !end.mpi_fault.empty()) return 1;
  return std::ranges::find(kOwnExitCodes, end.exit_code) == std::end(kOwnExitCodes) ? end.exit_code : 1;
}

std::string end_text(const WorkerEnd& end) {
  if (end.out_of_memory()) return "was killed by the kernel because memory ran out";
  if (!end.mpi_fault.empty()) return end.mpi_fault;
  // If nobody catches an exception of a Python program, the program ends with exit code 1.
  if (end.signal == 0 && end.exit_code == 1 && !end.exception.empty())
    return fmt::format("failed with {}", end.exception);
  const std::string text =
      end.signal != 0
          ? fmt::format("{}was killed by {}", end.ran_last_line ? "had run its last line when it " : "",
                        signal_name(end.signal))
          : fmt::format("exited with code {}", end.exit_code);
  // If an exception ends a Python or C++ program, the program ends by SIGABRT or SIGINT, or with an exit
  // code. All other signals have other causes.
  const bool of_exception =
      end.signal == SIGABRT || end.signal == SIGINT || (end.signal == 0 && end.failed());
  return of_exception && !end.exception.empty() ? fmt::format("{} after {}", text, end.exception) : text;
}

std::vector<std::string> evidence_of(const WorkerEnd& end) {
  std::vector<std::string> lines;
  if (end.oom_kill_count > 0) {
    std::string line = fmt::format("the memory cgroup counted {} OOM kill{}", end.oom_kill_count,
                                   end.oom_kill_count == 1 ? "" : "s");
    if (end.memory_limit_bytes > 0)
      line += fmt::format("; its limit is {}", size_text(static_cast<std::uint64_t>(end.memory_limit_bytes)));
    if (end.peak_memory_bytes > 0)
      line +=
          fmt::format("; the worker used {}", size_text(static_cast<std::uint64_t>(end.peak_memory_bytes)));
    lines.push_back(std::move(line));
  }
  if (!end.gpu_fault.empty()) lines.push_back("NVML: " + end.gpu_fault);
  if (end.core_dumped) lines.emplace_back("it dumped core");
  return lines;
}

ErrorFile read_error_file(std::string_view json_text) {
  auto value = nlohmann::json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  ErrorFile file;
  const auto says = [&](const char* name) {
    return value.is_object() && value.contains(name) && value[name] == true;
  };
  file.final = says("final");
  file.told = says("told");
  if (value.is_object() && value.contains("cause") && value["cause"].is_string())
    file.cause = value["cause"].get<std::string>();
  // The JSON is {"message": {"message": "...", "extraInfo": {"py_callstack": "..."}}} or {"message": "..."}.
  for (int depth = 0; depth < 2 && value.is_object() && value.contains("message"); ++depth) {
    if (value.contains("extraInfo") && value["extraInfo"].is_object()) {
      const nlohmann::json& callstack = value["extraInfo"]["py_callstack"];
      if (callstack.is_string()) file.callstack = callstack.get<std::string>();
    }
    nlohmann::json inner = std::move(value["message"]);
    value = std::move(inner);
  }
  if (value.is_string()) file.message = value.get<std::string>();
  return file;
}

}  // namespace muster::launcher
