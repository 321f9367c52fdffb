// Some hosts do not share the log directory. This copies the rank logs of these hosts into files in the log
// directory, under the names that the logs would have there.
//
// The writer's thread appends to the files; each agent learns how much has been written. If the disk is full,
// this class warns once and copies no more, but the job goes on. core/view/log_arrivals.h decides which bytes
// are new. One thread, that of the writer's executor; the writer outlives it.
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
  // Creates files below `log_directory`. Never writes to a file that exists. Keeps the last `limit_bytes`
  // bytes for each rank and attempt. If it is 0, keeps all bytes.
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
  std::map<Key, Copy> copies_;  // incomplete ones
  std::set<Key> made_;          // files that this object has created, so that it may append to them
  std::map<std::pair<Attempt, Rank>, std::shared_ptr<net::LogBudget>> budgets_;
  bool told_ = false;
  std::shared_ptr<RankLogs*> self_ = std::make_shared<RankLogs*>(this);  // late callbacks find it expired
};

}  // namespace muster::launcher
