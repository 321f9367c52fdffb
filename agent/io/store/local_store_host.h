// Serves the store of this agent's attempts, or reserves a port if rank 0 serves the store.
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
  // The store refuses connections that do not come from the job. `remark` is called once for each user or
  // host whose connections were refused, but at most sixteen times, so that strangers cannot flood the user.
  // StoreServerOptions describes `launcher`.
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
  std::set<std::string> refused_;     // users and hosts that `remark` was called for
  std::optional<StoreServer> store_;  // of the open attempt, or of the last one if close() kept it
  std::shared_ptr<Call> call_;        // queries the attempt's store
  StorePort worker_port_;             // for rank 0, if it serves the store and is on this node
};

}  // namespace muster::agent
