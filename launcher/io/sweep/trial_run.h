// One run of a trial: an ordinary job in this process, with its own log directory, report and journal.
//
// Lines of its workers do not go to the terminal, but metrics in them are passed on. The launcher's own lines
// are kept in a file. One thread. The objects in `Parts` must outlive the TrialRun.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/history/metric_line.h"
#include "launcher/core/view/report.h"
#include "launcher/io/local_job.h"

namespace muster::launcher::sweep {

class TrialRun {
 public:
  struct Parts {
    asio::io_context& context;
    net::Time& time;
    net::LogWriter& files;
    std::string agent_program;
    AgentPool* agents;               // null: the agents are on other hosts
    KeptAgents* kept;                // null: agents on other hosts exit with the trial
    std::string log_directory_flag;  // for reports: where other commands find the job
    std::function<void()> started;   // the program is told to start, not for the first time if it restarts
    // A report of any rank.
    std::function<void(std::int64_t step, std::map<std::string, double> values)> reported;
    // Called when the program has ended and no process of it is left. The next trial can use `agents`. Agents
    // that stay have gone back to `kept`, but other agents are still leaving. `text` is one clause for
    // people. If a node on a host was lost, `lost_host` is the name of the host.
    std::function<void(RunEnd end, std::string text, const std::string& lost_host)> ended;
    std::function<void(const std::string& what)> say;  // a line for the user
  };
  // Programs can print lines of metrics without a step. Such lines get the steps that follow `newest_step`
  // (see LineSteps). If `newest_step` is -1, they get the steps from 1 on.
  TrialRun(Plan plan, Parts parts, std::int64_t newest_step);
  TrialRun(const TrialRun&) = delete;
  TrialRun& operator=(const TrialRun&) = delete;

  void begin() { job_.begin(); }
  // Ends the run as `launch cancel` does. If `save` is true, all ranks save first, if they can. `why` is the
  // reason that the job's report gives. The report does not call such an end a failure.
  void end(bool save, const std::string& why);
  void hear_ends(const std::vector<ChildEnd>& ends) { job_.hear_ends(ends); }
  // Call this from time to time after `ended` was called. The next trial can start before this returns true.
  // The function writes the report when the agents have left. It returns true if nothing of the run uses the
  // context any more. Then destroy the run.
  bool close();
  // Returns whether the run was refused because a host lacks something that only the user can provide, such
  // as the directory of the checkpoints. Then the other trials cannot start on this host either.
  bool was_refused() const {
    const Verdict& verdict = job_.job().verdict();
    return verdict.kind == Verdict::Kind::kRefused && verdict.exit_code == kExitUsage;
  }

 private:
  class TrialConsole final : public Console {
   public:
    explicit TrialConsole(TrialRun& run) : run_(run) {}
    void show_output(NodeId node, Rank rank, int stream, std::string_view text, std::uint64_t dropped,
                     LocalRank local_rank) override;
    void tell_when_taken(int, std::size_t bytes, Taken taken) override { (*taken)(bytes); }
    bool takes(int, Duration) const override { return true; }
    void say(std::string_view text) override {
      run_.parts_.say(run_.plan_.job.job_id + ": " + std::string(text));
    }
    void show_progress(std::string_view) override {}
    void show_metrics(Rank, std::int64_t step, const std::map<std::string, double>& values) override {
      run_.hear_metrics(step, values);
    }

   private:
    TrialRun& run_;
  };
  void hear_line(Rank rank, std::string_view line);
  void hear_metrics(std::int64_t step, const std::map<std::string, double>& values);
  void leave();
  void finish();
  void tell_end();
  void write_report();
  Verdict reported_verdict() const;

  const Plan plan_;
  Parts parts_;
  const TimePoint started_ = Clock::now();
  LineSteps line_steps_;
  bool told_unreadable_ = false;
  bool told_end_ = false;
  std::string ended_for_;  // why the sweep ended the run; empty: it did not
  std::optional<TimePoint> over_at_;
  bool leaving_ = false;
  bool reported_ = false;
  TrialConsole console_{*this};
  LocalJob job_;
};

}  // namespace muster::launcher::sweep
