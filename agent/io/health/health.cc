#include "agent/io/health/health.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>
#include <utility>

#include "agent/core/start/environment.h"
#include "agent/io/health/thread_states.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxStackDumpBytes = 64 << 10;
constexpr std::size_t kMaxStackFileBytes = 4 << 20;
constexpr Duration kLookAtSpies = std::chrono::milliseconds(10);

bool lists(const std::string& capabilities, std::string_view word) {
  const auto words = split(capabilities, ' ');
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

Health::Health(Setting setting)
    : setting_(std::move(setting)),
      hang_({.heartbeat = from_ns(setting_.job.heartbeat_limit_ns),
             .hang = from_ns(setting_.job.hang_limit_ns)}) {}

void Health::started(Rank rank, const Started& worker, TimePoint now) {
  hang_.add(rank, now);
  workers_[rank].process = worker;
}

void Health::take_gpu_faults(TimePoint now) {
  if (setting_.gpus == nullptr) return;
  for (const GpuFault& fault : setting_.gpus->take()) {
    const std::string text = fmt::format("{} (GPU {})", fault.xid.text, fault.gpu);
    for (auto& [rank, worker] : workers_) {
      if (worker.process.gpu != fault.gpu) continue;
      waiting_.emplace_back(wire::AgentNotice{fmt::format("rank {}: {}", rank, text)});
      if (fault.xid.fault_class == XidClass::kProgram) continue;
      if (worker.gpu_fault.empty()) worker.gpu_fault = text;
      if (fault.xid.fault_class != XidClass::kLost) continue;
      wire::WorkerStalled stalled;
      stalled.rank = rank;
      stalled.hard = true;
      stalled.what = fmt::format("has lost its GPU: {}", text);
      stalled.since_ns = to_ns(now);
      waiting_.emplace_back(std::move(stalled));
    }
  }
}

void Health::ended(Rank rank, wire::WorkerExited& exited) {
  take_gpu_faults(TimePoint(from_ns(exited.at_ns)));
  exited.gpu_fault = workers_[rank].gpu_fault;
  if (exited.signal == SIGKILL) memory_.add_evidence(exited.pid, exited);
  hang_.remove(rank);
  dump_.ended(rank);
  spies_.erase(rank);
  workers_.erase(rank);
}

Health::Messages Health::on(const Report& report, const std::string& sender, TimePoint now) {
  hang_.on(report, now);
  const Rank rank = report.message.rank;
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return {};
  if (!sender.empty()) found->second.address = sender;
  if (report.message.kind == wire::ReportKind::kHello) {
    found->second.writes_stacks = lists(report.message.text, "stacks");
    found->second.can_be_preempted = lists(report.message.text, "preemption");
  }
  if (report.message.kind == wire::ReportKind::kStacks && dump_.answered(rank)) return {read_stacks(rank)};
  return {};
}

bool Health::command(const Worker& worker, const std::string& datagram) const {
  return setting_.send && setting_.send(worker.address, datagram);
}

Health::Messages Health::dump_stacks(TimePoint now) {
  Messages stacks;
  std::set<Rank> asked;
  for (const auto& [rank, worker] : workers_) {
    // The directory is made only while the workers run already.
    const Status made = make_directories(rank_directory(setting_.job, setting_.attempt, rank));
    if (!made) log::warning("{}", made.error().message());
    if (const auto reason = ask_for_stacks(rank, worker)) {
      stacks.emplace_back(write_kernels_view(rank, *reason));
    } else {
      asked.insert(rank);
    }
  }
  dump_.asked(asked, now);
  spies_looked_at_ = now;
  return stacks;
}

std::optional<std::string> Health::ask_for_stacks(Rank rank, const Worker& worker) {
  const nlohmann::json order{{"v", 1}, {"type", "dump"}, {"path", stacks_path(rank)}};
  if (worker.writes_stacks && command(worker, order.dump())) return std::nullopt;
  constexpr const char* kNone = "the program cannot write its own stacks";
  const pid_t pid = worker.process.pid;
  if (spies_.contains(rank)) return std::nullopt;
  if (!PySpy::runs_python(pid)) return kNone;
  const auto program = PySpy::find_for(pid);
  if (!program) return fmt::format("{}, and py-spy, which could, is not installed", kNone);
  auto spy = PySpy::start(*program, pid, stacks_path(rank));
  if (!spy) return spy.error().message();
  spies_.emplace(rank, *std::move(spy));
  return std::nullopt;
}

void Health::look_at_spies(TimePoint now, Messages& messages) {
  spies_looked_at_ = now;
  for (auto next = spies_.begin(); next != spies_.end();) {
    const auto& [rank, spy] = *next;
    if (!spy.has_ended()) {
      ++next;
      continue;
    }
    const std::string output = read_regular_file(stacks_path(rank), kMaxStackFileBytes).value_or("");
    const bool wanted = dump_.answered(rank);
    if (wanted && PySpy::are_stacks(output)) {
      messages.emplace_back(read_stacks(rank));
    } else if (wanted) {
      messages.emplace_back(write_kernels_view(rank, "py-spy says: " + output.substr(0, output.find('\n'))));
    }
    next = spies_.erase(next);
  }
}

void Health::preempt(Duration grace) {
  const nlohmann::json notice{
      {"v", 1},
      {"type", "preempt"},
      {"grace_ms", std::chrono::duration_cast<std::chrono::milliseconds>(grace).count()}};
  for (const auto& [rank, worker] : workers_) {
    if (worker.can_be_preempted && !command(worker, notice.dump()))
      log::warning("rank {} does not take the notice of preemption", rank);
  }
}

Health::Messages Health::look(TimePoint now, bool output_waits) {
  take_gpu_faults(now);
  Messages messages = std::exchange(waiting_, {});
  look_at_spies(now, messages);
  for (const Rank rank : dump_.late(now)) {
    const bool spied = spies_.erase(rank) > 0;
    messages.emplace_back(
        write_kernels_view(rank, spied ? "py-spy did not answer" : "the program did not answer"));
  }
  const auto next_look = hang_.next_deadline();
  if (!next_look || *next_look > now) return messages;
  std::map<Rank, pid_t> pids;
  for (const auto& [rank, worker] : workers_) pids[rank] = worker.process.pid;
  memory_.look(pids);
  if (output_waits) hang_.pause(now);
  for (wire::WorkerStalled& stalled : hang_.look(states_.look(pids), now)) {
    log::warning("rank {} {}", stalled.rank, stalled.what);
    messages.emplace_back(std::move(stalled));
  }
  return messages;
}

std::optional<TimePoint> Health::next_deadline() const {
  auto next = hang_.next_deadline();
  const auto consider = [&next](std::optional<TimePoint> when) {
    if (when && (!next || *when < *next)) next = when;
  };
  consider(dump_.next_deadline());
  if (!spies_.empty()) consider(spies_looked_at_ + kLookAtSpies);
  return next;
}

std::string Health::stacks_path(Rank rank) const {
  return rank_directory(setting_.job, setting_.attempt, rank) + "/stacks.txt";
}

wire::WorkerStacks Health::read_stacks(Rank rank) const {
  auto text = read_regular_file(stacks_path(rank), kMaxStackFileBytes);
  if (!text) return write_kernels_view(rank, text.error().message());
  text->resize(std::min(text->size(), kMaxStackDumpBytes));
  return {rank, *std::move(text)};
}

wire::WorkerStacks Health::write_kernels_view(Rank rank, const std::string& reason) const {
  std::string text =
      fmt::format("The kernel's view ({}):\n{}", reason, describe_threads(workers_.at(rank).process.pid));
  text.resize(std::min(text.size(), kMaxStackDumpBytes));
  // Whatever lies there now, it must neither block us nor lead elsewhere.
  const std::string path = stacks_path(rank);
  unlink(path.c_str());
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const Status written =
      file ? write_all(file.get(), text, path) : system_failure("cannot write " + path, errno);
  if (!written) log::warning("{}", written.error().message());
  return {rank, std::move(text)};
}

}  // namespace muster::agent
