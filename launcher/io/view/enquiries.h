// Answers requests to a running job's launcher: status, top, nodes, add_nodes, dump, cancel.
//
// It talks JSON over the control socket (docs/protocol.md), and calls the launcher through a few functions.
// Stacks are passed on when they arrive. At the end, it names the ranks that have not answered in time. One
// thread.
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
    // Stops the job. If `now` is false and all ranks can save, the ranks save first.
    std::function<void(bool now)> cancel;
    // Asks all agents for the stacks of their workers. Returns the ranks that will answer.
    std::function<std::vector<Rank>()> ask_for_stacks;
    std::function<NodeList()> nodes;
    // Adds hosts. Returns a line for the user, or an error that says why the hosts cannot be added. If `now`
    // is true, the new hosts take part after the next commit of a checkpoint. Otherwise they take part after
    // the next restart.
    std::function<Expected<std::string>(const std::string& hosts, bool now)> add_nodes;
  };
  Enquiries(asio::io_context& context, net::Time& time, Answers answers);
  // Creates the socket. If this is not possible, returns an error. The job can go on without the socket.
  Status open(const std::string& directory);
  // Begins to end all conversations. When they have ended, closed() is true. Run the context until then.
  void close() { tasks_.cancel(); }
  bool closed() const { return tasks_.empty(); }
  void hear(const wire::WorkerStacks& stacks);
  // True for a while after a `top` request.
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
  std::map<Rank, wire::RankUsage> usage_;  // each rank's newest, while wants_usage()
};

}  // namespace muster::launcher
