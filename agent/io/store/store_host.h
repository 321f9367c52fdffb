// The seam to the c10d store where an attempt's ranks meet, on the node of rank 0, and to the network path to
// it.
//
// One store an attempt. Nothing here waits. One thread.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

class StoreHost {
 public:
  virtual ~StoreHost() = default;
  // As the plan says, serves the attempt's store here, reserves a port for the rank that will serve it, or
  // leaves it to another node. Returns the port; 0 if the store is on another node. Closes a store that an
  // earlier close() kept. Errors: the address is not of this machine, or the port is taken.
  virtual Expected<std::int32_t> open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) = 0;
  // Waits for an answer of the attempt's store, wherever it is. If rank 0 serves the store, asks rank 0's
  // host instead, because the store does not run yet. Calls `done` once, later, and not after close().
  // Errors: the address is invalid, no answer comes, or the answer is not a store's.
  virtual void reach(const wire::JobSpec& job, const wire::StartWorkers& start,
                     std::function<void(const Status&)> done) = 0;
  // The attempt is over. `keep`: ranks of other nodes may use its store until the next open() or close().
  virtual void close(bool keep) = 0;
};

}  // namespace muster::agent
