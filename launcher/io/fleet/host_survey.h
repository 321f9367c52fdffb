// Examines all hosts of a plan at the same time. Starts an agent on each as for a job, and asks it over the
// wire: first what the host has, then which other hosts it can connect to.
//
// If a host does not answer, only the second question is delayed, by --connect-timeout. One thread. An object
// can be used only once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/net/asio.h"
#include "launcher/core/job/rendezvous.h"
#include "launcher/core/view/host_table.h"
#include "launcher/io/fleet/periodic.h"
#include "launcher/io/fleet/remote_bootstrap.h"
#include "launcher/io/fleet/session.h"

namespace muster::launcher {

class HostSurvey final : private Bootstrap::Listener {
 public:
  // `mark` is a file in the checkpoint directory. The log directory of the plan must exist.
  HostSurvey(const Plan& plan, const std::string& agent_program, std::string mark);
  HostSurvey(const HostSurvey&) = delete;
  HostSurvey& operator=(const HostSurvey&) = delete;

  // Blocks until each host has answered or timed out. Returns a report for each host of the plan.
  std::vector<HostReport> run();

 private:
  struct Peer {
    HostReport report;
    std::shared_ptr<Session> session{};
    Whereabouts place{};
    TimePoint asked_at{};       // of the latest question; zero: none yet
    std::int64_t asked_ns = 0;  // asked_at, by the wall clock
    Duration round_trip{};
    bool settled = false;  // it has answered, or timed out
    std::vector<std::size_t> targets{};
  };

  void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) override;
  void agent_ended(AgentId agent, std::string how, AgentEnd end) override;
  void leftovers_seen(std::vector<Leftover>, bool) override {}
  void hear(std::size_t index, const wire::Hello& hello);
  void hear(std::size_t index, const wire::Pong& pong);
  void hear(std::size_t index, const wire::HostChecked& found);
  template <class Other>
  void hear(std::size_t, const Other&) {}
  void ask(Peer& peer, const wire::CheckHost& question);
  void give_up(Peer& peer, const std::string& why);
  void settle(Peer& peer);
  void ask_for_links();
  void end();
  void look();

  const Plan& plan_;
  asio::io_context context_{1};
  net::SystemTime time_{context_.get_executor()};
  Periodic watch_;
  RemoteBootstrap bootstrap_;
  std::string mark_;
  std::vector<Peer> peers_;  // by node number
  TimePoint began_{};
  std::size_t open_count_ = 0;  // peers that have not settled
  std::size_t alive_count_ = 0;
  bool links_asked_ = false;
  bool ending_ = false;
};

}  // namespace muster::launcher
