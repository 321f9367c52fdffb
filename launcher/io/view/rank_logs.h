// The launcher's copies of rank logs that agents keep on hosts which do not share the log directory, under
// the names that the files would have in it.
//
// The writer's thread appends to them; each agent hears how much has been written. A disk that is full ends
// the copies, which is said once; the job goes on. Which bytes are new is core/view/log_arrivals.h's to
// decide. One thread, the writer's executor's; the writer outlives it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/net/log_writer.h"
#include "launcher/core/view/log_arrivals.h"
#include "launcher/io/view/view.h"

namespace muster::launcher {

class RankLogs {
 public:
  using Say = std::function<void(const std::string& line)>;
  // Files are made below `log_directory`, and never written to if they are there. `limit_bytes` of a rank in
  // an attempt are kept; 0: all.
  RankLogs(net::LogWriter& writer, std::string log_directory, std::int64_t limit_bytes, Say say)
      : writer_(writer),
        directory_(std::move(log_directory)),
        limit_bytes_(limit_bytes),
        say_(std::move(say)) {}
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  void keep(NodeId node, Attempt attempt, const wire::LogPiece& piece, View::LogAnswer answer);
  void agent_closed(NodeId node);
  LogArrivals& arrivals() { return arrivals_; }
  const LogArrivals& arrivals() const { return arrivals_; }

 private:
  using Key = LogArrivals::Key;
  struct Copy {
    NodeId node;
    std::shared_ptr<net::LogWriter::File> file;
    View::LogAnswer answer{};
    std::uint64_t put_bytes = 0;
    std::uint64_t lost_bytes = 0;  // as far as arrivals_ knows
    bool stopped = false;
  };
  Copy make_copy(NodeId node, const Key& key);
  void written(const Key& key);

  net::LogWriter& writer_;
  std::string directory_;
  std::int64_t limit_bytes_;
  Say say_;
  LogArrivals arrivals_;
  std::map<Key, Copy> copies_;  // that are not complete
  std::set<Key> made_;          // may be gone on with
  std::map<std::pair<Attempt, Rank>, std::shared_ptr<net::LogBudget>> budgets_;
  bool told_ = false;
  std::shared_ptr<RankLogs*> self_ = std::make_shared<RankLogs*>(this);  // for answers that come too late
};

}  // namespace muster::launcher
