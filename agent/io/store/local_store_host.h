// The store of this agent's attempts: served by the agent's own process, or as a port reserved for rank 0.
//
// One thread, one io_context, which must outlive this object.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>

#include "agent/io/store/store_host.h"
#include "agent/io/store/store_port.h"
#include "agent/io/store/store_server.h"
#include "common/net/asio.h"

namespace muster::agent {

class LocalStoreHost final : public StoreHost {
 public:
  // Calls `remark` once for each user or host whose connections the store refuses because they are not the
  // job's; only for the first sixteen, so that strangers cannot flood the user. `launcher`: see
  // StoreServerOptions.
  explicit LocalStoreHost(asio::io_context& io, std::function<void(const std::string&)> remark = {},
                          pid_t launcher = 0);
  ~LocalStoreHost() override;
  Expected<std::int32_t> open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) override;
  void reach(const wire::JobSpec& job, const wire::StartWorkers& start,
             std::function<void(const Status&)> done) override;
  void close(bool keep) override;

 private:
  class Call;

  asio::io_context& io_;
  std::function<void(const std::string&)> remark_;
  pid_t launcher_;
  std::set<std::string> refused_;     // those that `remark` was called for
  std::optional<StoreServer> store_;  // of this attempt or, if it was kept, of the last one
  std::shared_ptr<Call> call_;        // to the attempt's store
  StorePort worker_port_;             // for rank 0, if it serves the store and is on this node
};

}  // namespace muster::agent
