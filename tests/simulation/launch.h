// One launch of the simulated job: the production launcher::Launcher over simulated machines, a simulated
// checkpoint directory, and a view that only records.
//
// Injects faults into its ranks, passes on the user's wishes, and lets a Judge check it. One thread; lives as
// long as its World.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/io/launcher.h"
#include "tests/simulation/agents.h"
#include "tests/simulation/input.h"
#include "tests/simulation/judge.h"
#include "tests/simulation/lineage.h"

namespace muster::simulation {

class Launch final : public launcher::View {
 public:
  struct Options {
    int number = 1;
    bool take_over = false;
    bool connects_late = false;  // agents connect, as over TCP; if false, they inherit their connection
  };
  // Calls `on_change` when its phase or an agent changes, and at its end.
  Launch(World& world, const MachineClock& clock, const Options& options, std::function<void()> on_change);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() override;

  void begin();
  int number() const { return options_.number; }
  std::string name() const { return fmt::format("launch {}", options_.number); }
  bool connects_late() const { return options_.connects_late; }
  Program& program() { return *program_; }
  const launcher::Job& job() const { return launcher_->controller().job(); }
  bool listens_to(AgentId agent) const { return launcher_->controller().fleet().listens_to(agent); }
  Training* training() const;  // of the current attempt
  GroundTruth& truth() { return *world_.truths.at(options_.number); }
  Agents& agents() { return agents_; }
  SimulatedLineage& lineage() { return lineage_; }
  void happened(GroundTruth::Happened what);
  void changed() { on_change_(); }

  // The launcher has ended or was killed.
  bool over() const { return finished_ || !program_->alive(); }
  bool finished() const { return finished_; }
  bool cleared_up() const { return cleared_up_; }  // the launcher cleared up before it ended
  bool runs() const { return !over() && program_->runs(); }
  bool silent() const { return silent_; }  // the launcher lives, but is stopped
  bool woke() const { return woke_; }      // the launcher went on after a stop
  // Nothing of the launch is left, except processes that cannot be killed and a launcher that stays stopped.
  bool gone() const;
  int living_process_count() const;
  int living_agent_count() const { return agents_.living_count(); }
  const Wishes& wishes() const { return wishes_; }
  int survivor_count() const { return survivor_count_; }  // processes left, as the launcher reported them

  // Faults; false if there is nothing to hit.
  bool hit_worker(const Fault& fault);
  void pause(Duration length);
  void die();
  void fall_silent(std::optional<Duration> wake_after);
  // The user's actions.
  void interrupt(int signal);
  void cancel(bool now);
  void pass_signal_on();
  void dump_stacks();
  void look_at_status();
  bool add_host();  // false: the launcher refused the host

  void show(const launcher::Decision& decision, Duration age) override;
  void show_progress(std::string_view) override {}
  void show_output(NodeId node, const wire::Output& output, launcher::Taken taken) override;
  bool takes(int, Duration) const override { return true; }
  void show_stacks(const wire::WorkerStacks&) override {}
  bool wants_usage() const override { return false; }
  void show_usage(const std::vector<wire::RankUsage>&) override {}
  void show_metrics(Rank, std::int64_t, const std::map<std::string, double>&) override {}
  void keep_clock(NodeId, const std::string&, const launcher::ClockOffset::Answer&) override {}
  void logs_are_elsewhere(NodeId, const std::string&, const std::string&) override {}
  void keep_log(NodeId node, Attempt attempt, const wire::LogPiece& piece, LogAnswer answer) override;
  void agent_closed(NodeId node) override { untaken_.erase(node); }
  std::string logs_to_come() const override { return ""; }

 private:
  launcher::Input* script_input();  // nullptr: no rank gets input
  void hit(const Fault& fault, Machine& home, SimulatedProcess& worker, Training& ranks);
  void judge_now();
  void observe();
  void wish_came();
  void finish();

  World& world_;
  Options options_;
  std::function<void()> on_change_;
  std::shared_ptr<Program> program_;
  Agents agents_;
  SimulatedLineage lineage_;
  SimulatedInput input_;
  Judge judge_;
  std::unique_ptr<launcher::Launcher> launcher_;
  bool finished_ = false;
  bool silent_ = false;
  bool wakes_ = false;
  bool woke_ = false;
  bool cleared_up_ = false;
  bool unkillable_ = false;  // the launcher was told that a worker cannot be killed
  int survivor_count_ = 0;
  int added_count_ = 0;                                     // hosts
  std::map<NodeId, std::shared_ptr<std::size_t>> untaken_;  // bytes shown, but not taken yet
  Wishes wishes_;
  launcher::Phase phase_ = launcher::Phase::kGathering;
};

}  // namespace muster::simulation
