// Starts agents on other hosts or in containers, each through a host shell (host_access.h).
//
// Start: one shell executes the agent. If the host lacks the agent, another shell copies it there first. The
// agent's key goes through the shell's stdin. The conversation begins through the shell, so that workers
// start at once, and moves to the control port when the agent has connected there.
//
// End: an agent has ended when its shell has ended and its connection is closed. An agent is killed through a
// second shell. It counts as ended when that shell has killed it, or has timed out (kill_agent()). So nothing
// waits for an unreachable host. An agent on such a host notices that it has no launcher, and stops its
// workers itself.
//
// If there are KeptAgents, an agent that has left the job goes to them, and a node's first agent comes from
// them if one waits on its host. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/net/moving_channel.h"
#include "common/net/task_group.h"
#include "common/net/time.h"
#include "launcher/core/fleet/host_start.h"
#include "launcher/core/fleet/sweeps.h"
#include "launcher/core/settings/plan.h"
#include "launcher/io/fleet/bootstrap.h"
#include "launcher/io/fleet/control_port.h"
#include "launcher/io/fleet/host_access.h"
#include "launcher/io/fleet/kept_agents.h"

namespace muster::launcher {

class RemoteBootstrap final : public Bootstrap {
 public:
  static constexpr Duration kKillLimit = std::chrono::seconds(1);

  // Says when agents connect to the control port. With kFirst they connect before the conversation begins.
  // With kLater they talk through the host shell first, and connect when the launcher has started their
  // workers.
  enum class Calls { kFirst, kLater };
  // The stderr of host shells and agents goes to LOG_DIRECTORY/agent.nodeN.log. `agent_program` is the file
  // that is copied to hosts, or mounted into containers. If `kept` is null, all agents exit with the job.
  RemoteBootstrap(const asio::any_io_executor& executor, Plan plan, std::string agent_program,
                  Calls calls = Calls::kLater, KeptAgents* kept = nullptr);
  // Reaches the nodes through `access`. Tests pass a fake of it.
  RemoteBootstrap(const asio::any_io_executor& executor, Plan plan, std::unique_ptr<HostAccess> access,
                  Calls calls = Calls::kLater, KeptAgents* kept = nullptr);

  void listen(Listener& listener) override { listener_ = &listener; }
  void start(AgentId agent) override;
  void kill(AgentId agent) override;
  void add(const Host& host) override { plan_.hosts.push_back(host); }
  void look_for_leftovers(bool kill) override;
  void close() override;
  // Returns whether this agent, which has connected, talks through the host shell. Otherwise it talks over
  // TLS.
  bool is_through_shell(AgentId agent) const {
    const auto found = children_.find(agent);
    return found != children_.end() && found->second.spoken_to == SpokenTo::kThroughShell;
  }
  bool idle() const override { return tasks_.empty() && last_tasks_.empty(); }

 private:
  enum class SpokenTo { kNotYet, kByTcp, kThroughShell };
  struct Child {                         // an agent; until the listener knows its end
    std::shared_ptr<HostShell> shell{};  // null: the agent waits for its turn to start
    std::optional<AgentGreeting> greeting{};
    std::shared_ptr<net::KeptStream> stream{};  // of an agent that stays
    SpokenTo spoken_to = SpokenTo::kNotYet;
    std::weak_ptr<net::Channel> channel{};
    std::weak_ptr<net::MovingChannel> moving{};  // the same channel, if it can move
    bool killed = false;
  };

  void start_next();
  awaitable<void> bring_up(AgentId agent);
  awaitable<std::optional<HostStart::GiveUp>> start_agent(AgentId agent);
  bool may_stay(AgentId agent) const;
  // If an agent of an earlier job waits on the node's host, this agent becomes the node's agent. Otherwise
  // returns false, and a new agent has to be started.
  awaitable<bool> hire(AgentId agent);
  Status tell_next_job(AgentId agent, net::KeptStream& stream);
  awaitable<void> drop(AgentId agent, KeptAgent dropped);
  awaitable<Status> prepare();
  awaitable<HostStart::Step> try_start(AgentId agent, HostStart& start);
  awaitable<HostStart::Step> bring(AgentId agent, HostStart& start, HostStart::Missing missing);
  HostStart::Step after_failure(HostStart& start, HostStart::Failure failure,
                                const HostShell* shell = nullptr);
  awaitable<Status> agree_on_control(AgentId agent, TimePoint deadline);
  awaitable<void> wait_for_end(AgentId agent);
  awaitable<void> kill_there(AgentId agent, std::shared_ptr<HostShell> shell, AgentGreeting greeting);
  void perform(Sweeps::Actions actions);
  awaitable<void> sweep(Sweeps::Ask asked);
  awaitable<void> bury(std::vector<std::shared_ptr<HostShell>> shells);

  void talk_through_shell(AgentId agent, std::shared_ptr<net::Channel> stream);
  std::shared_ptr<net::Channel> converse(AgentId agent);
  void job_over(AgentId agent);
  void connected(AgentId agent, std::shared_ptr<net::Channel> channel);
  void called(AgentId agent, std::shared_ptr<net::Connection> connection);
  awaitable<void> take_calls();
  void tell_ended(AgentId agent, std::string how, AgentEnd end = AgentEnd::kOther);
  void tell_end_of_shell(AgentId agent, const HostShell& shell, int code);
  Child* find(AgentId agent);
  Host host_of(NodeId node) const;
  Expected<std::vector<std::string>> arguments_of(AgentId agent);
  Expected<std::string> key_of(AgentId agent);
  bool is_over_tls(const Child& child) const;

  asio::any_io_executor executor_;
  net::TaskGroup tasks_;
  net::TaskGroup last_tasks_;  // those that close() starts
  Plan plan_;
  Calls calls_;
  KeptAgents* kept_;
  std::unique_ptr<HostAccess> access_;
  asio::steady_timer prepared_;        // cancelled when access_->prepare() has returned
  std::optional<Status> preparation_;  // its result
  bool preparing_ = false;
  Listener* listener_ = nullptr;
  std::unique_ptr<ControlPort> control_port_;
  std::map<AgentId, Child> children_;
  std::deque<AgentId> waiting_;  // for their turn to start
  std::int32_t starting_count_ = 0;
  net::SystemTime time_;
  Sweeps sweeps_;
  std::unique_ptr<net::Alarm> sweep_alarm_;  // null: the bootstrap is closed
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace muster::launcher
