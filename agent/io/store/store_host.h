// The interface to the c10d store of an attempt, which is on the node of rank 0, and to the network path to
// it. Tests replace it.
//
// Each attempt has one store. No function blocks. One thread.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

class StoreHost {
 public:
  virtual ~StoreHost() = default;
  // Does what the plan says: serves the attempt's store here, reserves a port for the rank that will serve
  // it, or does nothing because the store is on another node. Returns the port, or 0 if the store is on
  // another node. Closes a store that an earlier close() kept. Errors: the address is not of this machine, or
  // the port is taken.
  virtual Expected<std::int32_t> open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) = 0;
  // Finds out whether this node can reach the attempt's store. If rank 0 serves the store, which does not run
  // yet, asks only whether rank 0's host answers. Calls `done` once, later, but not after close(). Errors:
  // the address is invalid, no answer comes, or the answer is not a store's.
  virtual void reach(const wire::JobSpec& job, const wire::StartWorkers& start,
                     std::function<void(const Status&)> done) = 0;
  // Call when the attempt is over. `keep`: the store stays until the next open() or close(), because ranks of
  // other nodes may still use it.
  virtual void close(bool keep) = 0;
};

}  // namespace muster::agent
