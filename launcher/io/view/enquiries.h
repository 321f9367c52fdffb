// What those who look at a running job may ask of its launcher: status, top, nodes, more nodes, dump, cancel.
//
// Speaks JSON over the control socket (docs/protocol.md) and knows the launcher by a few functions. Stacks
// that are asked for are passed on as they come; who has not answered in time is named. One thread.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/net/time.h"
#include "launcher/core/view/node_list.h"
#include "launcher/core/view/status.h"
#include "launcher/io/view/control_socket.h"

namespace muster::launcher {

class Enquiries {
 public:
  static constexpr Duration kStacksLimit = std::chrono::seconds(3);

  struct Answers {
    std::function<JobStatus()> status;
    // Saving first, where all ranks can; or `now`.
    std::function<void(bool now)> cancel;
    // Asks all agents for the stacks of their workers: the ranks that will answer.
    std::function<std::vector<Rank>()> ask_for_stacks;
    std::function<NodeList()> nodes;
    // What there is to tell of these hosts, or why they cannot be added. `now`: after the next commit.
    std::function<Expected<std::string>(const std::string& hosts, bool now)> add_nodes;
  };
  Enquiries(asio::io_context& context, net::Time& time, Answers answers);
  // Errors: the socket cannot be made; the job goes on without it.
  Status open(const std::string& directory);
  // Ends all conversations, running the context until they have ended; before anything else is taken down.
  void close();
  void hear(const wire::WorkerStacks& stacks);
  // For a while after somebody has asked for it.
  bool wants_usage() const { return time_.now() < usage_until_; }
  void hear(const std::vector<wire::RankUsage>& usage);

 private:
  struct Dump {
    std::shared_ptr<Caller> caller;
    std::set<Rank> missing;
    TimePoint deadline;
  };
  void answer(const std::string& line, const std::shared_ptr<Caller>& caller);
  void answer_top(const std::shared_ptr<Caller>& caller);
  void start_dump(const std::shared_ptr<Caller>& caller);
  void end_dumps();

  asio::io_context& context_;
  net::Time& time_;
  Answers answers_;
  net::TaskGroup tasks_;
  std::unique_ptr<net::Alarm> alarm_;
  std::unique_ptr<ControlSocket> socket_;
  std::list<Dump> dumps_;
  TimePoint usage_until_{};
  std::map<Rank, wire::RankUsage> usage_;  // the newest of each rank, while it is wanted
};

}  // namespace muster::launcher
