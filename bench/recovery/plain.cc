#include "bench/recovery/plain.h"

#include <csignal>
#include <cstdlib>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench/command.h"
#include "common/base/file.h"

namespace muster::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kLimit = 60'000 * kMillisecond;

struct Stamp {
  char what;  // M in main, T told to stop
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

// Until all ranks of this attempt are in main; fewer if they do not come in time.
std::vector<Stamp> wait_for_ranks(const std::string& path, int again, int ranks) {
  const std::int64_t end = now_ns() + kLimit;
  std::vector<Stamp> stamps;
  do {
    poll(nullptr, 0, 1);
    stamps = read_stamps(path, 'M', again);
  } while (static_cast<int>(stamps.size()) < ranks && now_ns() < end);
  return stamps;
}

// When the last of these processes ended.
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

struct Times {
  double acted = 0;      // milliseconds from the death of a rank until another is told to stop
  double gone = 0;       // from then until all have ended
  double recovered = 0;  // from the death until all of the next attempt are in main
};

std::optional<Times> kill_one(const std::string& stamps, int ranks) {
  const std::vector<Stamp> first = wait_for_ranks(stamps, 0, ranks);
  if (static_cast<int>(first.size()) < ranks) return std::nullopt;
  poll(nullptr, 0, 100);  // what a start leaves to do is done
  std::vector<UniqueFd> pidfds;
  for (const Stamp& each : first) pidfds.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, each.pid, 0)));
  UniqueFd(open((stamps + ".killed").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::int64_t begin = now_ns();
  kill(first[first.size() / 2].pid, SIGKILL);
  const std::int64_t gone = wait_for_ends(pidfds);
  const std::vector<Stamp> second = wait_for_ranks(stamps, 1, ranks);
  const std::vector<Stamp> told = read_stamps(stamps, 'T', 0);
  if (static_cast<int>(second.size()) < ranks || told.empty()) return std::nullopt;
  const auto milliseconds = [](std::int64_t from, std::int64_t to) {
    return static_cast<double>(to - from) / kMillisecond;
  };
  const std::int64_t acted = std::ranges::min(told, {}, &Stamp::at_ns).at_ns;
  return Times{milliseconds(begin, acted), milliseconds(acted, gone),
               milliseconds(begin, std::ranges::max(second, {}, &Stamp::at_ns).at_ns)};
}

std::optional<Times> measure(const std::vector<Command>& commands, int ranks, const std::string& stamps) {
  fs::remove(stamps);
  fs::remove(stamps + ".killed");
  std::vector<pid_t> pids;
  for (const Command& command : commands) pids.push_back(spawn(command));
  const auto times = kill_one(stamps, ranks);
  bool ended_well = true;
  for (const pid_t pid : pids) {
    int status = 0;
    if (!times && pid > 0) kill(pid, SIGTERM);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) ended_well = false;
  }
  return ended_well ? times : std::nullopt;
}

struct Contender {
  std::string name;
  std::vector<Command> commands;
  int one_run_of = 1;  // slow contenders run in every so many rounds only
};

Command torchrun(const Programs& programs, int ranks, std::vector<std::string> nodes, const Command& probe) {
  // It looks for dead ranks ten times a second, as often as it can be told to without keeping a core busy.
  Command command = {programs.torchrun,
                     "--nproc-per-node",
                     std::to_string(ranks),
                     "--max-restarts",
                     "1",
                     "--monitor-interval",
                     "0.1",
                     "--no-python"};
  command.insert(command.end(), nodes.begin(), nodes.end());
  command.insert(command.end(), probe.begin(), probe.end());
  return command;
}

std::vector<Contender> contenders(const Programs& programs, int ranks, const fs::path& scratch) {
  const Command probe = {(programs.bin / "recovery_probe").string(), (scratch / "stamps").string()};
  const auto launch = [&](int nodes) {
    return Command{(programs.bin / "launch").string(),
                   "--nodes",
                   std::to_string(nodes),
                   "--gpus-per-node",
                   std::to_string(ranks / nodes),
                   "--log-dir",
                   (scratch / "logs").string(),
                   "--quiet",
                   probe[0],
                   probe[1]};
  };
  std::vector<Contender> all = {
      {"posix_spawn", {{programs.self, "--bare", std::to_string(ranks), probe[0], probe[1]}}},
      {"launch", {launch(1)}},
      {"launch, 2 nodes", {launch(2)}}};
  if (programs.torchrun.empty()) return all;
  const std::vector<std::string> two = {"--nnodes",       "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                                        "127.0.0.1:29871"};
  all.push_back({"torchrun", {torchrun(programs, ranks, {}, probe)}});
  all.push_back({"torchrun, 2 nodes",
                 {torchrun(programs, ranks / 2, two, probe), torchrun(programs, ranks / 2, two, probe)},
                 3});
  return all;
}

}  // namespace

std::vector<Table> compare_plain(const Programs& programs, int ranks, int runs) {
  std::string scratch = (fs::temp_directory_path() / "muster-bench-XXXXXX").string();
  CHECK(mkdtemp(scratch.data()) != nullptr, "{}", scratch);
  const std::vector<Contender> all = contenders(programs, ranks, scratch);
  std::vector<Table> tables;
  for (const char* what : {"recovery: a rank's death to the last of the next attempt in main()",
                           "detection: a rank's death to the first TERM that another gets",
                           "stopping: the first TERM to the end of the last rank"}) {
    tables.push_back({fmt::format("{} plain ranks, {}", ranks, what), "milliseconds", {}});
    for (const Contender& contender : all) tables.back().rows.push_back({contender.name, {}, {}});
  }
  for (int run = -1; run < runs; ++run) {  // the first round is not counted
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (run >= 0 && run % all[i].one_run_of != 0) continue;
      const auto times = measure(all[i].commands, ranks, scratch + "/stamps");
      for (Table& table : tables) {
        if (!times) table.rows[i].note = "it did not recover";
      }
      if (run < 0 || !times) continue;
      tables[0].rows[i].values.push_back(times->recovered);
      tables[1].rows[i].values.push_back(times->acted);
      tables[2].rows[i].values.push_back(times->gone);
    }
  }
  fs::remove_all(scratch);
  return tables;
}

int run_bare(int ranks, const std::string& probe, const std::string& stamps) {
  for (const bool first : {true, false}) {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) pids.push_back(spawn({probe, stamps}));
    const pid_t dead = waitpid(-1, nullptr, 0);
    for (const pid_t pid : pids) {
      if (first && pid != dead) kill(pid, SIGTERM);
    }
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  return 0;
}

}  // namespace muster::bench
