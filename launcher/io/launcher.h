// The shell around the job: feeds it what happens, performs what it decides.
//
// One io_context, one thread. Children end as SIGCHLD tells, agents speak over sessions, the user sends
// signals, alarms wake the job at its next deadline and the shell at its own. What the job does is decided in
// core/; decided here is only what concerns processes and connections themselves: who may connect, when an
// agent that has half ended is killed, how long processes that were left behind may live.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "common/net/time.h"
#include "common/wire/checkpoint_directory.h"
#include "launcher/core/job/job.h"
#include "launcher/core/view/rank_table.h"
#include "launcher/io/fleet/children.h"
#include "launcher/io/fleet/control_port.h"
#include "launcher/io/fleet/local_bootstrap.h"
#include "launcher/io/fleet/session.h"
#include "launcher/io/view/enquiries.h"
#include "launcher/io/view/line_file.h"
#include "launcher/io/view/terminal.h"

namespace muster::launcher {

class Launcher {
 public:
  struct Parts {
    asio::io_context& context;
    Terminal& terminal;
    const LocalBootstrap& bootstrap;
    int signals;  // a signalfd of INT, TERM, HUP, QUIT, USR1, USR2 and CHLD, all blocked
    net::LogWriter& files;
    LineFile& journal;  // takes a line for every decision
    bool quiet = false;
  };
  Launcher(Plan plan, Parts parts);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher();

  // Until the job is over and nothing of it is left. job() then tells how it went.
  void run();
  const Job& job() const { return job_; }

 private:
  struct Agent {
    pid_t pid = 0;  // 0: none, or it has ended
    std::shared_ptr<Session> session;
    bool joined = false;        // it has greeted
    bool output_waits = false;  // a rank's, as it last said
    std::string how;            // it ended
    std::string killed_for;     // by us, if it was
    // Its process or its connection has ended, and the other will in a moment.
    std::optional<TimePoint> half_gone_since;
  };

  void post(Event event);
  void perform(const StartAgent& action);
  void perform(const KillAgent& action);
  void perform(const BeginAttempt& action);
  void perform(const LookForCheckpoint& action);
  void perform(const Send& action);
  void perform(const Tell& action);
  void perform(const Record& action);
  void perform(const Finish& action);
  void note(const Decision& decision);
  // For those who look at the job (launcher_enquiries.cc).
  void publish();
  JobStatus status() const;
  void cancel(bool now);
  std::vector<Rank> ask_for_stacks();
  void remember(std::string text);
  std::string start_progress() const;

  Expected<StartedAgent> start_agent(NodeId node);
  void accept(AgentId caller, std::shared_ptr<net::Connection> connection);
  void add_session(NodeId node, std::shared_ptr<net::Connection> connection);
  void hear(Session& from, Attempt attempt, wire::ToLauncher message);
  void closed(Session& from, const Error& why);
  void wait_for_signals();
  void read_signals();
  bool is_twin(int signal, std::int64_t sender);
  void reap();
  void half_gone(Agent& agent);
  void look_for_half_gone();
  void kill_for(Agent& agent, std::string what);
  void lose(NodeId node);
  void expect_strays();
  void look_for_strays();
  void tick();

  Agent& agent(NodeId node) { return agents_.at(static_cast<std::size_t>(node.value())); }
  std::set<pid_t> living_agents() const;

  Plan plan_;
  Parts parts_;
  Job job_;
  net::TaskGroup tasks_;
  net::SystemTime time_;
  asio::posix::stream_descriptor signals_;
  std::unique_ptr<net::Alarm> deadline_;
  std::unique_ptr<net::Alarm> second_;
  std::unique_ptr<net::Alarm> half_gone_;
  std::unique_ptr<net::Alarm> strays_;
  std::vector<Agent> agents_;
  std::map<NodeId, Incarnation> incarnations_;  // of the agents that were started last
  RankTable ranks_;
  Enquiries enquiries_;
  std::deque<std::pair<TimePoint, std::string>> told_;  // the last lines, for those who ask
  LineFile event_log_;
  std::unique_ptr<ControlPort> control_port_;  // of --control tcp
  std::deque<Event> events_;
  bool performing_ = false;
  std::optional<TimePoint> strays_since_;
  bool told_strays_ = false;     // since then, that they cannot be killed
  Marks marks_;                  // of this job's processes
  std::set<pid_t> left_behind_;  // that agents could not kill, and nobody waits for
  struct {
    int signal = 0;
    std::int64_t sender = 0;
    TimePoint at{};
  } last_signal_;
  std::string told_progress_;
  TimePoint started_;
};

}  // namespace muster::launcher
