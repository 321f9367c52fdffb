// Connects one job to this machine. Agents are child processes, or run through host shells. The checkpoints
// are in a directory. People read a console and files.
//
// Owns everything between the performer (launcher.h) and an io_context, and decides nothing. Several jobs can
// share one io_context. One thread; the parts and the plan outlive it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/io/fleet/agent_pool.h"
#include "launcher/io/fleet/bootstrap.h"
#include "launcher/io/fleet/kept_agents.h"
#include "launcher/io/launcher.h"
#include "launcher/io/local_lineage.h"
#include "launcher/io/standard_input.h"
#include "launcher/io/view/journal_file.h"
#include "launcher/io/view/local_view.h"

namespace muster::launcher {

class LocalJob {
 public:
  struct Parts {
    asio::io_context& context;
    net::Time& time;
    Console& console;
    net::LogWriter& files;
    std::string agent_program;
    bool quiet = false;
    double started_unix = 0;         // for job.json: when report.json begins to count the job's duration
    std::function<void()> finished;  // called when the job is over and nothing of it is left
    // Called when the job has entered another phase. The actions that led to it have not been performed yet.
    // From kLeaving on, the verdict is known, and no worker is left.
    std::function<void(Phase phase)> phase_changed{};
    AgentPool* agents = nullptr;  // where local agents come from; null: each is a new process
    KeptAgents* kept = nullptr;   // where agents of hosts come from; null: each is a new process
    // How long after begin() the job's record and control socket are made. A job of a sweep starts within
    // milliseconds. If the record and the socket were made during this start, the start would take longer.
    Duration publish_after{};
  };
  LocalJob(const Plan& plan, const Parts& parts);
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  // Call once.
  void begin();
  // Call when these children of this process have ended. Some of them may belong to other jobs.
  void hear_ends(const std::vector<ChildEnd>& ends) { bootstrap_->hear_ends(ends); }
  // Call after `finished`. It ends all conversations. Then run the context until closed() is true, and
  // destroy the job.
  void close();
  bool closed() const { return published_ && enquiries_.closed() && bootstrap_->idle(); }
  // Writes what the journal still holds.
  void flush() { journal_.flush(); }

  Launcher& launcher() { return launcher_; }
  const Job& job() const { return launcher_.controller().job(); }
  // Returns lines that tell the user which logs of ranks are incomplete on this machine.
  std::vector<std::string> missing_logs() const { return view_.missing_logs(); }

 private:
  void publish();

  const Plan& plan_;
  Console& console_;
  const double started_unix_;
  std::function<void(Phase phase)> phase_changed_;
  Phase phase_ = Phase::kGathering;
  const Duration publish_after_;
  asio::steady_timer publish_timer_;  // cancelled: publishes now
  bool published_ = false;
  bool closing_ = false;
  Enquiries enquiries_;
  std::unique_ptr<Bootstrap> bootstrap_;
  LocalLineage lineage_;
  LocalView view_;
  JournalFile journal_;
  std::unique_ptr<StandardInput> input_;  // null: no rank gets the input
  Launcher launcher_;
};

}  // namespace muster::launcher
