#include "agent/io/health/stacks.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>
#include <utility>

#include "agent/core/start/environment.h"
#include "agent/io/health/thread_states.h"
#include "common/base/file.h"
#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxStackDumpBytes = 64 << 10;
constexpr std::size_t kMaxStackFileBytes = 4 << 20;
constexpr Duration kLookAtSpies = std::chrono::milliseconds(10);

// Makes a new file. First removes the thing that is at this path. The worker can put anything there, for
// example a link, or a pipe that would block the agent.
UniqueFd open_anew(const std::string& path) {
  unlink(path.c_str());
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
}

}  // namespace

Stacks::Told Stacks::dump(const std::vector<WorkerTalk::Worker>& workers, TimePoint now) {
  Told told;
  std::set<Rank> asked;
  for (const WorkerTalk::Worker& worker : workers) {
    pids_[worker.rank] = worker.pid;
    // The ranks' directories are made some time after the workers have started. So the directory of this rank
    // may not exist yet.
    const Status made = make_directories(rank_directory(job_, attempt_, worker.rank));
    if (!made) log::warning("{}", made.error().message());
    if (const auto reason = ask(worker)) {
      told.push_back(write_kernels_view(worker.rank, *reason));
    } else {
      asked.insert(worker.rank);
    }
  }
  dump_.asked(asked, now);
  spies_looked_at_ = now;
  return told;
}

std::optional<std::string> Stacks::ask(const WorkerTalk::Worker& worker) {
  const std::string path = path_of(worker.rank);
  const nlohmann::json order{{"v", 1}, {"type", "dump"}, {"path", path}};
  if (!worker.address.empty() && send_(worker.address, order.dump())) return std::nullopt;
  if (spies_.contains(worker.rank)) return std::nullopt;
  const UniqueFd output = open_anew(path);
  if (!output) return system_failure("cannot write " + path, errno).error().message();
  auto spy = Spy::start(worker.pid, output.get(), Spy::Way::kPausing);
  if (!spy) return spy.error().message();
  spies_.emplace(worker.rank, *std::move(spy));
  return std::nullopt;
}

Stacks::Told Stacks::on(const Report& report) {
  const Rank rank = report.message.rank;
  if (report.message.kind != wire::ReportKind::kStacks || report.attempt != attempt_ || !dump_.answered(rank))
    return {};
  return {read(rank)};
}

void Stacks::ended(Rank rank) {
  dump_.ended(rank);
  spies_.erase(rank);
  pids_.erase(rank);
}

void Stacks::look_at_spies(TimePoint now, Told& told) {
  spies_looked_at_ = now;
  for (auto next = spies_.begin(); next != spies_.end();) {
    const auto& [rank, spy] = *next;
    if (!spy.has_ended()) {
      ++next;
      continue;
    }
    const std::string output = read_regular_file(path_of(rank), kMaxStackFileBytes).value_or("");
    const bool wanted = dump_.answered(rank);
    if (wanted && Spy::are_stacks(output)) {
      told.push_back(read(rank));
    } else if (wanted) {
      told.push_back(write_kernels_view(rank, spy.name() + " says: " + output.substr(0, output.find('\n'))));
    }
    next = spies_.erase(next);
  }
}

Stacks::Told Stacks::look(TimePoint now) {
  Told told;
  look_at_spies(now, told);
  for (const Rank rank : dump_.late(now)) {
    const auto spy = spies_.extract(rank);
    const std::string who = spy.empty() ? "the program" : spy.mapped().name();
    told.push_back(write_kernels_view(rank, who + " did not answer"));
  }
  return told;
}

std::optional<TimePoint> Stacks::next_deadline() const {
  const auto late = dump_.next_deadline();
  if (spies_.empty()) return late;
  const TimePoint look = spies_looked_at_ + kLookAtSpies;
  return late ? std::min(*late, look) : look;
}

std::string Stacks::path_of(Rank rank) const {
  return rank_directory(job_, attempt_, rank) + "/stacks.txt";
}

wire::WorkerStacks Stacks::read(Rank rank) const {
  auto text = read_regular_file(path_of(rank), kMaxStackFileBytes);
  if (!text) return write_kernels_view(rank, text.error().message());
  text->resize(std::min(text->size(), kMaxStackDumpBytes));
  return {rank, *std::move(text)};
}

wire::WorkerStacks Stacks::write_kernels_view(Rank rank, const std::string& reason) const {
  std::string text = fmt::format("The kernel's view ({}):\n{}", reason, describe_threads(pids_.at(rank)));
  text.resize(std::min(text.size(), kMaxStackDumpBytes));
  const std::string path = path_of(rank);
  const UniqueFd file = open_anew(path);
  const Status written =
      file ? write_all(file.get(), text, path) : system_failure("cannot write " + path, errno);
  if (!written) log::warning("{}", written.error().message());
  return {rank, std::move(text)};
}

}  // namespace muster::agent
