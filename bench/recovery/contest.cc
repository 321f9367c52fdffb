#include "bench/recovery/contest.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/file.h"

namespace muster::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kLimit = 30'000 * kMillisecond;

struct Stamp {
  char what;  // M: in main, T: got SIGTERM
  int again;  // 1 after the kill
  pid_t pid;
  std::int64_t at_ns;
};

std::vector<Stamp> read_stamps(const std::string& path, char what, int again) {
  std::vector<Stamp> stamps;
  std::istringstream lines(read_file(path, 1 << 20).value_or(""));
  for (Stamp each{}; lines >> each.what >> each.again >> each.pid >> each.at_ns;) {
    if (each.what == what && each.again == again) stamps.push_back(each);
  }
  return stamps;
}

// Returns whether these children of ours have all ended. Does not reap them.
bool all_ended(const std::vector<pid_t>& pids) {
  return std::ranges::all_of(pids, [](pid_t pid) {
    siginfo_t end{};
    return pid < 0 || (waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                       end.si_pid == pid);
  });
}

// Waits until all ranks of this attempt are in main. Returns fewer if the time is over or their launchers
// end.
std::vector<Stamp> wait_for_ranks(const std::string& path, int again, int ranks,
                                  const std::vector<pid_t>& launchers) {
  const std::int64_t end = now_ns() + kLimit;
  std::vector<Stamp> stamps;
  bool last = false;
  do {
    poll(nullptr, 0, 1);
    last = all_ended(launchers) || now_ns() >= end;
    stamps = read_stamps(path, 'M', again);
  } while (static_cast<int>(stamps.size()) < ranks && !last);
  return stamps;
}

// Waits for all of these processes; returns when the last one ended.
std::int64_t wait_for_ends(const std::vector<UniqueFd>& pidfds) {
  std::vector<pollfd> waiting;
  for (const UniqueFd& pidfd : pidfds) waiting.push_back({pidfd.get(), POLLIN, 0});
  const std::int64_t limit = now_ns() + kLimit;
  std::int64_t at = 0;
  while (!waiting.empty() && now_ns() < limit) {
    poll(waiting.data(), waiting.size(), 100);
    at = now_ns();
    std::erase_if(waiting, [](const pollfd& each) { return each.revents != 0; });
  }
  return at;
}

// The memory of the ranks and of the template that they were forked from, if any.
double memory_mb(const std::vector<Stamp>& ranks) {
  const auto parent_of = [](const std::string& process) {
    const std::string status = read_file(process + "/status", 1 << 16).value_or("");
    return status.substr(std::min(status.find("\nPPid:"), status.size()), 16);
  };
  const auto pss_kb = [](const std::string& process) {
    const std::string rollup = read_file(process + "/smaps_rollup", 1 << 16).value_or("");
    const std::size_t at = rollup.find("\nPss:");
    return at == std::string::npos ? 0 : std::atof(rollup.c_str() + at + 5);
  };
  double sum_kb = 0;
  for (const Stamp& rank : ranks) sum_kb += pss_kb(fmt::format("/proc/{}", rank.pid));
  const std::string agent = parent_of(fmt::format("/proc/{}", ranks.front().pid));
  for (const auto& process : fs::directory_iterator("/proc")) {
    if (read_file(process.path() / "comm", 64).value_or("") == "muster-template\n" &&
        parent_of(process.path()) == agent)
      sum_kb += pss_kb(process.path());
  }
  return sum_kb / 1024;
}

std::optional<Times> kill_one(const std::string& stamps, int ranks, std::int64_t launched,
                              const std::vector<pid_t>& launchers) {
  const auto milliseconds = [](std::int64_t from, std::int64_t to) {
    return static_cast<double>(to - from) / kMillisecond;
  };
  const std::vector<Stamp> first = wait_for_ranks(stamps, 0, ranks, launchers);
  if (static_cast<int>(first.size()) < ranks) return std::nullopt;
  poll(nullptr, 0, 100);  // the work that follows a start is done
  const double memory = memory_mb(first);
  std::vector<UniqueFd> pidfds;
  for (const Stamp& each : first) pidfds.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, each.pid, 0)));
  UniqueFd(open((stamps + ".killed").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::int64_t begin = now_ns();
  kill(first[first.size() / 2].pid, SIGKILL);
  const std::int64_t gone = wait_for_ends(pidfds);
  const std::vector<Stamp> second = wait_for_ranks(stamps, 1, ranks, launchers);
  const std::vector<Stamp> told = read_stamps(stamps, 'T', 0);
  if (static_cast<int>(second.size()) < ranks || told.empty()) return std::nullopt;
  const std::int64_t acted = std::ranges::min(told, {}, &Stamp::at_ns).at_ns;
  return Times{.started = milliseconds(launched, std::ranges::max(first, {}, &Stamp::at_ns).at_ns),
               .acted = milliseconds(begin, acted),
               .gone = milliseconds(acted, gone),
               .recovered = milliseconds(begin, std::ranges::max(second, {}, &Stamp::at_ns).at_ns),
               .memory_mb = memory};
}

std::optional<Times> measure(const std::vector<Command>& commands, int ranks, const std::string& stamps) {
  fs::remove(stamps);
  fs::remove(stamps + ".killed");
  const std::int64_t launched = now_ns();
  std::vector<pid_t> pids;
  for (const Command& command : commands) pids.push_back(spawn(command));
  const auto times = kill_one(stamps, ranks, launched, pids);
  bool ended_well = true;
  for (const pid_t pid : pids) {
    int status = 0;
    if (!times && pid > 0) kill(pid, SIGTERM);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) ended_well = false;
  }
  return ended_well ? times : std::nullopt;
}

}  // namespace

std::vector<Table> compare(const std::vector<Contender>& all, const std::vector<Column>& columns, int ranks,
                           int runs, const std::string& stamps) {
  std::vector<Table> tables;
  for (const Column& column : columns) {
    tables.push_back({fmt::format("{} {}", ranks, column.title), column.unit, {}});
    for (const Contender& contender : all) tables.back().rows.push_back({contender.name, {}, {}});
  }
  for (int run = -1; run < runs; ++run) {  // the first round does not count
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (run >= 0 && run % all[i].one_run_of != 0) continue;
      const auto times = measure(all[i].commands, ranks, stamps);
      for (std::size_t column = 0; column < columns.size(); ++column) {
        Series& row = tables[column].rows[i];
        if (!times) row.note = "it did not recover";
        if (run >= 0 && times) row.values.push_back(columns[column].of(*times));
      }
    }
  }
  return tables;
}

}  // namespace muster::bench
