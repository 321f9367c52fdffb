#include "agent/io/store/local_store_host.h"

#include <utility>

namespace muster::agent {

Expected<std::int32_t> LocalStoreHost::open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) {
  close(false);
  if (!plan.host_store) return 0;
  boost::system::error_code error;
  const auto address = asio::ip::make_address(plan.store_address, error);
  if (error)
    return failure(ErrorCode::kInvalidArgument, "store address '{}': not an IP address", plan.store_address);
  const auto port = static_cast<std::uint16_t>(job.master_port);
  if (!job.store_on_agent) {
    auto reserved = bind_store_port(address, port);
    if (!reserved) return std::unexpected(reserved.error());
    worker_port_ = *std::move(reserved);
    return worker_port_.number;
  }
  StoreServerOptions options{.address = address, .port = port};
  for (const std::string& peer : plan.peers) {
    options.peers.push_back(asio::ip::make_address(peer, error));
    if (error) return failure(ErrorCode::kInvalidArgument, "peer '{}': not an IP address", peer);
  }
  auto store = StoreServer::open(io_, options);
  if (!store) return std::unexpected(store.error());
  store_ = *std::move(store);
  return store_->port();
}

void LocalStoreHost::close(bool keep) {
  worker_port_ = {};
  if (!keep) store_.reset();
}

}  // namespace muster::agent
