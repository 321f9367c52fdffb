// Performs the decisions of the launcher. It passes events to the controller, and performs the actions that
// the controller returns.
//
// Five interfaces lead outside: to machines (fleet/bootstrap.h), the lineage (lineage.h), people
// (view/view.h), the job's input (input.h), and the time. Agents talk over sessions. Events that arrive while
// another one is handled wait for their turn. It decides nothing. For one thread.
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
  struct Parts {  // must outlive the launcher
    net::Time& time;
    Bootstrap& bootstrap;
    Lineage& lineage;
    View& view;
    std::function<void()> finished;  // called when the job is over and nothing of it is left
    Controller::Witness witness{};   // called with each event and its decisions
    Input* input = nullptr;          // null: no rank of the plan gets the input
    // Returns the key that two agents share. `identity` is that of the pair (wire::peer_identity). If this
    // function is empty, agents have no neighbours.
    std::function<std::string(const std::string& identity)> neighbour_key{};
  };
  Launcher(Plan plan, Parts parts);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() override { close(); }

  // Call once.
  void begin();
  // Ends all conversations, and ignores all events from now on.
  void close();

  // The user can stop the job by a signal or by `launch cancel`.
  void interrupt(int signal) { post(Interrupted{signal}); }
  void cancel(bool now) { post(Cancelled{now}); }
  // Adds nodes (`launch nodes add`). `hosts` has the same form as --hosts. Returns a line for the user. If
  // the job cannot have these nodes, the error says why.
  Expected<std::string> add_nodes(const std::string& hosts, bool now);
  // Asks all workers for their stacks. Returns the ranks that will answer.
  std::vector<Rank> ask_for_stacks();
  JobStatus status() const;
  // Returns how many bytes of the job's input the launcher has read, but no rank has read yet.
  std::size_t unread_input() const { return feed_.unread(); }
  NodeList nodes() const { return list_nodes(plan_, controller_.fleet(), controller_.job()); }
  const Controller& controller() const { return controller_; }

 private:
  struct Conversation {
    AgentId agent;
    std::shared_ptr<Session> session;
    bool accepted = false;  // the session has started
  };

  void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) override;
  void agent_ended(AgentId agent, std::string how, AgentEnd end) override;
  void leftovers_seen(std::vector<Leftover> left, bool killed) override;
  void hear(ConnectionId connection, Attempt attempt, wire::ToLauncher message);
  void closed(ConnectionId connection, const Error& why);

  // Updates the input feed if the message is from the agent whose rank gets the input.
  void follow_input(AgentId agent, Attempt attempt, const wire::ToLauncher& message);
  void begin_input(Attempt attempt);
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
  void perform(const Record&) {}  // View::show() writes it
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
  std::deque<std::pair<TimePoint, std::string>> told_;  // the newest lines for the user, for status()
  std::string told_progress_;
  InputFeed feed_;
  bool reading_input_ = false;
  TimePoint started_;
  TimePoint next_second_ = TimePoint::max();                   // max: not begun
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);  // callbacks look here: false after close()
};

}  // namespace muster::launcher
