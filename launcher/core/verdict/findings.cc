#include "launcher/core/verdict/findings.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using enum Finding::Result;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The descriptors that an agent needs for each worker: a pidfd, two pipes, two log files, the file with the
// order of the two logs, and some to start the worker.
constexpr std::uint64_t kDescriptorsPerWorker = 8;
constexpr std::uint64_t kDescriptorsBeside = 64;
// Threads of a LibTorch rank: thread pools, communication library, data loaders.
constexpr std::uint64_t kThreadsPerWorker = 32;
constexpr std::uint64_t kThreadsPerAgent = 3;  // its main thread, the log writer and the guardian
constexpr std::uint64_t kThreadsOfLauncher = 2;
// The space in /dev/shm that each rank needs. NCCL alone needs almost this much.
constexpr std::uint64_t kSharedMemoryPerWorker = 16 * kMiB;
// Docker's default for a container.
constexpr std::uint64_t kDockersSharedMemory = 64 * kMiB;
// These are 2025-01-01 and 2100-01-01. If a clock shows a time outside of them, nobody has set it.
constexpr double kEarliest = 1'735'689'600;
constexpr double kLatest = 4'102'444'800;
constexpr double kClockTolerance = 5;

const char* word_of(Finding::Result result) {
  return result == kOk ? "OK" : result == kWarn ? "WARN" : "FAIL";
}

}  // namespace

Finding judge_disk(std::string name, const std::string& path, const Space& space,
                   std::uint64_t wanted_bytes) {
  Finding finding{kOk, std::move(name), fmt::format("{} free in {}", size_text(space.free_bytes), path)};
  if (space.free_bytes >= wanted_bytes) return finding;
  finding.result = space.free_bytes < wanted_bytes / 100 ? kFail : kWarn;
  finding.advice =
      fmt::format("free some space ({} needed) or choose another directory", size_text(wanted_bytes));
  return finding;
}

Finding judge_shared_memory(const std::optional<Space>& space, const Demand& demand) {
  const std::uint64_t wanted = static_cast<std::uint64_t>(demand.workers) * kSharedMemoryPerWorker;
  Finding finding{kOk, "shared memory", ""};
  if (!space) {
    finding.result = kWarn;
    finding.text = "/dev/shm does not exist";
    finding.advice = "mount a tmpfs there: data loaders and NCCL need it";
    return finding;
  }
  finding.text =
      fmt::format("{} free of {} in /dev/shm", size_text(space->free_bytes), size_text(space->total_bytes));
  if (space->total_bytes <= kDockersSharedMemory) {
    finding.result = kWarn;
    finding.advice =
        "the default size in containers is too small for data loaders and NCCL: docker run --shm-size=8g";
  } else if (space->free_bytes < wanted) {
    finding.result = kWarn;
    finding.advice = space->total_bytes < wanted
                         ? fmt::format("{} ranks need {}: mount -o remount,size={}M /dev/shm", demand.workers,
                                       size_text(wanted), wanted / kMiB)
                         : "find the files that fill it: ls -l /dev/shm";
  }
  return finding;
}

Finding judge_descriptors(std::uint64_t limit, const Demand& demand) {
  const std::uint64_t wanted =
      kDescriptorsPerWorker * static_cast<std::uint64_t>(demand.workers_per_node) + kDescriptorsBeside;
  Finding finding{kOk, "open files", fmt::format("an agent may open {} and needs {}", limit, wanted)};
  if (limit < wanted) {
    finding.result = kFail;
    finding.advice = fmt::format("ulimit -n {}", wanted);
  }
  return finding;
}

Finding judge_processes(const std::vector<ProcessLimit>& limits, const Demand& demand) {
  const auto workers = static_cast<std::uint64_t>(demand.workers);
  const std::uint64_t least =
      workers + kThreadsPerAgent * static_cast<std::uint64_t>(demand.nodes) + kThreadsOfLauncher;
  const std::uint64_t wanted = least + workers * kThreadsPerWorker;
  if (limits.empty()) return {kOk, "processes", "no known limit"};
  const ProcessLimit tightest = *std::ranges::min_element(limits, {}, &ProcessLimit::left);
  const std::uint64_t left = tightest.left();
  Finding finding{
      kOk, "processes",
      fmt::format("{} more processes and threads are allowed, of {}; about {} will run (tightest limit: {})",
                  left, tightest.limit, wanted, tightest.name)};
  if (left >= wanted) return finding;
  finding.result = left < least ? kFail : kWarn;
  finding.advice =
      fmt::format("raise {}{}", tightest.name,
                  tightest.name.ends_with("/pids.max") ? " (of a container: docker run --pids-limit)" : "");
  return finding;
}

Finding judge_clock(double now_unix, std::optional<double> written_unix) {
  Finding finding{kOk, "clock", "is set"};
  if (now_unix < kEarliest || now_unix > kLatest) {
    finding.result = kWarn;
    finding.text = "has not been set";
    finding.advice = "set it: job names and the times in reports come from it";
  } else if (written_unix && std::abs(*written_unix - now_unix) > kClockTolerance) {
    finding.result = kWarn;
    finding.text = fmt::format("differs by {:.0f} s from the clock of the checkpoint directory's file system",
                               std::abs(*written_unix - now_unix));
    finding.advice = "let both follow a time server; the job runs anyway, but times in reports will mislead";
  }
  return finding;
}

bool all_fit(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings, [](const Finding& each) { return each.result == kFail; });
}

std::string findings_as_table(const std::vector<Finding>& findings, std::size_t columns) {
  constexpr std::size_t kLeastOfText = 20;
  std::vector<Row> rows;
  for (const Finding& each : findings) {
    rows.push_back({fmt::format("{:<4}", word_of(each.result)), each.name, each.text});
    if (!each.advice.empty()) rows.push_back({"", "", "-> " + each.advice});
  }
  return table_text({{}, {}, {"", false, Narrow::kWrap, kLeastOfText}}, std::move(rows), columns);
}

std::string findings_as_json(const std::vector<Finding>& findings) {
  using nlohmann::ordered_json;
  ordered_json checks = ordered_json::array();
  for (const Finding& each : findings) {
    std::string word = word_of(each.result);
    std::ranges::transform(word, word.begin(), [](char letter) { return static_cast<char>(letter | 0x20); });
    checks.push_back({{"name", each.name}, {"result", word}, {"text", each.text}, {"advice", each.advice}});
  }
  const ordered_json json = {{"fit", all_fit(findings)}, {"checks", std::move(checks)}};
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
