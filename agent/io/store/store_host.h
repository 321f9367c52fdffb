// The interface to the c10d store of an attempt, and to the network path to the store. The store is on the
// node of rank 0. Tests replace this interface.
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
  // Opens the store of an attempt, as the plan says. There are three cases: this node serves the store; this
  // node reserves a port for the rank that will serve the store; or the store is on another node, and this
  // function does nothing. Returns the port, or 0 in the third case. If an earlier close() kept a store,
  // closes it. Returns an error if the address is not of this machine, or if the port is taken.
  virtual Expected<std::int32_t> open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) = 0;
  // Finds out whether this node can reach the attempt's store. If rank 0 serves the store, the store does not
  // run yet, so the function asks no more than whether the host of rank 0 answers. `done` is called once,
  // later than this call, and not after close(). `done` gets an error if the address is invalid, if no answer
  // comes, or if the answer is not that of a store.
  virtual void reach(const wire::JobSpec& job, const wire::StartWorkers& start,
                     std::function<void(const Status&)> done) = 0;
  // Call this when the attempt is over. If `keep` is true, the store stays until the next open() or close(),
  // because ranks of other nodes may still use it.
  virtual void close(bool keep) = 0;
};

}  // namespace muster::agent
