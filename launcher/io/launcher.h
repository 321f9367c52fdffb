// The performer of all that the launcher decides: hands what happens to the controller, and does what it
// says.
//
// The outside lies behind five seams: machines (fleet/bootstrap.h), the lineage (lineage.h), people
// (view/view.h), the job's input (input.h), time. Agents speak over sessions. Events that come while one is
// being handled wait for their turn. No decision is made here. One thread; the parts outlive it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/net/time.h"
#include "launcher/core/controller.h"
#include "launcher/core/job/input_feed.h"
#include "launcher/core/view/node_list.h"
#include "launcher/core/view/status.h"
#include "launcher/io/fleet/bootstrap.h"
#include "launcher/io/fleet/session.h"
#include "launcher/io/input.h"
#include "launcher/io/lineage.h"
#include "launcher/io/view/view.h"

namespace muster::launcher {

class Launcher final : private Bootstrap::Listener {
 public:
  struct Parts {
    net::Time& time;
    Bootstrap& bootstrap;
    Lineage& lineage;
    View& view;
    std::function<void()> finished;  // the job is over, and nothing of it is left
    Controller::Witness witness{};   // hears of each event and of what was decided
    Input* input = nullptr;          // of a job whose plan names a rank that gets it
    // The key of two agents, by their name (wire::peer_identity). None: there are no neighbours.
    std::function<std::string(const std::string& identity)> neighbour_key{};
  };
  Launcher(Plan plan, Parts parts);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() override { close(); }

  // Once.
  void begin();
  // Ends all conversations, and hears nothing any more.
  void close();

  // What the user wants: by a signal, or by `launch cancel`.
  void interrupt(int signal) { post(Interrupted{signal}); }
  void cancel(bool now) { post(Cancelled{now}); }
  // More nodes, from `launch nodes add`, as --hosts takes them; what there is to tell, or why they cannot be.
  Expected<std::string> add_nodes(const std::string& hosts, bool now);
  // Wants the stacks of all workers: the ranks that will answer.
  std::vector<Rank> ask_for_stacks();
  JobStatus status() const;
  NodeList nodes() const { return list_nodes(plan_, controller_.fleet(), controller_.job()); }
  const Controller& controller() const { return controller_; }

 private:
  struct Conversation {
    AgentId agent;
    std::shared_ptr<Session> session;
    bool accepted = false;  // else nothing of it was heard
  };

  void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) override;
  void agent_ended(AgentId agent, std::string how, AgentEnd end) override;
  void leftovers_seen(std::vector<Leftover> left, bool killed) override;
  void hear(ConnectionId connection, Attempt attempt, wire::ToLauncher message);
  void closed(ConnectionId connection, const Error& why);

  // What an agent says that looks after the rank which gets the input.
  void follow_input(AgentId agent, Attempt attempt, const wire::ToLauncher& message);
  void pass_input_on();

  void post(Event event);
  void perform(const StartAgent& action);
  void perform(const KillAgent& action);
  void perform(const AcceptConnection& action);
  void perform(const CloseConnection& action);
  void perform(const LookForLeftovers& action);
  void perform(const BeginAttempt& action);
  void perform(const LookForCheckpoint& action);
  void perform(const Send& action);
  void perform(const Tell& action);
  void perform(const Record&) {}  // View::show() has kept it
  void perform(const Finish& action);
  void add_keys(AgentId agent, wire::ToAgent& message) const;
  Session* session_of(NodeId node);
  void tick_if_due();

  Plan plan_;
  Parts parts_;
  Controller controller_;
  std::unique_ptr<net::Alarm> deadline_;
  std::unique_ptr<net::Alarm> second_;
  std::deque<Event> events_;
  bool performing_ = false;
  std::map<ConnectionId, Conversation> conversations_;
  ConnectionId newest_connection_;
  std::deque<std::pair<TimePoint, std::string>> told_;  // the last lines, for those who ask
  std::string told_progress_;
  InputFeed feed_;
  bool reading_input_ = false;
  TimePoint started_;
  TimePoint next_second_ = TimePoint::max();                   // none before the beginning
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);  // for answers that come after the end
};

}  // namespace muster::launcher
