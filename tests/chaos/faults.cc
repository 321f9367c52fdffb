#include <csignal>
#include <fmt/format.h>

#include "common/base/file.h"
#include "tests/chaos/fault.h"
#include "tests/process/agent_test_launcher.h"

namespace muster::chaos {

namespace {

// Whether the process runs: neither stopped nor a zombie.
bool gets_on(pid_t pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  return stat && std::string("TtZX").find((*stat)[stat->rfind(')') + 2]) == std::string::npos;
}

class WorkerSignal final : public Fault {
 public:
  explicit WorkerSignal(int signal) : signal_(signal) {}
  void inject(Stage&, const Mark& mark) override { kill(mark.worker, signal_); }
  bool propagated(const Stage&, const Mark& mark) const override { return !gets_on(mark.worker); }
  Truth truth(const Mark& mark) const override {
    const invariants::Culprit culprit{.rank = mark.rank, .node = mark.node};
    if (signal_ == SIGSTOP) return {.culprit = culprit, .class_name = "hang", .exit_code = 124};
    return {.culprit = culprit, .class_name = "signal", .exit_code = 128 + signal_, .signal = signal_};
  }

 private:
  int signal_;
};

class WorkerExit final : public Fault {
 public:
  explicit WorkerExit(int code) : code_(code) {}
  std::string what() const override { return fmt::format("exit={}", code_); }
  bool propagated(const Stage&, const Mark& mark) const override { return !gets_on(mark.worker); }
  Truth truth(const Mark& mark) const override {
    return {.culprit = invariants::Culprit{.rank = mark.rank, .node = mark.node},
            .class_name = "exit",
            .exit_code = code_};
  }

 private:
  int code_;
};

class AgentSignal final : public Fault {
 public:
  explicit AgentSignal(int signal) : signal_(signal) {}
  void setup(Stage& stage) override {
    if (signal_ == SIGSTOP) stage.flags.insert(stage.flags.end(), {"--silence-limit", "2"});
  }
  void inject(Stage&, const Mark& mark) override { kill(mark.agent, signal_); }
  bool propagated(const Stage&, const Mark& mark) const override { return !gets_on(mark.agent); }
  Truth truth(const Mark& mark) const override {
    return {.culprit = invariants::Culprit{.rank = {}, .node = mark.node},
            .class_name = "node_lost",
            .exit_code = 69};
  }

 private:
  int signal_;
};

// Runs the whole job in a cgroup with less memory than the victim allocates.
class HostOutOfMemory final : public Fault {
 public:
  void setup(Stage& stage) override {
    stage.memory = std::make_unique<ControlGroup>("memory");
    stage.memory->set(stage.memory->hierarchy().memory_limit(128 << 20));
  }
  std::string what() const override { return "memory"; }
  bool propagated(const Stage& stage, const Mark&) const override {
    return stage.memory->read(stage.memory->hierarchy().oom_file(), "oom_kill") > 0;
  }
  Truth truth(const Mark& mark) const override {
    return {.culprit = invariants::Culprit{.rank = mark.rank, .node = mark.node},
            .class_name = "out_of_memory",
            .exit_code = 253,
            .signal = SIGKILL};
  }
};

class LogDiskFull final : public Fault {
 public:
  void setup(Stage& stage) override { disk_.emplace(stage.logs, std::uint64_t{2} << 20); }
  std::string what() const override { return "flood"; }
  bool propagated(const Stage&, const Mark&) const override { return disk_->full(); }
  void cleanup(Stage&) override { disk_.reset(); }
  Truth truth(const Mark&) const override { return {}; }

 private:
  std::optional<SmallDisk> disk_;
};

class CheckpointDiskFull final : public Fault {
 public:
  void setup(Stage& stage) override { disk_.emplace(stage.checkpoints, std::uint64_t{4} << 20); }
  void inject(Stage&, const Mark&) override { disk_->fill(); }
  bool propagated(const Stage& stage, const Mark&) const override {
    return stage.printed().find("cannot save step") != std::string::npos;
  }
  void recover(Stage&) override { disk_->release(); }
  void cleanup(Stage&) override { disk_.reset(); }
  Truth truth(const Mark&) const override { return {}; }

 private:
  std::optional<SmallDisk> disk_;
};

class LauncherKill final : public Fault {
 public:
  void inject(Stage& stage, const Mark&) override { kill(stage.launcher, SIGKILL); }
  bool propagated(const Stage& stage, const Mark&) const override { return !is_running(stage.launcher); }
  Truth truth(const Mark&) const override {
    return {.culprit = {}, .class_name = "", .exit_code = 128 + SIGKILL};
  }
  bool ends_launch() const override { return true; }
};

template <class Made, class... Arguments>
auto maker(Arguments... arguments) {
  return [=](std::mt19937_64&) -> std::unique_ptr<Fault> { return std::make_unique<Made>(arguments...); };
}

}  // namespace

const std::vector<FaultKind>& fault_kinds() {
  static const std::vector<FaultKind> kinds = {
      {"worker KILL", maker<WorkerSignal>(SIGKILL), "", true},
      {"worker TERM", maker<WorkerSignal>(SIGTERM), "", true},
      {"worker SEGV", maker<WorkerSignal>(SIGSEGV), "", true},
      {"worker exit",
       [](std::mt19937_64& random) {
         return std::make_unique<WorkerExit>(3 + static_cast<int>(random() % 60));
       },
       "", true},
      {"worker STOP", maker<WorkerSignal>(SIGSTOP), "", false},
      {"agent KILL", maker<AgentSignal>(SIGKILL), "", true},
      {"agent STOP", maker<AgentSignal>(SIGSTOP), "", false},
      {"host OOM", maker<HostOutOfMemory>(), why_no_control_group("memory"), false},
      {"disk full",
       [](std::mt19937_64& random) -> std::unique_ptr<Fault> {
         if (random() % 2 == 0) return std::make_unique<LogDiskFull>();
         return std::make_unique<CheckpointDiskFull>();
       },
       why_no_small_disk(), false},
      {"launcher KILL", maker<LauncherKill>(), "", false},
  };
  return kinds;
}

}  // namespace muster::chaos
