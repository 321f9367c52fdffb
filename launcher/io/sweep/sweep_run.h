// Carries out a sweep on this machine. It writes the decisions to the journal, starts and ends the runs of
// trials, and passes their reports on.
//
// This class decides nothing; sweep.h does. Uses one thread: run() keeps the thread until the sweep is over.
// The objects in `Parts` must outlive the SweepRun.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/machine.h"
#include "common/net/asio.h"
#include "common/net/log_writer.h"
#include "common/net/time.h"
#include "launcher/core/sweep/sweep.h"
#include "launcher/core/sweep/sweep_options.h"
#include "launcher/io/sweep/trial_run.h"

namespace muster::launcher::sweep {

class SweepRun {
 public:
  struct Parts {
    asio::io_context& context;
    net::LogWriter& files;
    std::string agent_program;
    int signals;        // a signalfd of INT, TERM, HUP, QUIT and CHLD, all blocked
    bool local = true;  // agents are child processes
    std::optional<Duration> time_budget{};
    double age = 0;  // of the sweep when run() begins: s
    // Returns when the events are on the disk.
    std::function<Status(std::span<const Event> events)> keep;
    // Returns places for more trials, on hosts that are not in `taken`. The sweep already has `slots` slots.
    // The numbers of the new slots follow those of the old ones.
    std::function<std::vector<Berth>(const std::set<std::string>& taken, std::size_t slots)> more_berths;
    // Makes the directory of the run, and its plan. An error ends the sweep, because it would happen to other
    // trials, too.
    std::function<Expected<Plan>(const StartRun& start)> prepare;
    std::function<std::string(const StartRun& start)> log_directory_flag;  // as in Outcome
    // Called when the events are on the disk. Nothing that follows from the events has begun yet.
    std::function<void(std::span<const Event> events)> show;
    std::function<void(const std::string& what)> say;  // a line for the user
  };
  SweepRun(Sweep& sweep, Parts parts);
  SweepRun(const SweepRun&) = delete;
  SweepRun& operator=(const SweepRun&) = delete;
  ~SweepRun() { signals_.release(); }

  // `berths` has the place of each slot. Returns when the sweep is over and no trial runs. The result is one
  // clause that says why the sweep ended. It is an error if the journal or a run's directory cannot be
  // written. It is kInvalidArgument if a host refused a run because of a value that the user has given. In
  // both cases all runs have ended, too.
  Expected<std::string> run(const std::vector<Berth>& berths);
  // Returns the signal that ended the sweep. Returns 0 if no signal did.
  int signal() const { return signal_; }
  double age() const { return parts_.age + in_seconds(Clock::now() - started_); }  // s

 private:
  void perform(SweepDecisions decisions);
  void perform(const StartRun& action);
  void perform(const EndRun& action);
  void perform(const SweepOver& action);
  void add_slot(const Berth& berth);
  void use_idle_hosts();
  struct End {
    std::int32_t slot = 0;
    RunEnd end{};
    std::string text{};
    std::string lost_host{};
  };
  void handle_ends();
  void handle(End end);
  bool may_start() const;
  // Returns whether the agents of a job with this plan can also serve the next job.
  bool keeps_agents(const Plan& plan);
  bool keep(std::vector<Event> events);
  void keep_soon();
  void end_at_once(const Error& why);
  void wait_for_signals();
  void read_signals();
  void interrupt(int signal);
  void close_soon();

  Sweep& sweep_;
  Parts parts_;
  net::SystemTime time_;
  asio::posix::stream_descriptor signals_;
  asio::steady_timer budget_;
  asio::steady_timer closing_timer_;
  asio::steady_timer report_timer_;
  asio::steady_timer start_timer_;
  AgentPool agents_;
  KeptAgents kept_;
  std::vector<Event> unkept_;  // reports from which nothing has followed yet
  const TimePoint started_ = Clock::now();
  std::map<std::int32_t, std::unique_ptr<TrialRun>> runs_;  // by slot
  std::vector<std::unique_ptr<TrialRun>> closing_;
  std::map<std::int32_t, TimePoint> starting_;              // slots whose runs have begun, and when
  const int most_starts_ = std::max(1, count_cores() / 2);  // at a time
  std::deque<End> ends_;                                    // of runs, to be handled
  std::int32_t slot_count_ = 0;
  std::optional<std::string> over_;
  std::optional<Error> failure_;
  int signal_ = 0;
  int signal_count_ = 0;
};

}  // namespace muster::launcher::sweep
